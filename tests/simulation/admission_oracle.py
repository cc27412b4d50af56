"""Says of every node that was granted, started, handed on or refused whether that was right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from service.domain.budgets.budget import Budget
from service.domain.errors import BudgetExceeded
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.node import Asked as Wanted
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.store.unit import Units
from tests.simulation.allocation_oracle import Payer, counts, span_of
from tests.simulation.allowance import Allowance, Asked, Books, Bounds, Span, payer_of
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Invariants

CAPS = {"refuse", "delete"}


@dataclass
class AdmissionOracle:
    """What was spent and is set aside never passes a cap by what is admitted, and nothing is
    refused that would not have passed one."""

    agenda: Agenda
    units: Units
    truth: Invariants
    allowance: Allowance
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """Those that are there, as their owners last set them."""
    admitted: int = 0
    """Under some budget that could have said no."""
    turned_away: int = 0

    @property
    def _now(self) -> int:
        return self.agenda.seconds()

    def granted(self, node: Node, request: RequestedNode) -> None:
        """A node was written down that nobody had asked for before."""
        self.allowance.payers.begin(node)
        self.allowance.admit(node.id, Asked.by(request), self._now)
        self._check_room(node.id, self._caps(self.allowance.payers.now(node.id)))

    def started(self, node: Node) -> None:
        """A node that was stopped is to run again: it is admitted anew."""
        self._ask_anew(node.id)
        self._check_room(node.id, self._caps(self.allowance.payers.now(node.id)))

    def moved(self, node: Node, change: Reattribution) -> None:
        """A node is charged to somebody else from now on."""
        before = self.allowance.payers.now(node.id)
        self.allowance.payers.hand_on(node.id, change, self._now)
        self._check_room(node.id, self._new_caps(node.id, before))

    def refused(self, request: RequestedNode, error: BudgetExceeded) -> None:
        """A request was not granted."""
        span, asked = self._named(error, payer_of(request)), Asked.by(request)
        with self.units.reading() as unit:
            books = Books(unit, self.allowance.admitted)
        whole = self.allowance.taken(books, span).beside(self.allowance.wanted(asked, span))
        self._check_full(books, span, whole)

    def not_started(self, node_id: str, error: BudgetExceeded) -> None:
        """A node stays stopped."""
        span = self._named(error, self.allowance.payers.now(node_id))
        before = self.allowance.admitted.get(node_id)
        self._ask_anew(node_id)
        with self.units.reading() as unit:
            books = Books(unit, self.allowance.admitted)
        books.nodes[node_id] = replace(books.nodes[node_id], asked=Wanted.PRESENT)
        self._check_full(books, span, self.allowance.taken(books, span))
        if before is not None:
            self.allowance.admitted[node_id] = before

    def not_moved(self, node_id: str, change: Reattribution, error: BudgetExceeded) -> None:
        """A node stays whose it was."""
        with self.allowance.payers.supposing(node_id, change, self._now):
            span = self._named(error, self.allowance.payers.now(node_id))
            with self.units.reading() as unit:
                books = Books(unit, self.allowance.admitted)
            self._check_full(books, span, self.allowance.taken(books, span))

    def _ask_anew(self, node_id: str) -> None:
        known = self.allowance.admitted.get(node_id)
        if known is not None:
            self.allowance.admit(node_id, known.asked, self._now)

    def _check_room(self, node_id: str, spans: Iterator[Span]) -> None:
        for span in spans:
            with self.units.reading() as unit:
                books = Books(unit, self.allowance.admitted)
            taken = self.allowance.taken(books, span)
            self.admitted += 1
            if books.dirty:
                continue  # what late truth adds is posted at the next turn
            if taken.low is None:
                raise self.truth.wrong(f"{node_id} was admitted, and nobody can tell what it costs")
            if taken.low > span.budget.amount:
                raise self.truth.wrong(
                    f"with {node_id}, {taken.low} of {span.budget.amount} is taken of the budget"
                    f" {span.budget.name!r}"
                )

    def _check_full(self, books: Books, span: Span, whole: Bounds) -> None:
        self.turned_away += 1
        if books.dirty or whole.high is None:
            return
        if whole.high <= span.budget.amount:
            raise self.truth.wrong(
                f"refused, though {whole.high} of {span.budget.amount} would be taken of the"
                f" budget {span.budget.name!r}"
            )

    def _named(self, error: BudgetExceeded, payer: Payer) -> Span:
        """The budget that said no, which must be one that may."""
        budget = self.budgets.get(str(error.facts["budget_id"]))
        if budget is None or budget.on_exceeded not in CAPS or not counts(budget.scope, payer):
            raise self.truth.wrong(f"a budget that has no say refused: {error}")
        span = self._span(budget)
        if span is None:
            raise self.truth.wrong(f"a budget that does not count now refused: {error}")
        return span

    def _caps(self, payer: Payer) -> Iterator[Span]:
        for budget in self.budgets.values():
            span = self._span(budget)
            if budget.on_exceeded in CAPS and span is not None and counts(budget.scope, payer):
                yield span

    def _new_caps(self, node_id: str, before: Payer) -> Iterator[Span]:
        for span in self._caps(self.allowance.payers.now(node_id)):
            if not counts(span.budget.scope, before):
                yield span

    def _span(self, budget: Budget) -> Span | None:
        return span_at(budget, self._now)


def span_at(budget: Budget, now: int) -> Span | None:
    """A budget in its period of that instant; None where it does not count then."""
    found = span_of(budget, now)
    return None if found is None else Span(budget, *found, now)
