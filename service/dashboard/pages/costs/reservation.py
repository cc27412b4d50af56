"""The page of one reservation: its figures, its worked sums, its nodes, and its unused lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.application.pricing.reservations import ReservationStatus
from service.application.services import Services
from service.dashboard.kit.amounts import ExactAmount, amount_of, format_chip_hours, places_of
from service.dashboard.kit.figures import Fact, Moment, format_count, format_exact, to_moment
from service.dashboard.kit.links import node_address
from service.dashboard.kit.node_rows import TIMES
from service.dashboard.kit.worked_sum import build_line_row
from service.dashboard.pages.costs.ledger import LedgerRow, read_unused_lines
from service.dashboard.pages.costs.prices import address_of_price
from service.dashboard.pages.costs.reservations import ReservationRow, build_reservation_row
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.clock import HOUR
from service.domain.metering.reservation import ReservationState
from service.domain.money import half_even

LINES_SHOWN = 12
"""The most lines on the page, half a day of hours; the ledger has its own page."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """The part of a reservation that one node used, or that was unused, which has no address."""

    name: str
    href: str
    lines: str
    chips: str
    chip_hours: str
    share: str
    cost: ExactAmount


@dataclass(frozen=True, slots=True)
class ReservationSummary:
    """Everything on the page. `users` and `nobody`, the unused part, add up to `total`."""

    row: ReservationRow
    sums: tuple[str, ...]
    users: tuple[UserRow, ...]
    nobody: UserRow
    total: UserRow
    lines: tuple[LedgerRow, ...]
    earlier: int
    earlier_amount: ExactAmount
    facts: tuple[Fact, ...]
    labels: tuple[tuple[str, str], ...]
    json: str
    as_of: Moment


def build_reservation_page(services: Services, reservation_id: str) -> ReservationSummary:
    """The page as of now. Raises NotFound."""
    shown = services.reservations.get(reservation_id)
    row = build_reservation_row(shown)
    used = services.reservations.list_node_uses(reservation_id)
    lines = read_unused_lines(services, reservation_id)
    hidden, newest = lines[:-LINES_SHOWN], lines[-LINES_SHOWN:]
    decimals = places_of(line.amount_nanos for line in lines)
    places = places_of((node.cost for node in used), (shown.cost, shown.unused))

    def build_row(
        name: str, chips: str, chip_seconds: int, cost: int, href: str = "", lines: str = ""
    ) -> UserRow:
        part = format_share(chip_seconds, shown.chip_seconds)
        amount = amount_of(cost, places)
        return UserRow(name, href, lines, chips, format_chip_hours(chip_seconds), part, amount)

    users = []
    for node in used:
        href = node_address(node.node_id)
        users.append(
            build_row(
                node.name, f"{node.chips:,}", node.chip_seconds, node.cost, href, f"{href}/ledger"
            )
        )
    ledger = f"{row.href}/ledger" if lines else ""
    return ReservationSummary(
        row=row,
        sums=tuple(_describe_sums(shown, len(used))),
        users=tuple(users),
        nobody=build_row("nobody", "", shown.unused_chip_seconds, shown.unused, lines=ledger),
        total=build_row("Total", f"{shown.reservation.chips:,}", shown.chip_seconds, shown.cost),
        lines=tuple(
            LedgerRow(
                build_line_row(line, 0, decimals), amount_of(line.amount_nanos, decimals), row.whose
            )
            for line in reversed(newest)
        ),
        earlier=len(hidden),
        earlier_amount=amount_of(sum(line.amount_nanos for line in hidden), decimals),
        facts=tuple(_list_facts(shown)),
        labels=tuple(sorted(shown.reservation.labels.items())),
        json=f"/v1{row.href}",
        as_of=to_moment(shown.as_of),
    )


def _describe_sums(shown: ReservationStatus, nodes: int) -> Iterator[str]:
    """The cost in sentences that can be checked by hand."""
    reservation = shown.reservation
    ahead = ""
    if shown.whole is not None:
        seconds = reservation.end - reservation.start
        ahead = _describe_product(shown, reservation.chips * seconds)
    match reservation.state_at(shown.as_of):
        case ReservationState.WITHDRAWN:
            yield "It charges nothing. Its earlier charges are credited, and nothing was erased."
        case ReservationState.PLANNED:
            if ahead and shown.whole is not None:
                yield f"Total, used or not: {ahead} = {format_exact(shown.whole)}."
        case ReservationState.RUNNING:
            yield from _so_far(shown, nodes, "So far, used or not:")
            if shown.whole is not None:
                yield f"Total at its end: {ahead} = {format_exact(shown.whole)}."
        case ReservationState.OVER:
            yield from _so_far(shown, nodes, "Total, used or not:")


def _so_far(shown: ReservationStatus, nodes: int, begins: str) -> Iterator[str]:
    if not shown.chip_seconds:
        return
    yield f"{begins} {_describe_product(shown, shown.chip_seconds)} = {format_exact(shown.cost)}."
    used = shown.cost - shown.unused
    if nodes:
        who = f"{format_count(nodes, 'node')} {'is' if nodes == 1 else 'are'} charged for"
        yield f"Of that {who} {format_exact(used)}, and {format_exact(shown.unused)} is unused."
    else:
        yield "No node used any of it."


def _describe_product(shown: ReservationStatus, chip_seconds: int) -> str:
    """The product of chips, seconds and price; without the price if there was more than one."""
    reservation = shown.reservation
    base = (
        f"{format_count(reservation.chips, 'chip')} {TIMES} {chip_seconds // reservation.chips:,} s"
    )
    amount = shown.cost if chip_seconds == shown.chip_seconds else shown.whole
    rate = None if shown.price is None else shown.price.per_chip_hour
    if rate is None or amount is None or half_even(chip_seconds * rate, HOUR) != amount:
        return f"{base} at the prices in force"
    return f"{base} {TIMES} {format_exact(rate)} a chip-hour \N{DIVISION SIGN} 3,600"


def _list_facts(shown: ReservationStatus) -> Iterator[Fact]:
    reservation, price = shown.reservation, shown.price
    yield Fact("Name at Google", reservation.name)
    yield Fact("Hardware", f"{format_count(reservation.chips, 'chip')} of {reservation.generation}")
    yield Fact("Zone", reservation.zone)
    yield Fact("Project", reservation.project)
    yield _time_fact("Begins", reservation.start)
    yield _time_fact("Ends", reservation.end)
    if price is not None:
        at = min(max(shown.as_of, reservation.start), reservation.end - 1)
        source = f"{format_exact(price.per_chip_hour)} a chip-hour: {price.source}"
        yield Fact("Price", source, href=address_of_price(price, at))
    yield from (
        Fact(name, text)
        for name, text in (("Owner", reservation.owner), ("Team", reservation.team))
        if text
    )
    yield _time_fact("Recorded", reservation.recorded_at, f" by {reservation.recorded_by}")
    if reservation.withdrawn_at is not None:
        yield _time_fact("Withdrawn", reservation.withdrawn_at, f": {reservation.reason}")
    yield Fact("Id", reservation.id)


def _time_fact(name: str, seconds: int, more: str = "") -> Fact:
    at = to_moment(seconds)
    return Fact(name, f"{at.full}{more}", at)
