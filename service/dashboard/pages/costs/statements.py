"""The pages of months: the amount of each, line by line, and whether the amount may still
change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from service.application.costs.statements import MonthToDate
from service.application.pricing.prices import PriceQuery
from service.application.services import Services
from service.dashboard.kit.amounts import ExactAmount, amount_of, format_chip_hours, places_of
from service.dashboard.kit.cost_query import CostsAsked, month_window
from service.dashboard.kit.figures import Moment, format_exact, to_moment
from service.dashboard.pages.costs.ledger import format_payer
from service.dashboard.pages.costs.prices import address_of_price
from service.domain.billing_period import GRACE, BillingMonth, PeriodState, period_named
from service.domain.catalog.zones import region_of
from service.domain.costs.dimensions import condition_of
from service.domain.pricing.price_book import CALENDAR, Price
from service.store.statements import StatementLine

_TONES = {PeriodState.OPEN: "coming", PeriodState.PROVISIONAL: "going", PeriodState.CLOSED: "up"}

PriceOf = Callable[[str, str, str, int], Sequence[Price]]
"""Reads the prices in force for a generation, a model and a region at a second."""


@dataclass(frozen=True, slots=True)
class MonthRow:
    """One month in words; `vm_hours` is empty if there were none."""

    name: str
    title: str
    state: str
    tone: str
    means: str
    amount: ExactAmount
    chip_hours: str
    vm_hours: str


@dataclass(frozen=True, slots=True)
class StatementsPage:
    """Everything on the page of all months."""

    months: tuple[MonthRow, ...]
    as_of: Moment


@dataclass(frozen=True, slots=True)
class StatementRow:
    """One line in words; `costs` is the address of the costs by node."""

    who: str
    what: str
    zone: str
    project: str
    corrects: str
    price: str
    price_address: str
    listed: str
    chip_hours: str
    amount: ExactAmount
    costs: str


@dataclass(frozen=True, slots=True)
class SubtotalRow:
    """The sum of some lines: of one kind of hardware, or of a team. `hours` are chip-hours, and
    hours of the VM if there are any."""

    name: str
    hours: str
    amount: ExactAmount
    costs: str = ""


@dataclass(frozen=True, slots=True)
class TeamSubtotal:
    """The sum of a team, and the sums of its hardware, which add up to it."""

    team: SubtotalRow
    kinds: tuple[SubtotalRow, ...]


@dataclass(frozen=True, slots=True)
class StatementPage:
    """Everything on the page of one month: its own lines, and those that correct other months. The
    subtotals are those of both, and add up to the amount of the month."""

    month: MonthRow
    teams: tuple[TeamSubtotal, ...]
    start: Moment
    end: Moment
    own: tuple[StatementRow, ...]
    own_amount: ExactAmount
    corrections: tuple[StatementRow, ...]
    corrected_amount: ExactAmount
    as_of: Moment


def build_statements_page(services: Services) -> StatementsPage:
    """Every month since the first charge, the latest first."""
    months = services.statements.list_months()
    places = places_of(month.amount for month in months)
    return StatementsPage(
        tuple(_build_month_row(month, places) for month in months),
        to_moment(services.health.read_fleet().as_of),
    )


def build_statement_page(services: Services, name: str) -> StatementPage:
    """The page of one month. Raises Rejected if `name` is not a month."""
    found, now = services.statements.get_statement(name), services.health.read_fleet().as_of
    period, lines = found.month.period, found.lines
    places = places_of((line.amount for line in lines), (found.month.amount,))

    @cache
    def in_force(generation: str, model: str, region: str, at: int) -> Sequence[Price]:
        return services.prices.list_in_force(PriceQuery(at, generation, model, region))

    rows = [(line, _build_statement_row(line, period, now, places, in_force)) for line in lines]
    corrected = sum(line.amount for line in lines if line.corrects)

    # The subtotals of each team, the largest first.
    teams = []
    by_team: dict[str, list[StatementLine]] = defaultdict(list)
    for line in lines:
        by_team[line.team].append(line)
    for team, some in sorted(by_team.items(), key=lambda pair: (-_sum_of(pair[1]), pair[0])):
        by_kind: dict[str, list[StatementLine]] = defaultdict(list)
        for line in some:
            by_kind[_describe_hardware(line)].append(line)
        kinds = sorted(by_kind.items(), key=lambda pair: (-_sum_of(pair[1]), pair[0]))
        only = (condition_of("team", team),)
        asked = CostsAsked(window=month_window(period), aggregate=("node",), only=only)
        teams.append(
            TeamSubtotal(
                _build_subtotal(team or "(no team)", some, places, asked.page),
                tuple(_build_subtotal(name, of_kind, places) for name, of_kind in kinds),
            )
        )

    return StatementPage(
        month=_build_month_row(found.month, places),
        teams=tuple(teams),
        start=to_moment(period.start),
        end=to_moment(period.end),
        own=tuple(row for line, row in rows if not line.corrects),
        own_amount=amount_of(found.month.amount - corrected, places),
        corrections=tuple(row for line, row in rows if line.corrects),
        corrected_amount=amount_of(corrected, places),
        as_of=to_moment(now),
    )


def _sum_of(lines: Iterable[StatementLine]) -> int:
    return sum(line.amount for line in lines)


def _build_subtotal(
    name: str, lines: Sequence[StatementLine], places: int, costs: str = ""
) -> SubtotalRow:
    chips, vm = (
        sum(line.chip_seconds for line in lines),
        sum(line.vm_seconds for line in lines if line.is_vm),
    )
    hours = [format_chip_hours(chips)] if chips or not vm else []
    if vm:
        hours.append(f"{format_chip_hours(vm)} of the VM")
    return SubtotalRow(name, " and ".join(hours), amount_of(_sum_of(lines), places), costs)


def _build_month_row(month: MonthToDate, places: int) -> MonthRow:
    closes = to_moment(month.period.end + GRACE).full
    meanings = {
        PeriodState.OPEN: "Open: posted so far; the sum grows every hour.",
        PeriodState.PROVISIONAL: f"Provisional: late corrections still go into it until {closes}.",
        PeriodState.CLOSED: f"Closed since {closes}: the sum is final. Later corrections are lines"
        " of the month in which they are found.",
    }
    return MonthRow(
        name=month.period.name,
        title=f"{datetime.fromtimestamp(month.period.start, UTC):%B %Y}",
        state=month.state,
        tone=_TONES[month.state],
        means=meanings[month.state],
        amount=amount_of(month.amount, places),
        chip_hours=format_chip_hours(month.chip_seconds),
        vm_hours=format_chip_hours(month.vm_seconds) if month.vm_seconds else "",
    )


def _build_statement_row(
    line: StatementLine, period: BillingMonth, now: int, places: int, in_force: PriceOf
) -> StatementRow:
    used = period_named(line.corrects) if line.corrects else period
    conditions = (
        ("project", line.project),
        ("team", line.team),
        ("owner", line.owner),
        ("accelerator_type", line.accelerator_type),
        ("provisioning_model", line.model),
        ("zone", line.zone),
    )
    asked = CostsAsked(
        window=month_window(used),
        aggregate=("node",),
        only=tuple(condition_of(name, value) for name, value in conditions),
    )
    # A line of a reservation has the reservation's price, or else the price that was entered for
    # reserved capacity.
    models = (CALENDAR, line.model) if line.reservation else (line.model,)
    region = region_of(line.zone)
    # As of the last second of the month, or of its first if the price changed in between.
    addresses = (
        address_of_price(price, at)
        for at in (max(used.start, min(now, used.end - 1)), used.start)
        for model in models
        for price in in_force(line.generation, model, region, at)
        if price.per_chip_hour == line.price
    )
    return StatementRow(
        who=format_payer(line.team, line.owner),
        what=_describe_hardware(line),
        zone=line.zone,
        project=line.project,
        corrects=line.corrects,
        price=format_exact(line.price) + (" an hour" if line.is_vm else ""),
        price_address=next(addresses, ""),
        listed="" if line.list_price in (None, line.price) else format_exact(line.list_price or 0),
        chip_hours=f"{format_chip_hours(line.vm_seconds)} of the VM"
        if line.is_vm
        else format_chip_hours(line.chip_seconds),
        amount=amount_of(line.amount, places),
        costs=asked.page,
    )


def _describe_hardware(line: StatementLine) -> str:
    """The type and the model, and the reservation that a line belongs to, as its used or its unused
    part."""
    what = f"{line.accelerator_type}, {line.model}"
    match line.reservation_status:
        case "":
            return what
        case "used":
            return f"{what} in {line.reservation}"
        case "unused":
            return f"{what}, unused of {line.reservation}"
