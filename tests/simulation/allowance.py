"""What budgets allow, worked out on paper: what was spent, and what may be spent yet at worst.

Both sides are told: what a node adds at least, and what it adds at most by the rules by which more
is set aside than will be spent. A node that is granted has to fit by the first, and one that is
refused must not fit by the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from service.domain.budgets.budget import Budget
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.price_book import Price
from service.store.unit import Unit
from tests.simulation.allocation_oracle import AllocationOracle, Payer, counts
from tests.simulation.reference_ledger import (
    BY_DEVICE,
    ReferenceLedger,
    Stretch,
    Ware,
    region_of,
    worth,
)

FAR = 30 * DAY
ONE_NANO = 1
OVERRUN_SECONDS = 60
"""By so much may be set aside more than a time to live: a deletion takes its time."""
CORES = {"v2", "v3"}
"""Of these, types are named by cores, two of which are a chip; of all others, by chips here."""
FLEX_SECONDS = 7 * DAY
"""What a flex-start node runs where nothing shorter is said."""


class Asked(NamedTuple):
    """What a node may be made of: (type, chips, zone) each; how it is sold, and for how long."""

    options: tuple[tuple[str, int, str], ...]
    model: str
    machine: tuple[str, str] | None
    ttl: int | None

    @classmethod
    def by(cls, request: RequestedNode) -> Asked:
        types = request.accelerator_types or (request.accelerator_type or "",)
        options = tuple(
            (type_, chips_of(type_) * request.slices, zone)
            for type_ in types
            for zone in request.zones
        )
        flexible = request.provisioning_model == "flex_start" and request.ttl_seconds is None
        ttl = FLEX_SECONDS if flexible else request.ttl_seconds
        vm = request.vm
        machine = None if vm is None else (vm.machine_type, str(vm.provisioning_model))
        return cls(options, str(request.provisioning_model), machine, ttl)

    @classmethod
    def of(cls, node: Node) -> Asked:
        """The same of a node that nobody asked for, as one that was adopted."""
        spec = node.spec
        options = tuple((spec.accelerator_type, spec.chips, zone) for zone in spec.zones)
        return cls(options, str(spec.provisioning_model), None, spec.ttl_seconds)


class Admitted(NamedTuple):
    """When a node was admitted last, what had been asked for, and its dearest rate then: nano-
    dollars an hour, None where a price was not known."""

    at: int
    asked: Asked
    rate: int | None


class Bounds(NamedTuple):
    """Nano-dollars; None where a price is not known."""

    low: int | None
    high: int | None

    def beside(self, other: Bounds) -> Bounds:
        low = None if None in (self.low, other.low) else (self.low or 0) + (other.low or 0)
        high = None if None in (self.high, other.high) else (self.high or 0) + (other.high or 0)
        return Bounds(low, high)

    def hold(self, amount: int | None) -> bool:
        """Whether an amount lies within them."""
        if self.low is None or self.high is None:
            return amount is None or self.low is not None
        return amount is not None and self.low <= amount <= self.high


@dataclass(frozen=True)
class Span:
    """A budget in the period [start, end), at an instant within it."""

    budget: Budget
    start: int
    end: int
    now: int

    def rest(self, begin: int, end: int) -> int:
        """The seconds of [begin, end) that lie in the period."""
        return max(0, min(end, self.end) - max(begin, self.start))


class Books:
    """What is believed at one moment, read once."""

    def __init__(self, unit: Unit, asked: Iterable[str]) -> None:
        self.usages: dict[str, list[Usage]] = {}
        for usage in unit.usage.iter_overlapping(0, 2**40):
            self.usages.setdefault(usage.node_id, []).append(usage)
        self.nodes = unit.nodes.find_many({*asked, *self.usages})
        self.dirty = any(node_id.dirty for some in self.usages.values() for node_id in some)
        """Whether it is known that something is still to be posted."""


@dataclass
class Allowance:
    """It is told what callers said and which prices there are; of the service it reads what it
    believes that ran, and how far its ledger has come."""

    payers: AllocationOracle
    entered: Sequence[Price]
    """Grows as prices are entered."""
    admitted: dict[str, Admitted] = field(default_factory=dict)
    """By node: how it was admitted last."""
    _papers: dict[int, ReferenceLedger] = field(default_factory=dict)
    _priced: dict[tuple[object, ...], list[tuple[int, list[Stretch]]]] = field(default_factory=dict)
    _rates: dict[tuple[object, ...], int | None] = field(default_factory=dict)

    def spent(self, books: Books, span: Span) -> int:
        """Nano-dollars that were spent in a period up to now, exactly."""
        total = 0
        for node_id in books.usages:
            self.payers.begin(books.nodes[node_id])
            total += self._charged(books, node_id, span.budget, span.start, lambda _: span.now)
        return total

    def taken(self, books: Books, span: Span) -> Bounds:
        """What is spent and set aside for all nodes of a budget."""
        return self._sum(books, span, self._taken_by)

    def held(self, books: Books, span: Span) -> Bounds:
        """What its nodes may cost from now on."""
        return self._sum(books, span, self._ahead)

    def admit(self, node_id: str, asked: Asked, now: int) -> None:
        """A node may cost what it does by the prices of now."""
        self.admitted[node_id] = Admitted(now, asked, self.rate(asked, now))

    def wanted(self, asked: Asked, span: Span) -> Bounds:
        """What a node that is asked for now may cost in the period."""
        end = span.end if asked.ttl is None else span.now + asked.ttl
        rate = self.rate(asked, span.now)
        return _ahead_at(rate, rate, span, end)

    def rate(self, asked: Asked, at: int) -> int | None:
        """The dearest of all that it may be made of, in nano-dollars an hour."""
        key = asked, at, len(self.entered)
        if key not in self._rates:
            self._rates[key] = self._dearest(asked, at)
        return self._rates[key]

    def _dearest(self, asked: Asked, at: int) -> int | None:
        rates = []
        for name, chips, zone in asked.options:
            generation = {"v5litepod": "v5e"}.get(name.split("-")[0], name.split("-")[0])
            unit = "device_hour" if name in BY_DEVICE else "chip_hour"
            region = region_of(zone)
            nanos = self._paper.dearest(Ware(generation, asked.model, unit, region), at)
            beside: int | None = 0
            if asked.machine is not None:
                ware = Ware(asked.machine[0], asked.machine[1], "vm_hour", region)
                beside = self._paper.dearest(ware, at)
            if nanos is None or beside is None:
                return None
            rates.append(chips * nanos + beside)
        return max(rates)

    @property
    def _paper(self) -> ReferenceLedger:
        count = len(self.entered)
        if count not in self._papers:
            self._papers = {count: ReferenceLedger(self.entered, ())}
        return self._papers[count]

    def _sum(self, books: Books, span: Span, of: Callable[[Books, str, Span], Bounds]) -> Bounds:
        total = Bounds(0, 0)
        for node_id in books.nodes:
            self.payers.begin(books.nodes[node_id])
            total = total.beside(of(books, node_id, span))
        return total

    def _taken_by(self, books: Books, node_id: str, span: Span) -> Bounds:
        """What the ledger holds of a node, what it does not hold yet, and what lies ahead."""
        behind, budget = self._behind(books, node_id, span), span.budget
        start = floor_to(span.start, HOUR)  # an hour that a time zone cuts may count as a whole
        posted = self._charged(books, node_id, budget, start, lambda one: _posted(one, span.now))
        exactly = self._charged(books, node_id, budget, span.start, lambda _: span.now)
        sure = self._charged(books, node_id, budget, span.start, lambda one: _posted(one, span.now))
        ahead = self._ahead(books, node_id, span)
        if behind.low is None or behind.high is None:
            return behind
        now = Bounds(sure + min(exactly - sure, behind.low), posted + behind.high)
        return now.beside(ahead)

    def _behind(self, books: Books, node_id: str, span: Span) -> Bounds:
        """What ran and is not posted, at the rates that it may be held at."""
        unposted = _unposted(books.usages.get(node_id, ()), span.now)
        node = books.nodes[node_id]
        if unposted is None or node.has_ended:
            return Bounds(0, 0)
        mine = sum(
            span.rest(max(since, unposted), min(until, span.now))
            for since, until, payer in self.payers.stretches(node_id)
            if max(since, unposted) < min(until, span.now) and counts(span.budget.scope, payer)
        )
        whole = mine
        if counts(span.budget.scope, self.payers.now(node_id)):
            whole = span.rest(unposted, span.now)  # as if all of it had been theirs
        low, high = self._rates_of(books, node_id, span.now)
        most = _worst(high, whole)
        return Bounds(_worst(low, mine), None if most is None else most + 2 * ONE_NANO)

    def _ahead(self, books: Books, node_id: str, span: Span) -> Bounds:
        node = books.nodes[node_id]
        stays = node.asked == "stopped" and node.state == "STOPPED"
        if node.has_ended or stays or not counts(span.budget.scope, self.payers.now(node_id)):
            return Bounds(0, 0)
        rates = self._rates_of(books, node_id, span.now)
        return _ahead_at(*rates, span, self._end(books, node_id, span))

    def _end(self, books: Books, node_id: str, span: Span) -> int:
        """When it is over at the latest, by what was asked."""
        node, ttl = books.nodes[node_id], self._admitted(books, node_id, span.now).asked.ttl
        if ttl is None:
            return span.end
        return span.now + ttl if node.ready_at is None else max(span.now, node.ready_at + ttl)

    def _admitted(self, books: Books, node_id: str, now: int) -> Admitted:
        if node_id in self.admitted:
            return self.admitted[node_id]
        asked = Asked.of(books.nodes[node_id])
        return Admitted(now, asked, self.rate(asked, now))

    def _rates_of(self, books: Books, node_id: str, now: int) -> tuple[int | None, int | None]:
        """The least and the most that it may be held at: a price that rose since it was admitted
        may have been noticed, and one that fell is not."""
        at, asked, first = self._admitted(books, node_id, now)
        since = [
            node_id.effective_from
            for node_id in self.entered
            if at <= node_id.effective_from <= now
        ]
        known = [rate for instant in since if (rate := self.rate(asked, instant)) is not None]
        return first, None if first is None else max([first, *known])

    def _charged(
        self,
        books: Books,
        node_id: str,
        budget: Budget,
        start: int,
        until: Callable[[Usage], int],
    ) -> int:
        """What a node was charged in a budget's name from `start` until an instant."""
        node, total = books.nodes[node_id], 0
        for usage in books.usages.get(node_id, ()):
            end = until(usage) if usage.end is None else min(usage.end, until(usage))
            for left, right, payer in self.payers.stretches(node_id):
                begin, over = max(left, start, usage.start), min(right, end)
                if begin < over and counts(budget.scope, payer):
                    for units, stretches in self._lines(node, usage):
                        upto = round(worth(stretches, units, over))
                        total += upto - round(worth(stretches, units, begin))
        return total

    def _lines(self, node: Node, usage: Usage) -> list[tuple[int, list[Stretch]]]:
        """An interval's TPU and machine, as if it went on for long."""
        key = usage.id, usage.start, usage.free, len(self.entered)
        if key not in self._priced:
            whole = replace(usage, end=usage.start + FAR)
            tpu = [] if usage.free else self._paper.of_tpu(node, whole)
            lines = [(usage.chips, tpu), (1, self._paper.of_vm(node, whole))]
            self._priced[key] = [(units, some) for units, some in lines if some]
        return self._priced[key]


def chips_of(name: str) -> int:
    """The chips of an accelerator type of one of the generations that are asked for here."""
    generation, _, number = name.rpartition("-")
    return int(number) // 2 if generation in CORES else int(number)


def payer_of(request: RequestedNode) -> Payer:
    """Whom what is requested for is charged to."""
    return Payer(request.project, request.team, request.owner, request.labels)


def _posted(usage: Usage, now: int) -> int:
    """Up to when the ledger holds an interval."""
    return min(usage.posted_until, now)


def _unposted(usages: Iterable[Usage], now: int) -> int | None:
    """Where the part of a node's usage begins that the ledger does not hold."""
    starts = [usage.posted_until for usage in usages if usage.end is None or usage.dirty]
    return min([now, *starts]) if starts else None


def _ahead_at(low: int | None, high: int | None, span: Span, end: int) -> Bounds:
    """What runs from now to `end`, and at most for as long as a deletion takes."""
    least, most = span.rest(span.now, end), span.rest(span.now, end + OVERRUN_SECONDS)
    return Bounds(_worst(low, least), _worst(high, most))


def _worst(rate: int | None, seconds: int) -> int | None:
    """Nano-dollars, rounded up; None where nobody knows."""
    if rate is None:
        return None if seconds else 0
    return -(-rate * seconds // HOUR)
