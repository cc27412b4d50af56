"""What a bill says of committed-use discounts: the fee, what it covered, and what that saved. Pure.

Google bills a commitment of TPUs by a fee, used or not (`Commitment v1: TpuV6e running in Columbus
for 1 Year`). Usage that it covers stays on the bill at its full cost, with a credit that takes the
covered part off. In Google's newer data model such usage has a `consumption_model` and a
lower price instead, and the fee a credit FEE_UTILIZATION_OFFSET for what was used of it
(`pricing.md` 4 and 5). Chip-seconds, nano-dollars.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from service.domain.catalog.regions import region_named
from service.domain.money import half_even
from service.domain.reconciliation.bill_sku import place_of, term_of

DISCOUNTS = ("COMMITTED_USAGE_DISCOUNT", "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE")
"""Credits by which usage is covered."""

OFFSET = "FEE_UTILIZATION_OFFSET"
"""The credit that takes the used part off a fee, where covered usage has a lower price instead."""

MOST_NODES = 500
"""Nodes of a commitment that are kept one by one: those with the most covered hours."""

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
    """What rows are of: who is billed, in which month (`2026-11`), and which TPUs where."""

    account: str
    month: str
    generation: str
    description: str
    region: str
    zone: str


@dataclass(frozen=True, slots=True)
class BilledUsage:
    """On-demand usage of one resource and hour, with its corrections. `discount` is the credits by
    which it is covered, negative; `at_list` and `chip_seconds` are None where no row says.
    `is_priced` says whether its amounts are known in dollars."""

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
    `offset`, which is negative; `chip_seconds` are those committed, None where no row says."""

    sold: CommitmentKey
    amount: int
    offset: int
    chip_seconds: int | None
    is_priced: bool = True

    def __add__(self, other: Fee) -> Fee:
        """Both together: a correction of the amount alone leaves the hours."""
        hours = [one for one in (self.chip_seconds, other.chip_seconds) if one is not None]
        return Fee(
            self.sold,
            self.amount + other.amount,
            self.offset + other.offset,
            sum(hours) if hours else None,
            self.is_priced and other.is_priced,
        )


@dataclass(frozen=True, slots=True)
class CoveredNode:
    """What a commitment covered of one resource: `node_id` is ours, empty where it is no node of
    ours. `nodes` is above 1 for the rest of a long list. `amortised` is its part of the fee."""

    project: str
    resource: str
    node_id: str
    covered: int
    amortised: int | None
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class BilledCommitment:
    """The commitments of one generation, region and term (years, 0 where the bill does not say) on
    the bill of one month. What is None is not known, and `reasons` say why.

    `amortised` and `unused` add up to `fee`, and the amortised cost of the nodes to `amortised`, to
    the nano-dollar. `saving` is `list_cost` less the fee, its offset, and what covered usage still
    costs; it is negative where the commitment costs more than it saves.
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
        return _percent(self.covered, self.committed)

    @property
    def coverage(self) -> str | None:
        """Covered of eligible hours in percent, four places."""
        return _percent(self.covered, self.eligible)


def _percent(part: int | None, whole: int | None) -> str | None:
    if part is None or whole is None or part < 0 or whole <= 0:
        return None
    tenths = half_even(min(part, whole) * 1_000_000, whole)
    return f"{tenths // 10_000}.{tenths % 10_000:04d}"


def shares(amount: int, weights: Sequence[int]) -> list[int]:
    """The amount divided by weights of zero or more. The parts add up to it: each is the difference
    of two rounded sums, half to even, so the remainders fall in the order of the weights."""
    whole = sum(weights)
    sums = [half_even(amount * sum_, whole) for sum_ in accumulate(weights, initial=0)]
    return [after - before for before, after in pairwise(sums)]


@dataclass(frozen=True, slots=True)
class _Place:
    """What one commitment can cover: it does so in a region, and for a billing account."""

    month: str
    account: str
    generation: str
    region: str


@dataclass(slots=True)
class _Covered:
    """What is covered, while it is added up. `unknown` counts hours of which the bill does not say
    how much, `unlisted` those without a list price, `rounded` those that are covered in part."""

    seconds: int = 0
    at_list: int = 0
    paid: int = 0
    unknown: int = 0
    unlisted: int = 0
    rounded: int = 0
    of: dict[Who, int] = field(default_factory=lambda: defaultdict(int))
    reason: str = ""
    """Why it is not known, where it is not for its rows."""


class CommitmentCounter:
    """Adds usage up while it passes; changed in place, as there may be millions of rows."""

    def __init__(self, fees: Iterable[Fee]) -> None:
        some = list(fees)
        self._loose = {
            (one.sold.generation, place_of(one.sold.description))
            for one in some
            if not _region(one.sold)
        }
        self._fees: dict[_Place, dict[int, Fee]] = {}
        for fee in some:
            terms = self._fees.setdefault(self._place(fee.sold), {})
            term = term_of(fee.sold.description)
            terms[term] = terms[term] + fee if term in terms else fee
        self._covered: dict[_Place, dict[int, _Covered]] = {}
        self._eligible: dict[_Place, int] = defaultdict(int)
        self._unmeasured: dict[_Place, int] = defaultdict(int)

    def _place(self, sold: CommitmentKey) -> _Place:
        """Where it counts: where a fee names no region but a continent, all of that is one."""
        said = place_of(sold.description)
        is_loose = (sold.generation, said) in self._loose
        region = said if is_loose else _region(sold) or said
        return _Place(sold.month, sold.account, sold.generation, region)

    def add(self, usages: Iterable[BilledUsage]) -> None:
        """Count these."""
        for usage in usages:
            place = self._place(usage.sold)
            self._eligible[place] += usage.chip_seconds or 0
            self._unmeasured[place] += usage.chip_seconds is None
            if usage.model or usage.discount or not usage.is_priced:
                terms = self._covered.setdefault(place, {})
                _cover(terms.setdefault(term_of(usage.model), _Covered()), usage)

    def report(self, whose: Mapping[Who, str]) -> tuple[BilledCommitment, ...]:
        """Each commitment, by month, account, generation, region and term. `whose` has our nodes
        behind resources."""
        places = sorted(
            self._fees.keys() | self._covered.keys(),
            key=lambda one: (one.month, one.account, one.generation, one.region),
        )
        return tuple(one for place in places for one in self._of(place, whose))

    @property
    def resources(self) -> frozenset[Who]:
        """Those that something of is covered."""
        some = (covered for terms in self._covered.values() for covered in terms.values())
        return frozenset(who for covered in some for who in covered.of)

    def _of(self, place: _Place, whose: Mapping[Who, str]) -> list[BilledCommitment]:
        fees = dict(sorted(self._fees.get(place, {}).items()))
        by_term = _by_term(self._covered.get(place, {}), fees)
        number, eligible = self._unmeasured[place], self._eligible[place]
        reasons = (
            [f"on-demand hours of nodes without an amount of use: {number:,}"] if number else []
        )
        if not number and not eligible:
            reasons = [NOTHING_ELIGIBLE]
        found = []
        for term in sorted(fees.keys() | by_term.keys()):
            one = _commitment(place, term, fees.get(term), by_term.get(term, _Covered()), whose)
            told = (*one.reasons, *reasons)
            found.append(replace(one, eligible=None if number else eligible, reasons=told))
        return found


def _region(sold: CommitmentKey) -> str:
    """The region that rows name, by id, by zone, or by its city; empty where they name none."""
    return sold.region or sold.zone.rpartition("-")[0] or region_named(place_of(sold.description))


def _cover(covered: _Covered, usage: BilledUsage) -> None:
    """Count what of the usage is covered: the part of its cost that its credits take off, and the
    whole of it where it was sold under another consumption model. What takes usage of an earlier
    invoice back has a negative cost and a positive credit, and counts less than nothing."""
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


def _by_term(covered: Mapping[int, _Covered], fees: Mapping[int, Fee]) -> Mapping[int, _Covered]:
    """What is covered by term. A credit does not say which term it is of: where there are several,
    what it covers is divided by their committed hours."""
    unsaid = covered.get(0)
    if unsaid is None or not fees:
        return covered
    said = {term: some for term, some in covered.items() if term}
    terms = list(fees)
    weights = [fee.chip_seconds or 0 for fee in fees.values()]
    if len(terms) == 1:
        parts = [unsaid]
    elif min(weights) > 0:
        parts = _divided(unsaid, weights)
    else:
        return said | {term: _Covered(unknown=1, reason=NO_TERM) for term in terms}
    return said | {
        term: _added(said[term], part) if term in said else part
        for term, part in zip(terms, parts, strict=True)
    }


def _divided(one: _Covered, weights: Sequence[int]) -> list[_Covered]:
    parts = [
        replace(one, seconds=0, at_list=at_list, paid=paid, of=defaultdict(int))
        for at_list, paid in zip(
            shares(one.at_list, weights), shares(one.paid, weights), strict=True
        )
    ]
    for who, seconds in sorted(one.of.items()):
        for part, some in zip(parts, shares(seconds, weights), strict=True):
            part.of[who] = some
            part.seconds += some
    return parts


def _added(one: _Covered, other: _Covered) -> _Covered:
    numbers = ("seconds", "at_list", "paid", "unknown", "unlisted", "rounded")
    both = _Covered(*(getattr(one, name) + getattr(other, name) for name in numbers))
    for some in (one, other):
        for who, seconds in some.of.items():
            both.of[who] += seconds
    return both


def _commitment(
    place: _Place, term: int, fee: Fee | None, some: _Covered, whose: Mapping[Who, str]
) -> BilledCommitment:
    covered = None if some.unknown else some.seconds
    committed = fee.chip_seconds if fee and (fee.chip_seconds or 0) > 0 else None
    amount = fee.amount if fee and fee.is_priced else None
    slack = some.rounded + len(some.of)
    is_over = covered is not None and committed is not None and covered > committed + slack
    nodes = sorted((who, seconds) for who, seconds in some.of.items() if seconds)
    parts: list[int] | None = None
    if amount is not None and committed is not None and covered is not None and not is_over:
        used = [seconds for _, seconds in nodes]
        parts = shares(amount, [*used, max(0, committed - sum(used))])
    list_cost = None if some.unknown or some.unlisted else some.at_list
    saving = None
    if fee is not None and amount is not None and list_cost is not None and not is_over:
        saving = list_cost - amount - fee.offset - some.paid
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
        nodes=() if covered is None else _nodes(nodes, parts, whose),
        reasons=(
            *_of_fee(fee, committed),
            *_of_covered(some),
            *([MORE_COVERED] if is_over else []),
        ),
    )


def _of_fee(fee: Fee | None, committed: int | None) -> list[str]:
    if fee is None:
        return [NO_FEE]
    return [*([] if fee.is_priced else [NO_RATE]), *([NO_HOURS] if committed is None else [])]


def _of_covered(some: _Covered) -> list[str]:
    if some.reason:
        return [some.reason]
    found = []
    if some.unknown:
        found.append(
            f"covered hours of nodes without an amount of use or of cost: {some.unknown:,}"
        )
    if some.unlisted and not some.unknown:
        found.append(f"covered hours of nodes without a cost at list: {some.unlisted:,}")
    return found


def _nodes(
    nodes: Sequence[tuple[Who, int]], parts: Sequence[int] | None, whose: Mapping[Who, str]
) -> tuple[CoveredNode, ...]:
    """The nodes, those with the most covered hours first; the rest of a long list as one."""
    found = [
        CoveredNode(who[0], who[1], whose.get(who, ""), seconds, parts[index] if parts else None)
        for index, (who, seconds) in enumerate(nodes)
    ]
    found.sort(key=lambda one: (-one.covered, one.project, one.resource, one.node_id))
    kept, rest = found[:MOST_NODES], found[MOST_NODES:]
    if rest:
        amortised = sum(one.amortised or 0 for one in rest) if parts else None
        whole = sum(one.covered for one in rest)
        kept.append(CoveredNode("", "", "", whole, amortised, len(rest)))
    return tuple(kept)
