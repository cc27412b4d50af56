"""What is owed, worked out on paper from the price lists and the calendar.

It knows how to look a price up and how to multiply, and nothing of how the service does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from service.domain.clock import HOUR
from service.domain.metering.meter import Usage
from service.domain.metering.reservation import Reservation
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import Price, group_of
from service.domain.pricing.shipped_prices import embedded_prices

ON_PAPER = {"preemptible": "spot"}
BY_DEVICE = {"v2-8", "v3-8"}


class Ware(NamedTuple):
    """What is sold: a generation of TPUs or a machine, how, by which unit, and where."""

    what: str
    model: str
    unit: str
    region: str


class Stretch(NamedTuple):
    """Seconds [start, end) at one price in nano-dollars per hour of a chip or a machine, None where
    no list has one; `reservation` is the id of what they were taken from."""

    start: int
    end: int
    nanos: int | None
    reservation: str = ""

    @property
    def seconds(self) -> int:
        return self.end - self.start


class ReferenceLedger:
    """All price lists, and the reservations that stand."""

    def __init__(self, entered: Iterable[Price], standing: Iterable[Reservation]) -> None:
        self._lists: dict[str, list[Price]] = defaultdict(list)
        for price in (*embedded_prices(), *entered):
            self._lists[price.generation].append(price)
        self._standing = tuple(standing)

    def of_tpu(self, node: Node, usage: Usage) -> list[Stretch]:
        """What an interval of a node is charged at, as a TPU."""
        model = usage.sku.model
        unit = "device_hour" if usage.accelerator_type in BY_DEVICE else "chip_hour"
        ware = Ware(usage.sku.generation, model, unit, region_of(usage.zone))
        if model != "reserved":
            return list(self._stretches(ware, usage.start, _end(usage)))
        found: list[Stretch] = []
        for left, right in self._shifts(usage, ware.what):
            there = self._taken_from(node, usage, left)
            found += self._stretches(ware, left, right, there)
        return found

    def of_vm(self, node: Node, usage: Usage) -> list[Stretch]:
        """What it is charged at, as the machine that drives the node: there is no free minute."""
        vm = node.spec.vm
        if vm is None:
            return []
        ware = Ware(vm.machine_type, vm.provisioning_model, "vm_hour", region_of(usage.zone))
        return list(self._stretches(ware, usage.start, _end(usage)))

    def of_reservation(self, one: Reservation, until: int) -> list[Stretch]:
        """What a reservation is charged at, up to an instant, whoever used it."""
        ware = Ware(one.generation, "reserved", "chip_hour", region_of(one.zone))
        return list(self._stretches(ware, one.start, min(one.end, until), one))

    def dearest(self, ware: Ware, at: int) -> int | None:
        """The highest price that a list has for it from an instant on; None where none has one
        then."""
        later = [
            listed.effective_from for listed in self._lists[ware.what] if listed.effective_from > at
        ]
        now = self._listed(ware, at)
        if now is None:
            return None
        return max([now, *(self._listed(ware, instant) or 0 for instant in later)])

    def _shifts(self, usage: Usage, generation: str) -> Iterator[tuple[int, int]]:
        """An interval, cut where a reservation begins or ends."""
        here = (span for span in self._standing if span.generation == generation)
        return _cut(
            usage.start, _end(usage), [at for span in here for at in (span.start, span.end)]
        )

    def _taken_from(self, node: Node, usage: Usage, at: int) -> Reservation | None:
        """The one that a node is taken from: the one it names, or of any the first that began."""
        serving = [
            span
            for span in self._standing
            if (span.zone, span.generation) == (usage.zone, usage.sku.generation)
            and span.start <= at < span.end
            and node.spec.reservation in ("", span.name)
        ]
        return min(serving, key=lambda one: (one.start, one.name), default=None)

    def _stretches(
        self, ware: Ware, start: int, end: int, taken: Reservation | None = None
    ) -> Iterator[Stretch]:
        changes = [price.effective_from for price in self._lists[ware.what]]
        for left, right in _cut(start, end, changes):
            nanos = self._listed(ware, left)
            if taken is not None:
                calendar = self._listed(ware._replace(model="calendar"), left)
                nanos = nanos if calendar is None else calendar
            yield Stretch(left, right, nanos, "" if taken is None else taken.id)

    def _listed(self, ware: Ware, at: int) -> int | None:
        """The latest price that was in force; that of the region before that of its group."""
        model = ON_PAPER.get(ware.model, ware.model)
        known = [
            price
            for price in self._lists[ware.what]
            if (ON_PAPER.get(price.model, price.model), price.unit) == (model, ware.unit)
            and price.effective_from <= at
        ]
        for region in (ware.region, group_of(ware.region)):
            here = [price for price in known if price.region == region]
            if here:
                last = max(here, key=lambda p: (p.effective_from, p.recorded_at, p.id))
                return last.per_chip_hour
        return None


def worth(stretches: Iterable[Stretch], units: int, until: int = 2**40) -> Fraction:
    """The exact nano-dollars for so many chips, or machines, up to an instant."""
    total = sum(
        max(0, min(stretch.end, until) - stretch.start) * stretch.nanos
        for stretch in stretches
        if stretch.nanos is not None
    )
    return Fraction(units * total, HOUR)


def seconds(stretches: Iterable[Stretch], *, priced: bool) -> int:
    """The seconds whose price is known, or is not."""
    return sum(stretch.seconds for stretch in stretches if (stretch.nanos is not None) is priced)


def within(stretches: Sequence[Stretch], start: int, end: int) -> list[Stretch]:
    """The parts of them that lie in [start, end)."""
    cut = (s._replace(start=max(s.start, start), end=min(s.end, end)) for s in stretches)
    return [span for span in cut if span.start < span.end]


def _cut(start: int, end: int, instants: Iterable[int]) -> Iterator[tuple[int, int]]:
    """[start, end) at those instants that lie in it."""
    inner = {instant for instant in instants if start < instant < end}
    return pairwise(sorted({start, *inner, max(start, end)}))


def region_of(zone: str) -> str:
    """The region that a zone lies in."""
    return zone.rpartition("-")[0]


def _end(usage: Usage) -> int:
    assert usage.end is not None
    return usage.end
