"""Our ledger held against Google's bill, node by node and hour by hour; and who saw what.

Three witnesses: the ledger says what we charge, the bill what Google charges, and the inventory
what was there. Pure: `service.application.reconciliations` reads and writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from service.domain.clock import HOUR, rfc3339
from service.domain.metering.reservation import Reservation
from service.domain.money import dollars, half_even, usd
from service.domain.pricing.price_book import RESERVED
from service.domain.reconciliation.bill_row import UNSPECIFIED
from service.domain.reconciliation.reservations import BilledHour, together
from service.domain.reconciliation.variance import (
    PENDING_SECONDS,
    Billed,
    Charged,
    ComparedPair,
    Comparison,
    Difference,
    InventorySight,
    Rules,
    Seen,
    Verdict,
)

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
_WHATEVER_IT_COMES_TO = frozenset(
    {Difference.LIST_PRICE, Difference.UNKNOWN_SKU, Difference.SKU, Difference.NO_RATE}
)
"""Differences that no tolerance covers: they are none of the amount."""

_OF_SKU = frozenset({Difference.UNKNOWN_SKU, Difference.SKU, Difference.NO_RATE})
"""Those with which it is not known that the bill means what we charge."""


def reconcile(
    billed: Iterable[Billed],
    charged: Iterable[Charged],
    rules: Rules,
    sights: Mapping[str, InventorySight],
    reservations: Sequence[Reservation] = (),
) -> list[Comparison]:
    """The comparisons of some hours, in an order that does not depend on that of the rows.

    `sights` tell by node id, and by the bill's name for what is no node of ours, what the inventory
    saw. `reservations` are all that were ever written down.
    """
    hours = _hours(sorted(billed, key=_place), sorted(charged, key=_entry))
    pairs = (pair for hour in hours for pair in together(hour, reservations))
    return [_compared(pair, rules, sights) for pair in pairs]


def _place(one: Billed) -> tuple[int, tuple[str, ...]]:
    what = one.sku_id, one.generation, one.model, one.description
    return one.hour, (one.node_id, one.project, one.resource, *what)


def _entry(one: Charged) -> tuple[int, str, str, str, str]:
    return one.hour, one.node_id, one.generation, one.model, one.reservation_id


def _hours(billed: Sequence[Billed], charged: Sequence[Charged]) -> Iterator[BilledHour]:
    """Both sides hour by hour; those of a node by SKU where both name the same ones."""
    theirs: dict[tuple[int, str], list[Billed]] = defaultdict(list)
    ours: dict[tuple[int, str], list[Charged]] = defaultdict(list)
    strangers: dict[int, list[Billed]] = defaultdict(list)
    unused: dict[int, list[Charged]] = defaultdict(list)
    nodes: dict[int, list[ComparedPair]] = defaultdict(list)
    for row in billed:
        if row.node_id:
            theirs[row.hour, row.node_id].append(row)
        else:
            strangers[row.hour].append(row)
    for entry in charged:
        if entry.is_unused:
            unused[entry.hour].append(entry)
        else:
            ours[entry.hour, entry.node_id].append(entry)
    for key in sorted(theirs.keys() | ours.keys()):
        nodes[key[0]].extend(_by_sku(theirs.get(key, []), ours.get(key, [])))
    for hour in sorted(strangers.keys() | unused.keys() | nodes.keys()):
        yield BilledHour(hour, strangers[hour], nodes[hour], unused[hour])


def _by_sku(billed: Sequence[Billed], charged: Sequence[Charged]) -> Iterator[ComparedPair]:
    kinds = {_kind(one) for one in billed}
    if len(kinds) > 1 and kinds == {_kind(one) for one in charged}:
        for kind in sorted(kinds):
            yield ComparedPair(
                [one for one in billed if _kind(one) == kind],
                [one for one in charged if _kind(one) == kind],
            )
    else:
        yield ComparedPair(billed, charged)


def _kind(one: Billed | Charged) -> tuple[str, str]:
    return one.generation, _SHARED.get(one.model, one.model)


def _compared(pair: ComparedPair, rules: Rules, sights: Mapping[str, InventorySight]) -> Comparison:
    first: Billed | Charged = pair.billed[0] if pair.billed else pair.charged[0]
    theirs, ours, cost, amount = pair.billed, pair.charged, pair.cost, pair.amount
    used = _total([one.chip_seconds for one in theirs])
    counted = sum(one.chip_seconds for one in ours)
    difference = Difference.NO_RATE
    if not pair.no_rate:
        difference = _difference(pair, cost - amount, used, counted)
    sight = _sight(pair, sights.get(first.node_id or _resource(theirs)))
    verdict = _verdict(pair, difference, cost - amount, rules)
    of_credits = _of_credits(pair, difference)
    return Comparison(
        verdict=verdict,
        project=first.project,
        resource=_resource(theirs),
        node_id="" if pair.bought else first.node_id,
        sku_id=theirs[0].sku_id if theirs else "",
        description=theirs[0].description if theirs else "",
        generation=first.generation or (ours[0].generation if ours else ""),
        model=ours[0].model if ours else first.model,
        hour=first.hour,
        billed=cost,
        credits=pair.credits,
        billed_at_list=_total([one.at_list for one in theirs]),
        billed_chip_seconds=used,
        charged=amount,
        charged_at_list=_total([one.at_list for one in ours]),
        charged_chip_seconds=counted,
        variance=cost - amount,
        by_seconds=_by_seconds(cost, amount, used if theirs else 0, counted),
        difference=difference,
        seen=sight.seen,
        reason="; ".join(filter(None, (_reason(pair, verdict, difference, sight), of_credits))),
        reservation=", ".join(dict.fromkeys(one.name for one in pair.bought)),
        credit_kinds=pair.credit_kinds,
        is_explained=_is_explained(pair, difference),
        shares=[share for one in theirs for share in one.shares],
    )


def _sight(pair: ComparedPair, of_inventory: InventorySight | None) -> InventorySight:
    """Who saw it: of a reservation there is nothing to be seen, only what was written down."""
    if not pair.bought:
        return of_inventory or InventorySight(Seen.NEVER, "")
    return InventorySight(Seen.RECORDED, "; ".join(map(_written, pair.bought)))


def _written(one: Reservation) -> str:
    taken_back = "" if one.withdrawn_at is None else f", which was withdrawn: {one.reason}"
    span = f"from {rfc3339(one.start)} to {rfc3339(one.end)}"
    return f"{one.name} is recorded {span}{taken_back}"


def _resource(theirs: Sequence[Billed]) -> str:
    return theirs[0].resource if theirs else ""


def _total(some: Sequence[int | None]) -> int | None:
    """Their sum; None where one of them is not known, or there is none."""
    known = [one for one in some if one is not None]
    return sum(known) if known and len(known) == len(some) else None


def _difference(pair: ComparedPair, variance: int, used: int | None, counted: int) -> Difference:
    if not pair.is_exact(variance):
        if not pair.billed or not pair.charged:
            return Difference.SECONDS
        if used is None:
            return Difference.UNKNOWN
        return _split(pair, used, counted)
    if (of_sku := _sku_difference(pair)) is not Difference.NONE:
        return of_sku
    return Difference.NONE if _lists_agree(pair) else Difference.LIST_PRICE


def _sku_difference(pair: ComparedPair) -> Difference:
    """Whether the SKU sells what we charge for. That of a reserved node is the SKU of on-demand."""
    if not pair.billed or not pair.charged:
        return Difference.NONE
    if any(_is_unknown(row) for row in pair.billed):
        return Difference.UNKNOWN_SKU
    ours = {_sold(one) for one in pair.charged}
    return Difference.NONE if {_sold(row) for row in pair.billed} <= ours else Difference.SKU


def _is_unknown(row: Billed) -> bool:
    return not row.generation and not row.model


def _sold(one: Billed | Charged) -> tuple[str, str]:
    generation, model = _kind(one)
    return generation, "on_demand" if model == RESERVED else model


def _split(pair: ComparedPair, used: int, counted: int) -> Difference:
    """Which of seconds and price it is: the same price is that at which both amounts agree."""
    if used == counted:
        return Difference.PRICE
    at_our_price = half_even(pair.amount * used, counted) if counted else pair.cost
    return Difference.SECONDS if pair.is_exact(pair.cost - at_our_price) else Difference.BOTH


def _lists_agree(pair: ComparedPair) -> bool:
    """Whether both name the same amount at list, where both name one. Ours is that of on-demand; a
    list price of another model is not in the ledger."""
    theirs = _total([one.at_list for one in pair.billed])
    ours = _total([one.at_list for one in pair.charged])
    models = {one.model for one in pair.billed} | {one.model for one in pair.charged}
    comparable = models == {"on_demand"}
    if theirs is None or ours is None or not comparable:
        return True
    return pair.is_exact(theirs - ours)


def _by_seconds(cost: int, amount: int, used: int | None, counted: int) -> int | None:
    """Nano-dollars of the variance that the seconds account for, at our price."""
    if not counted:
        return cost - amount
    return None if used is None else half_even(amount * (used - counted), counted)


def _verdict(pair: ComparedPair, difference: Difference, variance: int, rules: Rules) -> Verdict:
    """A leak is one however young it is: what comes later only makes it larger."""
    if _is_of_nobody(pair) and not _is_nothing(pair):
        return Verdict.BILL_WITHOUT_NODE
    if difference is Difference.NONE:
        return Verdict.MATCHED
    if pair.hour + HOUR > rules.newest - PENDING_SECONDS:
        return Verdict.PENDING
    if difference not in _WHATEVER_IT_COMES_TO and abs(variance) <= rules.tolerance:
        return Verdict.TOLERATED
    return Verdict.AMOUNT_DIFFERS if pair.billed else Verdict.NODE_WITHOUT_BILL


def _is_of_nobody(pair: ComparedPair) -> bool:
    """Whether it is on the bill, and in none of our records."""
    return bool(pair.billed) and not (pair.billed[0].node_id or pair.bought)


def _is_nothing(pair: ComparedPair) -> bool:
    """Whether a bill says neither an amount nor a use: what is free may well have been used. Where
    a row does not say for how long, its list price does."""
    used = (one.at_list if one.chip_seconds is None else one.chip_seconds for one in pair.billed)
    return pair.is_exact(pair.cost) and not any(used) and not pair.no_rate


def _reason(
    pair: ComparedPair, verdict: Verdict, difference: Difference, sight: InventorySight
) -> str:
    """Why, in words that say where to look next."""
    match verdict:
        case Verdict.MATCHED:
            return ""
        case Verdict.TOLERATED:
            return "less than the tolerance"
        case Verdict.BILL_WITHOUT_NODE:
            return _leak(pair.billed[0], sight)
        case Verdict.NODE_WITHOUT_BILL:
            return (
                f"charged by us and not on the bill; {sight.words or 'nothing shows that it ran'}"
            )
        case Verdict.PENDING | Verdict.AMOUNT_DIFFERS:
            young = "the bill may still change; " if verdict is Verdict.PENDING else ""
            known = f"; {sight.words}" if pair.bought else ""
            return young + _disagreement(pair, difference) + known


def _leak(row: Billed, sight: InventorySight) -> str:
    if row.no_rate:
        return f"created outside of this service; {_without_rate(row.no_rate)}"
    if row.model == RESERVED:
        return "bought outside of this service; no recorded reservation matches"
    if sight.seen is Seen.ORPHAN:
        return f"created outside of this service; {sight.words}"
    return f"created outside of this service; {sight.words or 'no poll ever listed it'}"


def _without_rate(currency: str) -> str:
    return f"billed in {currency} without a conversion rate, so set apart and not compared"


def _is_explained(pair: ComparedPair, difference: Difference) -> bool:
    """Whether the ledger agrees with the cost, or with what is left of it after the credits."""
    if difference in _OF_SKU:
        return False
    before, after = pair.cost - pair.amount, pair.cost + pair.credits - pair.amount
    return pair.is_exact(before) or (pair.credits != 0 and pair.is_exact(after))


def _of_credits(pair: ComparedPair, difference: Difference) -> str:
    """What the credits account for; empty where the bill has none."""
    if not pair.credits:
        return ""
    kinds = pair.credit_kinds or {UNSPECIFIED: pair.credits}
    named = ", ".join(f"{kind} {dollars(amount)}" for kind, amount in kinds.items() if amount)
    net = pair.cost + pair.credits
    if not _is_explained(pair, difference):
        left = dollars(net - pair.amount)
        return f"credits do not explain it: {named} leave {dollars(net)} to pay, {left} off"
    if pair.is_exact(pair.cost - pair.amount):
        return f"the ledger has the cost before credits; {named} leave {dollars(net)} to pay"
    return f"credits explain it: after {named} the bill is what the ledger charges"


def _disagreement(pair: ComparedPair, difference: Difference) -> str:
    if pair.no_rate:
        return _without_rate(pair.no_rate)
    if not pair.billed:
        return "it is not on the bill yet"
    if not pair.charged:
        whose = "reservation" if pair.bought else "node"
        return f"the {whose} is managed here, and the ledger has no charge in this hour"
    if of_sku := _of_sku(pair, difference):
        return of_sku
    return _WORDS[difference] + (_contracted(pair) if difference is Difference.PRICE else "")


def _of_sku(pair: ComparedPair, difference: Difference) -> str:
    """What the SKU of the bill has to do with it; empty where it sells what we charge for."""
    unknown = next((row for row in pair.billed if _is_unknown(row)), None)
    if unknown is not None:
        same = "the same amount" if difference is Difference.UNKNOWN_SKU else _WORDS[difference]
        return f"unknown SKU {unknown.sku_id} ({unknown.description[:80]!r}); {same}"
    if difference is Difference.SKU:
        return f"the same amount, {_billed_as(pair)}"
    models = sorted({row.model for row in pair.billed} - {""})
    if models and {_kind(one) for one in pair.billed} != {_kind(one) for one in pair.charged}:
        charged = ", ".join(sorted({one.model for one in pair.charged}))
        return f"billed as {', '.join(models)}, charged as {charged}"
    return ""


def _billed_as(pair: ComparedPair) -> str:
    theirs, ours = ({_kind(one) for one in side} for side in (pair.billed, pair.charged))
    said = [", ".join(sorted(f"{one[0]} {one[1]}" for one in side)) for side in (theirs, ours)]
    return f"billed as {said[0]}, charged as {said[1]}"


def _contracted(pair: ComparedPair) -> str:
    """A hint where the bill's list price is what we charge: a contract that we do not know of."""
    theirs = _total([one.at_list for one in pair.billed])
    if theirs is None or not pair.is_exact(theirs - pair.amount) or pair.cost > theirs:
        return ""
    return (
        f"; at list price the amounts agree, so {usd(theirs - pair.cost)} is a discount that"
        " is not recorded"
    )
