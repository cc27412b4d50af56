"""The page of a node's ledger: the lines that one figure of its costs is the sum of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.application.services import Services
from service.dashboard.amounts import Amount, amount_of, places_of
from service.dashboard.figures import Moment, moment
from service.dashboard.question import Asked
from service.dashboard.sums import LineRow, row_of_line
from service.domain.attribution import Attribution
from service.domain.dimension import condition_of, label_key
from service.domain.node import Node
from service.store.ledger import Line

LINES_SHOWN = 1_000
"""More than a month of hours; what is left out is one sum more."""

_BATCH = 1_000
_WHO = ("team", "owner", "job")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line, and who is charged for it."""

    line: LineRow
    amount: Amount
    who: str


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Everything on the page: lines, what is not in them, and the figure that both come to.

    `start` and `end` are None where all of the node's time counts.
    """

    node_id: str
    name: str
    start: Moment | None
    end: Moment | None
    filters: str
    total: Amount
    posted: Amount
    rest: Amount | None
    lines: tuple[Entry, ...]
    earlier: int
    earlier_amount: Amount
    costs: str
    json: str
    as_of: Moment


def ledger_of(services: Services, node_id: str, asked: Asked | None) -> LedgerPage:
    """The lines of a node, or of its part in the answer to a question. Raises NotFound for a node
    that is not there, Rejected where the question makes no sense."""
    node, lines = services.nodes.get(node_id), lines_of(services, node_id)
    whose = {one.since: one for one in services.explanations.whose(node_id)}
    start = end = None
    if asked is None:
        cost = services.nodes.cost(node_id)
        total, as_of = cost.cost, cost.as_of
    else:
        mine = replace(asked, aggregate=(), only=(*asked.only, condition_of("node", node_id)))
        question = mine.to_question()
        report = services.costs.report(question)
        total, as_of = report.total, report.as_of
        start, end = moment(report.window.start), moment(report.window.end)
        lines = [
            line
            for line in lines
            if report.window.start <= line.charge_start < report.window.end
            and _counts(whose[line.since], question.only)
        ]
    return _page(node, lines, whose, _Frame(asked, start, end, total, as_of))


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the lines are to come to, and of which time."""

    asked: Asked | None
    start: Moment | None
    end: Moment | None
    total: int
    as_of: int


def _page(
    node: Node,
    lines: Sequence[Line],
    whose: Mapping[int, Attribution],
    frame: _Frame,
) -> LedgerPage:
    posted = sum(line.amount_nanos for line in lines)
    places = places_of((line.amount_nanos for line in lines), (frame.total,))
    hidden, shown = lines[:-LINES_SHOWN], lines[-LINES_SHOWN:]
    rest = frame.total - posted
    asked = frame.asked or Asked()
    return LedgerPage(
        node_id=node.id,
        name=node.name,
        start=frame.start,
        end=frame.end,
        filters=", ".join(asked.only),
        total=amount_of(frame.total, places),
        posted=amount_of(posted, places),
        rest=amount_of(rest, places) if rest else None,
        lines=tuple(
            Entry(
                row_of_line(line, node.spec.chips, places),
                amount_of(line.amount_nanos, places),
                _who(whose[line.since]),
            )
            for line in reversed(shown)
        ),
        earlier=len(hidden),
        earlier_amount=amount_of(sum(line.amount_nanos for line in hidden), places),
        costs="" if frame.asked is None else asked.by("node").page,
        json=f"/v1/nodes/{node.id}/ledger",
        as_of=moment(frame.as_of),
    )


def lines_of(services: Services, node_id: str) -> list[Line]:
    """Every line of a node in the order in which it was posted; raises NotFound."""
    found: list[Line] = []
    while batch := services.nodes.ledger(node_id, found[-1].id if found else 0, _BATCH):
        found += batch
    return found


def _who(whose: Attribution) -> str:
    return ", ".join(name for name in (whose.team, whose.owner) if name) or "nobody by name"


def _counts(whose: Attribution, only: Mapping[str, Sequence[str]]) -> bool:
    """Whether a line of that attribution is what was asked for, as far as that is by whom."""
    for name, values in only.items():
        key = label_key(name)
        if not key and name not in _WHO:
            continue
        value = whose.labels.get(key, "") if key else getattr(whose, name)
        if value not in values:
            return False
    return True
