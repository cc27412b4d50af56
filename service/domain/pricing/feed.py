"""The prices of the feed that the book lacks, and the start of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.domain.billing_period import open_since
from service.domain.clock import to_rfc3339
from service.domain.pricing.price_book import Price, PriceBook
from service.domain.pricing.skus import SkuQuote


@dataclass(frozen=True, slots=True)
class Change:
    """A price that the book lacks, and the book's price before; None without one."""

    price: Price
    before: Price | None


def find_changes(book: PriceBook, quotes: Iterable[SkuQuote], now: int) -> list[Change]:
    """Return the prices of the feed that the price book lacks; empty the second time.

    A price starts at the feed's instant, also in the past: Google charges it from then on, so usage
    since then is charged again. A price never starts in a closed month, and starts at `now` where
    the book has another price that began later than the feed's instant.
    """
    known = {price.id for price in book.prices}
    found = []
    for quote in quotes:
        start = _find_start(book, quote, now)
        before = book.find_listed(quote.sku, start)
        if before is not None:
            # A price entered by hand stays until the feed has a price that began after it.
            is_kept = before.is_manual and quote.effective_at <= before.effective_from
            if is_kept or before.nanos == quote.nanos:
                continue
        price = _build_price(quote, start, now)
        if price.id in known:  # the same entry of the feed was in force before
            price = _build_price(quote, start, now, f"/{now}")
        found.append(Change(price, before))
    return found


def _find_start(book: PriceBook, quote: SkuQuote, now: int) -> int:
    since = max(quote.effective_at, open_since(now))
    if since >= now:
        return since
    before = book.find_listed(quote.sku, since)
    cuts = book.list_cuts(quote.sku, since, now + 1)
    later = (book.find_listed(quote.sku, cut.start) for cut in cuts)
    return since if all(price == before for price in later) else now


def _build_price(quote: SkuQuote, start: int, now: int, again: str = "") -> Price:
    sku, listed_at = quote.sku, to_rfc3339(quote.effective_at)
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
