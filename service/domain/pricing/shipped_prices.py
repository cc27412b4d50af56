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
    return tuple(
        _parse_price({"unit": VM_HOUR, **row}) for row in (*read_rows("prices"), *machines)
    )


def _parse_price(row: dict[str, str]) -> Price:
    moment = datetime.fromisoformat(row["effective_from"]).replace(tzinfo=UTC)
    price = Price(
        id="/".join(
            row[column]
            for column in ("generation", "price_model", "unit", "region", "effective_from")
        ),
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
    return price
