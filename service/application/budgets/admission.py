"""Says no before the money is spent: admission of nodes under every budget that covers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from service.domain.budgets.admission import (
    BudgetRoom,
    Hold,
    ReservationHold,
    left_beside,
    rate_of,
    rate_of_purchase,
    refusal,
)
from service.domain.budgets.budget import Budget, HeldAmount, Payer
from service.domain.clock import DAY, Clock
from service.domain.errors import BudgetExceeded
from service.domain.jobs.job import Job
from service.domain.metering.attribution import Attribution, pieces
from service.domain.metering.usage import pool_for
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.purchases import Purchase
from service.domain.time_window import Window
from service.store.budgets import BudgetRefusal
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

_MOVED_SECONDS = 2 * DAY
"""What was used before that is posted, and counts there; so long may the daemon be away."""

Found = Sequence[tuple[Hold, tuple[bool, ...], bool]]


@contextmanager
def admitting(units: Units, clock: Clock) -> Iterator[Unit]:
    """A unit of work that a budget may refuse; that it did is written down though all else is
    undone."""
    try:
        with units() as unit:
            yield unit
    except BudgetExceeded as error:
        with units() as unit:
            unit.budgets.refuse(str(error.facts["budget_id"]), BudgetRefusal(clock(), str(error)))
        raise


def place(unit: Unit, node: Node, prices: PriceShelf, now: int) -> None:
    """Set aside what a node that was just written may cost. Raises BudgetExceeded where a budget
    has no room for it; then nothing of the unit may be kept.

    The budgets that cover it are held until the commit, so that of any number of nodes that are
    asked for at once each sees those before it.
    """
    book = prices.book(unit)
    rate = rate_of(node.spec, book, now)
    unit.holds.place(Hold(node.id, rate.hourly, _lifetime(node, now)), now)
    who = payer_of(unit, node)
    covering = [one for one in unit.budgets.capping() if one.scope.covers(who)]
    _admit(unit, node, covering, book, now)


def moved(unit: Unit, node: Node, before: Attribution, prices: PriceShelf, now: int) -> None:
    """A node that is charged to somebody else from now on is admitted by their budgets, as if it
    were new; those that covered it before have no say in it."""
    who, old = payer_of(unit, node), _who(node, before)
    covering = [
        one for one in unit.budgets.capping() if one.scope.covers(who) and not one.scope.covers(old)
    ]
    _admit(unit, node, covering, prices.book(unit), now)


def prolong(unit: Unit, node: Node, until: int, prices: PriceShelf, now: int) -> None:
    """Set aside what a node may cost that has a time to live and is kept until `until`. Raises
    BudgetExceeded where a budget has no room for it; then nothing of the unit may be kept."""
    ttl = node.spec.ttl_seconds
    if ttl is not None:  # else it is set aside to the end of the period
        longest = max(ttl, until - (now if node.ready_at is None else node.ready_at))
        _hold(unit, node, longest, prices, now, is_longer=longest > ttl)


def retime(unit: Unit, node: Node, before: Node, prices: PriceShelf, now: int) -> None:
    """Set aside what a node may cost that has another time to live than before. Raises
    BudgetExceeded where a longer one has no room; then nothing of the unit may be kept."""
    ttl, old = node.spec.ttl_seconds, before.spec.ttl_seconds
    is_longer = old is not None and (ttl is None or ttl > old)
    _hold(unit, node, _lifetime(node, now), prices, now, is_longer=is_longer)


def _lifetime(node: Node, now: int) -> int | None:
    """Seconds from its READY that a node lives: its time to live, or longer where it is kept; None
    for no end."""
    ttl = node.spec.ttl_seconds
    if ttl is None or node.kept_until is None:
        return ttl
    return max(ttl, node.kept_until - (now if node.ready_at is None else node.ready_at))


def _hold(
    unit: Unit, node: Node, ttl: int | None, prices: PriceShelf, now: int, *, is_longer: bool
) -> None:
    book = prices.book(unit)
    unit.holds.place(Hold(node.id, rate_of(node.spec, book, now).hourly, ttl), now)
    if is_longer:
        who = payer_of(unit, node)
        covering = [one for one in unit.budgets.capping() if one.scope.covers(who)]
        _admit(unit, node, covering, book, now)


def check_job(unit: Unit, node: Node, job: Job, prices: PriceShelf, now: int) -> None:
    """Raise BudgetExceeded unless the budgets of a job have room for its worst case on a node that
    is there: `max_duration_seconds` of it. Budgets that cover the node already have admitted it."""
    who, payer = _payer_of_job(job), payer_of(unit, node)
    covering = [
        one
        for one in unit.budgets.capping()
        if one.scope.covers(who) and not one.scope.covers(payer)
    ]
    if not covering:
        return
    book = prices.book(unit)
    counting = _counting(unit.budgets.locked([one.id for one in covering]), now)
    rate = rate_of(node.spec, book, now)
    asked = Hold(node.id, rate.hourly, job.spec.max_duration_seconds)
    found = unit.holds.open([budget.scope for budget, _ in counting]) if counting else ()
    rooms = _rooms(unit, counting, _priced(unit, found, book, now), book, now)
    error = refusal(asked, rate, rooms, now)
    if error is not None:
        raise error


def _payer_of_job(job: Job) -> Payer:
    return Payer(job.project, job.team, job.owner, job.id, job.labels)


def on_asked(unit: Unit, node: Node, asked: Asked, prices: PriceShelf, now: int) -> None:
    """A stopped node that is to run again is admitted like a new one."""
    if asked is Asked.PRESENT:
        place(unit, replace(node, asked=asked), prices, now)


def held(
    unit: Unit,
    counting: Sequence[tuple[Budget, Window]],
    holds: Found,
    book: PriceBook,
    now: int,
) -> list[HeldAmount]:
    """What the nodes of each budget may cost from now to the end of its window. `holds` are those
    of the scopes, in their order."""
    found = [
        (hold._replace(unposted_since=None), covers)
        for hold, covers in _priced(unit, holds, book, now)
    ]
    bought = [
        replace(one, hold=replace(one.hold, unposted_since=max(now, one.hold.unposted_since)))
        for one in _all_bought(unit, book, now)
    ]
    return [
        _held(found, position, _within(unit, budget, bought, book), window, now)
        for position, (budget, window) in enumerate(counting)
    ]


def payer_of(unit: Unit, node: Node) -> Payer:
    """Who pays for a node now."""
    return _who(node, unit.attributions.of(node.id)[-1])


def _who(node: Node, one: Attribution) -> Payer:
    return Payer(node.spec.project, one.team, one.owner, one.job, one.labels)


def _admit(unit: Unit, node: Node, covering: Sequence[Budget], book: PriceBook, now: int) -> None:
    """Raise BudgetExceeded unless all of these have room for it beside all others."""
    if not covering:
        return
    counting = _counting(unit.budgets.locked([one.id for one in covering]), now)
    found = unit.holds.open([budget.scope for budget, _ in counting]) if counting else ()
    others = [one for one in found if one[0].node_id != node.id]
    mine = next((one for one in found if one[0].node_id == node.id), None)
    if mine is not None:
        ((asked, _),) = _priced(unit, [mine], book, now)
        rooms = _rooms(unit, counting, _priced(unit, others, book, now), book, now)
        rate = rate_of(node.spec, book, now)
        error = refusal(asked._replace(asked=node.asked), rate, rooms, now)
        if error is not None:
            raise error


def rooms_of(unit: Unit, budgets: Sequence[Budget], book: PriceBook, now: int) -> list[BudgetRoom]:
    """How much room each of the budgets has, in those that count now; `spent` is what the ledger
    holds, `held` all that may be added to it."""
    counting = _counting(budgets, now)
    found = unit.holds.open([budget.scope for budget, _ in counting]) if counting else ()
    return _rooms(unit, counting, _priced(unit, found, book, now), book, now)


def _counting(budgets: Sequence[Budget], now: int) -> list[tuple[Budget, Window]]:
    return [(one, window) for one in budgets if (window := one.window(now)) is not None]


def _rooms(
    unit: Unit,
    counting: Sequence[tuple[Budget, Window]],
    found: Sequence[tuple[Hold, tuple[bool, ...]]],
    book: PriceBook,
    now: int,
) -> list[BudgetRoom]:
    behind = _left_behind(unit, book, now) if counting else []
    bought = _all_bought(unit, book, now)
    rooms = []
    for position, (budget, window) in enumerate(counting):
        own = _within(unit, budget, bought, book)
        held = _held(found, position, own, window, now)
        for one in behind:
            if budget.scope.covers(one.old) > budget.scope.covers(one.new):
                held = _with(held, one.hold.node_id, one.hold.left(window, one.until))
        posted = unit.holds.posted(budget.scope, window)
        rooms.append(BudgetRoom(budget, window, posted, held, own.inside))
    return rooms


@dataclass(frozen=True, slots=True)
class _Purchased:
    """A reservation that is not over: what is set aside for it, and who pays."""

    hold: ReservationHold
    who: Payer


@dataclass(frozen=True, slots=True)
class _Own:
    """The reservations of a budget, and its nodes that run in some of them."""

    holds: Sequence[ReservationHold]
    inside: Mapping[str, Sequence[Purchase]]


def _all_bought(unit: Unit, book: PriceBook, now: int) -> list[_Purchased]:
    if not book.purchases:
        return []
    by_id = {one.id: one for one in unit.reservations.standing()}
    found = []
    for usage in unit.usage.purchases(now):
        one = by_id.get(usage.node_id)
        if one is not None:
            rate = rate_of_purchase(usage, book, now)
            hold = ReservationHold(one.id, rate, one.end, usage.posted_until)
            found.append(_Purchased(hold, Payer(one.project, one.team, one.owner, "", one.labels)))
    return found


def _within(unit: Unit, budget: Budget, bought: Sequence[_Purchased], book: PriceBook) -> _Own:
    own = [one.hold for one in bought if budget.scope.covers(one.who)]
    if not own:
        return _Own((), {})
    ids = {one.reservation_id for one in own}
    purchases = [one for one in book.purchases if one.id in ids]
    return _Own(own, {node.id: _serving(purchases, node) for node in unit.nodes.reserved()})


def _serving(purchases: Sequence[Purchase], node: Node) -> Sequence[Purchase]:
    """What a node runs in, or will wherever it is made."""
    zones = [node.zone] if node.zone else [z for one in node.spec.possible for z in one.zones]
    found = {
        tuple(p for p in purchases if p.serves(pool_for(node.spec, zone), node.spec.generation))
        for zone in zones
    }
    return found.pop() if len(found) == 1 else ()


@dataclass(frozen=True, slots=True)
class _Behind:
    """What somebody owes, until an instant, for a node that is charged to somebody else since, and
    is not posted yet."""

    hold: Hold
    until: int
    old: Payer
    new: Payer


def _left_behind(unit: Unit, book: PriceBook, now: int) -> list[_Behind]:
    found = unit.holds.moved(now - _MOVED_SECONDS)
    if not found:
        return []
    ids = [hold.node_id for hold, _, _ in found]
    nodes, attributions = unit.nodes.many(ids), unit.attributions.of_each(ids)
    behind = []
    for hold, _ in _priced(unit, found, book, now):
        if hold.unposted_since is None:
            continue
        node, whose = nodes[hold.node_id], attributions[hold.node_id]
        over = hold._replace(asked=Asked.STOPPED, state=NodeState.STOPPED)
        behind += [
            _Behind(
                over._replace(unposted_since=start), end, _who(node, one), _who(node, whose[-1])
            )
            for start, end, one in pieces(whose, hold.unposted_since, now)
            if one is not whose[-1]
        ]
    return behind


def _held(
    found: Sequence[tuple[Hold, tuple[bool, ...]]],
    position: int,
    own: _Own,
    window: Window,
    now: int,
) -> HeldAmount:
    known, unpriced = 0, []
    for bought in own.holds:
        left = bought.left(window)
        if left is None:
            unpriced.append(bought.reservation_id)
        known += left or 0
    for hold, covers in found:
        if covers[position]:
            left = left_beside(hold, own.inside.get(hold.node_id, ()), window, now)
            if left is None:
                unpriced.append(hold.node_id)
            known += left or 0
    return HeldAmount(known, tuple(unpriced))


def _with(held: HeldAmount, node_id: str, left: int | None) -> HeldAmount:
    """The same with what one node more may cost; None where its price is not known."""
    if left is None:
        return HeldAmount(held.known, tuple(dict.fromkeys((*held.unpriced, node_id))))
    return held._replace(known=held.known + left)


def _priced(
    unit: Unit, found: Found, book: PriceBook, now: int
) -> list[tuple[Hold, tuple[bool, ...]]]:
    """With the rates of those for which none was ever placed: they were adopted, or are older than
    budgets."""
    unplaced = [hold.node_id for hold, _, placed in found if not placed]
    nodes = unit.nodes.many(unplaced) if unplaced else {}
    return [
        (hold if placed else _placed(hold, nodes[hold.node_id], book, now), covers)
        for hold, covers, placed in found
    ]


def _placed(hold: Hold, node: Node, book: PriceBook, now: int) -> Hold:
    rate = rate_of(node.spec, book, now)
    return hold._replace(rate=rate.hourly, ttl=node.spec.ttl_seconds)
