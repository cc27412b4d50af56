"""The cost of a node as a sum that can be checked by hand: chips x seconds x price. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.application.nodes.cost import CostLine, NodeCost
from service.dashboard.kit.figures import Moment, exact_places, format_exact, to_moment
from service.dashboard.kit.node_rows import NOT_KNOWN, TIMES
from service.domain.clock import HOUR
from service.domain.money import half_even

LINES_SHOWN = 100


class SummedLine(Protocol):
    """A line of the ledger, with the fields that the sum needs."""

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
    """The subject of a charge: an accelerator type, or the machine type of the user's own VM."""

    name: str
    is_vm: bool

    def __str__(self) -> str:
        return f"VM {self.name}" if self.is_vm else self.name


@dataclass(frozen=True, slots=True)
class SumPart:
    """One summand. `price` is empty if the summand has no single price."""

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
    """The summands by price and the part that is not posted yet, their total, and the newest lines
    of the ledger. `named` is True if the lines have several subjects, or a VM; each part then names
    its subject."""

    parts: tuple[SumPart, ...]
    total: str
    lines: tuple[LedgerLineRow, ...]
    earlier: str
    earlier_amount: str
    named: bool


@dataclass(frozen=True, slots=True)
class _Summand:
    """A part before it is formatted: chip-seconds or seconds of a VM, nano-dollars for each per
    hour, and nano-dollars in all; None where they are not known."""

    what: SumSubject
    label: str
    quantity: int
    price: int | None
    amount: int | None


def build_sum(lines: Sequence[SummedLine], cost: NodeCost, chips: int) -> WorkedSum:
    """The explained cost of a node with so many chips.

    The parts add up to the last nano-dollar, so they have as many decimals as that takes.
    """
    summands = list(_list_summands(lines, cost, chips))
    named = is_named({summand.what for summand in summands})
    places = exact_places([cost.cost, *(summand.amount or 0 for summand in summands)])
    shown, hidden = lines[-LINES_SHOWN:], lines[:-LINES_SHOWN]
    decimals = exact_places(line.amount_nanos for line in lines)
    return WorkedSum(
        parts=tuple(
            SumPart(
                label=f"{part.what}, {part.label}" if named else part.label,
                quantity=_format_quantity(part.quantity, chips, is_vm=part.what.is_vm, named=named),
                price="" if part.price is None else format_exact(part.price),
                amount=NOT_KNOWN if part.amount is None else format_exact(part.amount, places),
            )
            for part in summands
        ),
        total=format_exact(cost.cost, places),
        lines=tuple(build_line_row(line, chips, decimals, named=named) for line in reversed(shown)),
        earlier=f"{len(hidden):,} earlier" if hidden else "",
        earlier_amount=format_exact(sum(line.amount_nanos for line in hidden), decimals),
        named=named,
    )


def _list_summands(lines: Sequence[SummedLine], cost: NodeCost, chips: int) -> Iterator[_Summand]:
    """The summands of each subject: the posted lines by price, the accruals that are not posted
    yet, and the remainder. The remainder has the current rate as its price if quantity and rate
    give its amount."""
    by_what: dict[SumSubject, list[SummedLine]] = defaultdict(list)
    for line in lines:
        by_what[subject_of(line)].append(line)
    totals = {SumSubject(part.what, part.is_vm): part for part in cost.lines}
    for what in dict.fromkeys((*totals, *by_what)):
        whole = totals.get(what) or CostLine(
            *what, cost=0, list_cost=0, seconds=0, unpriced_seconds=0
        )
        rate = next((burn.price for burn in cost.rates if (burn.what, burn.is_vm) == what), None)
        posted = (
            (line.price_nanos, _seconds_of(line), line.amount_nanos) for line in by_what[what]
        )
        found = list(_sum_by_price(what, "posted to the ledger", posted))
        label = "since then, not yet posted" if found else "running, not yet posted"
        priced = (
            (accrual.price.per_chip_hour, accrual.quantity, accrual.amount or 0)
            for accrual in cost.unposted
            if (accrual.what, accrual.is_vm) == what and accrual.price is not None
        )
        found += _sum_by_price(what, label, priced)
        yield from found
        # Only a correction will explain the remainder.
        rest = whole.cost - sum(summand.amount or 0 for summand in found)
        left = whole.quantity - sum(summand.quantity for summand in found)
        if rest or left:
            # The sum is rounded once, and that nano-dollar may be in either part.
            has_rate = rate is not None and abs(half_even(left * rate, HOUR) - rest) <= 1
            yield _Summand(what, label, left, rate if has_rate else None, rest)
        units = 1 if what.is_vm else chips
        if whole.unpriced_seconds:
            yield _Summand(what, "at no known price", units * whole.unpriced_seconds, None, None)


def _sum_by_price(
    what: SumSubject, label: str, parts: Iterable[tuple[int, int, int]]
) -> Iterator[_Summand]:
    """The summands of parts of (price, quantity, amount), added up by price."""
    sums: dict[int, list[int]] = {}
    for price, quantity, amount in parts:
        of_price = sums.setdefault(price, [0, 0])
        of_price[0] += quantity
        of_price[1] += amount
    for price, (quantity, amount) in sums.items():
        yield _Summand(what, label, quantity, price, amount)


def is_named(whats: Set[SumSubject]) -> bool:
    """Whether each line has to name its subject: there are several subjects, or there is a VM."""
    return len(whats) > 1 or any(what.is_vm for what in whats)


def subject_of(line: SummedLine) -> SumSubject:
    """The subject of a line."""
    return SumSubject(line.accelerator_type, line.is_vm)


def _format_quantity(seconds: int, chips: int, *, is_vm: bool = False, named: bool = False) -> str:
    """Chip-seconds as chips x seconds where they divide evenly; a VM counts as one. `named` adds
    the noun."""
    units, name = (1, "VM") if is_vm else (chips, "chip" if chips == 1 else "chips")
    if units > 0 and seconds % units == 0:
        return f"{units:,}{f' {name}' if named else ''} {TIMES} {seconds // units:,} s"
    return f"{seconds:,} chip-seconds"


def _seconds_of(line: SummedLine) -> int:
    return line.vm_seconds if line.is_vm else line.chip_seconds


def build_line_row(
    line: SummedLine, chips: int, places: int, *, named: bool = False
) -> LedgerLineRow:
    """A line in words, with `places` decimals of its amount. `chips` is that of the node; `named`
    adds the subject."""
    return LedgerLineRow(
        number=line.id,
        start=to_moment(line.charge_start),
        end=to_moment(line.charge_end),
        kind=f"{line.kind}, {subject_of(line)}" if named else line.kind,
        quantity=_format_quantity(_seconds_of(line), chips, is_vm=line.is_vm, named=named),
        price=format_exact(line.price_nanos),
        amount=format_exact(line.amount_nanos, places),
    )
