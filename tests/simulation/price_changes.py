"""Prices change and nodes change hands while the fleet lives; at the end every cent is checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from service.application.costs.costs import CostQuestion, CostService
from service.application.nodes.nodes import NodeChange, NodeService
from service.application.pricing.prices import PriceService
from service.domain.clock import DAY, HOUR, floor_to, to_rfc3339
from service.domain.errors import BudgetExceeded, Conflict
from service.domain.metering.attribution import Reattribution
from service.domain.metering.reservation import Reservation
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import Price
from service.store.ledger import PostedLine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.api_front import ApiFront
from tests.simulation.audit import Audit, Rows
from tests.simulation.buyer import Buyer
from tests.simulation.client_retries import RetryingClients
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Violation
from tests.simulation.reference_ledger import ReferenceLedger, worth

TEAMS = ("vision", "nlp", "speech", "")
REGIONS = ("us-west4", "us-east5", "europe-west4")
SERIES = (
    ("v5e", "calendar", "chip_hour"),
    ("v5e", "reserved", "chip_hour"),
    ("v6e", "calendar", "chip_hour"),
    ("v6e", "on_demand", "chip_hour"),
    ("n1-standard-8", "on_demand", "vm_hour"),
    ("n1-standard-8", "spot", "vm_hour"),
    ("n2-standard-8", "on_demand", "vm_hour"),
)
"""What else has prices that change: of some, none is known before."""
EVERYTHING = ("team", "node", "generation")
PATIENCE = 1_200
"""Seconds within which a daemon that nothing happens to has posted what is due."""


@dataclass
class PriceChanges:
    """The lab's finance department."""

    agenda: Agenda
    units: Units
    nodes: NodeService | ApiFront | RetryingClients
    buyer: Buyer
    luck: Random
    changes_per_hour: float
    teams: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """By node: from when on it is which team's; before the first, that of who asked."""
    entered: list[Price] = field(default_factory=list)
    _looked_at: int = 0

    def __post_init__(self) -> None:
        shared = self.units, PriceBookCache(), self.agenda.seconds
        self.prices, self.costs = PriceService(*shared), CostService(*shared)
        self.reservations = self.buyer.service
        self.began = self.agenda.seconds()

    def begin(self, hours: float, others: Random) -> None:
        """Prices change now and then, for all the time that the fleet lives; of what is rarely
        used, by a luck of their own."""
        self._often(self.luck, hours, self._change_a_price)
        self._often(others, hours, lambda: self._change_another(others))

    def mind(self, node: Node, hours: float) -> None:
        """That node changes hands a few times."""
        if self.changes_per_hour:
            for _ in range(self.luck.choice([0, 1, 2, 3])):
                self.agenda.after(self.luck.uniform(0, hours * HOUR), lambda: self._hand_on(node))

    def look(self, nodes: Sequence[Node]) -> None:
        """In the middle of it all, when a daemon has posted: once an hour, what has become of the
        reservations."""
        now = self.agenda.seconds()
        if not self.buyer.standing or floor_to(now, HOUR) == self._looked_at:
            return
        with self._audit() as audit:
            if any(usage.dirty for usage in audit.unit.usage.iter_overlapping(0, 2**40)):
                return  # it is known that something is still to be posted
            for purchase in self.buyer.standing:
                until = audit.unit.usage.get_purchase(purchase.id).posted_until
                audit.check_reservation(purchase, nodes, until)
        self._looked_at = floor_to(now, HOUR)
        self._told()

    def check(self, nodes: Sequence[Node]) -> None:
        """Every amount is units x seconds x price, each team pays for its own seconds, and every
        way to ask comes to the same figures."""
        with self._audit() as audit:
            book = PriceBookCache().get_book(audit.unit)
            for node in nodes:
                audit.check_node(node)
                self._check_node(node, audit.rows.of(node.id))
                audit.check_teams(node, self.teams[node.id])
                audit.check_replay(audit.unit.usage.list_by_node(node.id), book)
            for purchase in self.buyer.written:
                audit.check_replay([audit.unit.usage.get_purchase(purchase.id)], book)
                audit.check_owner(purchase)
                if purchase.id in self.buyer.withdrawn:
                    audit.check_withdrawn(purchase, nodes)
                else:
                    self._check_posted(audit, purchase, nodes)
        told = self._told()
        with self.units() as unit:
            unit.costs.rebuild()
        if self._told() != told:
            raise Violation("the rollup is another when it is made anew")

    @contextmanager
    def _audit(self) -> Iterator[Audit]:
        with self.units.reading() as unit:
            paper = ReferenceLedger(self.entered, self.buyer.standing)
            yield Audit(unit, paper, Rows(unit, self.entered))

    def _check_posted(self, audit: Audit, one: Reservation, nodes: Sequence[Node]) -> None:
        """A reservation is posted as far as hours are closed, and what is told of it is so."""
        now = self.agenda.seconds()
        until = audit.unit.usage.get_purchase(one.id).posted_until
        if until < min(one.end, floor_to(now - PATIENCE, HOUR)):
            raise Violation(f"{one.name} is posted up to {until} only, and it is {now}")
        audit.check_reservation(one, nodes, until)
        used = sum(
            line.amount_nanos
            for node in nodes
            for line in audit.rows.of(node.id)
            if line.reservation_id == one.id
        )
        cost, whole = (
            round(worth(audit.paper.of_reservation(one, end), one.chips)) for end in (now, one.end)
        )
        shown = self.reservations.get(one.id)
        told = shown.cost, shown.unused, whole if shown.whole is None else shown.whole
        if told != (cost, cost - used, whole):
            raise Violation(f"{one.name} is told to cost {told}, not {(cost, cost - used, whole)}")

    def _check_node(self, node: Node, lines: Sequence[PostedLine]) -> None:
        """What a node is said to cost is what it was charged."""
        told, charged = self.nodes.get_cost(node.id).cost, sum(line.amount_nanos for line in lines)
        if told != charged:
            raise Violation(f"{node.id} is told to cost {told}, and is charged {charged}")

    def _told(self) -> object:
        """What reports say: the same by rollup as by usage."""
        first = min([self.began, *(purchase.start for purchase in self.buyer.written)])
        window = f"{to_rfc3339(floor_to(first, DAY))},2100-01-01T00:00:00Z"
        by_rollup = self._sums(CostQuestion(window, EVERYTHING))
        by_usage = self._sums(CostQuestion(window, EVERYTHING, tz="Asia/Kolkata"))
        if by_rollup != by_usage:
            raise Violation(f"the rollup says {by_rollup}, the usage {by_usage}")
        return by_rollup

    def _sums(self, question: CostQuestion) -> tuple[dict[tuple[str, ...], list[int]], int]:
        report = self.costs.report(question)
        sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in report.rows:
            for index, figure in enumerate((row.cost, row.list_cost, row.chip_seconds)):
                sums[row.group][index] += figure
        some = {group: figures for group, figures in sums.items() if any(figures)}
        return some, report.unpriced_seconds

    def _often(self, luck: Random, hours: float, happen: Callable[[], None]) -> None:
        if not self.changes_per_hour:
            return
        when = luck.expovariate(self.changes_per_hour) * HOUR
        while when < hours * HOUR:
            self.agenda.after(when, happen)
            when += luck.expovariate(self.changes_per_hour) * HOUR

    def _change_a_price(self) -> None:
        model = self.luck.choice(["on_demand", "spot"])
        region = self.luck.choice(REGIONS)
        self._enter("v5e", model, "chip_hour", region, self.luck.randint(1, 3_000_000_000))

    def _change_another(self, luck: Random) -> None:
        what, model, unit = luck.choice(SERIES)
        region = "us-central1" if unit == "vm_hour" else luck.choice(REGIONS[:2])
        self._enter(what, model, unit, region, luck.randint(1, 3_000_000_000))

    def _enter(self, what: str, model: str, unit: str, region: str, nanos: int) -> None:
        source = "the finance department"
        price = Price("", what, model, unit, region, nanos, effective_from=0, source=source)
        self.entered.append(self.prices.add(price).price)

    def _hand_on(self, node: Node) -> None:
        team = self.luck.choice(TEAMS)
        try:
            after = self.nodes.update(node.id, NodeChange(Reattribution(team=team)))
        except Conflict:
            return  # it is no more
        except BudgetExceeded:
            return  # who would pay cannot; whether that is so was seen to
        with self.units.reading() as unit:
            latest = unit.attributions.list_by_node(after.id)[-1]
        # While a job pays, the node's own team is another: it counts from now on, unseen.
        change = (self.agenda.seconds(), team) if latest.job else (latest.since, latest.team)
        if change[0] and change not in self.teams[node.id]:
            self.teams[node.id].append(change)
