"""Costs, estimates, prices and the catalogue, read as a person would."""

from __future__ import annotations

import pytest

from tests.cli.given import steward

OFFER = {"zone": "us-west4-a", "provisioning_model": "spot"}
COSTS = {
    "window": {"start": "2026-11-03T23:00:00Z", "end": "2026-11-05T12:00:00Z"},
    "aggregate": ["team"],
    "step": "day",
    "tz": "Europe/Berlin",
    "rows": [
        {
            "start": "2026-11-03T23:00:00Z",
            "end": "2026-11-04T23:00:00Z",
            "team": "vision",
            "cost": "1843.200000000",
            "chip_seconds": 5_529_600,
        },
        {
            "start": "2026-11-04T23:00:00Z",
            "end": "2026-11-05T12:00:00Z",
            "team": "",
            "cost": "0.004166667",
            "chip_seconds": 48,
        },
    ],
    "total": "1843.204166667",
    "as_of": "2026-11-05T12:00:00Z",
    "estimated": True,
}


def test_costs_are_shown_by_the_calendar_that_was_asked_for(api):
    api.when("GET", "/v1/costs", COSTS)
    asked = ("--by", "team", "--tz", "Europe/Berlin", "--filter", "label:run=17")
    assert steward("costs", *asked).stdout.splitlines() == [
        "FROM (Europe/Berlin)  TEAM    CHIP-HOURS       COST",
        "2026-11-04            vision    1,536.00  $1,843.20",
        "2026-11-05            -           0.0133    $0.0042",
        "",
        "$1,843.20 in all, as of 2026-11-05 12:00:00 UTC; some of it still runs",
    ]
    assert api.calls[0].query == {
        "window": ["7d"],
        "aggregate": ["team"],
        "step": ["day"],
        "tz": ["Europe/Berlin"],
        "filter": ["label:run:17"],
    }


def test_no_costs_are_a_sum_all_the_same(api):
    api.when("GET", "/v1/costs", {**COSTS, "rows": [], "total": "0.000000000", "estimated": False})
    assert steward("costs").stdout == "$0.00 in all, as of 2026-11-05 12:00:00 UTC\n"


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


@pytest.mark.parametrize(
    ("command", "path", "document", "line"),
    [
        (
            ("runtimes", "list"),
            "/v1/catalog/runtimes",
            {
                "runtimes": [
                    {
                        "name": "v2-alpha-tpuv6e",
                        "frameworks": ["jax", "pytorch"],
                        "framework_version": "",
                        "generations": ["v6e"],
                        "hosts": "any",
                        "standing": "documented",
                    }
                ]
            },
            "v2-alpha-tpuv6e  jax, pytorch  -        v6e          any    documented",
        ),
        (
            ("catalog", "accelerators"),
            "/v1/catalog/accelerators",
            {
                "accelerators": [
                    {
                        "name": "v4-32",
                        "generation": "v4",
                        "chips": 16,
                        "hosts": 4,
                        "topology": "2x2x4",
                        "machine_type": "ct4p-hightpu-4t",
                    }
                ]
            },
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
    "reason": "ran out 40 s ago",
}


def test_capacity_says_what_was_to_be_had_and_what_is_left_alone(api):
    api.when("GET", "/v1/catalog/capacity", {"capacity": [CAPACITY], "next_page_token": ""})
    heading, line = steward(
        "catalog", "capacity", "--provisioning-model", "spot"
    ).stdout.splitlines()
    assert heading.split()[:5] == ["ZONE", "TYPE", "MODEL", "PROJECT", "TRIED"]
    assert line.split(maxsplit=15) == [
        *("us-west4-a", "v5litepod-8", "spot", "lab"),
        *("1,200", "3", "9", "1", "0", "2", "2m22s", "0", "-"),
        *("2026-11-05", "12:00:20", "ran out 40 s ago"),
    ]
    assert api.calls[0].query["window"] == ["7d"]
    assert api.calls[0].query["provisioning_model"] == ["spot"]
    api.when("GET", "/v1/catalog/capacity", {"capacity": [], "next_page_token": ""})
    assert steward("catalog", "capacity").stdout == "nothing was tried in that time\n"
