"""Every row of the ledger and every sum of them, held against what is owed on paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from service.domain.clock import HOUR, floor_to
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import (
    LedgerEntry,
    LedgerSlot,
    PostedSlot,
    desired_entries,
    subtract_used,
)
from service.domain.metering.line_items import lines_of
from service.domain.metering.meter import Meter, Usage
from service.domain.metering.reservation import Reservation
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import Price, PriceBook
from service.domain.pricing.shipped_prices import embedded_prices
from service.store.ledger import PostedLine
from service.store.unit import Unit
from tests.simulation.invariants import Violation
from tests.simulation.reference_ledger import ReferenceLedger, Stretch, seconds, within, worth

OF_RESERVATION = "+reservation/"
TPU, VM = "TPU", "VM"


class Rows:
    """The rows of the ledger, each with the price list that it was charged by."""

    def __init__(self, unit: Unit, entered: Iterable[Price]) -> None:
        self._ledger = unit.ledger
        self._prices = {price.id: price for price in (*embedded_prices(), *entered)}

    def of(self, owner: str) -> Sequence[PostedLine]:
        """Those of a node, or of what nobody used of a reservation."""
        lines = self._ledger.list_by_node(owner, 0, 100_000)
        for line in lines:
            self._check(line)
        return lines

    def kind(self, line: PostedLine) -> str:
        """What it is charged for."""
        return VM if self._listed(line).unit == "vm_hour" else TPU

    def _listed(self, line: PostedLine) -> Price:
        price = self._prices.get(line.price_id.partition(OF_RESERVATION)[0])
        if price is None:
            raise Violation(f"line {line.id} has the price {line.price_id}, which is in no list")
        return price

    def _check(self, line: PostedLine) -> None:
        """It says what was used, at the price of the list, to the rounding of its interval."""
        price = self._listed(line)
        if line.price_nanos != price.per_chip_hour:
            raise Violation(f"line {line.id} has another price than {price.id}")
        if (line.reservation_id or "") != line.price_id.partition(OF_RESERVATION)[2]:
            raise Violation(f"line {line.id} is of {line.reservation_id}, by {line.price_id}")
        units = line.vm_seconds if self.kind(line) == VM else line.chip_seconds
        if line.node_id != line.reservation_id:
            alone = Fraction(units * line.price_nanos, HOUR)
            if abs(line.amount_nanos - alone) > 2:
                raise Violation(f"line {line.id} is {line.amount_nanos}, its sum {alone}")


@dataclass
class Audit:
    """The books of one moment, in one transaction."""

    unit: Unit
    paper: ReferenceLedger
    rows: Rows

    def check_node(self, node: Node) -> None:
        """Each interval is charged what it is worth, line by line, and no second of it twice."""
        intervals = self.unit.usage.list_by_node(node.id)
        charged: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for line in self.rows.of(node.id):
            sums = charged[line.usage_id, self.rows.kind(line)]
            sums[0] += line.amount_nanos
            sums[1] += line.chip_seconds or line.vm_seconds
        for usage in intervals:
            tpu = self.tpu(node, usage)
            vm = self.paper.of_vm(node, usage)
            for kind, some, units in ((TPU, tpu, usage.chips), (VM, vm, 1)):
                owed = [round(worth(some, units)), units * seconds(some, priced=True)]
                if charged.pop((usage.id, kind), [0, 0]) != owed:
                    raise Violation(f"the {kind} of {usage.id} is worth {owed}, not what is said")
            unknown = seconds(tpu, priced=False) + seconds(vm, priced=False)
            if usage.unpriced_seconds != unknown:
                raise Violation(f"{unknown} seconds of {usage.id} have no price, not so many")
        if charged:
            raise Violation(f"{node.id} is charged for what is not its: {dict(charged)}")
        _check_overlaps(node, intervals)

    def tpu(self, node: Node, usage: Usage) -> list[Stretch]:
        """What is owed for an interval as a TPU."""
        return [] if usage.free else self.paper.of_tpu(node, usage)

    def check_teams(self, node: Node, shifts: Sequence[tuple[int, str]]) -> None:
        """Each team is charged for the chips of its own seconds; `shifts` are (since, team). While
        a job holds the node, the team of the job is; that is held against the truth elsewhere."""
        owed: dict[str, int] = defaultdict(int)
        shifts = _lent([(0, node.team), *shifts], self.unit.attributions.list_by_node(node.id))
        edges = [*(since for since, _ in shifts), 2**40]
        teams = [team for _, team in shifts]
        for (left, right), team in zip(pairwise(edges), teams, strict=True):
            for usage in self.unit.usage.list_by_node(node.id):
                part = within(self.tpu(node, usage), left, right)
                owed[team] += usage.chips * seconds(part, priced=True)
        self._check_shares(node.id, owed)

    def check_reservation(self, one: Reservation, nodes: Iterable[Node], until: int) -> None:
        """What was used of it and what was not are the whole, in each hour up to that instant."""
        own, theirs = self._by_hour(one, [one.id]), self._by_hour(one, [n.id for n in nodes])
        stretches = self.paper.of_reservation(one, until)
        for start, end in _hours(one.start, until):
            whole = [
                round(worth(stretches, one.chips, end)) - round(worth(stretches, one.chips, start)),
                one.chips * seconds(within(stretches, start, end), priced=True),
            ]
            hour = floor_to(start, HOUR)
            unused, used = own.pop(hour, [0, 0]), theirs.get(hour, [0, 0])
            if [unused[0] + used[0], unused[1] + used[1]] != whole:
                raise Violation(
                    f"{one.name} costs {whole} in the hour {hour}; {used} used, {unused} not"
                )
        if any(any(sums) for sums in own.values()):
            raise Violation(f"{one.name} is charged beyond {until}: {own}")

    def check_withdrawn(self, one: Reservation, nodes: Iterable[Node]) -> None:
        """Nothing is left of what a record charged that was withdrawn, in any hour."""
        for ids in ([one.id], [node.id for node in nodes]):
            left = {hour: sums for hour, sums in self._by_hour(one, ids).items() if any(sums)}
            if left:
                raise Violation(f"{one.name} was withdrawn, and charges {left}")

    def check_owner(self, one: Reservation) -> None:
        """What nobody used is charged to the team that bought it."""
        owed = sum(line.chip_seconds for line in self.rows.of(one.id))
        self._check_shares(one.id, {one.team: owed})

    def check_replay(self, usages: Iterable[Usage], book: PriceBook) -> None:
        """An empty ledger that is written from what is believed now says what this one says."""
        for usage in usages:
            assert usage.end is not None
            whose = self.unit.attributions.list_by_node(usage.node_id)
            for line in lines_of(usage):
                until = usage.posted_until if usage.is_purchase else usage.end
                meter = Meter(line, book, until, whose)
                wanted = desired_entries(meter, usage.start, meter.end)
                if usage.is_purchase:
                    wanted = subtract_used(wanted, self.unit.ledger.sum_used(usage.node_id, 0))
                anew, kept = _sums(wanted), _sums(self.unit.ledger.sum_by_slot(line, 0))
                if anew != kept:
                    raise Violation(f"{usage.id}: {kept} in the ledger, {anew} when replayed")

    def _by_hour(self, one: Reservation, owners: Iterable[str]) -> dict[int, list[int]]:
        """(nano-dollars, chip-seconds) that are charged to these in a reservation."""
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for owner in owners:
            for line in self.rows.of(owner):
                if line.reservation_id == one.id:
                    of_hour = sums[floor_to(line.charge_start, HOUR)]
                    of_hour[0] += line.amount_nanos
                    of_hour[1] += line.chip_seconds
        return sums

    def _check_shares(self, owner: str, owed: Mapping[str, int]) -> None:
        rows = self.unit.costs.sum_by_day(0, 2**40, ("team",), {"node_id": [owner]})
        charged: dict[str, int] = defaultdict(int)
        for _, (team,), _, chip_seconds, _ in rows:
            charged[team] += chip_seconds
        if {k: v for k, v in owed.items() if v} != {k: v for k, v in charged.items() if v}:
            raise Violation(f"{owner}: teams owe {dict(owed)}, are charged {dict(charged)}")


def _lent(
    shifts: Sequence[tuple[int, str]], stored: Sequence[Attribution]
) -> list[tuple[int, str]]:
    """(since, team), with the seconds in which a job holds the node."""
    until = [*(line.since for line in stored[1:]), 2**40]
    found = list(shifts)
    for one, end in zip(stored, until, strict=True):
        if one.job and one.since > 0:
            after = [team for since, team in found if since <= end][-1]
            outside = [shift for shift in found if not one.since <= shift[0] <= end]
            found = sorted([*outside, (one.since, one.team), (end, after)])
    return found


def _sums(
    slots: Mapping[LedgerSlot, LedgerEntry | PostedSlot],
) -> dict[LedgerSlot, tuple[int, int, int]]:
    """What slots hold, but for those that hold nothing."""
    sums = {slot: (one.amount, one.chip_seconds, one.vm_seconds) for slot, one in slots.items()}
    return {slot: figures for slot, figures in sums.items() if any(figures)}


def _check_overlaps(node: Node, intervals: Sequence[Usage]) -> None:
    """No second of a node, or of one of its slices, is charged twice."""
    ordered = sorted(intervals, key=lambda usage: (usage.slice, usage.start))
    for one, following in pairwise(ordered):
        assert one.end is not None
        if one.slice == following.slice and following.start < one.end:
            raise Violation(f"{node.id}: {one.id} and {following.id} overlap")


def _hours(start: int, end: int) -> Iterator[tuple[int, int]]:
    """[start, end) by UTC hours; none where that is nothing."""
    return pairwise(sorted({start, *range(floor_to(start, HOUR) + HOUR, end, HOUR), end}))
