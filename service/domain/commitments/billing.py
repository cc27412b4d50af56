"""Charges of a bill with commitments: covered usage, remaining usage, fees and unused fees. Pure.

Fees and remaining usage together are the sum of amortised costs, to the nano-dollar: the part of a
fee that covers no charge is unused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from service.domain.clock import HOUR, floor_to
from service.domain.commitments.commitment import Commitment, Term, fee_in, listed_rate
from service.domain.commitments.coverage import (
    NOTHING,
    CoverageLine,
    CoveredUsage,
    PricedCommitment,
)
from service.domain.costs.charge import Charge, ChargeKind, CommittedUse, Resource, Status, tags_of
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerSlot, parts_of
from service.domain.money import half_even
from service.domain.pricing.price_book import PriceBook
from service.domain.time_window import Window

_KEPT = 10_000
_TYPES: Mapping[Term, str] = {
    Term.ONE_YEAR: "Committed Use Discount, 1 year",
    Term.THREE_YEARS: "Committed Use Discount, 3 years",
}


def billed_hours(window: Window, lines: Iterable[CoverageLine], now: int) -> Window:
    """The whole hours for billing: those that begin in a window and are complete in the ledger.

    The current hour is excluded, and all hours from the first that is not posted for some usage.
    """
    until = floor_to(now, HOUR)
    posted = [
        usage.posted_until
        for usage in (line.meter.usage for line in lines)
        if usage.posted_until < (until if usage.end is None else min(usage.end, until))
    ]
    last = floor_to(min([until, *posted]), HOUR)
    first = -floor_to(-window.start, HOUR)
    return Window(first, max(first, min(-floor_to(-window.end, HOUR), last)))


class CommittedBill:
    """Splits charges by their coverage, and sums the used part of each fee."""

    def __init__(
        self,
        lines: Iterable[CoverageLine],
        some: Sequence[PricedCommitment],
        book: PriceBook,
        hours: Window,
    ) -> None:
        """`hours` are from `billed_hours`; the lines are complete in all of them."""
        self._lines = {line.meter.usage.id: line for line in lines}
        self._some = sorted(some, key=lambda each: (each.commitment.start, each.commitment.id))
        self._uses = {
            each.commitment.id: committed_use(each.commitment, Status.USED) for each in some
        }
        self._book = book
        self._hours = hours
        self._used: defaultdict[tuple[str, int], CoveredUsage] = defaultdict(CoveredUsage)
        self._slots_of = lru_cache(_KEPT)(self._cover_slots)

    def bill_charges(self, charges: Iterable[Charge]) -> Iterator[Charge]:
        """All charges in their order, then the fee of each hour and its unused part."""
        for charge in charges:
            yield from self._split_charge(charge)
        for hour in range(self._hours.start, self._hours.end, HOUR):
            for priced in self._some:
                its = priced.commitment
                start, end = max(hour, its.start), min(hour + HOUR, its.end)
                if start >= end:
                    continue
                fee, chip_seconds = fee_in(its, priced.rate, start, end), its.chips * (end - start)
                used = self._used.get((its.id, hour), NOTHING)
                paid = self._make_fee_charge(priced, start, end)
                yield paid._replace(quantity=chip_seconds, amount=fee, effective=0)
                unused, unused_seconds = fee - used.cost, chip_seconds - used.chip_seconds
                if unused or unused_seconds:
                    resource = replace(paid.resource, committed=committed_use(its, Status.UNUSED))
                    yield paid._replace(
                        resource=resource, quantity=unused_seconds, amount=0, effective=unused
                    )

    def _split_charge(self, charge: Charge) -> Iterator[Charge]:
        """The covered parts of a charge, by commitment, then the rest.

        An adjustment belongs to the rest: the first charge of its slot is covered by the usage as
        it is known now.
        """
        hour = floor_to(charge.start, HOUR)
        is_first = charge.number == 0 and charge.period is None
        is_billed = self._hours.start <= hour < self._hours.end
        is_split = is_first and is_billed and charge.resource.kind is not ChargeKind.MACHINE
        covered: Mapping[str, CoveredUsage] = {}
        if is_split and charge.usage_id in self._lines:
            slot = LedgerSlot(hour, charge.price_id, charge.since, charge.list_price)
            covered = self._slots_of(charge.usage_id, hour).get(slot, {})
        if not covered:
            yield charge
            return
        left = charge
        for its_id, part in covered.items():
            self._used[its_id, hour] = self._used[its_id, hour].plus(part)
            listed = (
                None
                if charge.list_amount is None
                else half_even(charge.list_amount * part.chip_seconds, charge.quantity)
            )
            yield charge._replace(
                resource=_with_commitment(charge.resource, self._uses[its_id]),
                quantity=part.chip_seconds,
                amount=0,
                list_amount=listed,
                effective=part.cost,
            )
            left = left._replace(
                quantity=left.quantity - part.chip_seconds,
                amount=left.amount - part.avoided,
                list_amount=None
                if left.list_amount is None or listed is None
                else left.list_amount - listed,
            )
        if left.quantity or left.amount:
            yield left

    def _cover_slots(
        self, usage_id: str, hour: int
    ) -> Mapping[LedgerSlot, Mapping[str, CoveredUsage]]:
        """The covered usage in an hour, by the slot of the charges and by commitment id."""
        line = self._lines[usage_id]
        found: defaultdict[LedgerSlot, dict[str, CoveredUsage]] = defaultdict(dict)
        for slot, cut in parts_of(line.meter, hour, hour + HOUR):
            for its_id, part in line.covered_in(cut.start, cut.end).items():
                found[slot][its_id] = found[slot].get(its_id, NOTHING).plus(part)
        return found

    def _make_fee_charge(self, priced: PricedCommitment, start: int, end: int) -> Charge:
        """The fee of [start, end) without quantities. Its price is the contract's or the listed."""
        its, listed = priced.commitment, listed_rate(priced.commitment, self._book)
        is_listed = its.contract is None and listed is not None
        return Charge(
            resource=Resource(
                path=path_of(its),
                name=its.name,
                kind=ChargeKind.COMMITMENT,
                project=its.project,
                zone="",
                generation=its.generation,
                accelerator_type=its.generation,
                model=its.term.model,
                committed=committed_use(its, Status.PAID),
                in_region=its.region,
            ),
            tags=tags_of(Attribution(its.id, owner=its.owner, team=its.team, labels=its.labels)),
            start=start,
            end=end,
            number=0,
            quantity=0,
            price_id=listed.id if is_listed and listed else f"contract/{its.id}",
            price=listed if is_listed else None,
            unit_price=priced.rate,
            amount=0,
            currency="USD",
        )


@lru_cache(_KEPT)
def _with_commitment(of: Resource, use: CommittedUse) -> Resource:
    return replace(of, committed=use)


def committed_use(commitment: Commitment, status: Status) -> CommittedUse:
    """The committed-use discount in the billing of a row, by its commitment and status."""
    return CommittedUse(path_of(commitment), commitment.name, _TYPES[commitment.term], status)


def path_of(commitment: Commitment) -> str:
    """Google's full name of a commitment for billing; our own name if no project pays for it."""
    if not commitment.project:
        return f"tpu-steward/commitments/{commitment.id}"
    return (
        f"projects/{commitment.project}/regions/{commitment.region}/commitments/{commitment.name}"
    )
