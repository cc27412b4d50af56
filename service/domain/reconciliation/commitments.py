"""Committed-use discounts on a bill: the fee, the covered usage, and the saving. Pure.

Google bills a commitment of TPUs by a fee, used or not (`Commitment v1: TpuV6e running in Columbus
for 1 Year`). Covered usage stays on the bill at its full cost, with a credit that takes the covered
part off. In Google's newer data model covered usage has a `consumption_model` and a lower price
instead, and the fee has a credit FEE_UTILIZATION_OFFSET for its used part (`pricing.md` 4 and 5).
Chip-seconds, nano-dollars.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from service.domain.catalog.regions import region_named
from service.domain.money import half_even
from service.domain.reconciliation.bill_sku import place_of, term_of

DISCOUNTS = ("COMMITTED_USAGE_DISCOUNT", "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE")
"""Credits for usage that a commitment covers."""

OFFSET = "FEE_UTILIZATION_OFFSET"
"""The credit that takes the used part off a fee, where covered usage has a lower price instead."""

MOST_NODES = 500
"""Nodes of a commitment that are kept separately: those with the most covered hours."""

NO_FEE = (
    "the bill has no fee for this commitment: Google bills the fee to the project that bought it,"
    " which may not be a project of this service"
)
NO_TERM = "the bill does not say which of several terms covered the usage"
NO_HOURS = "the fee has no amount of use, so the committed hours are unknown"
NO_RATE = "the fee is in another currency and has no conversion rate"
NOTHING_ELIGIBLE = "no on-demand use that the commitment could cover"
MORE_COVERED = (
    "more hours are covered than the fees on this bill commit: a fee of another project is missing"
)

Who = tuple[str, str, str]
"""Project, resource, and the node that the resource's label names."""


@dataclass(frozen=True, slots=True)
class CommitmentKey:
    """The common fields of rows: the billing account, the invoice month (`2026-11`), and the TPUs
    with their place."""

    account: str
    month: str
    generation: str
    description: str
    region: str
    zone: str


@dataclass(frozen=True, slots=True)
class BilledUsage:
    """On-demand usage of one resource and hour, with its corrections. `discount` is the sum of the
    credits of a commitment, negative; `at_list` and `chip_seconds` are None where no row has them.
    `is_priced` says whether the amounts are known in dollars."""

    sold: CommitmentKey
    who: Who
    model: str
    cost: int
    discount: int
    at_list: int | None
    chip_seconds: int | None
    is_priced: bool = True


@dataclass(frozen=True, slots=True)
class Fee:
    """Fees of one commitment and month, with their corrections. `amount` is with all credits but
    `offset`, which is negative; `chip_seconds` are committed, None where no row has them."""

    sold: CommitmentKey
    amount: int
    offset: int
    chip_seconds: int | None
    is_priced: bool = True

    def __add__(self, other: Fee) -> Fee:
        """The sum of both. A correction of the amount alone does not change the hours."""
        hours = [hour for hour in (self.chip_seconds, other.chip_seconds) if hour is not None]
        return Fee(
            self.sold,
            self.amount + other.amount,
            self.offset + other.offset,
            sum(hours) if hours else None,
            self.is_priced and other.is_priced,
        )


@dataclass(frozen=True, slots=True)
class CoveredNode:
    """The usage of one resource that a commitment covered. `node_id` is empty for a resource that
    is not a node of ours. `nodes` is above 1 for the rest of a long list. `amortised` is the
    resource's part of the fee."""

    project: str
    resource: str
    node_id: str
    covered: int
    amortised: int | None
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class BilledCommitment:
    """The commitments of one generation, region and term (years, 0 where the bill does not say) on
    the bill of one month. None means unknown; `reasons` say why.

    `amortised` and `unused` add up to `fee`, and the amortised cost of the nodes to `amortised`, to
    the nano-dollar. `saving` is `list_cost` less the fee, its offset, and the remaining cost of
    covered usage; it is negative where the commitment costs more than it saves.
    """

    month: str
    account: str
    generation: str
    region: str
    term: int
    fee: int | None
    offset: int
    committed: int | None
    covered: int | None
    eligible: int | None
    amortised: int | None
    unused: int | None
    list_cost: int | None
    saving: int | None
    nodes: tuple[CoveredNode, ...]
    reasons: tuple[str, ...]

    @property
    def utilisation(self) -> str | None:
        """Covered of committed hours in percent, four places."""
        if MORE_COVERED in self.reasons:
            return None
        return _format_percent(self.covered, self.committed)

    @property
    def coverage(self) -> str | None:
        """Covered of eligible hours in percent, four places."""
        return _format_percent(self.covered, self.eligible)


def _format_percent(part: int | None, whole: int | None) -> str | None:
    if part is None or whole is None or part < 0 or whole <= 0:
        return None
    tenths = half_even(min(part, whole) * 1_000_000, whole)
    return f"{tenths // 10_000}.{tenths % 10_000:04d}"


def divide_by_weights(amount: int, weights: Sequence[int]) -> list[int]:
    """Return the parts of an amount of a bill's commitments, by weights of zero or more. The parts
    add up to the amount: each part is the difference of two rounded sums, half to even, so the
    remainders fall in the order of the weights."""
    whole = sum(weights)
    sums = [half_even(amount * sum_, whole) for sum_ in accumulate(weights, initial=0)]
    return [after - before for before, after in pairwise(sums)]


@dataclass(frozen=True, slots=True)
class _Place:
    """The usage that one commitment can cover: that of a billing account in a region."""

    month: str
    account: str
    generation: str
    region: str


@dataclass(slots=True)
class _Covered:
    """Running sums of covered usage. `unknown` counts hours without an amount of use or of cost,
    `unlisted` hours without a list price, `rounded` hours that are covered in part."""

    seconds: int = 0
    at_list: int = 0
    paid: int = 0
    unknown: int = 0
    unlisted: int = 0
    rounded: int = 0
    of: dict[Who, int] = field(default_factory=lambda: defaultdict(int))
    reason: str = ""
    """Why the usage is unknown, where its own rows are complete."""


class CommitmentCounter:
    """Adds up a stream of usage. Changed in place, as there may be millions of rows."""

    def __init__(self, fees: Iterable[Fee]) -> None:
        all_fees = list(fees)
        self._loose = {
            (fee.sold.generation, place_of(fee.sold.description))
            for fee in all_fees
            if not _find_region(fee.sold)
        }
        self._fees: dict[_Place, dict[int, Fee]] = {}
        for fee in all_fees:
            terms = self._fees.setdefault(self._find_place(fee.sold), {})
            term = term_of(fee.sold.description)
            terms[term] = terms[term] + fee if term in terms else fee
        self._covered: dict[_Place, dict[int, _Covered]] = {}
        self._eligible: dict[_Place, int] = defaultdict(int)
        self._unmeasured: dict[_Place, int] = defaultdict(int)

    def _find_place(self, sold: CommitmentKey) -> _Place:
        """The place where rows count. Where a fee names a continent instead of a region, the whole
        continent is one place."""
        place_name = place_of(sold.description)
        is_loose = (sold.generation, place_name) in self._loose
        region = place_name if is_loose else _find_region(sold) or place_name
        return _Place(sold.month, sold.account, sold.generation, region)

    def add(self, usages: Iterable[BilledUsage]) -> None:
        """Count these usages."""
        for usage in usages:
            place = self._find_place(usage.sold)
            self._eligible[place] += usage.chip_seconds or 0
            self._unmeasured[place] += usage.chip_seconds is None
            if usage.model or usage.discount or not usage.is_priced:
                terms = self._covered.setdefault(place, {})
                _add_covered(terms.setdefault(term_of(usage.model), _Covered()), usage)

    def list_commitments(self, whose: Mapping[Who, str]) -> tuple[BilledCommitment, ...]:
        """Return each commitment, by month, account, generation, region and term. `whose` has the
        ids of our nodes by resource."""
        places = sorted(
            self._fees.keys() | self._covered.keys(),
            key=lambda place: (place.month, place.account, place.generation, place.region),
        )
        found = []
        for place in places:
            fees = dict(sorted(self._fees.get(place, {}).items()))
            by_term = _split_by_term(self._covered.get(place, {}), fees)
            number, eligible = self._unmeasured[place], self._eligible[place]
            reasons = (
                [f"on-demand hours of nodes without an amount of use: {number:,}"] if number else []
            )
            if not number and not eligible:
                reasons = [NOTHING_ELIGIBLE]
            for term in sorted(fees.keys() | by_term.keys()):
                covered = by_term.get(term, _Covered())
                known = _build_commitment(place, term, fees.get(term), covered, whose)
                found.append(
                    replace(
                        known,
                        eligible=None if number else eligible,
                        reasons=(*known.reasons, *reasons),
                    )
                )
        return tuple(found)

    @property
    def resources(self) -> frozenset[Who]:
        """The resources with covered usage."""
        sums = (covered for terms in self._covered.values() for covered in terms.values())
        return frozenset(who for covered in sums for who in covered.of)


def _find_region(sold: CommitmentKey) -> str:
    """The region of rows, by id, by zone, or by its city; empty where the rows have none."""
    return sold.region or sold.zone.rpartition("-")[0] or region_named(place_of(sold.description))


def _add_covered(covered: _Covered, usage: BilledUsage) -> None:
    """Add the covered part of the usage: the part of the cost that the credits take off, or all of
    the usage under another consumption model. A correction of an earlier invoice has a negative
    cost and a positive credit, and reduces the sums."""
    off, whole = (usage.discount, -usage.cost) if usage.cost < 0 else (-usage.discount, usage.cost)
    if usage.model:
        off, whole = 1, 1
    if not usage.is_priced or usage.chip_seconds is None or not whole or off < 0:
        covered.unknown += 1
        return
    off = min(off, whole)
    seconds = half_even(usage.chip_seconds * off, whole)
    covered.seconds += seconds
    covered.of[usage.who] += seconds
    covered.rounded += off < whole
    covered.paid += half_even(usage.cost * off, whole) + usage.discount
    if usage.at_list is None:
        covered.unlisted += 1
    else:
        covered.at_list += half_even(usage.at_list * off, whole)


def _split_by_term(
    covered: Mapping[int, _Covered], fees: Mapping[int, Fee]
) -> Mapping[int, _Covered]:
    """Covered usage by term. A credit does not name its term: usage is divided between several
    terms by their committed hours."""
    unassigned = covered.get(0)
    if unassigned is None or not fees:
        return covered
    by_term = {term: sums for term, sums in covered.items() if term}
    terms = list(fees)
    weights = [fee.chip_seconds or 0 for fee in fees.values()]
    if len(terms) == 1:
        parts = [unassigned]
    elif min(weights) > 0:
        parts = _divide_covered(unassigned, weights)
    else:
        return by_term | {term: _Covered(unknown=1, reason=NO_TERM) for term in terms}
    numbers = ("seconds", "at_list", "paid", "unknown", "unlisted", "rounded")
    for term, part in zip(terms, parts, strict=True):
        if (own := by_term.get(term)) is None:
            by_term[term] = part
            continue
        both = _Covered(*(getattr(own, name) + getattr(part, name) for name in numbers))
        for sums in (own, part):
            for who, seconds in sums.of.items():
                both.of[who] += seconds
        by_term[term] = both
    return by_term


def _divide_covered(covered: _Covered, weights: Sequence[int]) -> list[_Covered]:
    parts = [
        replace(covered, seconds=0, at_list=at_list, paid=paid, of=defaultdict(int))
        for at_list, paid in zip(
            divide_by_weights(covered.at_list, weights),
            divide_by_weights(covered.paid, weights),
            strict=True,
        )
    ]
    for who, seconds in sorted(covered.of.items()):
        for part, share in zip(parts, divide_by_weights(seconds, weights), strict=True):
            part.of[who] = share
            part.seconds += share
    return parts


def _build_commitment(
    place: _Place, term: int, fee: Fee | None, sums: _Covered, whose: Mapping[Who, str]
) -> BilledCommitment:
    covered = None if sums.unknown else sums.seconds
    committed = fee.chip_seconds if fee and (fee.chip_seconds or 0) > 0 else None
    amount = fee.amount if fee and fee.is_priced else None
    slack = sums.rounded + len(sums.of)
    is_over = covered is not None and committed is not None and covered > committed + slack
    nodes = sorted((who, seconds) for who, seconds in sums.of.items() if seconds)
    parts: list[int] | None = None
    if amount is not None and committed is not None and covered is not None and not is_over:
        used = [seconds for _, seconds in nodes]
        parts = divide_by_weights(amount, [*used, max(0, committed - sum(used))])
    list_cost = None if sums.unknown or sums.unlisted else sums.at_list
    saving = None
    if fee is not None and amount is not None and list_cost is not None and not is_over:
        saving = list_cost - amount - fee.offset - sums.paid
    # The nodes with the most covered hours; the rest of a long list as one entry.
    found = [
        CoveredNode(who[0], who[1], whose.get(who, ""), seconds, parts[index] if parts else None)
        for index, (who, seconds) in enumerate(nodes)
    ]
    found.sort(key=lambda node: (-node.covered, node.project, node.resource, node.node_id))
    kept, rest = found[:MOST_NODES], found[MOST_NODES:]
    if rest:
        amortised = sum(node.amortised or 0 for node in rest) if parts else None
        whole = sum(node.covered for node in rest)
        kept.append(CoveredNode("", "", "", whole, amortised, len(rest)))
    return BilledCommitment(
        month=place.month,
        account=place.account,
        generation=place.generation,
        region=place.region,
        term=term,
        fee=amount,
        offset=fee.offset if fee else 0,
        committed=committed,
        covered=covered,
        eligible=None,
        amortised=None if parts is None else sum(parts[:-1]),
        unused=None if parts is None else parts[-1],
        list_cost=list_cost,
        saving=saving,
        nodes=() if covered is None else tuple(kept),
        reasons=(
            *_explain_unknowns(fee, committed, sums),
            *([MORE_COVERED] if is_over else []),
        ),
    )


def _explain_unknowns(fee: Fee | None, committed: int | None, sums: _Covered) -> Iterator[str]:
    if fee is None:
        yield NO_FEE
    else:
        if not fee.is_priced:
            yield NO_RATE
        if committed is None:
            yield NO_HOURS
    if sums.reason:
        yield sums.reason
    elif sums.unknown:
        yield f"covered hours of nodes without an amount of use or of cost: {sums.unknown:,}"
    elif sums.unlisted:
        yield f"covered hours of nodes without a cost at list: {sums.unlisted:,}"
