"""Calendar reservations as callers record and read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from operator import attrgetter

from service.application.projects import choose_project
from service.domain.clock import Clock
from service.domain.errors import Rejected
from service.domain.ids import new_id
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import UnusedReservation, make_meters
from service.domain.metering.meter import Meter, Usage
from service.domain.metering.reservation import (
    Reservation,
    check_countable,
    check_reservation,
    usage_of,
)
from service.domain.pricing.price_book import Price, PriceBook
from service.store.ledger import PostedLine
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

_SAME = (
    *("name", "project", "zone", "generation", "chips", "start", "end"),
    *("owner", "team", "labels"),
)
_fields_of = attrgetter(*_SAME)


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """A reservation and its cost: nano-dollars and chip-seconds, up to `as_of`.

    `cost` is the whole cost so far, `unused` is the part that no node is charged for. `whole` is
    the expected cost at its end, None if the price of some of it is unknown. `price` is the price
    in force, None if unknown; then `unpriced_seconds` are in no figure.
    """

    reservation: Reservation
    price: Price | None
    cost: int
    unused: int
    whole: int | None
    chip_seconds: int
    unused_chip_seconds: int
    unpriced_seconds: int
    as_of: int


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What a node has used of a reservation so far, in nano-dollars and chip-seconds."""

    node_id: str
    name: str
    chips: int
    cost: int
    chip_seconds: int


@dataclass(frozen=True, slots=True)
class RecordedReservation:
    """A recorded reservation; `created` is False if the same one was recorded before."""

    shown: ReservationStatus
    created: bool


class ReservationService:
    """Records reservations; the metering computes their cost."""

    def __init__(
        self, units: Units, prices: PriceBookCache, clock: Clock, projects: Sequence[str]
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = projects

    def record(self, wanted: Reservation) -> RecordedReservation:
        """Record a reservation; its id and time are set here. Recording the same one again
        returns the existing one. Raises Rejected for an invalid reservation, Conflict if the
        name is taken."""
        project = choose_project(wanted.project, self._projects)
        reservation = replace(
            wanted,
            id=new_id(),
            project=project,
            recorded_at=self._clock(),
            recorded_by=wanted.recorded_by or "caller",
        )
        with self._units() as unit:
            unit.reservations.lock_until_commit(project)
            standing = unit.reservations.list_standing()
            known = next(
                (other for other in standing if _fields_of(other) == _fields_of(reservation)), None
            )
            if known is None:
                check_reservation(reservation, standing)
                check_countable(reservation, self._prices.get_book(unit))
                unit.reservations.add(reservation)
                unit.attributions.add(
                    Attribution(
                        reservation.id,
                        owner=reservation.owner,
                        team=reservation.team,
                        labels=reservation.labels,
                    ),
                    reservation.recorded_at,
                )
                usage = usage_of(reservation, new_id())
                unit.usage.save(usage)
                unit.usage_versions.add(usage, reservation.recorded_at)
                unit.usage.mark_reserved_dirty(
                    reservation.project, reservation.zone, reservation.start, reservation.end
                )
        return RecordedReservation(self.get((known or reservation).id), known is None)

    def withdraw(self, reservation_id: str, reason: str) -> ReservationStatus:
        """Withdraw a wrong record: its charges are taken back in open months, and corrected for
        closed ones. Withdrawing it again changes nothing. Raises NotFound, and Rejected without a
        reason."""
        if not reason.strip():
            raise Rejected("give a reason: why is the record wrong?", field="reason")
        with self._units() as unit:
            reservation = unit.reservations.get(reservation_id)
            if unit.reservations.withdraw(reservation.id, reason.strip(), self._clock()):
                unit.usage.mark_reserved_dirty(
                    reservation.project, reservation.zone, reservation.start, reservation.end
                )
                usage = unit.usage.get_purchase(reservation.id)
                unit.usage.save(replace(usage, free=f"withdrawn: {reason.strip()}", dirty=True))
        return self.get(reservation_id)

    def get(self, reservation_id: str) -> ReservationStatus:
        """One reservation with its cost; raises NotFound."""
        with self._units.reading() as unit:
            return self._list_statuses(unit, [unit.reservations.get(reservation_id)])[0]

    def get_record(self, reservation_id: str) -> Reservation:
        """The record alone, without its cost; raises NotFound."""
        with self._units.reading() as unit:
            return unit.reservations.get(reservation_id)

    def find_reservation_ids(self, ids: Iterable[str]) -> Set[str]:
        """The ids that are those of reservations and not of nodes, among the ids by which costs are
        grouped."""
        wanted = set(ids)
        with self._units.reading() as unit:
            return {
                reservation.id
                for reservation in unit.reservations.list_all()
                if reservation.id in wanted
            }

    def list_node_uses(self, reservation_id: str) -> Sequence[NodeUse]:
        """The nodes that ran in a reservation, the largest use first; raises NotFound."""
        now = self._clock()
        with self._units.reading() as unit:
            unit.reservations.get(reservation_id)
            left = _read_unused(
                unit, unit.usage.get_purchase(reservation_id), self._prices.get_book(unit), now
            )
            parts = list(left.used_parts(left.usage.start, left.end))
            nodes = unit.nodes.find_many({meter.usage.node_id for meter, _, _ in parts})
        sums: dict[str, list[int]] = {}
        for meter, nanos, chip_seconds in parts:
            of_node = sums.setdefault(meter.usage.node_id, [0, 0])
            of_node[0] += nanos
            of_node[1] += chip_seconds
        found = (
            NodeUse(key, nodes[key].name, nodes[key].spec.chips, nanos, chip_seconds)
            for key, (nanos, chip_seconds) in sums.items()
        )
        return sorted(found, key=lambda use: (-use.cost, use.name, use.node_id))

    def list_all(self) -> Sequence[ReservationStatus]:
        """Every reservation ever recorded, the latest to begin first."""
        with self._units.reading() as unit:
            return self._list_statuses(unit, unit.reservations.list_all())

    def list_ledger_lines(
        self, reservation_id: str, after: int, limit: int
    ) -> Sequence[PostedLine]:
        """The posted lines of its unused part, in posting order."""
        with self._units.reading() as unit:
            unit.reservations.get(reservation_id)
            return unit.ledger.list_by_node(reservation_id, after, limit)

    def _list_statuses(self, unit: Unit, some: Sequence[Reservation]) -> list[ReservationStatus]:
        now, book = self._clock(), self._prices.get_book(unit)
        found = []
        for reservation in some:
            usage = unit.usage.get_purchase(reservation.id)
            unused = _read_unused(unit, usage, book, now)
            until, whole = Meter(usage, book, now), Meter(usage, book, reservation.end)
            found.append(
                ReservationStatus(
                    reservation=reservation,
                    price=book.find_price(
                        usage.sku, min(max(now, reservation.start), reservation.end - 1)
                    ),
                    cost=until.total_charge(),
                    unused=unused.total_charge(),
                    whole=None if whole.unpriced_seconds() else whole.total_charge(),
                    chip_seconds=until.chip_seconds_in(usage.start, until.end),
                    unused_chip_seconds=unused.chip_seconds_in(usage.start, unused.end),
                    unpriced_seconds=until.unpriced_seconds(),
                    as_of=now,
                )
            )
        return found


def _read_unused(unit: Unit, usage: Usage, book: PriceBook, now: int) -> UnusedReservation:
    inside = unit.usage.list_reserved(usage.start, usage.end_as_of(now))
    return UnusedReservation(usage, book, now, (), make_meters(inside, book, now))
