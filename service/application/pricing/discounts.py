"""Negotiated discounts: list them, add one for the future, end one early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.application.idempotency import write_once
from service.domain.billing_period import check_not_past
from service.domain.catalog import catalog
from service.domain.clock import Clock, to_rfc3339
from service.domain.errors import Conflict, NotFound, Rejected
from service.domain.idempotency import RequestKey
from service.domain.ids import new_id
from service.domain.pricing.discounts import Discount, find_clash, keep_latest
from service.domain.pricing.price_book import series_of
from service.domain.pricing.sellable import check_discounted
from service.store.unit import Unit, Units

WHAT = "a discount"


@dataclass(frozen=True, slots=True)
class CreatedDiscount:
    """A discount; `created` is False if a request with the same key entered it before."""

    discount: Discount
    created: bool


class DiscountService:
    """Discounts apply to charges from now on; past charges stay."""

    def __init__(self, units: Units, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    def list_all(self, at: int | None = None) -> Sequence[Discount]:
        """Every discount ever entered, the latest to begin first; or those in force `at` an
        instant."""
        with self._units.reading() as unit:
            found = keep_latest(unit.prices.list_discounts())
        wanted = [discount for discount in found if at is None or discount.is_in_force(at)]
        return sorted(wanted, key=lambda discount: (-discount.effective_from, discount.id))

    def add(self, discount: Discount, key: RequestKey | None = None) -> CreatedDiscount:
        """Enter a discount; an `effective_from` of 0 is now.

        Raises Rejected if it would change the past or ends before it begins, Conflict if another
        discount applies to the same price at the same second, also a more general one. With a
        `key`, repeated requests are one discount, however late they come.
        """
        now = self._clock()
        discount_id, created = write_once(
            *(self._units, "discounts", key, self._clock),
            lambda unit, _: _enter_discount(unit, discount, now),
        )
        with self._units.reading() as unit:
            return CreatedDiscount(
                _get_discount(unit.prices.list_discounts(), discount_id), created
            )

    def end_early(self, discount_id: str, until: int | None) -> Discount:
        """End a discount early; None is now. Repeating the request changes nothing.

        Raises NotFound, and Rejected if the new end would change the past or is later than the old
        one.
        """
        now = self._clock()
        with self._units() as unit:
            rows = unit.prices.list_discounts()
            known = _get_discount(rows, discount_id)
            end = known.effective_until
            has_ended = end is not None and end <= now
            is_repeated = has_ended if until is None else end == until
            if is_repeated:
                return known
            until = now if until is None else until
            check_not_past(until, now, "the end of a discount", "effective_until")
            if known.effective_until is not None and known.effective_until <= until:
                raise Rejected(
                    f"it ends at {to_rfc3339(known.effective_until)} already; add another discount"
                    " for the time after",
                    field="effective_until",
                )
            ended = replace(
                known, effective_until=max(until, known.effective_from), recorded_at=now
            )
            unit.prices.add_discount(ended, len(rows))
            _mark_for_posting(unit, ended, until)
        return ended


def _enter_discount(unit: Unit, discount: Discount, now: int) -> str:
    check_discounted(discount.generation, series_of(discount.model))
    entered = replace(
        discount,
        id=new_id(),
        model=series_of(discount.model),
        effective_from=discount.effective_from or now,
        recorded_at=now,
    )
    check_not_past(entered.effective_from, now, WHAT, "effective_from")
    if entered.is_void:
        raise Rejected("it ends before it begins", field="effective_until")
    rows = unit.prices.list_discounts()
    other = find_clash(entered, keep_latest(rows))
    if other is not None:
        ends = (
            "" if other.effective_until is None else f" until {to_rfc3339(other.effective_until)}"
        )
        raise Conflict(
            f"the discount {other.id} already takes {other.percent} % off {other.what} from"
            f" {to_rfc3339(other.effective_from)}{ends}; two discounts on one price are ambiguous."
            " End that one first, or choose other times",
            discount=other.id,
        )
    unit.prices.add_discount(entered, len(rows))
    _mark_for_posting(unit, entered, entered.effective_from)
    return entered.id


def _get_discount(rows: Sequence[Discount], discount_id: str) -> Discount:
    known = {discount.id: discount for discount in keep_latest(rows)}.get(discount_id)
    if known is None:
        raise NotFound(
            f"there is no discount {discount_id[:80]!r}; GET /v1/prices/discounts lists them"
        )
    return known


def _mark_for_posting(unit: Unit, discount: Discount, since: int) -> None:
    """Mark the usage of the discount's generations since then for posting, in case an hour was just
    posted."""
    generations = (
        (discount.generation,) if discount.generation else catalog.load_catalog().generations
    )
    unit.usage.mark_dirty(dict.fromkeys(generations, since))
