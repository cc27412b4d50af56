"""Which prices of the feed the book lacks, and from when on they count; what may be dated when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.domain.billing_period import PeriodState, period_of
from service.domain.clock import rfc3339
from service.domain.errors import Rejected
from service.domain.pricing.price_book import Price, PriceBook
from service.domain.pricing.skus import SkuQuote


@dataclass(frozen=True, slots=True)
class Change:
    """A price that the book lacks, and what it says so far; None where it says nothing."""

    price: Price
    before: Price | None


def open_since(now: int) -> int:
    """The first second of the first month that is not closed: nothing is changed before it."""
    month = period_of(now)
    before = period_of(month.start - 1)
    return month.start if before.state(now) is PeriodState.CLOSED else before.start


def check_open(instant: int, now: int, field: str) -> None:
    """Rejected when an instant lies in a month that is closed."""
    month = period_of(instant)
    if month.state(now) is PeriodState.CLOSED:
        raise Rejected(
            f"{month.name} is closed and cannot change; the first open month is"
            f" {period_of(open_since(now)).name}",
            field=field,
            period=month.name,
        )


def check_not_past(instant: int, now: int, what: str, field: str) -> None:
    """Rejected when an instant is over: what was charged then stays as it was charged."""
    check_open(instant, now, field)
    if instant < now:
        raise Rejected(
            f"{what} cannot change the past, and {rfc3339(instant)} is over; set it to"
            f" {rfc3339(now)} or later",
            field=field,
        )


def changes(book: PriceBook, quotes: Iterable[SkuQuote], now: int) -> list[Change]:
    """What has to be added to the book for it to say what the feed says; empty the second time.

    A price counts from when the feed says, also where that is over by the time it is read: Google
    charges it from then on, so what ran since is charged anew. Never in a month that is closed; and
    from `now` on where the book has another price that began later still.
    """
    known = {price.id for price in book.prices}
    found = []
    for quote in quotes:
        start = _start(book, quote, now)
        before = book.listed(quote.sku, start)
        if before is not None and (before.nanos == quote.nanos or _stands(before, quote)):
            continue
        price = _price(quote, start, now)
        if price.id in known:  # it has been that price before, by the same word of the feed
            price = _price(quote, start, now, f"/{now}")
        found.append(Change(price, before))
    return found


def _start(book: PriceBook, quote: SkuQuote, now: int) -> int:
    since = max(quote.effective_at, open_since(now))
    if since >= now:
        return since
    before = book.listed(quote.sku, since)
    cuts = book.cuts(quote.sku, since, now + 1)
    later = (book.listed(quote.sku, cut.start) for cut in cuts)
    return since if all(one == before for one in later) else now


def _stands(before: Price, quote: SkuQuote) -> bool:
    """Whether a price entered by hand goes on: until the feed has one that began after it."""
    return before.is_manual and quote.effective_at <= before.effective_from


def _price(quote: SkuQuote, start: int, now: int, again: str = "") -> Price:
    sku, listed_at = quote.sku, rfc3339(quote.effective_at)
    return Price(
        id=f"catalog/{quote.sku_id}/{sku.region}/{listed_at}/{quote.nanos}{again}",
        generation=sku.generation,
        model=sku.model,
        unit=sku.unit,
        region=sku.region,
        nanos=quote.nanos,
        effective_from=start,
        source=f"Cloud Billing Catalog, SKU {quote.sku_id} ({quote.description}), listed as"
        f" effective since {listed_at}",
        confidence="catalog",
        recorded_at=now,
    )
