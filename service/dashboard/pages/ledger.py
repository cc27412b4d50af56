"""The page of the ledger of a node, or of what nobody used of a reservation: the lines that one
figure of the costs is the sum of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from service.application.services import Services
from service.dashboard.kit.amounts import ExactAmount, amount_of, places_of
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import Moment, moment
from service.dashboard.kit.links import home_of_node, home_of_reservation
from service.dashboard.kit.worked_sum import LedgerLineRow, is_named, row_of_line, what_of
from service.domain.catalog.zones import region_of
from service.domain.costs.dimensions import ACTIVITY, condition_of, label_key
from service.domain.metering.attribution import Attribution
from service.store.ledger import PostedLine

LINES_SHOWN = 1_000
"""More than a month of hours; what is left out is one sum more."""

_BATCH = 1_000
_OF: Mapping[str, Callable[[PostedLine, Attribution], str]] = {
    "team": lambda _, whose: whose.team,
    "owner": lambda _, whose: whose.owner,
    "job": lambda _, whose: whose.job,
    "generation": lambda line, _: line.generation,
    "accelerator_type": lambda line, _: line.accelerator_type,
    "provisioning_model": lambda line, _: line.model,
    "zone": lambda line, _: line.zone,
    "region": lambda line, _: region_of(line.zone),
}
"""What may differ from line to line of one node."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One line, and who is charged for it."""

    line: LedgerLineRow
    amount: ExactAmount
    who: str


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Everything on the page: lines, what is not in them, and the figure that both come to.

    `home` is the page of what they are of, `unused` that it is what nobody used of that; `named`
    says that each line says of what it is; `start` and `end` are None where all of its time counts.
    """

    home: str
    name: str
    unused: bool
    start: Moment | None
    end: Moment | None
    filters: str
    named: bool
    total: ExactAmount
    posted: ExactAmount
    rest: ExactAmount | None
    lines: tuple[LedgerRow, ...]
    earlier: int
    earlier_amount: ExactAmount
    costs: str
    json: str
    as_of: Moment


def ledger_of(services: Services, node_id: str, asked: CostsAsked | None) -> LedgerPage:
    """The lines of a node, or of its part in the answer to a question. Raises NotFound for a node
    that is not there, Rejected where the question makes no sense."""
    node = services.nodes.get(node_id)
    home = home_of_node(node_id)
    lines = lines_of(services, node_id)
    subject = _Subject(node_id, node.name, node.spec.chips, home, lines, unused=False)

    def in_all() -> tuple[int, int]:
        cost = services.nodes.cost(node_id)
        return cost.cost, cost.as_of

    return _ledger(services, subject, asked, in_all)


def unused_ledger_of(
    services: Services, reservation_id: str, asked: CostsAsked | None
) -> LedgerPage:
    """The same of what nobody used of a reservation."""
    shown = services.reservations.get(reservation_id)
    home = home_of_reservation(reservation_id)
    lines = unused_lines_of(services, reservation_id)
    # Its lines are of as many chips as were left, so what they are of is told in chip-seconds.
    subject = _Subject(reservation_id, shown.reservation.name, 0, home, lines, unused=True)
    return _ledger(services, subject, asked, lambda: (shown.unused, shown.as_of))


@dataclass(frozen=True, slots=True)
class _Subject:
    """What the lines are of; `chips` is 0 where that may differ from line to line."""

    id: str
    name: str
    chips: int
    home: str
    lines: list[PostedLine]
    unused: bool


def _ledger(
    services: Services,
    subject: _Subject,
    asked: CostsAsked | None,
    in_all: Callable[[], tuple[int, int]],
) -> LedgerPage:
    """`in_all` tells its cost in all, and as of when."""
    whose = {one.since: one for one in services.explanations.whose(subject.id)}
    lines = subject.lines
    start = end = None
    if asked is None:
        total, as_of = in_all()
    else:
        # Lines are by the hour, and what a node did cuts them: that filter lets all of them count.
        only = [one for one in asked.only if not one.startswith(f"{ACTIVITY}:")]
        asked = replace(asked, only=tuple(only))
        mine = replace(asked, aggregate=(), only=(*only, condition_of("node", subject.id)))
        question = mine.to_question()
        report = services.costs.report(question)
        total, as_of = report.total, report.as_of
        start, end = moment(report.window.start), moment(report.window.end)
        lines = [
            line
            for line in lines
            if report.window.start <= line.charge_start < report.window.end
            and _counts(line, whose[line.since], question.only)
        ]
    return _page(subject, lines, whose, _Frame(asked, start, end, total, as_of))


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the lines are to come to, and of which time."""

    asked: CostsAsked | None
    start: Moment | None
    end: Moment | None
    total: int
    as_of: int


def _page(
    subject: _Subject,
    lines: Sequence[PostedLine],
    whose: Mapping[int, Attribution],
    frame: _Frame,
) -> LedgerPage:
    posted = sum(line.amount_nanos for line in lines)
    places = places_of((line.amount_nanos for line in lines), (frame.total,))
    hidden, shown = lines[:-LINES_SHOWN], lines[-LINES_SHOWN:]
    rest, named = frame.total - posted, is_named({what_of(line) for line in lines})
    asked = frame.asked or CostsAsked()
    return LedgerPage(
        home=subject.home,
        name=subject.name,
        unused=subject.unused,
        start=frame.start,
        end=frame.end,
        filters=", ".join(asked.only),
        named=named,
        total=amount_of(frame.total, places),
        posted=amount_of(posted, places),
        rest=amount_of(rest, places) if rest else None,
        lines=tuple(
            LedgerRow(
                row_of_line(line, subject.chips, places, named=named),
                amount_of(line.amount_nanos, places),
                _who(whose[line.since]),
            )
            for line in reversed(shown)
        ),
        earlier=len(hidden),
        earlier_amount=amount_of(sum(line.amount_nanos for line in hidden), places),
        costs="" if frame.asked is None else asked.by("node").page,
        json=f"/v1{subject.home}/ledger",
        as_of=moment(frame.as_of),
    )


def lines_of(services: Services, node_id: str) -> list[PostedLine]:
    """Every line of a node in the order in which it was posted; raises NotFound."""
    return _every(lambda after: services.nodes.ledger(node_id, after, _BATCH))


def unused_lines_of(services: Services, reservation_id: str) -> list[PostedLine]:
    """Every line of what nobody used of a reservation; raises NotFound."""
    return _every(lambda after: services.reservations.ledger(reservation_id, after, _BATCH))


def _every(read: Callable[[int], Sequence[PostedLine]]) -> list[PostedLine]:
    found: list[PostedLine] = []
    while batch := read(found[-1].id if found else 0):
        found += batch
    return found


def _who(whose: Attribution) -> str:
    return ", ".join(name for name in (whose.team, whose.owner) if name) or "no team or owner"


def _counts(line: PostedLine, whose: Attribution, only: Mapping[str, Sequence[str]]) -> bool:
    """Whether a line is what was asked for, as far as lines of one node differ."""
    for name, values in only.items():
        key = label_key(name)
        if not key and name not in _OF:
            continue
        value = whose.labels.get(key, "") if key else _OF[name](line, whose)
        if value not in values:
            return False
    return True
