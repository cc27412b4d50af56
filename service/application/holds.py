"""Says no before the money is spent: admission of nodes under every budget that covers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from service.domain.budgets import Budget, Who
from service.domain.clock import Clock
from service.domain.errors import BudgetExceeded
from service.domain.holds import Hold, Room, rate_of, refusal
from service.domain.node import Asked, Node
from service.domain.pricing import PriceBook
from service.domain.window import Window
from service.store.budgets import Refusal
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

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
            unit.budgets.refuse(str(error.facts["budget_id"]), Refusal(clock(), str(error)))
        raise


def place(unit: Unit, node: Node, prices: PriceShelf, now: int) -> None:
    """Set aside what a node that was just written may cost. Raises BudgetExceeded where a budget
    has no room for it; then nothing of the unit may be kept.

    The budgets that cover it are held until the commit, so that of any number of nodes that are
    asked for at once each sees those before it.
    """
    book = prices.book(unit)
    rate = rate_of(node.spec, book, now)
    unit.holds.place(Hold(node.id, rate.hourly, node.spec.ttl_seconds), now)
    who = payer_of(unit, node)
    covering = [one.id for one in unit.budgets.capping() if one.scope.covers(who)]
    if not covering:
        return
    counting = _counting(unit.budgets.locked(covering), now)
    found = unit.holds.open([budget.scope for budget, _ in counting]) if counting else ()
    others = [one for one in found if one[0].node_id != node.id]
    mine = next((one[0] for one in found if one[0].node_id == node.id), None)
    if mine is not None:
        rooms = _rooms(unit, counting, _priced(unit, others, book, now), now)
        error = refusal(replace(mine, asked=Asked.PRESENT), rate, rooms, now)
        if error is not None:
            raise error


def on_asked(unit: Unit, node: Node, asked: Asked, prices: PriceShelf, now: int) -> None:
    """A stopped node that is to run again is admitted like a new one."""
    if asked is Asked.PRESENT:
        place(unit, node, prices, now)


def held(unit: Unit, budget: Budget, window: Window, book: PriceBook, now: int) -> int | None:
    """Nano-dollars that the nodes of a budget may cost from now to the end of the window; None
    where a price of one of them is not known."""
    found = [
        (replace(hold, unposted_since=None), covers)
        for hold, covers in _priced(unit, unit.holds.open([budget.scope]), book, now)
    ]
    return _sum(found, 0, window, now)


def payer_of(unit: Unit, node: Node) -> Who:
    """Who pays for a node now."""
    last = unit.attributions.of(node.id)[-1]
    return Who(node.spec.project, last.team, last.owner, last.job, last.labels)


def rooms_of(unit: Unit, budgets: Sequence[Budget], book: PriceBook, now: int) -> list[Room]:
    """How much room each of the budgets has, in those that count now; `spent` is what the ledger
    holds, `held` all that may be added to it."""
    counting = _counting(budgets, now)
    found = unit.holds.open([budget.scope for budget, _ in counting]) if counting else ()
    return _rooms(unit, counting, _priced(unit, found, book, now), now)


def _counting(budgets: Sequence[Budget], now: int) -> list[tuple[Budget, Window]]:
    return [(one, window) for one in budgets if (window := one.window(now)) is not None]


def _rooms(
    unit: Unit,
    counting: Sequence[tuple[Budget, Window]],
    found: Sequence[tuple[Hold, tuple[bool, ...]]],
    now: int,
) -> list[Room]:
    return [
        Room(
            budget,
            window,
            unit.holds.posted(budget.scope, window),
            _sum(found, position, window, now),
        )
        for position, (budget, window) in enumerate(counting)
    ]


def _sum(
    found: Sequence[tuple[Hold, tuple[bool, ...]]], position: int, window: Window, now: int
) -> int | None:
    total = 0
    for hold, covers in found:
        if covers[position]:
            left = hold.left(window, now)
            if left is None:
                return None
            total += left
    return total


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
    return replace(hold, rate=rate.hourly, ttl=node.spec.ttl_seconds)
