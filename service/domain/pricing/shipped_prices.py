"""The prices that ship with the service."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from service.domain.money import parse_usd
from service.domain.pricing.price_book import VM_HOUR, Price, check_price
from service.domain.reference_tables import read_rows


@cache
def embedded_prices() -> tuple[Price, ...]:
    """Return the prices that ship with the service, each with its source:
    `service/data/prices.csv`, and `machine_prices.csv` for machines that drive legacy TPU Nodes."""
    machines = ({**row, "generation": row["machine_type"]} for row in read_rows("machine_prices"))
    key = ("generation", "price_model", "unit", "region", "effective_from")
    prices = []
    for row in ({"unit": VM_HOUR, **known} for known in (*read_rows("prices"), *machines)):
        moment = datetime.fromisoformat(row["effective_from"]).replace(tzinfo=UTC)
        price = Price(
            id="/".join(row[column] for column in key),
            generation=row["generation"],
            model=row["price_model"],
            unit=row["unit"],
            region=row["region"],
            nanos=parse_usd(row["usd"]),
            effective_from=int(moment.timestamp()),
            source=row["source"],
            confidence=row["confidence"],
        )
        check_price(price)
        prices.append(price)
    return tuple(prices)
