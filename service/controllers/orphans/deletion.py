"""Deletes one orphan, or verifies that it is gone: one look by name, then at most one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.base import cloud_under_lease
from service.controllers.lifecycle.context import Installation
from service.domain.clock import Clock
from service.domain.errors import CloudNotFound, StaleVersion
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle.lifecycle import retry_delay, wait_delay
from service.domain.money import format_dollars, format_usd
from service.domain.nodes.node import Place
from service.domain.nodes.ownership import LABEL_ID
from service.domain.orphans.fleet_watch import FleetWatch
from service.domain.orphans.orphan import (
    Orphan,
    ShownResource,
    hourly_cost,
    node_shown,
    queue_shown,
)
from service.domain.orphans.verdict import (
    OrphanFinding,
    OrphanMove,
    classify_resource,
    judge_orphan,
    names_of,
    next_move,
)
from service.domain.pricing.billing_rules import is_billable
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

log = structlog.get_logger()

OCCUPIED = "one of its nodes is READY; delete that node first"
CHANGED = "it has changed since its deletion was requested; check it again, then decide"


@dataclass(frozen=True, slots=True)
class ShownOrphan:
    """The orphan as the cloud shows it now (None: it is gone), and the states of its nodes."""

    shown: ShownResource | None
    states: Sequence[str] = ()

    @property
    def is_occupied(self) -> bool:
        """Whether this is a queued resource with a node that may be in use."""
        return any(map(is_billable, self.states))


class OrphanDeletion:
    """Deletes orphans. No transaction is open while the cloud is asked, and every write is guarded
    by the orphan's version and by the lease."""

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        prices: PriceBookCache,
        clock: Clock,
        installation: Installation,
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self._installation = installation

    def take_step(self, orphan: Orphan, watch: FleetWatch | None, lease: Lease) -> None:
        """Take one step; see `service.domain.orphans.verdict.next_move`."""
        found = self._read_orphan(orphan)
        finding = self._classify_again(orphan, found, lease)
        allowed, _ = judge_orphan(orphan, watch, self._clock())
        move = next_move(orphan, found.shown, finding, allowed, occupied=found.is_occupied)
        match move:
            case OrphanMove.GONE:
                now = self._clock()
                self._save_orphan(
                    replace(orphan, gone_at=now, next_try_at=None, last_error=""), lease
                )
                log.info("orphan.gone", **_log_fields(orphan), asked_by=orphan.asked_by)
            case OrphanMove.FOUND:
                self._save_orphan(replace(orphan, next_try_at=None, tries=0, last_error=""), lease)
            case OrphanMove.KNOWN if orphan.is_adopted:
                self._save_orphan(replace(orphan, next_try_at=None), lease)
            case OrphanMove.KNOWN:
                with self._units(lease) as unit:
                    unit.orphans.delete(orphan)
            case OrphanMove.RELEASE:
                fields, reason = _log_fields(orphan), "" if orphan.is_automatic else CHANGED
                log.warning("orphan.released", **fields, asked_by=orphan.asked_by, reason=CHANGED)
                kept = replace(orphan, wanted="", asked_by="", confirmed=False, last_error=reason)
                self._save_orphan(replace(kept, next_try_at=None, tries=0), lease)
            case OrphanMove.WAIT:
                now = self._clock()
                later = now + wait_delay(now - orphan.since, self._installation.period)
                error = OCCUPIED if found.is_occupied else ""
                self._save_orphan(replace(orphan, next_try_at=later, last_error=error), lease)
            case OrphanMove.DELETE:
                self._delete_orphan(orphan, found, lease)

    def _read_orphan(self, orphan: Orphan) -> ShownOrphan:
        place = orphan.shown.place
        try:
            if not orphan.shown.queued:
                return ShownOrphan(node_shown(place, self._cloud.get(place)))
            entry = self._cloud.queued(place)
        except CloudNotFound:
            return ShownOrphan(None)
        states: list[str] = []
        for name in entry.nodes:
            with suppress(CloudNotFound):
                states.append(self._cloud.get(Place(place.project, place.zone, name)).state)
        return ShownOrphan(queue_shown(place, entry), list(filter(None, states)))

    def _classify_again(
        self, orphan: Orphan, found: ShownOrphan, lease: Lease
    ) -> OrphanFinding | None:
        """Classify the orphan by the current records. Raises if the lease is lost, or if the row
        has changed meanwhile."""
        with self._units(lease) as unit:
            if unit.orphans.get(orphan.id, [orphan.project]).version != orphan.version:
                raise StaleVersion(f"orphan {orphan.id} was changed by someone else just now")
            attempts = unit.orphans.list_attempts(orphan.project, names_of(orphan.shown.place))
        if found.shown is None:
            return None
        return classify_resource(
            found.shown, attempts, self._installation.install, manned=bool(found.states)
        )

    def _delete_orphan(self, orphan: Orphan, found: ShownOrphan, lease: Lease) -> None:
        """Request the deletion once. The next look shows whether it succeeded."""
        place = orphan.shown.place
        # What is deleted, why, and what it costs is recorded before the deletion, so that a crash
        # in between leaves no deletion without a record.
        reason = orphan.reason if orphan.is_automatic else "as asked"
        with self._units(lease) as unit:
            shown, now = found.shown or orphan.shown, self._clock()
            rate = hourly_cost(shown, self._prices.get_book(unit), now)
            usd_per_hour = None if rate is None else format_usd(rate)
            if orphan.certain and not orphan.tries:
                cost = "" if rate is None else f"; it costs {format_dollars(rate)} an hour"
                message = f"deleting {orphan.shown.path} ({orphan.kind}): {reason}{cost}"
                node_id = orphan.shown.labels[LABEL_ID]
                facts = {"name": orphan.shown.path, "usd_per_hour": usd_per_hour}
                unit.events.add(
                    Event(node_id, self._clock(), "orphan", message, orphan.asked_by, facts)
                )
        log.warning(
            "orphan.deleting",
            **_log_fields(orphan),
            reason=reason,
            asked_by=orphan.asked_by,
            usd_per_hour=usd_per_hour,
            tries=orphan.tries,
        )
        try:
            if orphan.shown.queued:
                # None of its nodes is READY.
                cloud_under_lease(self._cloud, self._units, lease).dequeue(place, force=True)
            else:
                cloud_under_lease(self._cloud, self._units, lease).delete(place)
        except CloudNotFound:
            log.debug("orphan.gone_meanwhile", **_log_fields(orphan))  # the next look verifies it
        later = self._clock() + retry_delay(orphan.tries)
        after = replace(orphan, tries=orphan.tries + 1, next_try_at=later, last_error="")
        self._save_orphan(after, lease)

    def _save_orphan(self, orphan: Orphan, lease: Lease) -> None:
        with self._units(lease) as unit:
            unit.orphans.save(orphan)


def _log_fields(orphan: Orphan) -> dict[str, str]:
    return {"orphan": orphan.shown.path, "kind": orphan.kind, "state": orphan.shown.state}
