"""Admission of nodes and jobs under every budget that covers them, before money is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from service.domain.budgets.admission import (
    BudgetRoom,
    Hold,
    ReservationHold,
    find_refusal,
    rate_of,
    rate_of_purchase,
    remaining_cost_outside,
)
from service.domain.budgets.budget import Budget, HeldAmount, Payer, payer_under
from service.domain.clock import DAY, Clock
from service.domain.errors import BudgetExceeded
from service.domain.jobs.job import Job
from service.domain.metering.attribution import Attribution, split_by_attribution
from service.domain.metering.usage import pool_for
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.purchases import Purchase
from service.domain.time_window import Window
from service.store.budgets import BudgetRefusal
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

_MOVED_SECONDS = 2 * DAY
"""Usage older than this is posted, and counts in the ledger. The daemon may be down for this long.
"""

Found = Sequence[tuple[Hold, tuple[bool, ...], bool]]


@contextmanager
def open_unit(units: Units, clock: Clock) -> Iterator[Unit]:
    """A unit of work that a budget may refuse. The refusal is recorded although everything else of
    the unit is rolled back."""
    try:
        with units() as unit:
            yield unit
    except BudgetExceeded as error:
        with units() as unit:
            unit.budgets.add_refusal(
                str(error.facts["budget_id"]), BudgetRefusal(clock(), str(error))
            )
        raise


def admit_node(unit: Unit, node: Node, prices: PriceBookCache, now: int) -> None:
    """Set aside what a node that was just written may cost. Raises BudgetExceeded if a budget has
    no room for it; then nothing of the unit may be kept.

    The budgets that cover the node are locked until the commit: of several nodes that are requested
    at once, each sees the nodes before it.
    """
    book = prices.get_book(unit)
    rate = rate_of(node.spec, book, now)
    unit.holds.save(Hold(node.id, rate.hourly, _lifetime_seconds(node, now)), now)
    who = unit.attributions.find_payer(node)
    covering = [budget for budget in unit.budgets.list_capping() if budget.scope.applies_to(who)]
    _require_room(unit, node, covering, book, now)


def admit_under_new_payer(
    unit: Unit, node: Node, before: Attribution, prices: PriceBookCache, now: int
) -> None:
    """Admit a node that is charged to another payer from now on under the budgets of that payer, as
    if the node were new. Budgets that covered the node before are not asked."""
    who, old = unit.attributions.find_payer(node), payer_under(node, before)
    covering = [
        budget
        for budget in unit.budgets.list_capping()
        if budget.scope.applies_to(who) and not budget.scope.applies_to(old)
    ]
    _require_room(unit, node, covering, prices.get_book(unit), now)


def extend_hold(unit: Unit, node: Node, until: int, prices: PriceBookCache, now: int) -> None:
    """Set aside what a node with a time to live may cost when it is kept until `until`. Raises
    BudgetExceeded if a budget has no room for it; then nothing of the unit may be kept."""
    ttl = node.spec.ttl_seconds
    if ttl is not None:  # without one, the hold reaches to the end of the period anyway
        longest = max(ttl, until - (now if node.ready_at is None else node.ready_at))
        _place_and_admit(unit, node, longest, prices, now, is_longer=longest > ttl)


def update_hold_ttl(unit: Unit, node: Node, before: Node, prices: PriceBookCache, now: int) -> None:
    """Set aside what a node may cost after its time to live changed. Raises BudgetExceeded if a
    budget has no room for a longer one; then nothing of the unit may be kept."""
    ttl, old = node.spec.ttl_seconds, before.spec.ttl_seconds
    is_longer = old is not None and (ttl is None or ttl > old)
    _place_and_admit(unit, node, _lifetime_seconds(node, now), prices, now, is_longer=is_longer)


def _lifetime_seconds(node: Node, now: int) -> int | None:
    """Seconds from READY that a node lives: its time to live, or longer while it is kept. None for
    no end."""
    ttl = node.spec.ttl_seconds
    if ttl is None or node.kept_until is None:
        return ttl
    return max(ttl, node.kept_until - (now if node.ready_at is None else node.ready_at))


def _place_and_admit(
    unit: Unit, node: Node, ttl: int | None, prices: PriceBookCache, now: int, *, is_longer: bool
) -> None:
    """Place the hold of a node for `ttl` seconds, and admit the node if the hold is longer."""
    book = prices.get_book(unit)
    unit.holds.save(Hold(node.id, rate_of(node.spec, book, now).hourly, ttl), now)
    if is_longer:
        who = unit.attributions.find_payer(node)
        covering = [
            budget for budget in unit.budgets.list_capping() if budget.scope.applies_to(who)
        ]
        _require_room(unit, node, covering, book, now)


def check_job(unit: Unit, node: Node, job: Job, prices: PriceBookCache, now: int) -> None:
    """Raise BudgetExceeded unless the budgets of a job have room for its worst case on an existing
    node: `max_duration_seconds`. Budgets that cover the node have admitted it already."""
    who = Payer(job.project, job.team, job.owner, job.id, job.labels)
    payer = unit.attributions.find_payer(node)
    covering = [
        budget
        for budget in unit.budgets.list_capping()
        if budget.scope.applies_to(who) and not budget.scope.applies_to(payer)
    ]
    if not covering:
        return
    book = prices.get_book(unit)
    counting = _list_counting(unit.budgets.list_locked([budget.id for budget in covering]), now)
    rate = rate_of(node.spec, book, now)
    asked = Hold(node.id, rate.hourly, job.spec.max_duration_seconds)
    found = unit.holds.list_open([budget.scope for budget, _ in counting]) if counting else ()
    rooms = _compute_rooms(unit, counting, _with_rates(unit, found, book, now), book, now)
    error = find_refusal(asked, rate, rooms, now)
    if error is not None:
        raise error


def on_asked(unit: Unit, node: Node, asked: Asked, prices: PriceBookCache, now: int) -> None:
    """Admit a stopped node that is started again, like a new one."""
    if asked is Asked.PRESENT:
        admit_node(unit, replace(node, asked=asked), prices, now)


def held_amounts(
    unit: Unit,
    counting: Sequence[tuple[Budget, Window]],
    holds: Found,
    book: PriceBook,
    now: int,
) -> list[HeldAmount]:
    """What the nodes of each budget may cost from now to the end of its window. `holds` are those
    of the scopes, in the order of `counting`."""
    found = [
        (hold._replace(unposted_since=None), covers)
        for hold, covers in _with_rates(unit, holds, book, now)
    ]
    bought = [
        replace(
            purchase,
            hold=replace(purchase.hold, unposted_since=max(now, purchase.hold.unposted_since)),
        )
        for purchase in _list_purchased(unit, book, now)
    ]
    return [
        _sum_held(found, position, _find_own_reservations(unit, budget, bought, book), window, now)
        for position, (budget, window) in enumerate(counting)
    ]


def _require_room(
    unit: Unit, node: Node, covering: Sequence[Budget], book: PriceBook, now: int
) -> None:
    """Raise BudgetExceeded unless each of the budgets has room for the node beside all others."""
    if not covering:
        return
    counting = _list_counting(unit.budgets.list_locked([budget.id for budget in covering]), now)
    found = unit.holds.list_open([budget.scope for budget, _ in counting]) if counting else ()
    others = [entry for entry in found if entry[0].node_id != node.id]
    mine = next((entry for entry in found if entry[0].node_id == node.id), None)
    if mine is not None:
        ((asked, _),) = _with_rates(unit, [mine], book, now)
        rooms = _compute_rooms(unit, counting, _with_rates(unit, others, book, now), book, now)
        rate = rate_of(node.spec, book, now)
        error = find_refusal(asked._replace(asked=node.asked), rate, rooms, now)
        if error is not None:
            raise error


def rooms_of(unit: Unit, budgets: Sequence[Budget], book: PriceBook, now: int) -> list[BudgetRoom]:
    """The room in each of the budgets that count now. `spent` is what the ledger holds, `held` is
    everything that may be added to it."""
    counting = _list_counting(budgets, now)
    found = unit.holds.list_open([budget.scope for budget, _ in counting]) if counting else ()
    return _compute_rooms(unit, counting, _with_rates(unit, found, book, now), book, now)


def _list_counting(budgets: Sequence[Budget], now: int) -> list[tuple[Budget, Window]]:
    """The budgets that count now, each with its window."""
    return [(budget, window) for budget in budgets if (window := budget.window_at(now)) is not None]


def _compute_rooms(
    unit: Unit,
    counting: Sequence[tuple[Budget, Window]],
    found: Sequence[tuple[Hold, tuple[bool, ...]]],
    book: PriceBook,
    now: int,
) -> list[BudgetRoom]:
    behind = _list_left_behind(unit, book, now) if counting else []
    bought = _list_purchased(unit, book, now)
    rooms = []
    for position, (budget, window) in enumerate(counting):
        own = _find_own_reservations(unit, budget, bought, book)
        held = _sum_held(found, position, own, window, now)
        for owed in behind:
            if budget.scope.applies_to(owed.old) <= budget.scope.applies_to(owed.new):
                continue
            left = owed.hold.remaining_cost(window, owed.until)
            if left is None:  # its price is unknown
                unpriced = dict.fromkeys((*held.unpriced, owed.hold.node_id))
                held = HeldAmount(held.known, tuple(unpriced))
            else:
                held = held._replace(known=held.known + left)
        posted = unit.holds.sum_posted(budget.scope, window)
        rooms.append(BudgetRoom(budget, window, posted, held, own.inside))
    return rooms


@dataclass(frozen=True, slots=True)
class _Purchased:
    """A reservation that is not over or not fully posted: what is set aside for it, and who
    pays."""

    hold: ReservationHold
    who: Payer


@dataclass(frozen=True, slots=True)
class _Own:
    """The reservations of a budget, and its nodes that run in some of them."""

    holds: Sequence[ReservationHold]
    inside: Mapping[str, Sequence[Purchase]]


def _list_purchased(unit: Unit, book: PriceBook, now: int) -> list[_Purchased]:
    """The reservations that are not over or not fully posted, with their rates and payers."""
    if not book.purchases:
        return []
    by_id = {reservation.id: reservation for reservation in unit.reservations.list_standing()}
    found = []
    for usage in unit.usage.list_purchases(now):
        reservation = by_id.get(usage.node_id)
        if reservation is not None:
            rate = rate_of_purchase(usage, book, now)
            hold = ReservationHold(reservation.id, rate, reservation.end, usage.posted_until)
            payer = Payer(
                reservation.project, reservation.team, reservation.owner, "", reservation.labels
            )
            found.append(_Purchased(hold, payer))
    return found


def _find_own_reservations(
    unit: Unit, budget: Budget, bought: Sequence[_Purchased], book: PriceBook
) -> _Own:
    """The reservations that a budget covers, and the nodes that run in them."""
    own = [purchase.hold for purchase in bought if budget.scope.applies_to(purchase.who)]
    if not own:
        return _Own((), {})
    ids = {hold.reservation_id for hold in own}
    purchases = [purchase for purchase in book.purchases if purchase.id in ids]
    inside: dict[str, Sequence[Purchase]] = {}
    for node in unit.nodes.list_reserved():
        zones = (
            [node.zone]
            if node.zone
            else [zone for hardware in node.spec.possible_hardware for zone in hardware.zones]
        )
        by_zone = {
            tuple(
                purchase
                for purchase in purchases
                if purchase.serves_pool(pool_for(node.spec, zone), node.spec.generation)
            )
            for zone in zones
        }
        # A node without a zone runs in none of them if that depends on the zone.
        inside[node.id] = by_zone.pop() if len(by_zone) == 1 else ()
    return _Own(own, inside)


@dataclass(frozen=True, slots=True)
class _Behind:
    """What a previous payer owes until an instant for a node that another payer is charged for
    since. The ledger does not hold the amount yet."""

    hold: Hold
    until: int
    old: Payer
    new: Payer


def _list_left_behind(unit: Unit, book: PriceBook, now: int) -> list[_Behind]:
    """What previous payers owe for nodes whose payer changed lately, as far as it is not posted."""
    found = unit.holds.list_moved(now - _MOVED_SECONDS)
    if not found:
        return []
    ids = [hold.node_id for hold, _, _ in found]
    nodes, attributions = unit.nodes.find_many(ids), unit.attributions.list_by_nodes(ids)
    behind = []
    for hold, _ in _with_rates(unit, found, book, now):
        if hold.unposted_since is None:
            continue
        node, whose = nodes[hold.node_id], attributions[hold.node_id]
        over = hold._replace(asked=Asked.STOPPED, state=NodeState.STOPPED)
        behind += [
            _Behind(
                over._replace(unposted_since=start),
                end,
                payer_under(node, earlier),
                payer_under(node, whose[-1]),
            )
            for start, end, earlier in split_by_attribution(whose, hold.unposted_since, now)
            if earlier is not whose[-1]
        ]
    return behind


def _sum_held(
    found: Sequence[tuple[Hold, tuple[bool, ...]]],
    position: int,
    own: _Own,
    window: Window,
    now: int,
) -> HeldAmount:
    """What counts against the budget at `position` until the end of its window."""
    known, unpriced = 0, []
    for bought in own.holds:
        left = bought.remaining_cost(window)
        if left is None:
            unpriced.append(bought.reservation_id)
        known += left or 0
    for hold, covers in found:
        if covers[position]:
            left = remaining_cost_outside(hold, own.inside.get(hold.node_id, ()), window, now)
            if left is None:
                unpriced.append(hold.node_id)
            known += left or 0
    return HeldAmount(known, tuple(unpriced))


def _with_rates(
    unit: Unit, found: Found, book: PriceBook, now: int
) -> list[tuple[Hold, tuple[bool, ...]]]:
    """The holds with rates. Holds that were never placed (adopted nodes, nodes older than budgets)
    get the rate and the time to live of their node."""
    unplaced = [hold.node_id for hold, _, placed in found if not placed]
    nodes = unit.nodes.find_many(unplaced) if unplaced else {}
    priced = []
    for hold, covers, placed in found:
        known = hold
        if not placed:
            spec = nodes[hold.node_id].spec
            known = hold._replace(rate=rate_of(spec, book, now).hourly, ttl=spec.ttl_seconds)
        priced.append((known, covers))
    return priced
