"""Holds: what a node may still cost at worst, and whether a budget has room for one more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from service.domain.budgets.budget import Budget, HeldAmount
from service.domain.catalog import catalog
from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR, rfc3339
from service.domain.errors import BudgetExceeded
from service.domain.metering.meter import Usage
from service.domain.metering.usage import pool_for
from service.domain.money import dollars, usd
from service.domain.nodes.node import Asked, NodeSpec, NodeState
from service.domain.pricing.driver_vm import sku_of as vm_sku_of
from service.domain.pricing.estimate import FAR, sku_of, usable
from service.domain.pricing.price_book import PriceBook, PriceStretch, Sku
from service.domain.pricing.purchases import Purchase
from service.domain.time_window import Window

OVERRUN_SECONDS = 60
"""By how much a node is taken to outlive its time to live: its deletion is asked for at the next
look of the daemon after that, and what it costs ends when the cloud accepts it. A tick, a slow call
and the successor of a daemon that was killed take less."""

ROUNDING = 1
"""Nano-dollars by which the rest of a usage may come to more than its own seconds: half of one that
was rounded off what was posted, and half of one that is rounded up at its end."""


class Hold(NamedTuple):
    """What is set aside for one node that has not ended. A tuple, for admission reads those of all
    nodes that live.

    `rate` is the worst case in nano-dollars an hour, None where a price is not known. `ttl` is its
    time to live in seconds from its first READY, None where it has none. `unposted_since` is where
    the part of its usage begins that the ledger does not hold yet; None where there is none.
    """

    node_id: str
    rate: int | None
    ttl: int | None
    asked: Asked = Asked.PRESENT
    state: str = NodeState.REQUESTED
    ready_at: int | None = None
    unposted_since: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether it stands still and is to stay so; then it costs nothing, and is asked anew
        before it starts."""
        return self.asked is Asked.STOPPED and self.state == NodeState.STOPPED

    def left(self, window: Window, now: int) -> int | None:
        """Nano-dollars that it may add to what the ledger holds for the window, at worst and
        rounded up; None where a price is not known.

        It shrinks as usage is posted, and ends with the node. The time to live counts from READY,
        so while it is not that the whole of it lies ahead; and a node outlives it by as long as a
        deletion takes, from now on where that has not come about yet.
        """
        begin = now if self.unposted_since is None else min(now, self.unposted_since)
        seconds = min(self._end(window, now), window.end) - max(begin, window.start)
        if seconds <= 0:
            return 0
        if self.rate is None:
            return None
        return worst(self.rate, seconds) + (0 if self.unposted_since is None else ROUNDING)

    def _end(self, window: Window, now: int) -> int:
        if self.stopped:
            return now
        if self.ttl is None:
            return window.end
        ends = now + self.ttl if self.ready_at is None else max(now, self.ready_at + self.ttl)
        return ends + OVERRUN_SECONDS


@dataclass(frozen=True, slots=True)
class ReservationHold:
    """What is set aside for a reservation, which is paid to its end whatever runs in it.

    `rate` is nano-dollars an hour, None where the price is not known; `unposted_since` is where the
    part of it begins that the ledger does not hold yet.
    """

    reservation_id: str
    rate: int | None
    end: int
    unposted_since: int

    def left(self, window: Window) -> int | None:
        """Nano-dollars that it adds to what the ledger holds for the window, rounded up."""
        seconds = min(self.end, window.end) - max(self.unposted_since, window.start)
        if seconds <= 0:
            return 0
        return None if self.rate is None else worst(self.rate, seconds)


def left_beside(hold: Hold, bought: Sequence[Purchase], window: Window, now: int) -> int | None:
    """What a node may add, where reservations that it runs in are set aside already: only what it
    does outside of all of them."""
    if not bought:  # nearly always, and admission asks it of every node that lives
        return hold.left(window, now)
    parts = [hold.left(one, now) for one in _outside(bought, window)]
    return None if None in parts else sum(one or 0 for one in parts)


def _outside(bought: Iterable[Purchase], window: Window) -> Iterator[Window]:
    """The parts of a window in which nothing is reserved."""
    start = window.start
    for one in sorted(bought, key=lambda one: one.start):
        if start < min(one.start, window.end):
            yield Window(start, min(one.start, window.end))
        start = max(start, one.end)
    if start < window.end:
        yield Window(start, window.end)


@dataclass(frozen=True, slots=True)
class BudgetRoom:
    """A budget in its present window: what the ledger holds, and what is set aside for its nodes
    and reservations. `inside` are the nodes that run in a reservation of its own."""

    budget: Budget
    window: Window
    spent: int
    held: HeldAmount
    inside: Mapping[str, Sequence[Purchase]] = field(default_factory=dict)

    def within(self, node_id: str) -> Sequence[Purchase]:
        """The reservations of this budget that a node runs in."""
        return self.inside.get(node_id, ())

    @property
    def left(self) -> int | None:
        """Nano-dollars that are neither spent nor set aside; None where a price is not known."""
        held = self.held.total
        return None if held is None else self.budget.amount - self.spent - held


@dataclass(frozen=True, slots=True)
class WorstRate:
    """The worst price of a wish in nano-dollars an hour, None where one is not known; `unpriced`
    are the places without a price."""

    hourly: int | None
    unpriced: tuple[str, ...] = ()


def worst(rate: int, seconds: int) -> int:
    """Nano-dollars for seconds at an hourly rate, rounded up."""
    return -(-rate * seconds // HOUR)


def hold_for(cuts: Sequence[PriceStretch], units: int, seconds: int) -> Hold:
    """What would be set aside for a node that is to run for so long at one place, at the prices
    that are known for the time to come."""
    return Hold("", _worst_of(cuts, units), seconds)


def rate_of(spec: NodeSpec, book: PriceBook, now: int) -> WorstRate:
    """The dearest of all that a node may be made of, wherever it may be, at every price that is
    known for the time to come."""
    rates: list[int] = []
    unpriced: dict[str, None] = {}
    for hardware in spec.possible:
        accelerator = catalog.load().accelerators.get(hardware.accelerator_type)
        for zone in hardware.zones:
            where = f"{hardware.accelerator_type} in {zone}"
            rate = None
            if accelerator is not None:
                pool = pool_for(spec, zone)
                sku = sku_of(accelerator, spec.provisioning_model, zone, pool)
                rate = _dearest(sku, hardware.chips, book, now)
            if rate is not None and spec.vm is not None:
                its = _dearest(vm_sku_of(spec.vm, region_of(zone)), 1, book, now)
                where = where if its is not None else f"{spec.vm.machine_type} in {zone}"
                rate = None if its is None else rate + its
            if rate is None:
                unpriced[where] = None
            else:
                rates.append(rate)
    return WorstRate(None if unpriced or not rates else max(rates), tuple(unpriced))


def rate_of_purchase(usage: Usage, book: PriceBook, now: int) -> int | None:
    """The worst price of a reservation for what is left of it, in nano-dollars an hour."""
    cuts = book.cuts(usage.sku, max(usage.start, min(now, usage.end or now)), usage.end or now)
    return _worst_of(cuts, usage.chips) if cuts else 0


def _dearest(sku: Sku, units: int, book: PriceBook, now: int) -> int | None:
    return _worst_of(book.cuts(sku, now, now + FAR), units)


def _worst_of(cuts: Sequence[PriceStretch], units: int) -> int | None:
    """Nano-dollars an hour at the highest price, for one that rises within the period is the worst
    case; None where one is not known."""
    used = usable(cuts)
    known = [units * cut.price.per_chip_hour for cut in used if cut.price is not None]
    return max(known) if known and len(known) == len(used) else None


def refusal(
    asked: Hold, rate: WorstRate, rooms: Sequence[BudgetRoom], now: int
) -> BudgetExceeded | None:
    """Why a node cannot be had, by the budget that has the least room for it; None when it can.

    With it, posted + held + this one would be more than an amount, or nobody could tell.
    """
    tight: tuple[int, BudgetExceeded] | None = None
    for room in rooms:
        within = room.within(asked.node_id)
        wanted, left = left_beside(asked, within, room.window, now), room.left
        if wanted is None:
            return _unpriced(room, rate)
        if left is None:
            return _unknown(room)
        if wanted > left and (tight is None or left < tight[0]):
            tight = left, _exceeded(room, asked, wanted, left)
    return None if tight is None else tight[1]


def _exceeded(room: BudgetRoom, asked: Hold, wanted: int, left: int) -> BudgetExceeded:
    budget, rate = room.budget, asked.rate or 1
    longest = max(0, max(0, left) * HOUR // rate - OVERRUN_SECONDS)
    resets = rfc3339(room.window.end)
    fits = (
        f"a ttl_seconds of at most {longest} would fit"
        if longest
        else "nothing fits: request less hardware, or have the amount raised"
    )
    return BudgetExceeded(
        f"the budget {budget.name!r} has {dollars(max(0, left))} left until {resets}, and this node"
        f" may cost {dollars(wanted)} by then; {fits}",
        **_facts(room),
        asked=usd(wanted),
        left=usd(max(0, left)),
        longest_ttl_seconds=longest,
    )


def _unpriced(room: BudgetRoom, rate: WorstRate) -> BudgetExceeded:
    places = list(rate.unpriced)[:20]
    return BudgetExceeded(
        f"the budget {room.budget.name!r} cannot compute what this node may cost: no price is"
        f" known for {', '.join(places[:3]) or 'it'}; choose places with a price, or add a price",
        **_facts(room),
        asked=None,
        unpriced=places,
    )


def _unknown(room: BudgetRoom) -> BudgetExceeded:
    number = len(room.held.unpriced)
    nodes = "one of its nodes" if number == 1 else f"{number} of its nodes"
    return BudgetExceeded(
        f"the budget {room.budget.name!r} cannot compute what is left: no price is known for"
        f" {nodes}; add that price first",
        **_facts(room),
    )


def _facts(room: BudgetRoom) -> dict[str, object]:
    budget = room.budget
    return {
        "budget": budget.name,
        "budget_id": budget.id,
        "amount": usd(budget.amount),
        "spent": usd(room.spent),
        "held": None if room.held.total is None else usd(room.held.total),
        "held_known": usd(room.held.known),
        "resets_at": rfc3339(room.window.end),
    }
