"""Asks the cloud's log when usage really ended, and takes back what was charged beyond that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from service.cloud.ports import OperationHistory, TpuCloud
from service.controllers.recording.operation_log import OperationLog
from service.controllers.recording.recording import lock_and_price, of_slice, write_usage
from service.domain.clock import MINUTE, Clock
from service.domain.errors import CloudError, NotAllowed
from service.domain.event import Event
from service.domain.evidence.audit_log import (
    LogState,
    Termination,
    correct_earlier,
    correct_end,
    describe_correction,
    due_windows,
    find_termination,
    is_end_uncertain,
    is_possible_end,
    latest_start,
    needs_creation_time,
    next_log_state,
    window_of,
)
from service.domain.lease import Lease
from service.domain.metering.line_items import meters
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Place
from service.domain.nodes.placement import Placement
from service.domain.nodes.slices import part
from service.domain.pricing.price_book import PriceBook
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

log = structlog.get_logger()

BATCH = 200
"""Corrections written in one transaction: few enough that no other writer waits for long."""

PAUSE = MINUTE
"""Seconds for which a log that gave no answer is left alone."""

PAUSE_WHEN_DENIED = 10 * MINUTE
"""The same for one that may not be read: only a human can change that."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The entry that ended a usage; `began` is the latest that this may have begun, and
    `created_at` when its node was created, where that matters and is known."""

    usage: Usage
    entry: Termination
    began: int
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why the log gave no answer, and until when it is left alone."""

    kind: type[CloudError]
    until: int


class EvidenceController:
    """Level-triggered: whose turn it is follows from when it ended, so a correction that is lost
    on the way is made at the next turn, and one that is made is not made again.

    It acts on nothing but our own books. Where the log cannot be read, usage stays as uncertain as
    it is, and nothing else stops.

    It has the period of the inventory and runs beside it: after a start it asks at once about all
    that was open before, and within two periods about what the first look found. Until it is heard
    the upper bound counts, so it notes with the lease that it was: budgets have nothing deleted
    before. Nobody else waits for it.
    """

    name = "evidence"

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        history: OperationHistory,
        prices: PriceShelf,
        clock: Clock,
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._history = history
        self._prices = prices
        self._clock = clock
        self._asked: dict[str, tuple[Lease, int]] = {}
        self._trouble: dict[str, _Trouble] = {}
        self._hearings: dict[str, LogState] = {}

    def tick(self, lease: Lease) -> None:
        """One question for all whose turn it is; none where it is nobody's."""
        now = self._clock()
        try:
            answered = self._ask(lease, now)
        except Exception:
            self._note(lease, now, answered=False)
            raise
        self._note(lease, now, answered=answered)

    def _note(self, lease: Lease, now: int, *, answered: bool) -> None:
        """Write down whether there is still something to wait for, where that is news."""
        before = self._hearings.get(lease.project)
        after = next_log_state(before, lease, now, answered=answered)
        known = before is not None and before.lease == lease and before.heard
        if after.heard is not known:
            with self._units(lease) as unit:
                unit.leases.hear(lease, heard=after.heard)
            if not answered and after.heard:
                log.warning("evidence.waited_long_enough", project=lease.project)
        self._hearings[lease.project] = after

    def _ask(self, lease: Lease, now: int) -> bool:
        """Whether the log has answered what it was asked, if anything; one that may not be read has
        nothing to say."""
        trouble = self._trouble.get(lease.project)
        if trouble is not None and now < trouble.until:
            return trouble.kind is NotAllowed
        held, asked = self._asked.get(lease.project, (None, None))
        with self._units.reading() as unit:
            windows = due_windows(asked if held == lease else None, now)
            in_doubt = unit.usage.ended_in_doubt(lease.project, windows) if windows else ()
        if in_doubt:
            entries = self._entries(lease.project, in_doubt, now)
            if entries is None:
                return self._trouble[lease.project].kind is NotAllowed
            self._correct(in_doubt, entries, lease)
        self._asked[lease.project] = lease, now
        return True

    def _entries(
        self, project: str, in_doubt: Sequence[Usage], now: int
    ) -> Sequence[Termination] | None:
        """What the log says of the time in which all these ended; None when it does not answer,
        which is told once, and once more when it is over."""
        window = window_of(in_doubt)
        before = self._trouble.get(project)
        try:
            entries = self._history.terminations(project, window.start, window.end)
        except CloudError as error:
            kind = type(error)
            pause = PAUSE_WHEN_DENIED if kind is NotAllowed else PAUSE
            self._trouble[project] = _Trouble(kind, now + pause)
            if before is None or before.kind is not kind:
                log.warning("evidence.no_log", project=project, reason=str(error))
            return None
        if self._trouble.pop(project, None) is not None:
            log.info("evidence.log_is_back", project=project)
        return entries

    def _correct(
        self, in_doubt: Sequence[Usage], entries: Sequence[Termination], lease: Lease
    ) -> None:
        with self._units.reading() as unit:
            found = list(_found(unit, in_doubt, entries))
        records = OperationLog(self._cloud)
        known = [born for one in found if (born := _with_birth(one, records)) is not None]
        for start in range(0, len(known), BATCH):
            with self._units(lease) as unit:
                some, now = known[start : start + BATCH], self._clock()
                book = lock_and_price(unit, (one.usage.node_id for one in some), self._prices)
                for one in some:
                    _write(unit, one, book, now)


def _with_birth(found: _Found, records: OperationLog) -> _Found | None:
    """The same with the instant at which the node was created, where that matters; None when the
    cloud cannot say so now: it will be this one's turn again."""
    if not needs_creation_time(found.usage, found.began, found.entry):
        return found
    try:
        return replace(found, created_at=records.birth(Place.of(found.entry.path)))
    except CloudError:
        return None


def _found(
    unit: Unit, in_doubt: Sequence[Usage], entries: Sequence[Termination]
) -> Iterator[_Found]:
    """The usage that an entry ended, with it. Names are looked up only where times agree."""
    for usage in in_doubt:
        near = [one for one in entries if is_possible_end(usage, one.at)]
        path = _path_of(unit, usage) if near else ""
        entry = find_termination(usage, [one for one in near if one.path == path])
        if entry is not None:
            yield _Found(usage, entry, _latest_beginning(unit, usage))


def _latest_beginning(unit: Unit, usage: Usage) -> int:
    versions = unit.beliefs.of(usage.id)
    return latest_start(usage, versions[0].start_hi if versions else usage.start_hi)


def _path_of(unit: Unit, usage: Usage) -> str:
    """The cloud's full name of what was used."""
    node, placement = unit.nodes.get(usage.node_id), _placement_of(unit, usage)
    if placement is not None:
        node = replace(node, zone=placement.zone, cloud_id=placement.cloud_id)
    return part(node, usage.slice).place.path


def _placement_of(unit: Unit, usage: Usage) -> Placement | None:
    """The attempt that was not over before the end of some usage; None where none is known."""
    assert usage.end_lo is not None
    attempts = unit.placements.of(usage.node_id)
    return next(
        (one for one in attempts if one.ended_at is None or one.ended_at >= usage.end_lo), None
    )


def _earlier(unit: Unit, usage: Usage) -> list[tuple[Usage, int]]:
    """The intervals of the same placement before some usage, each with the latest that it may have
    begun."""
    placement = _placement_of(unit, usage)
    since = 0 if placement is None else placement.started_at
    return [
        (one, _latest_beginning(unit, one))
        for one in unit.usage.of(usage.node_id)
        if one.slice == usage.slice and since <= one.start < usage.start
    ]


def _write(unit: Unit, found: _Found, book: PriceBook, now: int) -> None:
    """Write the correction down, unless somebody else has done so or knows better."""
    current = (one for one in unit.usage.of(found.usage.node_id) if one.id == found.usage.id)
    before = next(current, None)
    if before is None or not is_end_uncertain(before):
        return
    after = correct_end(before, found.entry, found.began, found.created_at)
    earlier = _earlier(unit, before)
    changed = [
        after,
        *correct_earlier(
            after,
            found.created_at,
            earlier,
            is_born_needed=needs_creation_time(before, found.began, found.entry),
        ),
    ]
    known = {one.id: one for one in (before, *(usage for usage, _ in earlier))}
    was, is_now = (
        sum(one.total() for one in meters(usages, book, now))
        for usages in ([known[one.id] for one in changed], changed)
    )
    for usage in changed:
        write_usage(unit, usage, book, now)
    facts: Mapping[str, object] = {
        "usage": after.id,
        "was": before.end,
        "end": after.end,
        "reason": found.entry.reason,
    }
    message = describe_correction(before, after, found.entry, was - is_now)
    unit.events.add(
        of_slice(Event(after.node_id, now, "evidence", message, facts=facts), after.slice)
    )
