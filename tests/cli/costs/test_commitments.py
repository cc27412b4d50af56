"""Committed-use discounts on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import ID, OTHER, steward

PATH = "/v1/commitments"


def commitment(**overrides):
    """A commitment as the API shows it, half a day into its term."""
    return {
        "id": ID,
        "name": "base-2026",
        "project": "",
        "region": "us-west4",
        "generation": "v5e",
        "chips": 64,
        "term": "1y",
        "starts_at": "2026-11-05T00:00:00Z",
        "ends_at": "2027-11-05T00:00:00Z",
        "state": "running",
        "owner": "ada",
        "team": "infra",
        "labels": {"order": "17"},
        "usd_per_chip_hour": "0.840000000",
        "rate_origin": "list",
        "price_id": "v5e/cud_1y/chip_hour/us-west4/2026-08-06",
        "fee": "645.120000000",
        "whole_fee": "470937.600000000",
        "recorded_at": "2026-11-04T09:00:00Z",
        "recorded_by": "caller",
        "withdrawn_at": None,
        "reason": "",
        "as_of": "2026-11-05T12:00:00Z",
        **overrides,
    }


UNPRICED = dict.fromkeys(("usd_per_chip_hour", "rate_origin", "price_id", "fee", "whole_fee"))
GONE = {
    "state": "withdrawn",
    "withdrawn_at": "2026-11-05T12:00:00Z",
    "reason": "bought twice",
}


def page(*some):
    return {"commitments": list(some), "next_page_token": ""}


def standing(**overrides):
    return {
        "id": ID,
        "name": "base-2026",
        "fee": "26.880000000",
        "used": "13.440000000",
        "unused": "13.440000000",
        "avoided": "19.200000000",
        "net_saving": "-7.680000000",
        "committed_chip_seconds": 115_200,
        "covered_chip_seconds": 57_600,
        "unused_chip_seconds": 57_600,
        "eligible_chip_seconds": 144_000,
        "utilisation": "0.500000000",
        "coverage": "0.400000000",
        "nodes": [],
        **overrides,
    }


def report(**overrides):
    amounts = {
        "charged": "48.000000000",
        "avoided": "19.200000000",
        "covered_cost": "13.440000000",
        "amortised": "42.240000000",
        "eligible_chip_seconds": 144_000,
        "covered_chip_seconds": 57_600,
    }
    return {
        "window": {"start": "2026-11-05T08:00:00Z", "end": "2026-11-05T12:00:00Z"},
        "fee": "26.880000000",
        "unused": "13.440000000",
        "net_saving": "-7.680000000",
        "total": amounts,
        "coverage": "0.400000000",
        "commitments": [standing()],
        "nodes": [],
        "teams": [amounts | {"team": "vision"}, amounts | {"team": ""}],
        "unpriced": [],
        "as_of": "2026-11-05T12:00:00Z",
        **overrides,
    }


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def fits(said):
    assert max(map(len, said.stdout.splitlines())) <= 80, said.stdout
    return said.stdout.splitlines()


def test_the_list_says_what_each_is_and_costs_in_80_columns(api):
    some = [
        commitment(id=OTHER, name="winter", state="planned", fee="0.000000000"),
        commitment(),
        commitment(name="priceless", region="asia-southeast1", **UNPRICED),
        commitment(name="wrong", **GONE),
    ]
    api.when("GET", PATH, page(*some))
    heading, *rows, _, summary = fits(steward("commitments", "list"))
    assert cells(heading) == ["NAME", "STATE", "CHIPS", "REGION", "TERM ENDS", "RATE", "FEE"]
    assert [cells(row) for row in rows] == [
        ["winter", "planned", "64 v5e", "us-west4", "2027-11-05", "$0.84", "$0.00"],
        ["base-2026", "running", "64 v5e", "us-west4", "2027-11-05", "$0.84", "$645.12"],
        [
            *("priceless", "running", "64 v5e", "asia-southeast1", "2027-11-05"),
            *("unpriced", "unpriced"),
        ],
    ]
    assert summary == "3 commitments, 2 running; 1 more withdrawn (--all shows them)"


def test_all_of_them_are_shown_with_their_ids(api):
    api.when("GET", PATH, page(commitment(**GONE)))
    said = steward("commitments", "list", "--all").stdout.splitlines()
    assert cells(said[0])[-1] == "ID"
    assert cells(said[1])[1] == "withdrawn"
    assert cells(said[1])[-1] == ID


def test_without_one_it_is_said_how_to_record_one(api):
    api.when("GET", PATH, page())
    assert steward("commitments", "list").stdout.strip() == (
        "no commitment is recorded; record one with: tpu-steward commitments add NAME ..."
    )


def test_what_was_bought_is_recorded_as_it_was_said(api):
    api.when("POST", PATH, commitment(), status=201)
    said = steward(
        *("commitments", "add", "base-2026", "--region", "us-west4", "--generation", "v5e"),
        *("--chips", "64", "--term", "1y", "--start", "2026-11-05", "--rate", "0.84"),
        *("--team", "infra", "--label", "order=17"),
    )
    assert api.calls[-1].body == {
        "name": "base-2026",
        "region": "us-west4",
        "generation": "v5e",
        "chips": 64,
        "term": "1y",
        "starts_at": "2026-11-05",
        "usd_per_chip_hour": "0.84",
        "team": "infra",
        "labels": {"order": "17"},
    }
    assert fits(said) == [
        "base-2026: 64 chips of v5e in us-west4",
        "2026-11-05 00:00:00 to 2027-11-05 00:00:00 UTC (1y), $470,937.60 in all",
        f"id {ID}",
    ]


def test_where_no_rate_is_known_it_is_said_how_to_say_it(api):
    api.when("POST", PATH, commitment(**UNPRICED), status=201)
    said = steward(
        *("commitments", "add", "base-2026", "--region", "us-west4", "--generation", "v5e"),
        *("--chips", "64", "--term", "1y", "--start", "2025-11-05"),
    )
    assert "no rate is known; give yours with --rate" in said.stdout


def test_one_is_shown_with_its_rate_and_fee(api):
    api.when("GET", PATH, page(commitment()))
    api.when("GET", f"{PATH}/{ID}", commitment())
    lines = fits(steward("commitments", "show", "base-2026"))
    assert [cells(line) for line in lines] == [
        ["Name", "base-2026"],
        ["Id", ID],
        ["State", "running, ends in 364d12h"],
        ["What", "64 chips of v5e in us-west4"],
        ["Covers", "every project of the billing account"],
        ["Term", "2026-11-05 00:00:00 to 2027-11-05 00:00:00 UTC (1y)"],
        ["Rate", "$0.84 a chip-hour (list price), used or not"],
        ["Fee so far", "$645.12"],
        ["Whole fee", "$470,937.60"],
        ["Owner", "ada"],
        ["Team", "infra"],
        ["Labels", "order=17"],
        ["Recorded", "2026-11-04 09:00:00 UTC by caller"],
        ["As of", "2026-11-05 12:00:00 UTC"],
    ]


def test_a_record_is_withdrawn_by_its_name_with_a_reason(api):
    api.when("GET", PATH, page(commitment()))
    api.when("DELETE", f"{PATH}/{ID}", commitment(**GONE))
    said = steward("commitments", "withdraw", "base-2026", "--reason", "bought twice")
    assert api.calls[-1].query == {"reason": ["bought twice"]}
    assert said.stdout.strip() == "base-2026 is withdrawn: bought twice"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([], "no commitment is named 'base-2026'; see: tpu-steward commitments list"),
        ([commitment(), commitment(id=OTHER)], "is the name of several; give its id"),
        ([commitment(**GONE)], "every commitment named 'base-2026' is withdrawn"),
    ],
)
def test_what_is_not_clear_is_not_withdrawn(api, known, said):
    api.when("GET", PATH, page(*known))
    answer = steward("commitments", "withdraw", "base-2026", "--reason", "wrong")
    assert answer.exit_code == 1
    assert said in answer.stderr
    assert all(call.method == "GET" for call in api.calls)


def test_usage_says_what_is_used_unused_and_lost_in_80_columns(api):
    api.when("GET", f"{PATH}/usage", report())
    said = fits(steward("commitments", "usage", "--window", "24h"))
    assert api.calls[-1].query == {"window": ["24h"], "tz": ["UTC"]}
    assert [cells(line) for line in said] == [
        ["2026-11-05 08:00:00 to 2026-11-05 12:00:00 UTC"],
        ["COMMITMENT", "USED", "COVERAGE", "FEE", "UNUSED", "NET SAVING"],
        ["base-2026", "50%", "40%", "$26.88", "$13.44", "-$7.68"],
        [],
        ["TEAM", "COVERED CHIP-HOURS", "CHARGED", "AFTER COMMITMENTS"],
        ["vision", "16.00", "$48.00", "$42.24"],
        ["-", "16.00", "$48.00", "$42.24"],
        [],
        ["together they lost $7.68: $19.20 of charges avoided, $26.88 of fees"],
        ["base-2026 loses money: its fee is $7.68 more than it avoids"],
    ]


@pytest.mark.parametrize(
    ("fraction", "percent"),
    [
        (None, "-"),
        ("0.000000000", "0%"),
        ("0.000400000", "<1%"),
        ("0.999600000", ">99%"),
        ("1.000000000", "100%"),
    ],
)
def test_a_small_part_is_not_called_nothing_nor_a_large_one_all(api, fraction, percent):
    api.when("GET", f"{PATH}/usage", report(commitments=[standing(coverage=fraction)]))
    said = steward("commitments", "usage").stdout.splitlines()
    assert cells(said[2])[2] == percent


def test_a_commitment_without_a_rate_is_named(api):
    api.when("GET", PATH, page(commitment(**UNPRICED)))
    api.when("GET", f"{PATH}/usage", report(commitments=[], teams=[], unpriced=[ID]))
    assert steward("commitments", "usage").stdout.splitlines()[1:] == [
        "no commitment with a known rate is in its term then",
        "base-2026: no rate is known, so it is in no figure, and not free",
    ]


@pytest.mark.parametrize("command", [["list"], ["usage"], ["show", ID]])
def test_with_json_the_answer_is_the_apis(api, command):
    answers = {"list": page(commitment()), "usage": report(), "show": commitment()}
    paths = {"list": PATH, "usage": f"{PATH}/usage", "show": f"{PATH}/{ID}"}
    api.when("GET", paths[command[0]], answers[command[0]])
    said = steward("commitments", *command, "--json")
    assert json.loads(said.stdout) == answers[command[0]]
