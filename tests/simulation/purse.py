"""Prices change and nodes change hands while the fleet lives; at the end every cent is checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from random import Random

from service.application.costs import CostService, Question
from service.application.nodes import NodeService
from service.application.prices import PriceService
from service.domain.attribution import Reattribution
from service.domain.clock import HOUR
from service.domain.errors import Conflict
from service.domain.ledger import desired_entries
from service.domain.metering import Meter, Usage
from service.domain.node import Node
from service.domain.pricing import Price, embedded_prices, group_of
from service.domain.window import Granularity
from service.store.pricebook import PriceShelf
from service.store.unit import Units
from tests.simulation.clock import Agenda
from tests.simulation.truth import Violation

TEAMS = ("vision", "nlp", "speech", "")
REGIONS = ("us-west4", "us-east5", "europe-west4")
ON_PAPER = {"preemptible": "spot"}


@dataclass
class Purse:
    """The lab's finance department. It knows the price lists and how to multiply, and nothing of
    how the service does it."""

    agenda: Agenda
    units: Units
    nodes: NodeService
    luck: Random
    changes_per_hour: float
    teams: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """By node: from when on it is which team's; before the first, nobody's."""
    _entered: list[Price] = field(default_factory=list)

    def __post_init__(self) -> None:
        shared = self.units, PriceShelf(), self.agenda.seconds
        self.prices, self.costs = PriceService(*shared), CostService(*shared)

    def begin(self, hours: float) -> None:
        """Prices change now and then, for all the time that the fleet lives."""
        if not self.changes_per_hour:
            return
        when = self.luck.expovariate(self.changes_per_hour) * HOUR
        while when < hours * HOUR:
            self.agenda.after(when, self._change_a_price)
            when += self.luck.expovariate(self.changes_per_hour) * HOUR

    def mind(self, node: Node, hours: float) -> None:
        """That node changes hands a few times."""
        if self.changes_per_hour:
            for _ in range(self.luck.choice([0, 1, 2, 3])):
                self.agenda.after(self.luck.uniform(0, hours * HOUR), lambda: self._hand_on(node))

    def check(self, nodes: Sequence[Node]) -> None:
        """Every amount is chips x seconds x price, each team pays for its own seconds, and every
        way to ask comes to the same figures."""
        for node in nodes:
            with self.units.reading() as unit:
                intervals = unit.usage.of(node.id)
                lines = unit.ledger.of(node.id, 0, 100_000)
            amounts: dict[str, int] = defaultdict(int)
            for line in lines:
                alone = Fraction(line.chip_seconds * line.price_nanos, HOUR)
                if abs(line.amount_nanos - alone) > 2:  # it is rounded with its whole interval
                    raise Violation(f"line {line.id} is {line.amount_nanos}, its sum {alone}")
                amounts[line.usage_id] += line.amount_nanos
            for usage in intervals:
                worth = 0 if usage.free else round(self._worth(usage))
                if amounts[usage.id] != worth:
                    raise Violation(
                        f"{usage.id} is worth {worth} nano-dollars, the ledger says"
                        f" {amounts[usage.id]}"
                    )
            self._check_teams(node, intervals)
            self._check_overlaps(node, intervals)
        self._check_replay(nodes)
        self._check_reports()

    def _check_overlaps(self, node: Node, intervals: Sequence[Usage]) -> None:
        """No second of a node, or of one of its slices, is charged twice."""
        ordered = sorted(intervals, key=lambda usage: (usage.slice, usage.start))
        for one, following in pairwise(ordered):
            assert one.end is not None
            if one.slice == following.slice and following.start < one.end:
                raise Violation(f"{node.id}: {one.id} and {following.id} overlap")

    def _check_replay(self, nodes: Sequence[Node]) -> None:
        """An empty ledger that is written from what is believed now says what this one says."""
        with self.units.reading() as unit:
            book = PriceShelf().book(unit)
            for node in nodes:
                whose = unit.attributions.of(node.id)
                for usage in unit.usage.of(node.id):
                    assert usage.end is not None
                    meter = Meter(usage, book, usage.end, whose)
                    wanted = desired_entries(meter, usage.start, meter.end)
                    anew = {slot: (e.amount, e.chip_seconds) for slot, e in wanted.items()}
                    posted = unit.ledger.posted(usage.id, 0)
                    kept = {slot: (p.amount, p.chip_seconds) for slot, p in posted.items()}
                    kept = {slot: sums for slot, sums in kept.items() if any(sums)}
                    if anew != kept:
                        raise Violation(f"{usage.id}: {kept} in the ledger, {anew} when replayed")

    def _check_teams(self, node: Node, intervals: Sequence[Usage]) -> None:
        owed: dict[str, int] = defaultdict(int)
        for usage in intervals:
            changes = [since for since, _ in self.teams[node.id]]
            for left, right in _stretches(usage, changes):
                if not usage.free:
                    owed[self._team_at(node, left)] += usage.chips * (right - left)
        with self.units.reading() as unit:
            rows = unit.costs.by_day(0, 2**40, ("team",), {"node_id": [node.id]})
        charged: dict[str, int] = defaultdict(int)
        for _, (team,), _, chip_seconds, _ in rows:
            charged[team] += chip_seconds
        if {k: v for k, v in owed.items() if v} != {k: v for k, v in charged.items() if v}:
            raise Violation(f"{node.id}: teams owe {dict(owed)}, are charged {dict(charged)}")

    def _check_reports(self) -> None:
        asked = Question(window="2000-01-01,2100-01-01", aggregate=("team", "node"))
        by_rollup = self._sums(asked)
        by_usage = self._sums(
            Question(window="7d", aggregate=("team", "node"), step=Granularity.HOUR)
        )
        if by_rollup != by_usage:
            raise Violation(f"the rollup says {by_rollup}, the usage {by_usage}")
        with self.units() as unit:
            unit.costs.rebuild()
        if self._sums(asked) != by_rollup:
            raise Violation("the rollup is another when it is made anew")

    def _sums(self, question: Question) -> dict[tuple[str, ...], tuple[int, int]]:
        sums: dict[tuple[str, ...], tuple[int, int]] = {}
        for row in self.costs.report(question).rows:
            cost, listed = sums.get(row.group, (0, 0))
            sums[row.group] = cost + row.cost, listed + row.list_cost
        return {group: figures for group, figures in sums.items() if any(figures)}

    def _worth(self, usage: Usage) -> Fraction:
        """The exact price of an interval, second by price, as on paper."""
        model = ON_PAPER.get(usage.sku.model, usage.sku.model)
        listed = [
            price
            for price in (*embedded_prices(), *self._entered)
            if (price.generation, price.model, price.unit)
            == (usage.sku.generation, model, usage.sku.unit)
        ]
        own = [price for price in listed if price.region == usage.sku.region]
        group = [price for price in listed if price.region == group_of(usage.sku.region)]
        total = Fraction(0)
        for left, right in _stretches(usage, [price.effective_from for price in listed]):
            held = [p for p in own if p.effective_from <= left] or [
                p for p in group if p.effective_from <= left
            ]
            if held:
                latest = max(held, key=lambda p: (p.effective_from, p.recorded_at, p.id))
                total += Fraction(usage.chips * (right - left) * latest.per_chip_hour, HOUR)
        return total

    def _team_at(self, node: Node, instant: int) -> str:
        held = [team for since, team in self.teams[node.id] if since <= instant]
        return held[-1] if held else ""

    def _change_a_price(self) -> None:
        price = Price(
            id="",
            generation="v5e",
            model=self.luck.choice(["on_demand", "spot"]),
            unit="chip_hour",
            region=self.luck.choice(REGIONS),
            nanos=self.luck.randint(1, 3_000_000_000),
            effective_from=0,
            source="the finance department",
        )
        self._entered.append(self.prices.add(price))

    def _hand_on(self, node: Node) -> None:
        team = self.luck.choice(TEAMS)
        try:
            after = self.nodes.reattribute(node.id, Reattribution(team=team))
        except Conflict:
            return  # it is no more
        with self.units.reading() as unit:
            latest = unit.attributions.of(after.id)[-1]
        change = latest.since, latest.team
        if latest.since and change not in self.teams[node.id]:
            self.teams[node.id].append(change)


def _stretches(usage: Usage, instants: Sequence[int]) -> Iterator[tuple[int, int]]:
    """An interval cut at those instants that lie in it."""
    assert usage.end is not None
    within = {instant for instant in instants if usage.start < instant < usage.end}
    return pairwise(sorted({usage.start, usage.end, *within}))
