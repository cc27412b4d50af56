"""Reads of metrics and of reports that fail, are slow, or come back empty for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from service.cloud.ports import Sample, Telemetry
from service.domain.errors import CloudUnavailable
from service.domain.idle.signals.signal import COUNTED, Kind
from service.domain.nodes.node import Node
from tests.simulation.clock import Agenda

BLIND_SECONDS = 150
"""So long after the first read that failed no node is ended any more: two looks, and some calls."""
STOPPED_SECONDS = 630
"""So long after its last point a metric has stopped: five minutes before the newest seconds, which
are ignored, and some looks."""
SEEN_SECONDS = 300
"""So long after its boot the points of a machine are there."""
SLOWEST = 200


class How(StrEnum):
    """What becomes of a read."""

    FAILS = "the reads of metrics fail"
    EMPTY = "the reads of metrics come back empty"
    SLOW = "the reads of metrics are slow"
    UNREPORTED = "the reads of reports fail"


@dataclass(frozen=True, slots=True)
class Spell:
    """The reads of [start, end) of these metrics, or of all reports."""

    how: How
    start: float
    end: float
    kinds: frozenset[Kind] = frozenset(Kind)

    def holds(self, now: float) -> bool:
        return self.start <= now < self.end


@dataclass
class ReadFaults:
    """The spells of a run, as its daemons live through them."""

    agenda: Agenda
    luck: Random
    spells: list[Spell] = field(default_factory=list)

    def draw(self, latest: float) -> None:
        """Decide on one or two spells, which are over by `latest`."""
        now = self.agenda.now
        for _ in range(self.luck.choice([1, 2])):
            how = self.luck.choice([How.FAILS, How.FAILS, *How])
            start = now + self.luck.uniform(900, 2_400)
            end = min(start + self.luck.choice([900, 2_400, 3_000]), latest)
            some = [Kind.CPU, Kind.NETWORK] if how is How.EMPTY else list(COUNTED)
            one = frozenset({self.luck.choice(some)})
            is_one = self.luck.random() < 0.5 and how is not How.UNREPORTED
            kinds = one if is_one else frozenset(Kind)
            self.spells.append(Spell(how, start, end, kinds))

    def add_outage(self, seconds: float) -> None:
        """No metric shows anything for so many seconds from now on."""
        now = self.agenda.now
        self.spells.append(Spell(How.EMPTY, now, now + seconds))

    def begin_read(self, work: Callable[[], None]) -> None:
        """Read at once, or a while later where the cloud is slow."""
        if any(spell.how is How.SLOW and spell.holds(self.agenda.now) for spell in self.spells):
            self.agenda.after(self.luck.uniform(20, SLOWEST), work)
        else:
            work()

    def is_under(self, how: How, kind: Kind = Kind.DEVICE) -> bool:
        """Whether such a spell holds now for a metric; all reads of reports are `DEVICE`."""
        now = self.agenda.now
        return any(
            spell.how is how and spell.holds(now) and kind in spell.kinds for spell in self.spells
        )

    def find_recent(self, since: float) -> Spell | None:
        """A spell that holds, or has held since then; None without any."""
        now = self.agenda.now
        return next(
            (spell for spell in self.spells if spell.start <= now and spell.end > since), None
        )

    def find_blind(self, node: Node, booted_at: float, now: int, *, has_metrics: bool) -> str:
        """Why nobody can end a node now, as its signals are not fresh; empty where somebody can."""
        for spell in self.spells:
            is_reported = spell.how is How.UNREPORTED and node.spec.supervisor
            if is_reported and spell.holds(now) and now - spell.start > BLIND_SECONDS:
                return f"{spell.how} for {now - spell.start:.0f} s"
        return self.find_unread(booted_at, now, has_metrics=has_metrics)

    def find_unread(self, booted_at: float, now: int, *, has_metrics: bool) -> str:
        """Why nobody can know now whether a node is at rest; empty where somebody can."""
        slow = SLOWEST if any(spell.how is How.SLOW for spell in self.spells) else 0
        for spell in self.spells:
            lasts = now - spell.start
            is_failing = spell.how is How.FAILS and lasts > BLIND_SECONDS + slow
            was_seen = has_metrics and booted_at < spell.start - SEEN_SECONDS
            is_empty = spell.how is How.EMPTY and was_seen and lasts > STOPPED_SECONDS + slow
            # `now` may be up to a second ago: the read came after a spell that ends within it
            if spell.holds(now + 1) and (is_failing or is_empty):
                return f"{spell.how} for {lasts:.0f} s"
        return ""


@dataclass
class FaultyTelemetry:
    """The real reader of metrics, under the spells."""

    real: Telemetry
    faults: ReadFaults

    def read_samples(self, project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        if self.faults.is_under(How.FAILS, kind):
            raise CloudUnavailable("no answer")
        if self.faults.is_under(How.EMPTY, kind):
            return ()
        return self.real.read_samples(project, kind, since, until)


@dataclass
class FaultyWorkers:
    """The real cloud, under the spells as far as its reports go."""

    real: Any
    faults: ReadFaults

    def guest_attributes(self, *arguments: Any) -> Any:
        if self.faults.is_under(How.UNREPORTED):
            raise CloudUnavailable("no answer")
        return self.real.guest_attributes(*arguments)
