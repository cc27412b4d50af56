"""Estimates, prices and the catalogue, read as a person would."""

from __future__ import annotations

import pytest

from tests.cli.given import steward

OFFER = {"zone": "us-west4-a", "provisioning_model": "spot"}


def test_an_estimate_is_a_line_for_each_place(api):
    document = {
        "accelerator_type": "v5litepod-8",
        "chips": 8,
        "duration_seconds": 7_200,
        "estimates": [
            {**OFFER, "hourly_cost": "4.623200000", "cost": "9.246400000"},
            {**OFFER, "provisioning_model": "reserved", "hourly_cost": None, "cost": None},
        ],
    }
    api.when("POST", "/v1/estimates", document)
    result = steward("estimate", "--accelerator-type", "v5litepod-8", "--for", "2h")
    assert result.stdout.splitlines() == [
        "v5litepod-8, 8 chips, for 2h",
        "",
        "ZONE        MODEL     PER CHIP-HOUR  PER HOUR    FOR 2h",
        "us-west4-a  spot            $0.5779   $4.6232     $9.25",
        "us-west4-a  reserved       unpriced  unpriced  unpriced",
    ]
    assert api.calls[0].body == {"accelerator_type": "v5litepod-8", "duration_seconds": 7_200}


def test_prices_say_since_when_and_from_where(api):
    price = {
        "generation": "v5e",
        "provisioning_model": "spot",
        "region": "us-west4",
        "usd": "0.577900000",
        "unit": "chip_hour",
        "effective_from": "2026-08-06T00:00:00Z",
        "source": "Cloud Billing Catalog",
    }
    api.when("GET", "/v1/prices", {"prices": [price], "next_page_token": ""})
    shown = steward("prices", "list", "--generation", "v5e").stdout.splitlines()
    assert shown[1].split(maxsplit=6) == [
        *("v5e", "spot", "us-west4", "$0.5779", "chip-hour", "2026-08-06"),
        "Cloud Billing Catalog",
    ]
    api.when("GET", "/v1/prices", {"prices": [], "next_page_token": ""})
    assert steward("prices", "list").stdout == "no such price is known\n"
    steward("prices", "list", "--provisioning-model", "flex-start")
    assert api.calls[-1].query["provisioning_model"] == ["flex_start"]


def test_a_runtime_version_comes_with_its_reasons(api):
    document = {
        "runtime_version": "tpu-vm-tf-2.15.1-pod-pjrt",
        "framework_version": "2.15.1",
        "why": ["v5litepod-16 has 4 hosts, so the name says -pod."],
        "alternatives": ["tpu-vm-tf-2.15.0-pod-pjrt"],
        "warnings": ["It is old."],
        "vm_software": None,
    }
    api.when("POST", "/v1/runtimes:resolve", document)
    asked = ("--accelerator-type", "v5litepod-16", "--framework", "tensorflow=2.15")
    assert steward("runtimes", "resolve", *asked).stdout.splitlines() == [
        "tpu-vm-tf-2.15.1-pod-pjrt",
        "",
        "  v5litepod-16 has 4 hosts, so the name says -pod.",
        "  Note: It is old.",
        "",
        "  Or  tpu-vm-tf-2.15.0-pod-pjrt",
    ]
    framework = {"name": "tensorflow", "version": "2.15"}
    assert api.calls[0].body["framework"] == framework


RUNTIME = {
    "name": "v2-alpha-tpuv6e",
    "frameworks": ["jax", "pytorch"],
    "framework_version": "",
    "generations": ["v6e"],
    "hosts": "any",
    "standing": "documented",
}
ACCELERATOR = {
    "name": "v4-32",
    "generation": "v4",
    "chips": 16,
    "hosts": 4,
    "topology": "2x2x4",
    "machine_type": "ct4p-hightpu-4t",
}


@pytest.mark.parametrize(
    ("command", "path", "document", "line"),
    [
        (
            ("runtimes", "list"),
            "/v1/catalog/runtimes",
            {"runtimes": [RUNTIME]},
            "v2-alpha-tpuv6e  jax, pytorch  -        v6e          any    documented",
        ),
        (
            ("catalog", "accelerators"),
            "/v1/catalog/accelerators",
            {"accelerators": [ACCELERATOR]},
            "v4-32  v4             16      4  2x2x4     ct4p-hightpu-4t",
        ),
        (
            ("catalog", "zones"),
            "/v1/catalog/zones",
            {
                "zones": [
                    {
                        "name": "us-west4-a",
                        "region": "us-west4",
                        "generations": [{"generation": "v5e"}],
                    }
                ]
            },
            "us-west4-a  us-west4  v5e",
        ),
    ],
)
def test_the_catalogue_is_a_table(api, command, path, document, line):
    api.when("GET", path, {**document, "next_page_token": ""})
    assert steward(*command).stdout.splitlines()[1] == line


CAPACITY = {
    "project": "lab",
    "zone": "us-west4-a",
    "accelerator_type": "v5litepod-8",
    "generation": "v5e",
    "provisioning_model": "spot",
    "attempts": 1_200,
    "ready": 3,
    "stock_outs": 9,
    "quota_refusals": 1,
    "denied": 0,
    "failed": 2,
    "median_seconds_to_ready": 142,
    "preempted": 0,
    "median_seconds_lived": None,
    "last_attempt_at": "2026-11-05T11:59:20Z",
    "back_off_until": "2026-11-05T12:00:20Z",
    "reason": "was out of capacity 40 s ago",
}


def test_capacity_says_what_was_to_be_had_and_what_is_left_alone(api):
    api.when("GET", "/v1/catalog/capacity", {"capacity": [CAPACITY], "next_page_token": ""})
    heading, line, blank, reason = steward(
        "catalog", "capacity", "--provisioning-model", "spot"
    ).stdout.splitlines()
    assert heading.split()[:5] == ["ZONE", "TYPE", "MODEL", "PROJECT", "TRIED"]
    assert "PREEMPTED  LIFETIME" in heading, "not how long they live: how long those did"
    assert line.split() == [
        *("us-west4-a", "v5litepod-8", "spot", "lab"),
        *("1,200", "3", "9", "1", "0", "2", "2m22s", "0", "-"),
        *("2026-11-05", "12:00:20"),
    ]
    assert not blank
    assert reason == "us-west4-a, v5litepod-8, spot: was out of capacity 40 s ago"
    wide = steward("catalog", "capacity", "-o", "wide").stdout.splitlines()
    assert wide[1].endswith("  was out of capacity 40 s ago"), "in its column, once"
    assert len(wide) == 2
    assert api.calls[0].query["window"] == ["7d"]
    assert api.calls[0].query["provisioning_model"] == ["spot"]
    api.when("GET", "/v1/catalog/capacity", {"capacity": [], "next_page_token": ""})
    assert steward("catalog", "capacity").stdout == "no attempts in that time\n"


FORECAST = {
    "end": "2026-12-01T00:00:00Z",
    "spent": "1000.000000000",
    "committed": "550.000000000",
    "running": {"low": "481.00", "mid": "500.00", "high": "520.00"},
    "new_launches": {"low": "50.00", "mid": "100.00", "high": "175.50"},
    "total": {"low": "1550.00", "mid": "1600.00", "high": "1675.50"},
    "method": "weekday_launches",
    "explanation": "What is spent, and so on.",
    "unpriced_nodes": 1,
    "last_error": {
        "forecast": {"low": "1", "mid": "900.00", "high": "3"},
        "actual": "1000.00",
        "error_percent": "-10.0",
    },
}


def test_a_forecast_is_a_sum_with_its_band_and_what_it_is_made_of(api):
    api.when("GET", "/v1/forecasts", FORECAST)
    asked = ("costs", "forecast", "--tz", "Europe/Berlin", "--filter", "team=vision")
    assert steward(*asked).stdout.splitlines() == [
        "$1,600.00 by 2026-12-01 00:00:00 UTC ($1,550.00 to $1,675.50)",
        "",
        "  Spent         $1,000.00",
        "  Runs now      $500.00 ($481.00 to $520.00), $550.00 at most",
        "  New launches  $100.00 ($50.00 to $175.50)",
        "  Last month    $1,000.00, forecast at half time as $900.00, off by -10.0 %",
        "",
        "What is spent, and so on.",
        "1 node with unknown price: in no figure.",
    ]
    assert api.calls[0].query == {
        "period": ["month"],
        "tz": ["Europe/Berlin"],
        "filter": ["team:vision"],
    }


def band(amount):
    return dict.fromkeys(("low", "mid", "high"), amount)


def test_the_cents_of_the_parts_of_a_run_rate_add_up_to_it(api):
    document = {
        "end": "2026-12-01T00:00:00Z",
        "spent": "1000.004000000",
        "committed": "500.008000000",
        "running": band("480.004000000"),
        "new_launches": band("120.008000000"),
        "total": band("1600.016000000"),
        "method": "run_rate",
        "explanation": "A run-rate only.",
        "unpriced_nodes": 0,
        "last_error": None,
    }
    api.when("GET", "/v1/forecasts", document)
    assert steward("costs", "forecast").stdout.splitlines() == [
        "$1,600.02 by 2026-12-01 00:00:00 UTC (no band)",
        "",
        "  Spent               $1,000.01",
        "  Runs until its TTL  $480.00",
        "  At this run-rate    $120.01",
        "",
        "A run-rate only.",
    ]


def test_a_forecast_without_a_band_says_so(api):
    same = dict.fromkeys(("low", "mid", "high"), "0.00")
    document = {
        "end": "2026-12-01T00:00:00Z",
        "spent": "0.00",
        "committed": "0.00",
        "running": same,
        "new_launches": same,
        "total": same,
        "method": "run_rate",
        "explanation": "A run-rate only.",
        "unpriced_nodes": 0,
        "last_error": None,
    }
    api.when("GET", "/v1/forecasts", document)
    shown = steward("costs", "forecast").stdout
    assert shown.startswith("$0.00 by 2026-12-01 00:00:00 UTC (no band)\n")
    assert "Last month" not in shown


PLANNED = {
    "accelerator_type": "v5litepod-8",
    "chips": 8,
    "provisioning_model": "spot",
    "zone": "us-west4-a",
    "hourly_cost": "4.623200000",
    "duration_seconds": 7_200,
    "cost": "9.246400000",
    "affords_seconds": None,
    "meets_deadline": None,
    "meets_max_spend": None,
    "accumulation_steps": None,
    "divides_evenly": None,
}
LATE = {"meets_deadline": False, "meets_max_spend": False}
UNEVEN = {"accumulation_steps": 5, "divides_evenly": False}


def test_a_plan_is_a_line_for_each_type_and_model(api):
    endless = {"duration_seconds": None, "cost": None, "affords_seconds": 5_400}
    plans = [
        {**PLANNED, "accumulation_steps": 4, "divides_evenly": True},
        {**PLANNED, **LATE, **UNEVEN},
        {**PLANNED, "hourly_cost": None, "cost": None},
        {**PLANNED, **endless, "meets_max_spend": True},
    ]
    api.when("POST", "/v1/estimates:plan", {"plans": plans, "as_of": "2026-11-05T12:00:00Z"})
    asked = ("--hbm", "100", "--flops", "1.8e18", "--within", "2h", "--max-spend", "20", "--spot")
    assert steward("plan", *asked).stdout.splitlines() == [
        "TYPE         CHIPS  MODEL  ZONE        PER HOUR  TAKES      COST      STEPS  FITS",
        "v5litepod-8      8  spot   us-west4-a     $4.62     2h     $9.25          4  yes",
        (
            "v5litepod-8      8  spot   us-west4-a     $4.62     2h     $9.25  5, uneven"
            "  too late, too expensive"
        ),
        (
            "v5litepod-8      8  spot   us-west4-a  unpriced     2h  unpriced          -"
            "  price not known"
        ),
        (
            "v5litepod-8      8  spot   us-west4-a     $4.62      -         -          -"
            "  yes, the spend lasts for 1h30m"
        ),
        "",
        "prices as of 2026-11-05 12:00:00 UTC",
    ]
    assert api.calls[0].body == {
        "hbm_gib": 100,
        "flops": "1.8e18",
        "deadline_seconds": 7_200,
        "max_spend": "20",
        "provisioning_model": "spot",
    }


TOO_MUCH = "that is $2.50 more than it has left: it would refuse"
TOO_LITTLE = "$0.10 is left after it, too little for the minute that its deletion may take"


def test_an_estimate_says_what_it_would_take_of_the_budgets(api):
    budget = {"name": "vision", "budget_id": "b-1", "amount": "100.00", "percent": 9}
    budget |= {"on_exceeded": "refuse"}
    document = {
        "accelerator_type": "v5litepod-8",
        "chips": 8,
        "duration_seconds": 7_200,
        "estimates": [{**OFFER, "hourly_cost": "4.623200000", "cost": "9.246400000"}],
        "budgets": [
            {**budget, "left": "12.50", "fits": True},
            {**budget, "name": "", "left": "-2.50", "fits": False},
            {**budget, "name": "lab", "left": None, "fits": None},
            {**budget, "name": "edge", "left": "0.10", "fits": False, "on_exceeded": "notify"},
        ],
    }
    api.when("POST", "/v1/estimates", document)
    asked = ("--accelerator-type", "v5litepod-8", "--team", "vision", "--label", "run=17")
    assert steward("estimate", *asked).stdout.splitlines()[-4:] == [
        "vision: the cheapest takes 9 % of $100.00; $12.50 is left after it",
        f"b-1: the cheapest takes 9 % of $100.00; {TOO_MUCH}",
        "lab: the cheapest takes 9 % of $100.00; what is left is unknown: it would refuse",
        f"edge: the cheapest takes 9 % of $100.00; {TOO_LITTLE}: it only notifies",
    ]
    assert api.calls[0].body["labels"] == {"run": "17"}
