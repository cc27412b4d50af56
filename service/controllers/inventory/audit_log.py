"""Asks the cloud's audit log when usage really ended, and takes back charges beyond that time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from service.cloud.ports import OperationHistory, TpuCloud
from service.controllers.recording.operation_log import OperationLog
from service.controllers.recording.recording import lock_and_price, with_slice_label, write_usage
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
from service.domain.metering.line_items import make_meters
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Place
from service.domain.nodes.placement import Placement
from service.domain.nodes.slices import slice_as_node
from service.domain.pricing.price_book import PriceBook
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

log = structlog.get_logger()

BATCH = 200
"""Corrections written in one transaction: few enough that no other writer waits for long."""

PAUSE = MINUTE
"""Seconds without a question after the log gave no answer."""

PAUSE_WHEN_DENIED = 10 * MINUTE
"""The same after a denied read: only a human can grant the permission."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A usage and the log entry that ended it. `began` is the latest possible start of the usage;
    `created_at` is the creation time of the node, where it matters and is known."""

    usage: Usage
    entry: Termination
    began: int
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why the log gave no answer, and until when no question is asked."""

    kind: type[CloudError]
    until: int


class EvidenceController:
    """Level-triggered: the end time of a usage decides when the log is asked about it. A lost
    correction is made at the next question; a stored correction is not made again.

    The controller changes only our own books. If the log cannot be read, usage stays uncertain, and
    nothing else stops.

    The controller runs with the period of the inventory. After a start it asks at once about all
    usage that was open before, and within two periods about the result of the first look. Until the
    audit log has answered, usage is charged at its upper bound. The answer is recorded on the
    lease; budget deletions wait for it. Nothing else waits.
    """

    name = "evidence"

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        history: OperationHistory,
        prices: PriceBookCache,
        clock: Clock,
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._history = history
        self._prices = prices
        self._clock = clock
        self._asked: dict[str, tuple[Lease, int]] = {}
        self._trouble: dict[str, _Trouble] = {}
        self._log_states: dict[str, LogState] = {}

    def tick(self, lease: Lease) -> None:
        """Ask one question about all usage that is due; none if no usage is due."""
        now = self._clock()
        try:
            answered = self._ask_log(lease, now)
        except Exception:
            self._record_answer(lease, now, answered=False)
            raise
        self._record_answer(lease, now, answered=answered)

    def _record_answer(self, lease: Lease, now: int, *, answered: bool) -> None:
        """Record whether budget deletions wait no longer for the log, if that has changed."""
        before = self._log_states.get(lease.project)
        after = next_log_state(before, lease, now, answered=answered)
        known = before is not None and before.lease == lease and before.releases_deletions
        if after.releases_deletions is not known:
            with self._units(lease) as unit:
                unit.leases.save_log_release(lease, releases_deletions=after.releases_deletions)
            if not answered and after.releases_deletions:
                log.warning("evidence.waited_long_enough", project=lease.project)
        self._log_states[lease.project] = after

    def _ask_log(self, lease: Lease, now: int) -> bool:
        """Whether the log has answered, or no question was due. A denied read counts as answered:
        the log has nothing to say."""
        trouble = self._trouble.get(lease.project)
        if trouble is not None and now < trouble.until:
            return trouble.kind is NotAllowed
        held, asked = self._asked.get(lease.project, (None, None))
        with self._units.reading() as unit:
            windows = due_windows(asked if held == lease else None, now)
            in_doubt = unit.usage.list_ended_in_doubt(lease.project, windows) if windows else ()
        if in_doubt:
            entries = self._read_entries(lease.project, in_doubt, now)
            if entries is None:
                return self._trouble[lease.project].kind is NotAllowed
            self._correct_usages(in_doubt, entries, lease)
        self._asked[lease.project] = lease, now
        return True

    def _read_entries(
        self, project: str, in_doubt: Sequence[Usage], now: int
    ) -> Sequence[Termination] | None:
        """The log entries of the time in which the usages ended; None if the log gives no answer.

        An outage is logged once, and its end is logged too.
        """
        window = window_of(in_doubt)
        before = self._trouble.get(project)
        try:
            entries = self._history.list_terminations(project, window.start, window.end)
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

    def _correct_usages(
        self, in_doubt: Sequence[Usage], entries: Sequence[Termination], lease: Lease
    ) -> None:
        with self._units.reading() as unit:
            matches = list(_match_entries(unit, in_doubt, entries))
        records = OperationLog(self._cloud)
        known: list[_Found] = []
        for found in matches:
            created_at = None
            if needs_creation_time(found.usage, found.began, found.entry):
                try:
                    created_at = records.read_creation_time(Place.from_path(found.entry.path))
                except CloudError:
                    continue  # the cloud gives no answer now: the usage is asked about again
            known.append(replace(found, created_at=created_at))
        for start in range(0, len(known), BATCH):
            with self._units(lease) as unit:
                batch, now = known[start : start + BATCH], self._clock()
                book = lock_and_price(unit, (found.usage.node_id for found in batch), self._prices)
                for found in batch:
                    _write_correction(unit, found, book, now)


def _match_entries(
    unit: Unit, in_doubt: Sequence[Usage], entries: Sequence[Termination]
) -> Iterator[_Found]:
    """Yield each usage that an entry ended, with the entry. Names are read only if times agree."""
    for usage in in_doubt:
        near = [entry for entry in entries if is_possible_end(usage, entry.at)]
        path = ""
        if near:
            node, placement = unit.nodes.get(usage.node_id), _find_placement(unit, usage)
            if placement is not None:
                node = replace(node, zone=placement.zone, cloud_id=placement.cloud_id)
            path = slice_as_node(node, usage.slice).place.path
        termination = find_termination(usage, [entry for entry in near if entry.path == path])
        if termination is not None:
            yield _Found(usage, termination, _latest_start(unit, usage))


def _latest_start(unit: Unit, usage: Usage) -> int:
    versions = unit.usage_versions.list_by_usage(usage.id)
    return latest_start(usage, versions[0].start_hi if versions else usage.start_hi)


def _find_placement(unit: Unit, usage: Usage) -> Placement | None:
    """The first attempt that did not end before the usage did; None if none is known."""
    assert usage.end_lo is not None
    attempts = unit.placements.list_by_node(usage.node_id)
    return next(
        (
            attempt
            for attempt in attempts
            if attempt.ended_at is None or attempt.ended_at >= usage.end_lo
        ),
        None,
    )


def _write_correction(unit: Unit, found: _Found, book: PriceBook, now: int) -> None:
    """Write the correction, unless the end is certain by now."""
    usages = unit.usage.list_by_node(found.usage.node_id)
    before = next((usage for usage in usages if usage.id == found.usage.id), None)
    if before is None or not is_end_uncertain(before):
        return
    after = correct_end(before, found.entry, found.began, found.created_at)
    # The earlier intervals of the same placement, each with its latest possible start.
    placement = _find_placement(unit, before)
    since = 0 if placement is None else placement.started_at
    earlier = [
        (usage, _latest_start(unit, usage))
        for usage in unit.usage.list_by_node(before.node_id)
        if usage.slice == before.slice and since <= usage.start < before.start
    ]
    changed = [
        after,
        *correct_earlier(
            after,
            found.created_at,
            earlier,
            is_created_at_needed=needs_creation_time(before, found.began, found.entry),
        ),
    ]
    known = {usage.id: usage for usage in (before, *(usage for usage, _ in earlier))}
    was, is_now = (
        sum(meter.total_charge() for meter in make_meters(usages, book, now))
        for usages in ([known[usage.id] for usage in changed], changed)
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
        with_slice_label(Event(after.node_id, now, "evidence", message, facts=facts), after.slice)
    )
