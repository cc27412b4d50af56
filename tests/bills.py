"""Google's bill as it would be written for what the emulator bills: exports, and their faults."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from service.emulator.config.telemetry_settings import Prices
from service.emulator.telemetry.skus import COMPUTE, SERVICES, Sku, list_skus

HOUR = 3_600
Row = dict[str, Any]
"""A row of the detailed export, nested as BigQuery writes it."""

_FORMS = {
    "on_demand": "{family} running in ",
    "reserved": "{family} running in ",
    "spot": "{family} attached to Spot Preemptible VMs running in ",
    "preemptible": "{family} attached to Spot Preemptible VMs running in ",
    "flex_start": "DWS Defined Duration {short} running in ",
}
_GENERATIONS = {"v5litepod": "v5e", "v5p": "v5p", "v6e": "v6e", "v4": "v4"}


def time_of(seconds: int) -> str:
    """As BigQuery writes a timestamp."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def row(**changes: Any) -> Row:
    """An hour of eight v5e chips on demand at $1.20 each; `**{"cost": …}` says otherwise, a key
    with a dot in it a nested one."""
    base: Row = {
        "billing_account_id": "012345-6789AB-CDEF01",
        "invoice": {"month": "202611"},
        "cost_type": "regular",
        "service": {"id": COMPUTE, "description": "Compute Engine"},
        "sku": {"id": "04C3-5B71-D137", "description": "TpuV5e running in Las Vegas"},
        "usage_start_time": "2026-11-01 00:00:00 UTC",
        "usage_end_time": "2026-11-01 01:00:00 UTC",
        "project": {"id": "lab", "name": "Lab"},
        "labels": [],
        "location": {"zone": "us-west4-a"},
        "resource": {
            "name": "run-1",
            "global_name": "//tpu.googleapis.com/projects/lab/locations/us-west4-a/nodes/run-1",
        },
        "cost": 9.6,
        "currency": "USD",
        "usage": {
            "amount": 28800.0,
            "unit": "seconds",
            "amount_in_pricing_units": 8.0,
            "pricing_unit": "hour",
        },
        "credits": [],
        "export_time": "2026-11-05 12:00:00 UTC",
        "cost_at_list": 9.6,
    }
    for key, value in changes.items():
        outer, _, inner = key.partition(".")
        base[outer] = base[outer] | {inner: value} if inner else value
    return base


def export(
    entries: Iterable[Mapping[str, Any]], exported_at: int, prices: Prices | None = None
) -> list[Row]:
    """The rows of what the emulator's bill says: one for each UTC hour of each of its entries."""
    known = prices or Prices()
    return [hour for entry in entries for hour in _hours(entry, exported_at, known)]


def _hours(entry: Mapping[str, Any], exported_at: int, prices: Prices) -> Iterator[Row]:
    sku = _sku(entry, prices)
    project = entry["name"].split("/")[1]
    start, end = entry["start"], entry["start"] + entry["seconds"]
    while start < end:
        until = min(end, start - start % HOUR + HOUR)
        used = entry["chips"] * (until - start)
        # BigQuery's numbers are binary: what lies beyond the ninth place is noise.
        cost = float(Decimal(used) * _price(sku, start) / HOUR)
        yield row(
            **{
                "sku": {"id": sku.id, "description": sku.description},
                "service": {"id": sku.service, "description": SERVICES[sku.service]},
                "project": {"id": project, "name": project},
                "resource": {
                    "name": entry["name"].rpartition("/")[2],
                    "global_name": f"//tpu.googleapis.com/{entry['name']}",
                },
                "usage_start_time": time_of(start),
                "usage_end_time": time_of(until),
                "cost": cost,
                "cost_at_list": cost,
                "export_time": time_of(exported_at),
                "usage.amount": used,
                "usage.amount_in_pricing_units": used / HOUR,
            }
        )
        start = until


def _sku(entry: Mapping[str, Any], prices: Prices) -> Sku:
    generation = _GENERATIONS[entry["accelerator_type"].rpartition("-")[0]]
    short = generation[0].upper() + generation[1:]
    form = _FORMS[entry["provisioning_model"]].format(family=f"Tpu{short}", short=short)
    region = entry["name"].split("/")[3].rpartition("-")[0]
    return next(
        sku
        for sku in list_skus(COMPUTE, prices)
        if sku.description.startswith(form) and region in sku.regions
    )


def _price(sku: Sku, instant: int) -> Decimal:
    return Decimal([step.usd for step in sku.steps if step.at <= instant][-1])


def json_lines(rows: Iterable[Row]) -> bytes:
    """As `bq extract --destination_format NEWLINE_DELIMITED_JSON` writes them."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def flat(one: Row, dot: str = ".") -> dict[str, str]:
    """A row as it stands in a CSV file; lists as JSON text."""
    cells: dict[str, str] = {}
    for name, value in one.items():
        if isinstance(value, dict):
            cells |= {f"{name}{dot}{key}": str(inner) for key, inner in value.items()}
        else:
            cells[name] = json.dumps(value) if isinstance(value, list) else str(value)
    return cells


def csv_of(cells: Sequence[Mapping[str, str]], columns: Sequence[str] | None = None) -> bytes:
    """A CSV file of rows that have the same columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns or list(cells[0]), extrasaction="ignore")
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue().encode()


def detailed_csv(rows: Iterable[Row], dot: str = ".") -> bytes:
    """The detailed export as CSV, its headers with dots or with underscores."""
    return csv_of([flat(row, dot) for row in rows])


def focus_csv(rows: Iterable[Row]) -> bytes:
    """The same as FOCUS."""
    return csv_of(
        [
            {
                "BilledCost": str(row["cost"]),
                "BillingCurrency": row["currency"],
                "ChargeCategory": {"regular": "Usage"}.get(row["cost_type"], "Tax"),
                "ChargeDescription": row["sku"]["description"],
                "ChargePeriodStart": row["usage_start_time"].replace(" UTC", "Z"),
                "ChargePeriodEnd": row["usage_end_time"].replace(" UTC", "Z"),
                "ConsumedQuantity": str(row["usage"]["amount"]),
                "ConsumedUnit": "Seconds",
                "ListCost": str(row["cost_at_list"]),
                "ResourceId": row["resource"]["global_name"],
                "ServiceName": row["service"]["description"],
                "SkuId": row["sku"]["id"],
                "SubAccountId": row["project"]["id"],
                "x_ExportTime": row["export_time"],
            }
            for row in rows
        ]
    )
