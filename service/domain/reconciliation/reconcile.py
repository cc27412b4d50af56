"""The comparison of our ledger with Google's bill, for each node and hour.

Three sources: the ledger says what we charge, the bill what Google charges, and the inventory which
nodes existed. Pure: `service.application.reconciliations` reads and writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from service.domain.clock import HOUR, to_rfc3339
from service.domain.metering.reservation import Reservation
from service.domain.money import format_dollars, format_usd, half_even
from service.domain.pricing.price_book import RESERVED
from service.domain.reconciliation.bill_row import UNSPECIFIED
from service.domain.reconciliation.reservations import BilledHour, pair_hour
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
"""Models that the bill sells under the SKU of another model."""

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
"""Differences that no tolerance covers: they are not differences of the amount."""

_OF_SKU = frozenset({Difference.UNKNOWN_SKU, Difference.SKU, Difference.NO_RATE})
"""Differences with which the bill may mean something else than what we charge."""


def compare_hours(
    billed: Iterable[Billed],
    charged: Iterable[Charged],
    rules: Rules,
    sights: Mapping[str, InventorySight],
    reservations: Sequence[Reservation] = (),
) -> list[Comparison]:
    """Reconcile some hours of the ledger with the bill, and return their comparisons. The order of
    the comparisons does not depend on that of the rows.

    `sights` has what the inventory saw, by node id, and by the bill's name for other resources.
    `reservations` are all that were ever recorded.
    """
    hours = _group_by_hour(
        sorted(
            billed,
            key=lambda row: (
                row.hour,
                row.node_id,
                row.project,
                row.resource,
                row.sku_id,
                row.generation,
                row.model,
                row.description,
            ),
        ),
        sorted(
            charged,
            key=lambda entry: (
                entry.hour,
                entry.node_id,
                entry.generation,
                entry.model,
                entry.reservation_id,
            ),
        ),
    )
    pairs = (pair for hour in hours for pair in pair_hour(hour, reservations))
    return [_compare_pair(pair, rules, sights) for pair in pairs]


def _group_by_hour(billed: Sequence[Billed], charged: Sequence[Charged]) -> Iterator[BilledHour]:
    """Yield both sides of each hour. A node is compared by SKU where both sides name the same
    SKUs."""
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
        rows, entries = theirs.get(key, []), ours.get(key, [])
        kinds = {_sku_kind(row) for row in rows}
        if len(kinds) > 1 and kinds == {_sku_kind(entry) for entry in entries}:
            nodes[key[0]] += [
                ComparedPair(
                    [row for row in rows if _sku_kind(row) == kind],
                    [entry for entry in entries if _sku_kind(entry) == kind],
                )
                for kind in sorted(kinds)
            ]
        else:
            nodes[key[0]].append(ComparedPair(rows, entries))
    for hour in sorted(strangers.keys() | unused.keys() | nodes.keys()):
        yield BilledHour(hour, strangers[hour], nodes[hour], unused[hour])


def _sku_kind(side: Billed | Charged) -> tuple[str, str]:
    return side.generation, _SHARED.get(side.model, side.model)


def _compare_pair(
    pair: ComparedPair, rules: Rules, sights: Mapping[str, InventorySight]
) -> Comparison:
    first: Billed | Charged = pair.billed[0] if pair.billed else pair.charged[0]
    theirs, ours, cost, amount = pair.billed, pair.charged, pair.cost, pair.amount
    used = _sum_if_known([row.chip_seconds for row in theirs])
    counted = sum(entry.chip_seconds for entry in ours)
    difference = Difference.NO_RATE if pair.no_rate else _find_difference(pair, used, counted)
    # Nano-dollars of the variance that are due to the seconds, at our price.
    billed_seconds = used if theirs else 0
    by_seconds: int | None = cost - amount
    if counted:
        more = None if billed_seconds is None else billed_seconds - counted
        by_seconds = None if more is None else half_even(amount * more, counted)
    resource = theirs[0].resource if theirs else ""
    sight = _find_sight(pair, sights.get(first.node_id or resource))
    verdict = _find_verdict(pair, difference, rules)
    reasons = _explain_verdict(pair, verdict, difference, sight), _explain_credits(pair, difference)
    return Comparison(
        verdict=verdict,
        project=first.project,
        resource=resource,
        node_id="" if pair.bought else first.node_id,
        sku_id=theirs[0].sku_id if theirs else "",
        description=theirs[0].description if theirs else "",
        generation=first.generation or (ours[0].generation if ours else ""),
        model=ours[0].model if ours else first.model,
        hour=first.hour,
        billed=cost,
        credits=pair.credits,
        billed_at_list=_sum_if_known([row.at_list for row in theirs]),
        billed_chip_seconds=used,
        charged=amount,
        charged_at_list=_sum_if_known([entry.at_list for entry in ours]),
        charged_chip_seconds=counted,
        variance=cost - amount,
        by_seconds=by_seconds,
        difference=difference,
        seen=sight.seen,
        reason="; ".join(filter(None, reasons)),
        reservation=", ".join(dict.fromkeys(reservation.name for reservation in pair.bought)),
        credit_kinds=pair.credit_kinds,
        is_explained=_is_explained(pair, difference),
        shares=[share for row in theirs for share in row.shares],
    )


def _sum_if_known(numbers: Sequence[int | None]) -> int | None:
    """The sum; None where a number is not known, or there is none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _find_sight(pair: ComparedPair, of_inventory: InventorySight | None) -> InventorySight:
    """Who saw the resource. The inventory cannot see a reservation: only its record counts."""
    if not pair.bought:
        return of_inventory or InventorySight(Seen.NEVER, "")
    records = []
    for bought in pair.bought:
        span = f"from {to_rfc3339(bought.start)} to {to_rfc3339(bought.end)}"
        taken_back = (
            "" if bought.withdrawn_at is None else f", which was withdrawn: {bought.reason}"
        )
        records.append(f"{bought.name} is recorded {span}{taken_back}")
    return InventorySight(Seen.RECORDED, "; ".join(records))


def _find_difference(pair: ComparedPair, used: int | None, counted: int) -> Difference:
    """What the sides differ by: the amount, else the SKU, else the amount at list price.

    A reserved node has the SKU of on-demand. Amounts at list are compared on demand only: the
    ledger has no list price of another model.
    """
    if not pair.is_exact(pair.cost - pair.amount):
        return _split_difference(pair, used, counted)
    if pair.billed and pair.charged:
        if any(_is_unknown(row) for row in pair.billed):
            return Difference.UNKNOWN_SKU
        charged_as = {_sold_kind(entry) for entry in pair.charged}
        if not {_sold_kind(row) for row in pair.billed} <= charged_as:
            return Difference.SKU
    theirs = _sum_if_known([row.at_list for row in pair.billed])
    ours = _sum_if_known([entry.at_list for entry in pair.charged])
    models = {row.model for row in pair.billed} | {entry.model for entry in pair.charged}
    if theirs is None or ours is None or models != {"on_demand"}:
        return Difference.NONE
    return Difference.NONE if pair.is_exact(theirs - ours) else Difference.LIST_PRICE


def _split_difference(pair: ComparedPair, used: int | None, counted: int) -> Difference:
    """Whether the seconds differ or the price. The price is the same if our price for the billed
    seconds gives the billed amount."""
    if not pair.billed or not pair.charged:
        return Difference.SECONDS
    if used is None:
        return Difference.UNKNOWN
    if used == counted:
        return Difference.PRICE
    at_our_price = half_even(pair.amount * used, counted) if counted else pair.cost
    return Difference.SECONDS if pair.is_exact(pair.cost - at_our_price) else Difference.BOTH


def _is_unknown(row: Billed) -> bool:
    return not row.generation and not row.model


def _sold_kind(side: Billed | Charged) -> tuple[str, str]:
    generation, model = _sku_kind(side)
    return generation, "on_demand" if model == RESERVED else model


def _find_verdict(pair: ComparedPair, difference: Difference, rules: Rules) -> Verdict:
    """The verdict. A leak is never pending: later rows only add to its cost."""
    if pair.billed and not (pair.billed[0].node_id or pair.bought):  # in none of our records
        # A free resource may still be used. Where a row has no seconds, its list price shows use.
        used = (
            row.at_list if row.chip_seconds is None else row.chip_seconds for row in pair.billed
        )
        if not pair.is_exact(pair.cost) or any(used) or pair.no_rate:
            return Verdict.BILL_WITHOUT_NODE
    if difference is Difference.NONE:
        return Verdict.MATCHED
    if pair.hour + HOUR > rules.newest - PENDING_SECONDS:
        return Verdict.PENDING
    is_tolerable = difference not in _WHATEVER_IT_COMES_TO
    if is_tolerable and abs(pair.cost - pair.amount) <= rules.tolerance:
        return Verdict.TOLERATED
    return Verdict.AMOUNT_DIFFERS if pair.billed else Verdict.NODE_WITHOUT_BILL


def _explain_verdict(
    pair: ComparedPair, verdict: Verdict, difference: Difference, sight: InventorySight
) -> str:
    """The reason in words that say where to look next; empty where both sides match."""
    match verdict:
        case Verdict.MATCHED:
            return ""
        case Verdict.TOLERATED:
            return "less than the tolerance"
        case Verdict.BILL_WITHOUT_NODE:
            return _explain_leak(pair.billed[0], sight)
        case Verdict.NODE_WITHOUT_BILL:
            return (
                f"charged by us and not on the bill; {sight.words or 'nothing shows that it ran'}"
            )
        case Verdict.PENDING | Verdict.AMOUNT_DIFFERS:
            young = "the bill may still change; " if verdict is Verdict.PENDING else ""
            known = f"; {sight.words}" if pair.bought else ""
            return young + _explain_disagreement(pair, difference) + known


def _explain_leak(row: Billed, sight: InventorySight) -> str:
    if row.no_rate:
        return f"created outside of this service; {_describe_missing_rate(row.no_rate)}"
    if row.model == RESERVED:
        return "bought outside of this service; no recorded reservation matches"
    if sight.seen is Seen.ORPHAN:
        return f"created outside of this service; {sight.words}"
    return f"created outside of this service; {sight.words or 'no poll ever listed it'}"


def _describe_missing_rate(currency: str) -> str:
    return f"billed in {currency} without a conversion rate, so set apart and not compared"


def _is_explained(pair: ComparedPair, difference: Difference) -> bool:
    """Whether the ledger agrees with the cost, before or after the credits."""
    if difference in _OF_SKU:
        return False
    before, after = pair.cost - pair.amount, pair.cost + pair.credits - pair.amount
    return pair.is_exact(before) or (pair.credits != 0 and pair.is_exact(after))


def _explain_credits(pair: ComparedPair, difference: Difference) -> str:
    """Which part of the variance the credits explain; empty where the bill has no credits."""
    if not pair.credits:
        return ""
    kinds = pair.credit_kinds or {UNSPECIFIED: pair.credits}
    named = ", ".join(
        f"{kind} {format_dollars(amount)}" for kind, amount in kinds.items() if amount
    )
    net = pair.cost + pair.credits
    if not _is_explained(pair, difference):
        left = format_dollars(net - pair.amount)
        return f"credits do not explain it: {named} leave {format_dollars(net)} to pay, {left} off"
    if pair.is_exact(pair.cost - pair.amount):
        return f"the ledger has the cost before credits; {named} leave {format_dollars(net)} to pay"
    return f"credits explain it: after {named} the bill is what the ledger charges"


def _explain_disagreement(pair: ComparedPair, difference: Difference) -> str:
    if pair.no_rate:
        return _describe_missing_rate(pair.no_rate)
    if not pair.billed:
        return "it is not on the bill yet"
    if not pair.charged:
        whose = "reservation" if pair.bought else "node"
        return f"the {whose} is managed here, and the ledger has no charge in this hour"
    if of_sku := _explain_sku(pair, difference):
        return of_sku
    words = _WORDS[difference]
    at_list = _sum_if_known([row.at_list for row in pair.billed])
    if (
        difference is Difference.PRICE
        and at_list is not None
        and at_list >= pair.cost
        and pair.is_exact(at_list - pair.amount)
    ):  # perhaps a contract that has no record
        words += (
            f"; at list price the amounts agree, so {format_usd(at_list - pair.cost)} is a discount"
            " that is not recorded"
        )
    return words


def _explain_sku(pair: ComparedPair, difference: Difference) -> str:
    """How the SKU of the bill explains the difference; empty where it sells what we charge for."""
    unknown = next((row for row in pair.billed if _is_unknown(row)), None)
    if unknown is not None:
        same = "the same amount" if difference is Difference.UNKNOWN_SKU else _WORDS[difference]
        return f"unknown SKU {unknown.sku_id} ({unknown.description[:80]!r}); {same}"
    theirs, ours = ({_sku_kind(row) for row in side} for side in (pair.billed, pair.charged))
    if difference is Difference.SKU:
        billed, charged = (
            ", ".join(sorted(f"{generation} {model}" for generation, model in kinds))
            for kinds in (theirs, ours)
        )
        return f"the same amount, billed as {billed}, charged as {charged}"
    models = sorted({row.model for row in pair.billed} - {""})
    if models and theirs != ours:
        charged = ", ".join(sorted({entry.model for entry in pair.charged}))
        return f"billed as {', '.join(models)}, charged as {charged}"
    return ""
