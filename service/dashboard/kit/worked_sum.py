"""A node's cost as a sum to be checked by hand: chips x seconds x price, line by line. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.application.costs.accruals import Accrual
from service.application.nodes.cost import CostLine, NodeCost
from service.dashboard.kit.figures import Moment, exact, exact_places, moment
from service.dashboard.kit.node_rows import NOT_KNOWN, TIMES
from service.domain.clock import HOUR
from service.domain.money import half_even

LINES_SHOWN = 100


class SummedLine(Protocol):
    """A line of the ledger, as far as the sum needs it."""

    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def accelerator_type(self) -> str: ...
    @property
    def is_vm(self) -> bool: ...
    @property
    def charge_start(self) -> int: ...
    @property
    def charge_end(self) -> int: ...
    @property
    def chip_seconds(self) -> int: ...
    @property
    def vm_seconds(self) -> int: ...
    @property
    def price_nanos(self) -> int: ...
    @property
    def amount_nanos(self) -> int: ...


class SumSubject(NamedTuple):
    """What something is of: an accelerator type, or the machine type of the user's own VM."""

    name: str
    is_vm: bool

    def __str__(self) -> str:
        return f"VM {self.name}" if self.is_vm else self.name


@dataclass(frozen=True, slots=True)
class SumPart:
    """One summand. `price` is empty where no single one made it."""

    label: str
    quantity: str
    price: str
    amount: str


@dataclass(frozen=True, slots=True)
class LedgerLineRow:
    """One line of the ledger in words, and its number."""

    number: int
    start: Moment
    end: Moment
    kind: str
    quantity: str
    price: str
    amount: str


@dataclass(frozen=True, slots=True)
class WorkedSum:
    """The summands by price and the open tail, their total, and the newest lines behind them.
    `named` says that they are of more than chips, and each says of what."""

    parts: tuple[SumPart, ...]
    total: str
    lines: tuple[LedgerLineRow, ...]
    earlier: str
    earlier_amount: str
    named: bool


@dataclass(frozen=True, slots=True)
class _Summand:
    """A part before it is spelled: chip-seconds or seconds of a VM, nano-dollars for each and hour,
    nano-dollars in all; None where they are not known."""

    what: SumSubject
    label: str
    quantity: int
    price: int | None
    amount: int | None


def sum_of(lines: Sequence[SummedLine], cost: NodeCost, chips: int) -> WorkedSum:
    """What a node cost, explained.

    The parts add up to the last nano-dollar, so they are shown with as many decimals as that takes.
    """
    summands = list(_summands(lines, cost, chips))
    named = is_named({one.what for one in summands})
    places = exact_places([cost.cost, *(one.amount or 0 for one in summands)])
    shown, hidden = lines[-LINES_SHOWN:], lines[:-LINES_SHOWN]
    decimals = exact_places(line.amount_nanos for line in lines)
    return WorkedSum(
        parts=tuple(_part(one, chips, places, named=named) for one in summands),
        total=exact(cost.cost, places),
        lines=tuple(row_of_line(one, chips, decimals, named=named) for one in reversed(shown)),
        earlier=f"{len(hidden):,} earlier" if hidden else "",
        earlier_amount=exact(sum(line.amount_nanos for line in hidden), decimals),
        named=named,
    )


def _summands(lines: Sequence[SummedLine], cost: NodeCost, chips: int) -> Iterator[_Summand]:
    by_what: dict[SumSubject, list[SummedLine]] = defaultdict(list)
    for line in lines:
        by_what[what_of(line)].append(line)
    totals = {SumSubject(one.what, one.is_vm): one for one in cost.lines}
    for what in dict.fromkeys((*totals, *by_what)):
        whole = totals.get(what) or CostLine(
            *what, cost=0, list_cost=0, seconds=0, unpriced_seconds=0
        )
        rate = next((one.price for one in cost.rates if (one.what, one.is_vm) == what), None)
        tail = [one for one in cost.unposted if (one.what, one.is_vm) == what]
        units = 1 if what.is_vm else chips
        yield from _of_one(what, by_what[what], tail, whole, rate)
        if whole.unpriced_seconds:
            yield _Summand(what, "at no known price", units * whole.unpriced_seconds, None, None)


def _of_one(
    what: SumSubject,
    lines: Sequence[SummedLine],
    tail: Sequence[Accrual],
    whole: CostLine,
    rate: int | None,
) -> Iterator[_Summand]:
    """What is posted of one thing by price, and what is not yet; last, at the `rate` of now if that
    makes it, what only a correction will explain."""
    posted = ((line.price_nanos, _quantity(line), line.amount_nanos) for line in lines)
    found = list(_by_price(what, "posted to the ledger", posted))
    label = "since then, not yet posted" if found else "running, not yet posted"
    priced = (
        (one.price.per_chip_hour, one.quantity, one.amount or 0)
        for one in tail
        if one.price is not None
    )
    found += _by_price(what, label, priced)
    yield from found
    rest = whole.cost - sum(one.amount or 0 for one in found)
    left = whole.quantity - sum(one.quantity for one in found)
    if rest or left:
        yield _Summand(what, label, left, rate if _explains(rate, left, rest) else None, rest)


def _by_price(
    what: SumSubject, label: str, parts: Iterable[tuple[int, int, int]]
) -> Iterator[_Summand]:
    """(price, quantity, amount) of each part, added up by price."""
    sums: dict[int, list[int]] = {}
    for price, quantity, amount in parts:
        of_price = sums.setdefault(price, [0, 0])
        of_price[0] += quantity
        of_price[1] += amount
    for price, (quantity, amount) in sums.items():
        yield _Summand(what, label, quantity, price, amount)


def _part(one: _Summand, chips: int, places: int, *, named: bool) -> SumPart:
    return SumPart(
        label=f"{one.what}, {one.label}" if named else one.label,
        quantity=_spelled(one.quantity, chips, is_vm=one.what.is_vm, named=named),
        price="" if one.price is None else exact(one.price),
        amount=NOT_KNOWN if one.amount is None else exact(one.amount, places),
    )


def is_named(whats: Set[SumSubject]) -> bool:
    """Whether it has to be said of what each line is: not all are of the same chips."""
    return len(whats) > 1 or any(what.is_vm for what in whats)


def what_of(line: SummedLine) -> SumSubject:
    """What a line is of."""
    return SumSubject(line.accelerator_type, line.is_vm)


def _spelled(seconds: int, chips: int, *, is_vm: bool = False, named: bool = False) -> str:
    """Chip-seconds as chips x seconds where that is what they are; a VM is one. `named` says so."""
    units, name = (1, "VM") if is_vm else (chips, "chip" if chips == 1 else "chips")
    if units > 0 and seconds % units == 0:
        return f"{units:,}{f' {name}' if named else ''} {TIMES} {seconds // units:,} s"
    return f"{seconds:,} chip-seconds"


def _quantity(line: SummedLine) -> int:
    return line.vm_seconds if line.is_vm else line.chip_seconds


def _explains(rate: int | None, quantity: int, amount: int) -> bool:
    """Whether that one price makes the amount; the sum's one rounding may lie on either side."""
    return rate is not None and abs(half_even(quantity * rate, HOUR) - amount) <= 1


def row_of_line(line: SummedLine, chips: int, places: int, *, named: bool = False) -> LedgerLineRow:
    """A line whose amount has that many decimals, for a node of so many chips; `named` where not
    all are of the same thing."""
    return LedgerLineRow(
        number=line.id,
        start=moment(line.charge_start),
        end=moment(line.charge_end),
        kind=f"{line.kind}, {what_of(line)}" if named else line.kind,
        quantity=_spelled(_quantity(line), chips, is_vm=line.is_vm, named=named),
        price=exact(line.price_nanos),
        amount=exact(line.amount_nanos, places),
    )
