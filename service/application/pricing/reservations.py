"""What callers may say and ask of reservations by the calendar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from service.application.projects import chosen
from service.domain.clock import Clock
from service.domain.errors import Rejected
from service.domain.ids import new_id
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import UnusedReservation, meters
from service.domain.metering.meter import Meter, Usage
from service.domain.metering.reservation import Reservation, check, check_countable, usage_of
from service.domain.pricing.price_book import Price, PriceBook
from service.store.ledger import PostedLine
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

_SAME = (
    *("name", "project", "zone", "generation", "chips", "start", "end"),
    *("owner", "team", "labels"),
)


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """A reservation and what it comes to: nano-dollars and chip-seconds, up to `as_of`.

    `cost` is all of it so far, `unused` the part that no node is charged for, `whole` what it will
    have come to at its end, None where the price of some of it is not known. `price` is the one in
    force, None where none is known; then `unpriced_seconds` are in no figure.
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
    """A reservation that was written down; `created` is False when the same was there already."""

    shown: ReservationStatus
    created: bool


class ReservationService:
    """Writes down what was bought; what it comes to is the metering's."""

    def __init__(
        self, units: Units, prices: PriceShelf, clock: Clock, projects: Sequence[str]
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = projects

    def record(self, wanted: Reservation) -> RecordedReservation:
        """Write down what was bought; its id and the time are given here. The same once more is the
        one that is there. Raises Rejected for what cannot be, Conflict where the name is taken."""
        project = chosen(wanted.project, self._projects)
        one = replace(
            wanted,
            id=new_id(),
            project=project,
            recorded_at=self._clock(),
            recorded_by=wanted.recorded_by or "caller",
        )
        with self._units() as unit:
            unit.reservations.take_turns(project)
            standing = unit.reservations.standing()
            known = next((other for other in standing if _is_same(one, other)), None)
            if known is None:
                check(one, standing)
                check_countable(one, self._prices.book(unit))
                _write(unit, one)
        return RecordedReservation(self.get((known or one).id), known is None)

    def withdraw(self, reservation_id: str, reason: str) -> ReservationStatus:
        """Say of a record that it is wrong: what it charged is taken back in the months that are
        not closed, and corrected for those that are. The second time changes nothing. Raises
        NotFound, and Rejected without a reason."""
        if not reason.strip():
            raise Rejected("give a reason: why is the record wrong?", field="reason")
        with self._units() as unit:
            one = unit.reservations.get(reservation_id)
            if unit.reservations.withdraw(one.id, reason.strip(), self._clock()):
                unit.usage.reconsider_reserved(one.project, one.zone, one.start, one.end)
                usage = unit.usage.purchase(one.id)
                unit.usage.save(replace(usage, free=f"withdrawn: {reason.strip()}", dirty=True))
        return self.get(reservation_id)

    def get(self, reservation_id: str) -> ReservationStatus:
        """One of them; raises NotFound."""
        with self._units.reading() as unit:
            return self._shown(unit, [unit.reservations.get(reservation_id)])[0]

    def written(self, reservation_id: str) -> Reservation:
        """The record alone, without what it comes to; raises NotFound."""
        with self._units.reading() as unit:
            return unit.reservations.get(reservation_id)

    def among(self, ids: Iterable[str]) -> Set[str]:
        """Those of the ids by which costs are told that are of reservations, not of nodes."""
        wanted = set(ids)
        with self._units.reading() as unit:
            return {one.id for one in unit.reservations.all() if one.id in wanted}

    def used(self, reservation_id: str) -> Sequence[NodeUse]:
        """The nodes that ran in one, who used the most first; raises NotFound."""
        now = self._clock()
        with self._units.reading() as unit:
            unit.reservations.get(reservation_id)
            left = _unused(unit, unit.usage.purchase(reservation_id), self._prices.book(unit), now)
            parts = list(left.used(left.usage.start, left.end))
            nodes = unit.nodes.many({meter.usage.node_id for meter, _, _ in parts})
        sums: dict[str, list[int]] = {}
        for meter, nanos, chip_seconds in parts:
            of_node = sums.setdefault(meter.usage.node_id, [0, 0])
            of_node[0] += nanos
            of_node[1] += chip_seconds
        found = (
            NodeUse(key, nodes[key].name, nodes[key].spec.chips, nanos, chip_seconds)
            for key, (nanos, chip_seconds) in sums.items()
        )
        return sorted(found, key=lambda one: (-one.cost, one.name, one.node_id))

    def all(self) -> Sequence[ReservationStatus]:
        """Every one that was ever written down, the latest to begin first."""
        with self._units.reading() as unit:
            return self._shown(unit, unit.reservations.all())

    def ledger(self, reservation_id: str, after: int, limit: int) -> Sequence[PostedLine]:
        """What was posted of it as used by nobody, in the order in which it was."""
        with self._units.reading() as unit:
            unit.reservations.get(reservation_id)
            return unit.ledger.of(reservation_id, after, limit)

    def _shown(self, unit: Unit, some: Sequence[Reservation]) -> list[ReservationStatus]:
        now, book = self._clock(), self._prices.book(unit)
        found = []
        for one in some:
            usage = unit.usage.purchase(one.id)
            unused = _unused(unit, usage, book, now)
            until, whole = Meter(usage, book, now), Meter(usage, book, one.end)
            found.append(
                ReservationStatus(
                    reservation=one,
                    price=book.at(usage.sku, min(max(now, one.start), one.end - 1)),
                    cost=until.total(),
                    unused=unused.total(),
                    whole=None if whole.unpriced_seconds() else whole.total(),
                    chip_seconds=until.chip_seconds(usage.start, until.end),
                    unused_chip_seconds=unused.chip_seconds(usage.start, unused.end),
                    unpriced_seconds=until.unpriced_seconds(),
                    as_of=now,
                )
            )
        return found


def _unused(unit: Unit, usage: Usage, book: PriceBook, now: int) -> UnusedReservation:
    inside = unit.usage.reserved(usage.start, usage.until(now))
    return UnusedReservation(usage, book, now, (), meters(inside, book, now))


def _is_same(one: Reservation, other: Reservation) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _SAME)


def _write(unit: Unit, one: Reservation) -> None:
    unit.reservations.add(one)
    unit.attributions.add(
        Attribution(one.id, owner=one.owner, team=one.team, labels=one.labels), one.recorded_at
    )
    usage: Usage = usage_of(one, new_id())
    unit.usage.save(usage)
    unit.beliefs.add(usage, one.recorded_at)
    unit.usage.reconsider_reserved(one.project, one.zone, one.start, one.end)
