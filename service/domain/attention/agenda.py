"""The agenda: what a person has to decide, and what happens next by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class AgendaKind(StrEnum):
    """The subject of an entry."""

    FAILING_DELETION = "failing_deletion"
    ORPHANS = "orphans"
    BUDGET_DELETES = "budget_deletes"
    BUDGET_EXCEEDED = "budget_exceeded"
    CLEANUP_HOLDS = "cleanup_holds"
    CRASH_LOOP = "crash_loop"
    NO_PROGRESS = "no_progress"
    UNTOLD = "untold"
    """An idle node that stays because no recipient can be notified."""
    UNKNOWN = "unknown"
    UNPRICED = "unpriced"
    IDLE_END = "idle_end"
    TTL_END = "ttl_end"
    GOOGLE_END = "google_end"
    JOB_END = "job_end"


PERSONAL = frozenset(
    {
        AgendaKind.FAILING_DELETION,
        AgendaKind.ORPHANS,
        AgendaKind.BUDGET_DELETES,
        AgendaKind.BUDGET_EXCEEDED,
        AgendaKind.CLEANUP_HOLDS,
        AgendaKind.CRASH_LOOP,
        AgendaKind.NO_PROGRESS,
        AgendaKind.UNTOLD,
        AgendaKind.UNKNOWN,
        AgendaKind.UNPRICED,
    }
)
"""The kinds that a person has to look at. The others happen by themselves."""


@dataclass(frozen=True, slots=True)
class AgendaEntry:
    """One line of the agenda.

    `at` is the UTC second at which it happens; None where nothing happens by itself, or while a
    hold of the cleanup delays it. `since` is the UTC second since which it has been so; None where
    that is unknown. `hourly` is nano-dollars an hour, None where it is unknown or no cost depends
    on it. `subject` is the name of the node, budget or project, `subject_id` its id: of a node or
    budget, else empty.
    """

    kind: AgendaKind
    subject: str
    text: str
    at: int | None = None
    since: int | None = None
    hourly: int | None = None
    subject_id: str = ""

    @property
    def needs_person(self) -> bool:
        """Whether a person has to look at it."""
        return self.kind in PERSONAL


@dataclass(frozen=True, slots=True)
class Agenda:
    """The agenda as of a UTC second: what needs a person, the most urgent first, and what happens
    next, the earliest first. `personal_left_out` and `next_left_out` count the entries of each part
    beyond the limit."""

    as_of: int
    needs_person: tuple[AgendaEntry, ...]
    next: tuple[AgendaEntry, ...]
    personal_left_out: int = 0
    next_left_out: int = 0

    @property
    def left_out(self) -> int:
        """The entries of both parts beyond the limit."""
        return self.personal_left_out + self.next_left_out


def build_agenda(as_of: int, entries: Iterable[AgendaEntry], limit: int) -> Agenda:
    """Return the agenda of these entries, with at most `limit` in each part.

    What happens at a known time comes before what waits, and the most expensive comes first of
    those that wait.
    """
    personal: list[AgendaEntry] = []
    following: list[AgendaEntry] = []
    for entry in entries:
        (personal if entry.needs_person else following).append(entry)
    personal.sort(key=_urgency)
    following.sort(key=_urgency)
    return Agenda(
        as_of,
        tuple(personal[:limit]),
        tuple(following[:limit]),
        max(0, len(personal) - limit),
        max(0, len(following) - limit),
    )


def _urgency(entry: AgendaEntry) -> tuple[bool, int, int, str, str, str]:
    return (
        entry.at is None,
        entry.at or 0,
        -(entry.hourly or 0),
        entry.kind,
        entry.subject,
        entry.subject_id,
    )
