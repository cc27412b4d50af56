"""The page of the ledger of a node, or of the unused part of a reservation: the lines that add up
to one figure of the costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from service.application.services import Services
from service.dashboard.kit.amounts import ExactAmount, amount_of, places_of
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import Moment, to_moment
from service.dashboard.kit.links import node_address, reservation_address
from service.dashboard.kit.worked_sum import LedgerLineRow, build_line_row, is_named, subject_of
from service.domain.catalog.zones import region_of
from service.domain.costs.dimensions import ACTIVITY, condition_of, label_key
from service.domain.metering.attribution import Attribution
from service.store.ledger import PostedLine

LINES_SHOWN = 1_000
"""The most lines on the page, more than a month of hours; earlier ones are one sum."""

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
"""The dimensions that may differ between the lines of one node, and their values."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One line, and the team and owner that are charged."""

    line: LedgerLineRow
    amount: ExactAmount
    who: str


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Everything on the page: the lines, the rest that is not posted, and the total of both.

    `home` is the page of the node or reservation; `unused` is True for the unused part of a
    reservation. `named` is True if each line names its subject. `start` and `end` are None if the
    page is about all time.
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


def build_ledger_page(services: Services, node_id: str, asked: CostsAsked | None) -> LedgerPage:
    """The lines of a node, or those that a question is about. Raises NotFound for an unknown node,
    Rejected for an invalid question."""
    node = services.nodes.get(node_id)
    home = node_address(node_id)
    lines = read_lines(services, node_id)
    subject = _Subject(node_id, node.name, node.spec.chips, home, lines, unused=False)

    def read_total() -> tuple[int, int]:
        cost = services.nodes.get_cost(node_id)
        return cost.cost, cost.as_of

    return _build_ledger(services, subject, asked, read_total)


def build_unused_ledger_page(
    services: Services, reservation_id: str, asked: CostsAsked | None
) -> LedgerPage:
    """The lines of the unused part of a reservation, or those that a question is about. Raises as
    `build_ledger_page`."""
    shown = services.reservations.get(reservation_id)
    home = reservation_address(reservation_id)
    lines = read_unused_lines(services, reservation_id)
    # The number of unused chips differs between lines, so quantities are in chip-seconds.
    subject = _Subject(reservation_id, shown.reservation.name, 0, home, lines, unused=True)
    return _build_ledger(services, subject, asked, lambda: (shown.unused, shown.as_of))


@dataclass(frozen=True, slots=True)
class _Subject:
    """The owner of the lines; `chips` is 0 if the number of chips differs between lines."""

    id: str
    name: str
    chips: int
    home: str
    lines: list[PostedLine]
    unused: bool


def _build_ledger(
    services: Services,
    subject: _Subject,
    asked: CostsAsked | None,
    read_total: Callable[[], tuple[int, int]],
) -> LedgerPage:
    """The page of a subject. `read_total` reads its whole cost and the time of that figure; it is
    called only without a question."""
    whose = {payer.since: payer for payer in services.explanations.list_attributions(subject.id)}
    lines = subject.lines
    start = end = None
    if asked is None:
        total, as_of = read_total()
    else:
        # Lines are by the hour and an activity cuts hours, so that filter excludes no line.
        only = [part for part in asked.only if not part.startswith(f"{ACTIVITY}:")]
        asked = replace(asked, only=tuple(only))
        mine = replace(asked, aggregate=(), only=(*only, condition_of("node", subject.id)))
        question = mine.to_question()
        report = services.costs.report(question)
        total, as_of = report.total, report.as_of
        start, end = to_moment(report.window.start), to_moment(report.window.end)
        lines = [
            line
            for line in lines
            if report.window.start <= line.charge_start < report.window.end
            and _matches_filters(line, whose[line.since], question.only)
        ]
    return _build_page(subject, lines, whose, _Frame(asked, start, end, total, as_of))


@dataclass(frozen=True, slots=True)
class _Frame:
    """The question, its window, the total that the lines add up to, and the time of that figure."""

    asked: CostsAsked | None
    start: Moment | None
    end: Moment | None
    total: int
    as_of: int


def _build_page(
    subject: _Subject,
    lines: Sequence[PostedLine],
    whose: Mapping[int, Attribution],
    frame: _Frame,
) -> LedgerPage:
    posted = sum(line.amount_nanos for line in lines)
    places = places_of((line.amount_nanos for line in lines), (frame.total,))
    hidden, shown = lines[:-LINES_SHOWN], lines[-LINES_SHOWN:]
    rest, named = frame.total - posted, is_named({subject_of(line) for line in lines})
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
                build_line_row(line, subject.chips, places, named=named),
                amount_of(line.amount_nanos, places),
                format_payer(whose[line.since].team, whose[line.since].owner),
            )
            for line in reversed(shown)
        ),
        earlier=len(hidden),
        earlier_amount=amount_of(sum(line.amount_nanos for line in hidden), places),
        costs="" if frame.asked is None else asked.with_grouping("node").page,
        json=f"/v1{subject.home}/ledger",
        as_of=to_moment(frame.as_of),
    )


def read_lines(services: Services, node_id: str) -> list[PostedLine]:
    """Every line of a node in the order in which they were posted. Raises NotFound."""
    return _read_all(lambda after: services.nodes.list_ledger_lines(node_id, after, _BATCH))


def read_unused_lines(services: Services, reservation_id: str) -> list[PostedLine]:
    """Every line of the unused part of a reservation, in the order in which they were posted.
    Raises NotFound."""
    return _read_all(
        lambda after: services.reservations.list_ledger_lines(reservation_id, after, _BATCH)
    )


def _read_all(read: Callable[[int], Sequence[PostedLine]]) -> list[PostedLine]:
    found: list[PostedLine] = []
    while batch := read(found[-1].id if found else 0):
        found += batch
    return found


def format_payer(team: str, owner: str) -> str:
    """The team and the owner that are charged, in words."""
    return ", ".join(name for name in (team, owner) if name) or "no team or owner"


def _matches_filters(
    line: PostedLine, whose: Attribution, only: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a line matches the filters, as far as the lines of one node differ."""
    for name, values in only.items():
        key = label_key(name)
        if not key and name not in _OF:
            continue
        value = whose.labels.get(key, "") if key else _OF[name](line, whose)
        if value not in values:
            return False
    return True
