"""A node's cost as a sum to be checked by hand: chips x seconds x price, line by line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from service.application.nodecost import NodeCost
from service.dashboard.figures import Moment, exact, exact_places, moment
from service.dashboard.rows import NOT_KNOWN
from service.domain.clock import HOUR
from service.domain.money import half_even

LINES_SHOWN = 100


class Posted(Protocol):
    """A line of the ledger, as far as the sum needs it."""

    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def charge_start(self) -> int: ...
    @property
    def charge_end(self) -> int: ...
    @property
    def chip_seconds(self) -> int: ...
    @property
    def price_nanos(self) -> int: ...
    @property
    def amount_nanos(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One summand. `price` is empty where no single one made it."""

    label: str
    quantity: str
    price: str
    amount: str


@dataclass(frozen=True, slots=True)
class LineRow:
    """One line of the ledger in words, and its number."""

    number: int
    start: Moment
    end: Moment
    kind: str
    quantity: str
    price: str
    amount: str


@dataclass(frozen=True, slots=True)
class Sum:
    """The summands by price and the open tail, their total, and the newest lines behind them."""

    parts: tuple[Part, ...]
    total: str
    lines: tuple[LineRow, ...]
    earlier: str
    earlier_amount: str


def sum_of(lines: Sequence[Posted], cost: NodeCost, chips: int, rate: int | None) -> Sum:
    """What a node cost, explained; `rate` is nano-dollars per chip-hour now.

    The parts add up to the last nano-dollar, so they are shown with as many decimals as that takes.
    """
    by_price: dict[int, list[int]] = {}
    for line in lines:
        of_price = by_price.setdefault(line.price_nanos, [0, 0])
        of_price[0] += line.chip_seconds
        of_price[1] += line.amount_nanos
    posted = sum(amount for _, amount in by_price.values())
    tail = cost.cost - posted
    unpriced = chips * cost.unpriced_seconds
    tail_seconds = cost.chip_seconds - unpriced - sum(quantity for quantity, _ in by_price.values())
    places = exact_places([*(amount for _, amount in by_price.values()), tail, cost.cost])
    parts = [
        Part("posted to the ledger", quantity_of(seconds, chips), exact(price), exact(sum_, places))
        for price, (seconds, sum_) in by_price.items()
    ]
    if tail or tail_seconds:
        price = exact(rate) if _explains(rate, tail_seconds, tail) and rate is not None else ""
        label = "since then, not yet posted" if parts else "running, not yet posted"
        parts.append(Part(label, quantity_of(tail_seconds, chips), price, exact(tail, places)))
    if unpriced:
        parts.append(Part("at no known price", quantity_of(unpriced, chips), "", NOT_KNOWN))
    shown, hidden = lines[-LINES_SHOWN:], lines[:-LINES_SHOWN]
    decimals = exact_places(line.amount_nanos for line in lines)
    return Sum(
        parts=tuple(parts),
        total=exact(cost.cost, places),
        lines=tuple(row_of_line(line, chips, decimals) for line in reversed(shown)),
        earlier=f"{len(hidden):,} earlier" if hidden else "",
        earlier_amount=exact(sum(line.amount_nanos for line in hidden), decimals),
    )


def quantity_of(chip_seconds: int, chips: int) -> str:
    """Chip-seconds as chips x seconds where that is what they are."""
    if chips > 0 and chip_seconds % chips == 0:
        return f"{chips:,} \N{MULTIPLICATION SIGN} {chip_seconds // chips:,} s"
    return f"{chip_seconds:,} chip-seconds"


def _explains(rate: int | None, chip_seconds: int, amount: int) -> bool:
    """Whether that one price makes the amount; the sum's one rounding may lie on either side."""
    return rate is not None and abs(half_even(chip_seconds * rate, HOUR) - amount) <= 1


def row_of_line(line: Posted, chips: int, places: int) -> LineRow:
    """A line whose amount has that many decimals, for a node of so many chips."""
    return LineRow(
        number=line.id,
        start=moment(line.charge_start),
        end=moment(line.charge_end),
        kind=line.kind,
        quantity=quantity_of(line.chip_seconds, chips),
        price=exact(line.price_nanos),
        amount=exact(line.amount_nanos, places),
    )
