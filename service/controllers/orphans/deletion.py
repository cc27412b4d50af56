"""Deletes one orphan, or finds out that it is gone: one look by name, then at most one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.commands import commanded
from service.controllers.lifecycle.context import Installation
from service.domain.clock import Clock
from service.domain.errors import CloudNotFound, StaleVersion
from service.domain.event import Event
from service.domain.lease import Lease
from service.domain.lifecycle.lifecycle import retry_delay, wait_delay
from service.domain.money import dollars, usd
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
    classify,
    names_of,
    next_move,
    verdict,
)
from service.domain.pricing.billing_rules import is_billable
from service.store.pricebook import PriceShelf
from service.store.unit import Units

log = structlog.get_logger()

OCCUPIED = "one of its nodes is READY; delete that node first"
CHANGED = "it has changed since its deletion was requested; check it again, then decide"


@dataclass(frozen=True, slots=True)
class ShownOrphan:
    """What the cloud shows of an orphan now (None: there is none), and the states of its nodes."""

    shown: ShownResource | None
    states: Sequence[str] = ()

    @property
    def occupied(self) -> bool:
        """Whether it is a queued resource with a node that may be at work."""
        return any(map(is_billable, self.states))


class OrphanDeletion:
    """No transaction is open while the cloud is asked, and every write is guarded by the orphan's
    version and by the lease."""

    def __init__(
        self, units: Units, cloud: TpuCloud, prices: PriceShelf, clock: Clock, manners: Installation
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._prices = prices
        self._clock = clock
        self._manners = manners

    def act(self, orphan: Orphan, watch: FleetWatch | None, lease: Lease) -> None:
        """Take the one step that is right now; see `service.domain.orphans.verdict.next_move`."""
        found = self._look(orphan)
        finding = self._finding(orphan, found, lease)
        allowed, _ = verdict(orphan, watch, self._clock())
        move = next_move(orphan, found.shown, finding, allowed, occupied=found.occupied)
        self._take(move, orphan, found, lease)

    def _look(self, orphan: Orphan) -> ShownOrphan:
        place = orphan.shown.place
        try:
            if not orphan.shown.queued:
                return ShownOrphan(node_shown(place, self._cloud.get(place)))
            entry = self._cloud.queued(place)
        except CloudNotFound:
            return ShownOrphan(None)
        members = (Place(place.project, place.zone, name) for name in entry.nodes)
        states = [state for one in members if (state := self._state(one))]
        return ShownOrphan(queue_shown(place, entry), states)

    def _state(self, place: Place) -> str:
        try:
            return self._cloud.get(place).state
        except CloudNotFound:
            return ""

    def _finding(self, orphan: Orphan, found: ShownOrphan, lease: Lease) -> OrphanFinding | None:
        """Whose it is by the books of now. A daemon that lost its lease, or a row that somebody
        changed meanwhile, goes no further."""
        with self._units(lease) as unit:
            if unit.orphans.get(orphan.id, [orphan.project]).version != orphan.version:
                raise StaleVersion(f"orphan {orphan.id} was changed by someone else just now")
            attempts = unit.orphans.attempts(orphan.project, names_of(orphan.shown.place))
        if found.shown is None:
            return None
        return classify(found.shown, attempts, self._manners.install, manned=bool(found.states))

    def _take(self, move: OrphanMove, orphan: Orphan, found: ShownOrphan, lease: Lease) -> None:
        match move:
            case OrphanMove.GONE:
                self._gone(orphan, lease)
            case OrphanMove.FOUND:
                self._save(replace(orphan, next_try_at=None, tries=0, last_error=""), lease)
            case OrphanMove.KNOWN:
                self._known(orphan, lease)
            case OrphanMove.RELEASE:
                self._release(orphan, lease)
            case OrphanMove.WAIT:
                self._wait(orphan, found, lease)
            case OrphanMove.DELETE:
                self._delete(orphan, found, lease)

    def _gone(self, orphan: Orphan, lease: Lease) -> None:
        now = self._clock()
        self._save(replace(orphan, gone_at=now, next_try_at=None, last_error=""), lease)
        log.info("orphan.gone", **_named(orphan), asked_by=orphan.asked_by)

    def _known(self, orphan: Orphan, lease: Lease) -> None:
        if orphan.is_adopted:
            self._save(replace(orphan, next_try_at=None), lease)
            return
        with self._units(lease) as unit:
            unit.orphans.drop(orphan)

    def _release(self, orphan: Orphan, lease: Lease) -> None:
        said = "" if orphan.by_itself else CHANGED
        log.warning("orphan.released", **_named(orphan), asked_by=orphan.asked_by, reason=CHANGED)
        kept = replace(orphan, wanted="", asked_by="", confirmed=False, last_error=said)
        self._save(replace(kept, next_try_at=None, tries=0), lease)

    def _wait(self, orphan: Orphan, found: ShownOrphan, lease: Lease) -> None:
        now = self._clock()
        later = now + wait_delay(now - orphan.since, self._manners.period)
        said = OCCUPIED if found.occupied else ""
        self._save(replace(orphan, next_try_at=later, last_error=said), lease)

    def _delete(self, orphan: Orphan, found: ShownOrphan, lease: Lease) -> None:
        """One call. Whether it did what it was accepted for shows at the next look."""
        place = orphan.shown.place
        self._tell(orphan, found, lease)
        try:
            if orphan.shown.queued:
                commanded(self._cloud, self._units, lease).dequeue(
                    place, force=True
                )  # no node of it is READY
            else:
                commanded(self._cloud, self._units, lease).delete(place)
        except CloudNotFound:
            log.debug("orphan.gone_meanwhile", **_named(orphan))  # the next look verifies it
        later = self._clock() + retry_delay(orphan.tries)
        after = replace(orphan, tries=orphan.tries + 1, next_try_at=later, last_error="")
        self._save(after, lease)

    def _tell(self, orphan: Orphan, found: ShownOrphan, lease: Lease) -> None:
        """Say what is about to be deleted, why, and what it costs: before the call, so that a crash
        in the middle leaves no deletion that nobody spoke of."""
        with self._units(lease) as unit:
            shown, now = found.shown or orphan.shown, self._clock()
            rate = hourly_cost(shown, self._prices.book(unit), now)
            if orphan.certain and not orphan.tries:
                unit.events.add(self._event(orphan, rate))
        log.warning(
            "orphan.deleting",
            **_named(orphan),
            reason=orphan.reason if orphan.by_itself else "as asked",
            asked_by=orphan.asked_by,
            usd_per_hour=None if rate is None else usd(rate),
            tries=orphan.tries,
        )

    def _event(self, orphan: Orphan, rate: int | None) -> Event:
        why = orphan.reason if orphan.by_itself else "as asked"
        cost = "" if rate is None else f"; it costs {dollars(rate)} an hour"
        message = f"deleting {orphan.shown.path} ({orphan.kind}): {why}{cost}"
        node_id = orphan.shown.labels[LABEL_ID]
        facts = {"name": orphan.shown.path, "usd_per_hour": None if rate is None else usd(rate)}
        return Event(node_id, self._clock(), "orphan", message, orphan.asked_by, facts)

    def _save(self, orphan: Orphan, lease: Lease) -> None:
        with self._units(lease) as unit:
            unit.orphans.save(orphan)


def _named(orphan: Orphan) -> dict[str, str]:
    return {"orphan": orphan.shown.path, "kind": orphan.kind, "state": orphan.shown.state}
