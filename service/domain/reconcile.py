"""Our ledger held against Google's bill, node by node and hour by hour; and who saw what.

Three witnesses: the ledger says what we charge, the bill what Google charges, and the inventory
what was there. Pure: `service.application.reconciliations` reads and writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from service.domain.clock import HOUR
from service.domain.comparison import (
    PENDING_SECONDS,
    Billed,
    Charged,
    Difference,
    Line,
    Pair,
    Rules,
    Seen,
    Sight,
    Verdict,
)
from service.domain.money import half_even, usd

_SHARED = {"preemptible": "spot"}
"""Models that the bill has one SKU for."""

_WORDS = {
    Difference.NONE: "the same",
    Difference.PRICE: "the same seconds at another price",
    Difference.SECONDS: "the same price for other seconds",
    Difference.BOTH: "other seconds at another price",
    Difference.LIST_PRICE: "the same cost, but another list price than in our price book",
    Difference.UNKNOWN: "another amount; the bill does not say for how many seconds",
}


def reconcile(
    billed: Iterable[Billed],
    charged: Iterable[Charged],
    rules: Rules,
    sights: Mapping[str, Sight],
) -> list[Line]:
    """The comparisons of some hours, in an order that does not depend on that of the rows.

    `sights` tell by node id, and by the bill's name for what is no node of ours, what the inventory
    saw.
    """
    pairs = _pairs(sorted(billed, key=_place), sorted(charged, key=_entry))
    return [_compared(pair, rules, sights) for pair in pairs]


def _place(one: Billed) -> tuple[int, tuple[str, ...]]:
    what = one.sku_id, one.generation, one.model, one.description
    return one.hour, (one.node_id, one.project, one.resource, *what)


def _entry(one: Charged) -> tuple[int, str, str, str]:
    return one.hour, one.node_id, one.generation, one.model


def _pairs(billed: Sequence[Billed], charged: Sequence[Charged]) -> Iterator[Pair]:
    """Who is compared with whom: a node's hour, by SKU where both sides name the same ones."""
    theirs: dict[tuple[int, str], list[Billed]] = defaultdict(list)
    ours: dict[tuple[int, str], list[Charged]] = defaultdict(list)
    for row in billed:
        if row.node_id:
            theirs[row.hour, row.node_id].append(row)
        else:
            yield Pair([row], [])
    for entry in charged:
        ours[entry.hour, entry.node_id].append(entry)
    for key in sorted(theirs.keys() | ours.keys()):
        yield from _by_sku(theirs.get(key, []), ours.get(key, []))


def _by_sku(billed: Sequence[Billed], charged: Sequence[Charged]) -> Iterator[Pair]:
    kinds = {_kind(one) for one in billed}
    if len(kinds) > 1 and kinds == {_kind(one) for one in charged}:
        for kind in sorted(kinds):
            yield Pair(
                [one for one in billed if _kind(one) == kind],
                [one for one in charged if _kind(one) == kind],
            )
    else:
        yield Pair(billed, charged)


def _kind(one: Billed | Charged) -> tuple[str, str]:
    return one.generation, _SHARED.get(one.model, one.model)


def _compared(pair: Pair, rules: Rules, sights: Mapping[str, Sight]) -> Line:
    first: Billed | Charged = pair.billed[0] if pair.billed else pair.charged[0]
    theirs, ours = pair.billed, pair.charged
    cost, amount = sum(one.cost for one in theirs), sum(one.amount for one in ours)
    used = _total([one.chip_seconds for one in theirs])
    counted = sum(one.chip_seconds for one in ours)
    difference = _difference(pair, cost - amount, used, counted)
    sight = sights.get(first.node_id or _resource(theirs)) or Sight(Seen.NEVER, "")
    verdict = _verdict(pair, difference, cost - amount, rules)
    return Line(
        verdict=verdict,
        project=first.project,
        resource=_resource(theirs),
        node_id=first.node_id,
        sku_id=theirs[0].sku_id if theirs else "",
        description=theirs[0].description if theirs else "",
        generation=first.generation or (ours[0].generation if ours else ""),
        model=ours[0].model if ours else first.model,
        hour=first.hour,
        billed=cost,
        credits=sum(one.credits for one in theirs),
        billed_at_list=_total([one.at_list for one in theirs]),
        billed_chip_seconds=used,
        charged=amount,
        charged_at_list=_total([one.at_list for one in ours]),
        charged_chip_seconds=counted,
        variance=cost - amount,
        by_seconds=_by_seconds(cost, amount, used if theirs else 0, counted),
        difference=difference,
        seen=sight.seen,
        reason=_reason(pair, verdict, difference, sight),
    )


def _resource(theirs: Sequence[Billed]) -> str:
    return theirs[0].resource if theirs else ""


def _total(some: Sequence[int | None]) -> int | None:
    """Their sum; None where one of them is not known, or there is none."""
    known = [one for one in some if one is not None]
    return sum(known) if known and len(known) == len(some) else None


def _difference(pair: Pair, variance: int, used: int | None, counted: int) -> Difference:
    if not _is_exact(pair, variance):
        if not pair.billed or not pair.charged:
            return Difference.SECONDS
        if used is None:
            return Difference.UNKNOWN
        return _split(pair, used, counted)
    return Difference.NONE if _lists_agree(pair) else Difference.LIST_PRICE


def _split(pair: Pair, used: int, counted: int) -> Difference:
    """Which of seconds and price it is: the same price is that at which both amounts agree."""
    if used == counted:
        return Difference.PRICE
    cost, amount = sum(one.cost for one in pair.billed), sum(one.amount for one in pair.charged)
    at_our_price = half_even(amount * used, counted) if counted else cost
    return Difference.SECONDS if _is_exact(pair, cost - at_our_price) else Difference.BOTH


def _is_exact(pair: Pair, variance: int) -> bool:
    """Whether two sums are the same but for the rounding of each of their rows."""
    rows = sum(one.rows for one in pair.billed) + sum(one.rows for one in pair.charged)
    return abs(variance) <= rows


def _lists_agree(pair: Pair) -> bool:
    """Whether both name the same amount at list, where both name one. Ours is that of on-demand; a
    list price of another model is not in the ledger."""
    theirs = _total([one.at_list for one in pair.billed])
    ours = _total([one.at_list for one in pair.charged])
    models = {one.model for one in pair.billed} | {one.model for one in pair.charged}
    comparable = models == {"on_demand"}
    if theirs is None or ours is None or not comparable:
        return True
    return _is_exact(pair, theirs - ours)


def _by_seconds(cost: int, amount: int, used: int | None, counted: int) -> int | None:
    """Nano-dollars of the variance that the seconds account for, at our price."""
    if not counted:
        return cost - amount
    return None if used is None else half_even(amount * (used - counted), counted)


def _verdict(pair: Pair, difference: Difference, variance: int, rules: Rules) -> Verdict:
    """A leak is one however young it is: what comes later only makes it larger."""
    if difference is Difference.NONE:
        return Verdict.MATCHED
    if pair.billed and not pair.billed[0].node_id:
        return Verdict.BILL_WITHOUT_NODE
    hour = pair.billed[0].hour if pair.billed else pair.charged[0].hour
    if hour + HOUR > rules.newest - PENDING_SECONDS:
        return Verdict.PENDING
    if difference is not Difference.LIST_PRICE and abs(variance) <= rules.tolerance:
        return Verdict.TOLERATED
    return Verdict.AMOUNT_DIFFERS if pair.billed else Verdict.NODE_WITHOUT_BILL


def _reason(pair: Pair, verdict: Verdict, difference: Difference, sight: Sight) -> str:
    """Why, in words that say where to look next."""
    match verdict:
        case Verdict.MATCHED:
            return ""
        case Verdict.TOLERATED:
            return "less than the tolerance"
        case Verdict.BILL_WITHOUT_NODE:
            return _leak(sight)
        case Verdict.NODE_WITHOUT_BILL:
            return (
                f"charged by us and not on the bill; {sight.words or 'nothing shows that it ran'}"
            )
        case Verdict.PENDING | Verdict.AMOUNT_DIFFERS:
            young = "the bill may still change; " if verdict is Verdict.PENDING else ""
            return young + _disagreement(pair, difference)


def _leak(sight: Sight) -> str:
    if sight.seen is Seen.ORPHAN:
        return f"made outside of this service; {sight.words}"
    return f"made outside of this service; {sight.words or 'our inventory never saw it'}"


def _disagreement(pair: Pair, difference: Difference) -> str:
    theirs, ours = pair.billed, pair.charged
    if not theirs:
        return "it is not on the bill yet"
    if not ours:
        return "the node is ours, and the ledger has nothing in this hour"
    models = sorted({one.model for one in theirs} - {""})
    if models and {_kind(one) for one in theirs} != {_kind(one) for one in ours}:
        charged = ", ".join(sorted({one.model for one in ours}))
        return f"billed as {', '.join(models)}, charged as {charged}"
    return _WORDS[difference] + (_contracted(pair) if difference is Difference.PRICE else "")


def _contracted(pair: Pair) -> str:
    """A hint where the bill's list price is what we charge: a contract that we do not know of."""
    theirs = _total([one.at_list for one in pair.billed])
    ours = sum(one.amount for one in pair.charged)
    cost = sum(one.cost for one in pair.billed)
    if theirs is None or not _is_exact(pair, theirs - ours) or cost > theirs:
        return ""
    return f"; at list it agrees, so {usd(theirs - cost)} is a discount that is not in our books"
