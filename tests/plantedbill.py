"""A month's bill of 443 rows in two files, with seventeen differences from the ledger in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from service.domain.clock import HOUR
from tests import factories
from tests.bills import Row, row, time_of
from tests.hands import NOON

HOURS = 36
START = NOON - 96 * HOUR
NODES = tuple(f"n{number}" for number in range(10))
NANOS = 1_000_000_000
ROWS = 443
LATER = time_of(NOON + HOUR)
CUD, PROMOTION = "COMMITTED_USAGE_DISCOUNT", "PROMOTION"
OLD_INVOICE = "202610"
TAX = {"cost_type": "tax", "project": {"id": ""}, "resource": {}, "usage": {}}


def rate(hour: int) -> Decimal:
    """Euros for a dollar on that hour's row: every row has its own."""
    return Decimal("0.9173") + Decimal(hour) / 10_000


def credit(kind: str, amount: float) -> Row:
    """One credit, as the export nests it."""
    return {"type": kind, "name": "of a contract", "amount": amount}


def hour_of(node: str, hour: int, **changes: Any) -> Row:
    """One hour of a node at its price, $9.60."""
    path = f"//tpu.googleapis.com/projects/{factories.PROJECT}/locations/us-west4-a/nodes/{node}"
    at = START + hour * HOUR
    return row(
        **{
            "resource": {"name": node, "global_name": path},
            "usage_start_time": time_of(at),
            "usage_end_time": time_of(at + HOUR),
            "export_time": time_of(NOON),
            **changes,
        }
    )


def euros(hour: int) -> dict[str, Any]:
    """What is $9.60 at the rate of that hour's row."""
    cost = str(Decimal("9.6") * rate(hour))
    told = {"cost": cost, "cost_at_list": cost, "currency": "EUR"}
    return told | {"currency_conversion_rate": str(rate(hour))}


_UNKNOWN = {"sku": {"id": "FFFF-0000-1111", "description": "TpuV9z of tomorrow"}}
CHANGED: Mapping[tuple[str, int], Mapping[str, Any]] = {
    ("n0", 3): {"cost": 9.7},
    ("n0", 5): {"cost": 4.8, "usage.amount": 14_400.0, "usage.amount_in_pricing_units": 4.0},
    ("n0", 7): {"cost": 9.605},
    ("n4", 20): {"cost": 12.0, "credits": [credit(CUD, -2.4)]},
    ("n4", 21): {"cost": 12.0, "credits": [credit(PROMOTION, -1.0)]},
    ("n6", 8): _UNKNOWN,
    **{("n5", hour): euros(hour) for hour in range(HOURS)},
    **{("n5", hour): euros(hour) | {"currency_conversion_rate": None} for hour in (30, 31)},
    **{("n7", hour): {"invoice.month": OLD_INVOICE} for hour in range(12)},
}
"""What of the hours of our nodes is on the bill otherwise than at $9.60."""

_BOTH = [credit(CUD, -1.6), credit(PROMOTION, -0.5)]
_NOT_BILLED = {("n1", 10), ("n1", 11)}
_LATE = {("n8", hour) for hour in range(24, HOURS)}


def first_file() -> list[Row]:
    """What was exported at first."""
    ours = [
        hour_of(node, hour, **{"credits": _BOTH if node == "n4" else [], **_changes(node, hour)})
        for node in NODES
        for hour in range(HOURS)
        if (node, hour) not in _NOT_BILLED | _LATE
    ]
    twice = [row for row in ours if row["resource"]["name"] == "n3"][:5]
    foreign = [hour_of("somebodys", hour) for hour in range(3)]
    corrections = [
        hour_of("n2", 4, cost=-2.4, cost_at_list=-2.4, usage={}, export_time=LATER),
        hour_of("n2", 6, cost=-9.6, cost_at_list=-9.6, usage={}, export_time=LATER),
        hour_of("n2", 6, usage={}, export_time=LATER),
    ]
    fees = {"sku": {"id": "C-1", "description": "Commitment v1: TpuV5e running in X for 1 Year"}}
    month = [
        *(hour_of("", 0, **TAX, cost=1.23) for _ in range(2)),
        hour_of("", 0, **TAX | {"cost_type": "adjustment"}, cost=-3.21),
        hour_of("", 0, **TAX | {"cost_type": "rounding_error"}, cost="0.000000007"),
        hour_of("", 0, resource={}, usage={}, **fees, cost=50),
    ]
    theirs = [hour_of("n0", hour, **{"project.id": "theirs"}) for hour in range(30)]
    dollar = {"currency": "EUR", "currency_conversion_rate": 0.9, "cost": 1}
    gpu = {"sku": {"id": "G-1", "description": "Nvidia L4 GPU running in Las Vegas"}}
    others = [hour_of("gpu", hour, **gpu, **dollar) for hour in range(28)]
    return [*ours, *twice, *foreign, *corrections, *month, *theirs, *others]


def later_file() -> list[Row]:
    """What was exported a day later: rows of before, rows that were late, and a correction."""
    again = [hour_of("n8", hour) for hour in range(10)]
    late = [hour_of(node, hour, export_time=LATER) for node, hour in sorted(_LATE)]
    correction = hour_of("n9", 2, cost=-1, cost_at_list=-1, usage={}, export_time=LATER)
    return [*again, *late, correction]


def _changes(node: str, hour: int) -> Mapping[str, Any]:
    return CHANGED.get((node, hour), {})


@dataclass(frozen=True)
class Owed:
    """What an invoice comes to: rows, nano-dollars, and billionths of its own currency."""

    rows: int = 0
    dollars: int = 0
    local: int = 0


def owed(rows: Iterable[Row]) -> dict[tuple[str, str], Owed]:
    """What the invoices of different rows come to, in fractions and without the service."""
    found: dict[tuple[str, str], Owed] = {}
    for billed in rows:
        amounts = [billed["cost"], *(each["amount"] for each in billed["credits"])]
        exact = [Fraction(str(amount)) * NANOS for amount in amounts]
        per_dollar = _per_dollar(billed)
        dollars = 0 if per_dollar is None else sum(round(each / per_dollar) for each in exact)
        month = billed["invoice"]["month"]
        key = f"{month[:4]}-{month[4:]}", billed["currency"]
        before = found.get(key, Owed())
        local = before.local + sum(round(each) for each in exact)
        found[key] = Owed(before.rows + 1, before.dollars + dollars, local)
    return found


def _per_dollar(one: Row) -> Fraction | None:
    if one["currency"] == "USD":
        return Fraction(1)
    said = one.get("currency_conversion_rate")
    return None if said is None else Fraction(str(said))
