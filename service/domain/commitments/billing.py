"""Charges as a bill with commitments has them: usage split into what is covered and what is left
to pay, the fee of each hour, and the part of it that covers nothing. Pure.

The fees and what is left to pay together are the sum of amortised costs, to the nano-dollar: what
no charge was covered with is unused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from service.domain.clock import HOUR, floor_to
from service.domain.commitments.commitment import Commitment, Term, fee, listed_rate
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
    """The whole hours that begin in a window and of which the ledger says all: neither the current
    hour, nor any since the first that is not posted of some usage."""
    until = floor_to(now, HOUR)
    posted = [line.meter.usage.posted_until for line in lines if _is_behind(line, until)]
    last = floor_to(min([until, *posted]), HOUR)
    first = -floor_to(-window.start, HOUR)
    return Window(first, max(first, min(-floor_to(-window.end, HOUR), last)))


def _is_behind(line: CoverageLine, until: int) -> bool:
    usage = line.meter.usage
    return usage.posted_until < (until if usage.end is None else min(usage.end, until))


class CommittedBill:
    """Splits charges, and adds up what they were covered with."""

    def __init__(
        self,
        lines: Iterable[CoverageLine],
        some: Sequence[PricedCommitment],
        book: PriceBook,
        hours: Window,
    ) -> None:
        """`hours` are those of `billed_hours`; the lines are known in all of them."""
        self._lines = {line.meter.usage.id: line for line in lines}
        self._some = sorted(some, key=lambda one: (one.commitment.start, one.commitment.id))
        self._uses = {one.commitment.id: committed_use(one.commitment, Status.USED) for one in some}
        self._book = book
        self._hours = hours
        self._used: defaultdict[tuple[str, int], CoveredUsage] = defaultdict(CoveredUsage)
        self._slots_of = lru_cache(_KEPT)(self._slots)

    def over(self, charges: Iterable[Charge]) -> Iterator[Charge]:
        """All charges in their order, then the fee of each hour and what of it was not used."""
        for charge in charges:
            yield from self._split(charge)
        for hour in range(self._hours.start, self._hours.end, HOUR):
            for one in self._some:
                yield from self._fee(one, hour)

    def _split(self, charge: Charge) -> Iterator[Charge]:
        """What is covered of a charge, by commitment, then the rest. An adjustment is of the rest:
        the first charge of its slot is covered as far as the usage is known now."""
        covered = self._covered(charge)
        if not covered:
            yield charge
            return
        left = charge
        for its_id, part in covered.items():
            used = its_id, floor_to(charge.start, HOUR)
            self._used[used] = self._used[used].plus(part)
            listed = _share(charge.list_amount, part.chip_seconds, charge.quantity)
            yield charge._replace(
                resource=_covered_by(charge.resource, self._uses[its_id]),
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

    def _covered(self, charge: Charge) -> Mapping[str, CoveredUsage]:
        hour = floor_to(charge.start, HOUR)
        is_first = charge.number == 0 and charge.period is None
        is_billed = self._hours.start <= hour < self._hours.end
        if not is_first or not is_billed or charge.resource.kind is ChargeKind.MACHINE:
            return {}
        if charge.usage_id not in self._lines:
            return {}
        slot = LedgerSlot(hour, charge.price_id, charge.since, charge.list_price)
        return self._slots_of(charge.usage_id, hour).get(slot, {})

    def _slots(self, usage_id: str, hour: int) -> Mapping[LedgerSlot, Mapping[str, CoveredUsage]]:
        """What is covered of a usage in an hour, by the slots of its charges."""
        line = self._lines[usage_id]
        found: defaultdict[LedgerSlot, dict[str, CoveredUsage]] = defaultdict(dict)
        for slot, cut in parts_of(line.meter, hour, hour + HOUR):
            for its_id, part in line.covered(cut.start, cut.end).items():
                found[slot][its_id] = found[slot].get(its_id, NOTHING).plus(part)
        return found

    def _fee(self, one: PricedCommitment, hour: int) -> Iterator[Charge]:
        its = one.commitment
        start, end = max(hour, its.start), min(hour + HOUR, its.end)
        if start >= end:
            return
        whole = fee(its, one.rate, start, end)
        used = self._used.get((its.id, hour), NOTHING)
        paid = self._charge(one, start, end)
        yield paid._replace(quantity=its.chips * (end - start), amount=whole, effective=0)
        unused = whole - used.cost, its.chips * (end - start) - used.chip_seconds
        if any(unused):
            nobodys = replace(paid.resource, committed=committed_use(its, Status.UNUSED))
            yield paid._replace(resource=nobodys, quantity=unused[1], amount=0, effective=unused[0])

    def _charge(self, one: PricedCommitment, start: int, end: int) -> Charge:
        """The fee of [start, end), without quantities; its price is that of the list unless the
        rate is of a contract."""
        its, listed = one.commitment, listed_rate(one.commitment, self._book)
        is_listed = its.contract is None and listed is not None
        return Charge(
            resource=_resource(its),
            tags=tags_of(Attribution(its.id, owner=its.owner, team=its.team, labels=its.labels)),
            start=start,
            end=end,
            number=0,
            quantity=0,
            price_id=listed.id if is_listed and listed else f"contract/{its.id}",
            price=listed if is_listed else None,
            unit_price=one.rate,
            amount=0,
            currency="USD",
        )


def _share(amount: int | None, part: int, whole: int) -> int | None:
    return None if amount is None else half_even(amount * part, whole)


@lru_cache(_KEPT)
def _covered_by(of: Resource, one: CommittedUse) -> Resource:
    return replace(of, committed=one)


def committed_use(one: Commitment, status: Status) -> CommittedUse:
    """What a bill says of a commitment on a row."""
    return CommittedUse(path_of(one), one.name, _TYPES[one.term], status)


def path_of(one: Commitment) -> str:
    """Google's full name of a commitment; one of ours where no project is named as its payer."""
    if not one.project:
        return f"tpu-steward/commitments/{one.id}"
    return f"projects/{one.project}/regions/{one.region}/commitments/{one.name}"


def _resource(one: Commitment) -> Resource:
    return Resource(
        path=path_of(one),
        name=one.name,
        kind=ChargeKind.COMMITMENT,
        project=one.project,
        zone="",
        generation=one.generation,
        accelerator_type=one.generation,
        model=one.term.model,
        committed=committed_use(one, Status.PAID),
        in_region=one.region,
    )
