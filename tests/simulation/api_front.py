"""The desk at which callers are served while there are budgets: one that is slow, and may die.

Between any two transactions of a request others may come in. What it grants and what it refuses is
judged at once, in the very state in which it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sqlalchemy import Engine

from service.application.nodes.nodes import CreatedNode, NodeChange, NodeService
from service.domain.clock import Clock
from service.domain.errors import BudgetExceeded
from service.domain.idempotency import RequestKey
from service.domain.lease import Lease
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests.fakes import Killed
from tests.simulation.admission_oracle import AdmissionOracle
from tests.simulation.clock import Agenda

SLOW, SLOWEST = 0.4, 5.0
"""How often somebody waits before a transaction, and how many seconds at most."""
DIES = 0.02
"""The share of the requests that are granted of which the caller hears nothing."""


@dataclass(frozen=True)
class Errand:
    """What somebody came for."""

    verb: str
    node_id: str = ""
    request: RequestedNode | None = None
    change: Reattribution | None = None


class Visit(Units):
    """The units of work of one request, watched by the judge."""

    def __init__(self, desk: ApiFront, errand: Errand) -> None:
        super().__init__(desk.engine)
        self._desk = desk
        self._errand = errand

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        self._desk.wait()
        added: list[Node] = []
        changed: list[Node] = []
        try:
            with super().__call__(lease) as unit:
                _watch(unit, added, changed)
                yield unit
        except BudgetExceeded as error:
            self._judge_refusal(error)
            raise
        self._judge(added, changed)
        if added and self._desk.dies():
            raise Killed

    def _judge(self, added: list[Node], changed: list[Node]) -> None:
        judge = self._desk.judge
        for node in added:
            assert self._errand.request is not None
            judge.granted(node, self._errand.request)
        for node in changed:
            if self._errand.change is not None:
                judge.moved(node, self._errand.change)
            elif self._errand.verb == "start":
                judge.started(node)

    def _judge_refusal(self, error: BudgetExceeded) -> None:
        judge, errand = self._desk.judge, self._errand
        if errand.request is not None:
            judge.refused(errand.request, error)
        elif errand.change is not None:
            judge.not_moved(errand.node_id, errand.change, error)
        else:
            judge.not_started(errand.node_id, error)


@dataclass
class ApiFront:
    """Answers as the service does; requests that died are told again with the same key."""

    agenda: Agenda
    engine: Engine
    judge: AdmissionOracle
    luck: Random
    projects: Sequence[str]
    clock: Clock
    calm: bool = False
    prices: PriceBookCache = field(default_factory=PriceBookCache)

    def request(self, wanted: RequestedNode, *, key: RequestKey) -> CreatedNode:
        """Ask for a node; raises BudgetExceeded."""
        while True:
            try:
                return self._service(Errand("request", request=wanted)).request(wanted, key=key)
            except Killed:
                self.agenda.pass_(self.luck.uniform(1, 20))

    def update(self, node_id: str, wanted: NodeChange) -> Node:
        """Have somebody else be charged; raises BudgetExceeded."""
        errand = Errand("update", node_id, change=wanted.whose)
        return self._service(errand).update(node_id, wanted)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def ask(node_id: str, *more: Any) -> Any:
            return getattr(self._service(Errand(verb, node_id)), verb)(node_id, *more)

        return ask

    def wait(self) -> None:
        """Somebody may come in between."""
        if not self.calm and self.luck.random() < SLOW:
            self.agenda.pass_(self.luck.random() * SLOWEST)

    def dies(self) -> bool:
        return not self.calm and self.luck.random() < DIES

    def _service(self, errand: Errand) -> NodeService:
        return NodeService(Visit(self, errand), self.prices, self.clock, self.projects)


def _watch(unit: Unit, added: list[Node], changed: list[Node]) -> None:
    """Note which nodes a unit of work makes and changes."""
    add, save = unit.nodes.add, unit.nodes.save

    def adding(node: Node, job: str = "") -> None:
        add(node, job)
        added.append(node)

    def saving(node: Node) -> Node:
        changed.append(save(node))
        return changed[-1]

    unit.nodes.add, unit.nodes.save = adding, saving  # type: ignore[method-assign]
