"""Commitments on a bill in two files, one case to each generation and region; and what they come
to, worked out in fractions from the rows as they are written, without the service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from service.domain.clock import HOUR
from tests import factories
from tests.bills import Row, row, time_of
from tests.hands import NOON
from tests.plantedbill import CUD, LATER, NANOS, START, credit

CITIES = {
    "us-east5": "Columbus",
    "us-south1": "Dallas",
    "us-west4": "Las Vegas",
    "us-central1": "Iowa",
    "us-west1": "Oregon",
    "us-east1": "South Carolina",
    "europe-west4": "Netherlands",
    "us-east4": "Northern Virginia",
}
PRICES = {"V5e": Fraction("1.2"), "V5p": Fraction("4.2"), "V6e": Fraction("2.7")}
OFFSET, EUROS = "FEE_UTILIZATION_OFFSET", Fraction("0.9173")
Case = tuple[str, str, int]
"""Generation, region and years; 0 where the bill does not say."""


def fee(family: str, region: str, years: int, chip_hours: int, cost: str, **changes: Any) -> Row:
    """A fee as Google bills it: without a resource and a zone, its usage the committed hours."""
    term = f"{years} Year{'s' if years > 1 else ''}"
    said = f"Commitment v1: Tpu{family} running in {CITIES[region]} for {term}"
    return row(
        **{
            "sku": {"id": f"C-{family}-{region}-{years}", "description": said},
            "location": {"region": region},
            "resource": {},
            "usage_start_time": time_of(START),
            "usage_end_time": time_of(START + HOUR),
            "export_time": time_of(NOON),
            "cost": cost,
            "cost_at_list": cost,
            "usage": {"amount": chip_hours * HOUR, "unit": "seconds"},
            **changes,
        }
    )


def use(
    family: str, region: str, node: str, hour: int, chips: int, covered: Fraction, **changes: Any
) -> Row:
    """An hour of a node at list price; a credit takes that part of its cost off."""
    zone, cost = f"{region}-a", chips * PRICES[family]
    path = f"//tpu.googleapis.com/projects/{factories.PROJECT}/locations/{zone}/nodes/{node}"
    at = START + hour * HOUR
    return row(
        **{
            "sku": {"id": f"U-{family}", "description": f"Tpu{family} running in {CITIES[region]}"},
            "location": {"zone": zone, "region": region},
            "resource": {"name": node, "global_name": path},
            "usage_start_time": time_of(at),
            "usage_end_time": time_of(at + HOUR),
            "export_time": time_of(NOON),
            "cost": _text(cost),
            "cost_at_list": _text(cost),
            "usage": {"amount": chips * HOUR, "unit": "seconds"},
            "credits": [{**credit(CUD, 0), "amount": _text(-cost * covered)}] if covered else [],
            **changes,
        }
    )


def _text(amount: Fraction) -> str:
    nanos = round(amount * NANOS)
    whole, rest = divmod(abs(nanos), NANOS)
    return f"{'-' if nanos < 0 else ''}{whole}.{rest:09d}"


ALL, HALF, NONE = Fraction(1), Fraction(1, 2), Fraction(0)
_NEW = {"consumption_model": {"id": "AAAA-0000-1111", "description": "TPU CUD - 3 Year"}}
_DEFAULT = {"consumption_model": {"id": "7754-699E-0EBF", "description": "Default"}}
_IN_EUROS = {"currency": "EUR", "currency_conversion_rate": "0.9173"}


def first_file() -> list[Row]:
    """What was exported at first."""
    fully_used = [
        fee("V6e", "us-east5", 1, 32, "60.48"),
        *(use("V6e", "us-east5", "full", hour, 8, ALL) for hour in range(4)),
        use("V6e", "us-east5", "full", 4, 8, NONE),
    ]
    half_used = [
        fee("V6e", "us-south1", 1, 32, "60.480000001"),
        *(use("V6e", "us-south1", "half", hour, 4, ALL) for hour in range(4)),
    ]
    two_nodes = [
        fee("V5e", "us-west4", 1, 9, "1.000000001"),
        use("V5e", "us-west4", "two-a", 0, 8, HALF),
        use("V5e", "us-west4", "two-b", 0, 8, HALF, **_DEFAULT),
    ]
    two_terms = [
        fee("V5p", "us-east5", 1, 8, "23.520000001"),
        fee("V5p", "us-east5", 3, 4, "7.56"),
        use("V5p", "us-east5", "terms", 0, 12, Fraction(3, 4)),
    ]
    unused = [fee("V6e", "us-central1", 3, 100, "121.5")]
    no_fee = [
        use("V6e", "us-west1", "no-fee", 0, 8, ALL),
        use("V6e", "us-west1", "no-fee", 1, 8, NONE),
    ]
    corrected = [
        fee("V5e", "us-east1", 1, 100, "84"),
        *(use("V5e", "us-east1", "corrected", hour, 8, ALL) for hour in range(3)),
    ]
    euros = [
        fee("V5p", "europe-west4", 1, 7, "18.9", **_IN_EUROS),
        *(use("V5p", "europe-west4", "euro", hour, 1, ALL, **_IN_EUROS) for hour in range(5)),
    ]
    lower_price = [
        fee("V6e", "europe-west4", 3, 16, "19.44", credits=[credit(OFFSET, -9.72)]),
        use("V6e", "europe-west4", "lower", 0, 8, NONE, cost="9.72", **_NEW),
        use("V6e", "europe-west4", "lower", 1, 8, NONE),
    ]
    unmeasured = [
        fee("V5e", "us-east4", 1, 8, "6.72"),
        use("V5e", "us-east4", "unmeasured", 0, 8, ALL, usage={}),
    ]
    return [
        *(*fully_used, *half_used, *two_nodes, *two_terms, *unused, *no_fee, *corrected, *euros),
        *(*lower_price, *unmeasured, *_of_others()),
    ]


def _of_others() -> list[Row]:
    """Rows that never count: another service, an unknown SKU, a spot node, and other fees."""
    gpu = {"sku": {"id": "G-1", "description": "Nvidia L4 GPU running in Columbus"}}
    unknown = {"sku": {"id": "X-1", "description": "TpuV9z of tomorrow in Columbus"}}
    spot = {"sku": {"id": "S-1", "description": "TpuV6e attached to Spot Preemptible VMs in X"}}
    cores = {"sku": {"id": "C-9", "description": "Commitment v1: Cpu in Columbus for 1 Year"}}
    return [
        use("V6e", "us-east5", "gpu", 0, 8, ALL, **gpu),
        use("V6e", "us-east5", "unknown", 0, 8, ALL, **unknown),
        use("V6e", "us-east5", "spot", 0, 8, NONE, **spot),
        fee("V6e", "us-east5", 1, 1_000, "99", **cores),
        use("V6e", "us-east5", "theirs", 0, 8, ALL, **{"project.id": "theirs"}),
    ]


def later_file() -> list[Row]:
    """What was exported a day later: 60 committed hours less, and their part of the fee."""
    return [fee("V5e", "us-east1", 1, -60, "-50.4", export_time=LATER)]


@dataclass
class Owed:
    """What a commitment comes to, in dollars and chip-seconds."""

    fee: Fraction = NONE
    offset: Fraction = NONE
    committed: Fraction = NONE
    eligible: Fraction = NONE
    list_cost: Fraction = NONE
    paid: Fraction = NONE
    covered: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    @property
    def all_covered(self) -> Fraction:
        """Of all nodes."""
        return sum(self.covered.values(), NONE)

    @property
    def saving(self) -> Fraction:
        """At list price less what is paid."""
        return self.list_cost - self.fee - self.offset - self.paid


def owed(rows: Iterable[Row]) -> dict[Case, Owed]:
    """What each commitment comes to, row by row. The credits of two terms are theirs by their
    committed hours, as no row says which term it is of."""
    fees: dict[Case, Owed] = defaultdict(Owed)
    used: dict[tuple[str, str], Owed] = defaultdict(Owed)
    for billed in rows:
        words = billed["sku"]["description"].split()
        if billed["project"]["id"] != factories.PROJECT or "Spot" in words:
            continue
        if words[0] == "Commitment" and words[2].startswith("Tpu"):
            case = words[2][3:], billed["location"]["region"], int(words[-2])
            taken = _dollars(
                billed, sum(Fraction(str(each["amount"])) for each in billed["credits"])
            )
            fees[case].fee += _dollars(billed, Fraction(str(billed["cost"])))
            fees[case].offset += taken
            fees[case].committed += Fraction(str(billed["usage"]["amount"]))
        elif words[0][3:] in PRICES:
            _use(used[words[0][3:], billed["location"]["region"]], billed)
    return _by_terms(fees, used)


def _use(found: Owed, one: Row) -> None:
    cost = Fraction(str(one["cost"]))
    off = -sum(Fraction(str(each["amount"])) for each in one["credits"])
    is_new = one.get("consumption_model", {}).get("description", "Default") != "Default"
    part = ALL if is_new else off / cost
    seconds = Fraction(one["usage"].get("amount", 0))
    found.eligible += seconds
    found.list_cost += _dollars(one, Fraction(str(one["cost_at_list"]))) * part
    found.paid += _dollars(one, cost * part - off)
    if part:
        found.covered[one["resource"]["name"]] += seconds * part


def _by_terms(fees: dict[Case, Owed], used: dict[tuple[str, str], Owed]) -> dict[Case, Owed]:
    found = dict(fees)
    for place, all_of_it in used.items():
        cases = [case for case in fees if case[:2] == place] or [(*place, 0)]
        whole = sum((fees[case].committed for case in cases if case in fees), NONE)
        for case in cases:
            part = fees[case].committed / whole if whole else ALL
            owes = found.setdefault(case, Owed())
            owes.eligible = all_of_it.eligible
            owes.list_cost = all_of_it.list_cost * part
            owes.paid = all_of_it.paid * part
            owes.covered = {node: some * part for node, some in all_of_it.covered.items()}
    return {case: owes for case, owes in found.items() if owes.covered or owes.committed}


def _dollars(one: Row, amount: Fraction | int) -> Fraction:
    return Fraction(amount) / (EUROS if one["currency"] == "EUR" else 1)
