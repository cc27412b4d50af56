"""The page of one reservation: its figures, the sum in words, who used it, and what is posted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.application.pricing.reservations import NodeUse, ReservationStatus
from service.application.services import Services
from service.dashboard.kit.amounts import ExactAmount, amount_of, chip_hours, places_of
from service.dashboard.kit.figures import Fact, Moment, count, exact, moment
from service.dashboard.kit.links import home_of_node
from service.dashboard.kit.node_rows import TIMES
from service.dashboard.kit.worked_sum import row_of_line
from service.dashboard.pages.ledger import LedgerRow, unused_lines_of
from service.dashboard.pages.prices import address_of
from service.dashboard.pages.reservations import ReservationRow, row_of
from service.dashboard.pages.spend_chart import share
from service.domain.clock import HOUR
from service.domain.metering.reservation import ReservationState
from service.domain.money import half_even

LINES_SHOWN = 12
"""Half a day of hours; its ledger has a page of its own."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """What one node used of it; no address where that was nobody."""

    name: str
    href: str
    lines: str
    chips: str
    chip_hours: str
    share: str
    cost: ExactAmount


@dataclass(frozen=True, slots=True)
class ReservationSummary:
    """Everything on the page. `used` are the nodes and what nobody used; both come to `total`."""

    one: ReservationRow
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


def reservation_of(services: Services, reservation_id: str) -> ReservationSummary:
    """The page as of now; raises NotFound."""
    shown = services.reservations.get(reservation_id)
    one = row_of(shown)
    used = services.reservations.used(reservation_id)
    lines = unused_lines_of(services, reservation_id)
    hidden, newest = lines[:-LINES_SHOWN], lines[-LINES_SHOWN:]
    decimals = places_of(line.amount_nanos for line in lines)
    places = places_of((each.cost for each in used), (shown.cost, shown.unused))
    whole = shown.chip_seconds
    return ReservationSummary(
        one=one,
        sums=tuple(_sums(shown, len(used))),
        users=tuple(_user(each, whole, places) for each in used),
        nobody=UserRow(
            name="nobody",
            href="",
            lines=f"{one.href}/ledger" if lines else "",
            chips="",
            chip_hours=chip_hours(shown.unused_chip_seconds),
            share=share(shown.unused_chip_seconds, whole),
            cost=amount_of(shown.unused, places),
        ),
        total=UserRow(
            name="Total",
            href="",
            lines="",
            chips=f"{shown.reservation.chips:,}",
            chip_hours=chip_hours(whole),
            share=share(whole, whole),
            cost=amount_of(shown.cost, places),
        ),
        lines=tuple(
            LedgerRow(
                row_of_line(line, 0, decimals), amount_of(line.amount_nanos, decimals), one.whose
            )
            for line in reversed(newest)
        ),
        earlier=len(hidden),
        earlier_amount=amount_of(sum(line.amount_nanos for line in hidden), decimals),
        facts=tuple(_facts(shown)),
        labels=tuple(sorted(shown.reservation.labels.items())),
        json=f"/v1{one.href}",
        as_of=moment(shown.as_of),
    )


def _user(used: NodeUse, whole: int, places: int) -> UserRow:
    href = home_of_node(used.node_id)
    return UserRow(
        name=used.name,
        href=href,
        lines=f"{href}/ledger",
        chips=f"{used.chips:,}",
        chip_hours=chip_hours(used.chip_seconds),
        share=share(used.chip_seconds, whole),
        cost=amount_of(used.cost, places),
    )


def _sums(shown: ReservationStatus, nodes: int) -> Iterator[str]:
    """What it comes to, in sentences that can be checked by hand."""
    one = shown.reservation
    ahead = "" if shown.whole is None else _product(shown, one.chips * (one.end - one.start))
    match one.state(shown.as_of):
        case ReservationState.WITHDRAWN:
            yield "It charges nothing. Its earlier charges are credited, and nothing was erased."
        case ReservationState.PLANNED:
            if ahead and shown.whole is not None:
                yield f"Total, used or not: {ahead} = {exact(shown.whole)}."
        case ReservationState.RUNNING:
            yield from _so_far(shown, nodes, "So far, used or not:")
            if shown.whole is not None:
                yield f"Total at its end: {ahead} = {exact(shown.whole)}."
        case ReservationState.OVER:
            yield from _so_far(shown, nodes, "Total, used or not:")


def _so_far(shown: ReservationStatus, nodes: int, begins: str) -> Iterator[str]:
    if not shown.chip_seconds:
        return
    yield f"{begins} {_product(shown, shown.chip_seconds)} = {exact(shown.cost)}."
    used = shown.cost - shown.unused
    if nodes:
        who = f"{count(nodes, 'node')} {'is' if nodes == 1 else 'are'} charged for"
        yield f"Of that {who} {exact(used)}, and {exact(shown.unused)} is unused."
    else:
        yield "No node used any of it."


def _product(shown: ReservationStatus, chip_seconds: int) -> str:
    """The sum as it is made of chips, seconds and the price, where that was one price."""
    one = shown.reservation
    base = f"{count(one.chips, 'chip')} {TIMES} {chip_seconds // one.chips:,} s"
    amount = shown.cost if chip_seconds == shown.chip_seconds else shown.whole
    rate = None if shown.price is None else shown.price.per_chip_hour
    if rate is None or amount is None or half_even(chip_seconds * rate, HOUR) != amount:
        return f"{base} at the prices in force"
    return f"{base} {TIMES} {exact(rate)} a chip-hour \N{DIVISION SIGN} 3,600"


def _facts(shown: ReservationStatus) -> Iterator[Fact]:
    one, price = shown.reservation, shown.price
    yield Fact("Name at Google", one.name)
    yield Fact("Hardware", f"{count(one.chips, 'chip')} of {one.generation}")
    yield Fact("Zone", one.zone)
    yield Fact("Project", one.project)
    yield _at("Begins", one.start)
    yield _at("Ends", one.end)
    if price is not None:
        at = min(max(shown.as_of, one.start), one.end - 1)
        source = f"{exact(price.per_chip_hour)} a chip-hour: {price.source}"
        yield Fact("Price", source, href=address_of(price, at))
    yield from (
        Fact(name, text) for name, text in (("Owner", one.owner), ("Team", one.team)) if text
    )
    yield _at("Recorded", one.recorded_at, f" by {one.recorded_by}")
    if one.withdrawn_at is not None:
        yield _at("Withdrawn", one.withdrawn_at, f": {one.reason}")
    yield Fact("Id", one.id)


def _at(name: str, seconds: int, more: str = "") -> Fact:
    at = moment(seconds)
    return Fact(name, f"{at.full}{more}", at)
