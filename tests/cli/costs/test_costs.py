"""`costs` and its months, read as a person would."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from tests.cli.given import ID, OTHER, node, page, steward

COSTS: dict[str, Any] = {
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
    "list_total": "1843.204166667",
    "uncertainty": "0.000000000",
    "unpriced_seconds": 0,
    "as_of": "2026-11-05T12:00:00Z",
    "estimated": True,
}


def test_costs_are_shown_by_the_calendar_that_was_asked_for(api):
    api.when("GET", "/v1/costs", COSTS)
    asked = ("--by", "team", "--tz", "Europe/Berlin", "--filter", "label:run=17")
    assert steward("costs", *asked).stdout.splitlines() == [
        "FROM (Europe/Berlin)  TEAM    CHIP-HOURS       COST",
        "2026-11-04            vision    1,536.00  $1,843.20",
        "2026-11-05            -           0.0133      $0.00",
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


def dollars(texts):
    return sum(Decimal(text.replace("$", "").replace(",", "")) for text in texts)


def test_the_cents_of_the_rows_add_up_to_those_of_the_sum(api):
    costs = ["3.434166667", "3.434166667", "3.424166667"]  # $3.43 + $3.43 + $3.42 are $10.28
    rows = [{**COSTS["rows"][0], "cost": cost} for cost in costs]
    api.when("GET", "/v1/costs", {**COSTS, "rows": rows, "total": "10.292500001"})
    _, *lines, _, whole = steward("costs", "--by", "team").stdout.splitlines()[:6]
    assert dollars(line.split()[-1] for line in lines) == dollars([whole.split()[0]])


def test_a_value_with_a_comma_is_one_value(api):
    api.when("GET", "/v1/costs", COSTS)
    assert steward("costs", "--filter", 'team=vi,s"ion').exit_code == 0
    assert steward("costs", "--filter", "label:run=a\\b").exit_code == 0
    assert [call.query["filter"] for call in api.calls] == [
        ['team:vi\\,s"ion'],
        ["label:run:a\\\\b"],
    ]


def test_costs_say_what_is_to_be_known_of_their_sum(api):
    more = {"uncertainty": "0.003118444", "unpriced_seconds": 192, "list_total": "2500.000000000"}
    api.when("GET", "/v1/costs", {**COSTS, **more})
    assert steward("costs", "--by", "team").stdout.splitlines()[-3:] == [
        "uncertain by ± $0.0031: some ends are known only between two polls",
        "3m12s with unknown price: in no figure",
        "on demand at list price: $2,500.00",
    ]


def test_costs_by_node_say_what_each_is_called(api):
    rows = [{**row, "node": id_} for row, id_ in zip(COSTS["rows"], (ID, OTHER), strict=True)]
    api.when("GET", "/v1/costs", {**COSTS, "aggregate": ["node", "team"], "rows": rows})
    api.when("GET", "/v1/nodes", page(node()))
    api.when("GET", "/v1/reservations", {"reservations": [], "next_page_token": ""})
    lines = steward("costs", "--by", "node", "--by", "team").stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["FROM", "(Europe/Berlin)", "NODE", "TEAM", "CHIP-HOURS", "COST", "ID"],
        ["2026-11-04", "trainer", "vision", "1,536.00", "$1,843.20", ID],
        ["2026-11-05", OTHER, "-", "0.0133", "$0.00", OTHER],
    ]


def test_costs_by_node_say_which_reservation_nobody_used(api):
    rows = [{**COSTS["rows"][0], "node": OTHER}]
    api.when("GET", "/v1/costs", {**COSTS, "aggregate": ["node"], "rows": rows})
    api.when("GET", "/v1/nodes", page(node()))
    bought = {"reservations": [{"id": OTHER, "name": "autumn"}], "next_page_token": ""}
    api.when("GET", "/v1/reservations", bought)
    line = steward("costs", "--by", "node").stdout.splitlines()[1]
    assert line.split()[1:3] == ["autumn", "(unused)"]


LINE = {
    "team": "",
    "owner": "ada",
    "accelerator_type": "v6e-8",
    "provisioning_model": "spot",
    "zone": "us-east5-b",
    "usd_per_chip_hour": "1.403300000",
    "chip_seconds": 7_200,
    "vm_seconds": 0,
    "reservation": "",
    "reservation_status": "",
    "amount": "2.806600000",
    "corrects": "2026-10",
}


def statement(api, *lines):
    month = {"period": "2026-11", "state": "open", "amount": "2.806600000", "lines": lines}
    api.when("GET", "/v1/statements/2026-11", month)
    return steward("costs", "statement", "2026-11").stdout.splitlines()


def test_a_statement_has_each_price_in_full(api):
    lines = statement(api, LINE)
    assert lines[1].split(maxsplit=5)[:6] == [
        *("-", "ada", "v6e-8", "spot", "us-east5-b"),
        "$1.4033        2.00  $2.81 (corrects 2026-10)",
    ]
    assert lines[-1] == "2026-11: $2.81, open"


def test_the_lines_of_a_statement_add_up_to_its_amount(api):
    lines = [LINE | {"amount": amount, "corrects": ""} for amount in ("1.4034", "1.4032", "0.0000")]
    _, *shown, _, whole = statement(api, *lines)
    assert dollars(line.split()[-1] for line in shown) == dollars([whole.split()[1].rstrip(",")])


def test_a_statement_tells_what_is_no_node_from_what_is(api):
    machine = {"accelerator_type": "n1-standard-8", "chip_seconds": 0, "vm_seconds": 9_000}
    bought = {"provisioning_model": "reserved", "reservation": "march"}
    lines = statement(
        api,
        LINE | machine,
        LINE | bought | {"reservation_status": "used"},
        LINE | bought | {"reservation_status": "unused", "accelerator_type": "v6e"},
    )
    of_machine, used, unused = (re.split(r"  +", line)[2:] for line in lines[1:4])
    assert (of_machine[0], of_machine[4]) == ("n1-standard-8", "2.50 of the VM")
    assert used[:2] == ["v6e-8", "reserved (march)"]
    assert unused[:2] == ["v6e", "reserved (unused of march)"]


def test_before_the_first_full_hour_there_is_no_statement(api):
    api.when("GET", "/v1/statements", {"statements": [], "next_page_token": ""})
    assert steward("costs", "statement").stdout.startswith("nothing is posted yet")


def test_no_costs_are_a_sum_all_the_same(api):
    nothing = {"rows": [], "total": "0.000000000", "list_total": "0.000000000", "estimated": False}
    api.when("GET", "/v1/costs", {**COSTS, **nothing})
    assert steward("costs").stdout == "$0.00 in all, as of 2026-11-05 12:00:00 UTC\n"
