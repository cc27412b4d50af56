"""Holds: the worst-case cost of each node, and whether a budget has room for another. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from service.domain.budgets.budget import Budget, HeldAmount
from service.domain.catalog import catalog
from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR, to_rfc3339
from service.domain.errors import BudgetExceeded
from service.domain.metering.meter import Usage
from service.domain.metering.usage import pool_for
from service.domain.money import format_cents, format_usd
from service.domain.nodes.node import Asked, NodeSpec, NodeState
from service.domain.pricing.driver_vm import sku_of as vm_sku_of
from service.domain.pricing.estimate import FAR, select_usable, sku_of
from service.domain.pricing.price_book import PriceBook, PriceStretch, Sku
from service.domain.pricing.purchases import Purchase
from service.domain.time_window import Window

OVERRUN_SECONDS = 60
"""Assumed seconds that a node outlives its time to live. Its deletion is requested at the next tick
of the daemon, and its cost ends when the cloud accepts the request. A tick, a slow call and the
takeover from a killed daemon take less."""

ROUNDING = 1
"""Nano-dollars by which the rest of a usage may exceed its exact cost: half a nano-dollar was
rounded off the posted part, and half is rounded up at the end."""


class Hold(NamedTuple):
    """The amount reserved for one node that has not ended.

    A tuple, because admission reads the holds of all live nodes. `rate` is the worst case in
    nano-dollars an hour; None if a price is unknown. `ttl` is the time to live in seconds from the
    first READY; None if it has none. `unposted_since` is the start of the usage that is not yet in
    the ledger; None if there is none.
    """

    node_id: str
    rate: int | None
    ttl: int | None
    asked: Asked = Asked.PRESENT
    state: str = NodeState.REQUESTED
    ready_at: int | None = None
    unposted_since: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the node is STOPPED as requested. It costs nothing, and its next start is
        admitted again."""
        return self.asked is Asked.STOPPED and self.state == NodeState.STOPPED

    def remaining_cost(self, window: Window, now: int) -> int | None:
        """Nano-dollars that the node may still add to the ledger in the window, at worst.

        The amount is rounded up; None if a price is unknown. It shrinks as usage is posted, and
        ends with the node. The time to live counts from READY, so before READY all of it lies
        ahead. The node also costs money during its deletion, which begins now at the earliest.
        """
        begin = now if self.unposted_since is None else min(now, self.unposted_since)
        seconds = min(self._find_end(window, now), window.end) - max(begin, window.start)
        if seconds <= 0:
            return 0
        if self.rate is None:
            return None
        return worst_cost(self.rate, seconds) + (0 if self.unposted_since is None else ROUNDING)

    def _find_end(self, window: Window, now: int) -> int:
        if self.is_stopped:
            return now
        if self.ttl is None:
            return window.end
        ends = now + self.ttl if self.ready_at is None else max(now, self.ready_at + self.ttl)
        return ends + OVERRUN_SECONDS


@dataclass(frozen=True, slots=True)
class ReservationHold:
    """The amount reserved for a reservation, which is paid to its end whatever runs in it.

    `rate` is nano-dollars an hour; None if the price is unknown. `unposted_since` is the start of
    the part that is not yet in the ledger.
    """

    reservation_id: str
    rate: int | None
    end: int
    unposted_since: int

    def remaining_cost(self, window: Window) -> int | None:
        """Nano-dollars that it adds to the ledger in the window, rounded up; None if unknown."""
        seconds = min(self.end, window.end) - max(self.unposted_since, window.start)
        if seconds <= 0:
            return 0
        return None if self.rate is None else worst_cost(self.rate, seconds)


def remaining_cost_outside(
    hold: Hold, bought: Sequence[Purchase], window: Window, now: int
) -> int | None:
    """Nano-dollars that budget admission counts for a node outside the reservations that it runs
    in.

    These reservations have holds of their own.
    """
    if not bought:  # the usual case; admission calls this for every live node
        return hold.remaining_cost(window, now)
    outside, start = [], window.start
    for purchase in sorted(bought, key=lambda purchase: purchase.start):
        if start < min(purchase.start, window.end):
            outside.append(Window(start, min(purchase.start, window.end)))
        start = max(start, purchase.end)
    if start < window.end:
        outside.append(Window(start, window.end))
    parts = [hold.remaining_cost(part, now) for part in outside]
    return None if None in parts else sum(part or 0 for part in parts)


@dataclass(frozen=True, slots=True)
class BudgetRoom:
    """A budget in its present window: the amount in the ledger, and the amount reserved.

    `inside` maps the nodes that run in reservations of the same budget to these.
    """

    budget: Budget
    window: Window
    spent: int
    held: HeldAmount
    inside: Mapping[str, Sequence[Purchase]] = field(default_factory=dict)

    def reservations_of(self, node_id: str) -> Sequence[Purchase]:
        """The reservations of this budget that a node runs in."""
        return self.inside.get(node_id, ())

    @property
    def amount_left(self) -> int | None:
        """Nano-dollars that are neither spent nor reserved; None if a price is unknown."""
        held = self.held.total
        return None if held is None else self.budget.amount - self.spent - held


@dataclass(frozen=True, slots=True)
class WorstRate:
    """The worst price of a request in nano-dollars an hour; None if a price is unknown.

    `unpriced` are the places without a price.
    """

    hourly: int | None
    unpriced: tuple[str, ...] = ()


def worst_cost(rate: int, seconds: int) -> int:
    """Nano-dollars that budget admission counts for seconds at an hourly rate, rounded up."""
    return -(-rate * seconds // HOUR)


def hold_for(cuts: Sequence[PriceStretch], units: int, seconds: int) -> Hold:
    """The hold at admission of a node that runs `seconds` at one place, at known future prices."""
    return Hold("", _worst_of(cuts, units), seconds)


def rate_of(spec: NodeSpec, book: PriceBook, now: int) -> WorstRate:
    """The worst rate for the budget admission of a node: the highest of its places and future
    prices."""
    rates: list[int] = []
    unpriced: dict[str, None] = {}
    for hardware in spec.possible_hardware:
        accelerator = catalog.load_catalog().accelerators.get(hardware.accelerator_type)
        for zone in hardware.zones:
            where = f"{hardware.accelerator_type} in {zone}"
            rate = None
            if accelerator is not None:
                pool = pool_for(spec, zone)
                sku = sku_of(accelerator, spec.provisioning_model, zone, pool)
                rate = _future_worst_of(sku, hardware.chips, book, now)
            if rate is not None and spec.vm is not None:
                its = _future_worst_of(vm_sku_of(spec.vm, region_of(zone)), 1, book, now)
                where = where if its is not None else f"{spec.vm.machine_type} in {zone}"
                rate = None if its is None else rate + its
            if rate is None:
                unpriced[where] = None
            else:
                rates.append(rate)
    return WorstRate(None if unpriced or not rates else max(rates), tuple(unpriced))


def rate_of_purchase(usage: Usage, book: PriceBook, now: int) -> int | None:
    """The worst rate of a reservation for budget admission, in nano-dollars an hour, until its
    end."""
    cuts = book.list_cuts(usage.sku, max(usage.start, min(now, usage.end or now)), usage.end or now)
    return _worst_of(cuts, usage.chips) if cuts else 0


def _future_worst_of(sku: Sku, units: int, book: PriceBook, now: int) -> int | None:
    return _worst_of(book.list_cuts(sku, now, now + FAR), units)


def _worst_of(cuts: Sequence[PriceStretch], units: int) -> int | None:
    """Nano-dollars an hour at the highest price of the period; None if a price is unknown."""
    used = select_usable(cuts)
    known = [units * cut.price.per_chip_hour for cut in used if cut.price is not None]
    return max(known) if known and len(known) == len(used) else None


def find_refusal(
    asked: Hold, rate: WorstRate, rooms: Sequence[BudgetRoom], now: int
) -> BudgetExceeded | None:
    """The refusal of a node at admission, by the budget with the least room. None if all budgets
    have room.

    A node is refused if posted + held + its own hold exceed an amount, or if a price is unknown.
    """
    tight: tuple[BudgetRoom, int, int] | None = None
    for room in rooms:
        within = room.reservations_of(asked.node_id)
        wanted, left = remaining_cost_outside(asked, within, room.window, now), room.amount_left
        if wanted is None:
            places = list(rate.unpriced)[:20]
            return BudgetExceeded(
                f"the budget {room.budget.name!r} cannot compute what this node may cost: no price"
                f" is known for {', '.join(places[:3]) or 'it'}; choose places with a price, or add"
                " a price",
                **_describe_room(room),
                asked=None,
                unpriced=places,
            )
        if left is None:
            number = len(room.held.unpriced)
            nodes = "one of its nodes" if number == 1 else f"{number} of its nodes"
            return BudgetExceeded(
                f"the budget {room.budget.name!r} cannot compute what is left: no price is known"
                f" for {nodes}; add that price first",
                **_describe_room(room),
            )
        if wanted > left and (tight is None or left < tight[2]):
            tight = room, wanted, left
    if tight is None:
        return None
    room, wanted, left = tight
    longest = max(0, max(0, left) * HOUR // (asked.rate or 1) - OVERRUN_SECONDS)
    fits = (
        f"a ttl_seconds of at most {longest} would fit"
        if longest
        else "nothing fits: request less hardware, or have the amount raised"
    )
    return BudgetExceeded(
        f"the budget {room.budget.name!r} has {format_cents(max(0, left))} left until"
        f" {to_rfc3339(room.window.end)}, and this node may cost {format_cents(wanted)} by then;"
        f" {fits}",
        **_describe_room(room),
        asked=format_usd(wanted),
        left=format_usd(max(0, left)),
        longest_ttl_seconds=longest,
    )


def _describe_room(room: BudgetRoom) -> dict[str, object]:
    budget = room.budget
    return {
        "budget": budget.name,
        "budget_id": budget.id,
        "amount": format_usd(budget.amount),
        "spent": format_usd(room.spent),
        "held": None if room.held.total is None else format_usd(room.held.total),
        "held_known": format_usd(room.held.known),
        "resets_at": to_rfc3339(room.window.end),
    }
