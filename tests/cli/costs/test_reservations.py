"""Reservations on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import ID, OTHER, steward

PATH = "/v1/reservations"


def reservation(**overrides):
    """A reservation as the API shows it: half a day of two used by half."""
    return {
        "id": ID,
        "name": "autumn",
        "project": "lab",
        "zone": "asia-south2-a",
        "generation": "v5p",
        "chips": 64,
        "starts_at": "2026-11-05T00:00:00Z",
        "ends_at": "2026-11-07T00:00:00Z",
        "state": "running",
        "owner": "",
        "team": "infra",
        "labels": {"run": "17"},
        "usd_per_chip_hour": "2.940000000",
        "price_id": "v5p/calendar",
        "cost": "2257.920000000",
        "unused": "1128.960000000",
        "whole": "9031.680000000",
        "chip_seconds": 2_764_800,
        "unused_chip_seconds": 1_382_400,
        "unpriced_seconds": 0,
        "recorded_at": "2026-11-04T09:00:00Z",
        "recorded_by": "caller",
        "withdrawn_at": None,
        "reason": "",
        "as_of": "2026-11-05T12:00:00Z",
        **overrides,
    }


GONE = {
    "state": "withdrawn",
    "usd_per_chip_hour": None,
    "price_id": None,
    "cost": "0.000000000",
    "unused": "0.000000000",
    "whole": "0.000000000",
    "chip_seconds": 0,
    "unused_chip_seconds": 0,
    "withdrawn_at": "2026-11-05T12:00:00Z",
    "reason": "bought twice",
}


def page(*some):
    return {"reservations": list(some), "next_page_token": ""}


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def entry(**overrides):
    return {
        "number": 7,
        "kind": "usage",
        "corrects": None,
        "start": "2026-11-05T00:00:00Z",
        "end": "2026-11-05T01:00:00Z",
        "chip_seconds": 115_200,
        "usd_per_chip_hour": "2.940000000",
        "amount": "94.080000000",
        **overrides,
    }


def test_the_list_says_what_each_comes_to_used_or_not(api):
    nothing = {"cost": "0.000000000", "unused": "0.000000000"}
    unknown = {"usd_per_chip_hour": None, "whole": None, "team": "", **nothing}
    some = [
        reservation(id=OTHER, name="winter", state="planned", **nothing),
        reservation(),
        reservation(name="priceless", **unknown),
        reservation(name="wrong", **GONE),
    ]
    api.when("GET", PATH, page(*some))
    heading, *rows, _, summary = steward("reservations", "list").stdout.splitlines()
    assert cells(heading) == [
        *("NAME", "STATE", "CHIPS", "OF", "ZONE", "FROM (UTC)", "UNTIL (UTC)", "PER CHIP-HOUR"),
        *("COST", "UNUSED", "AT ITS END", "TEAM"),
    ]
    period = ["2026-11-05 00:00:00", "2026-11-07 00:00:00"]
    where = ["64", "v5p", "asia-south2-a", *period]
    assert [cells(row) for row in rows] == [
        ["winter", "planned", *where, "$2.94", "$0.00", "$0.00", "$9,031.68", "infra"],
        ["autumn", "running", *where, "$2.94", "$2,257.92", "$1,128.96", "$9,031.68", "infra"],
        ["priceless", "running", *where, "unpriced", "$0.00", "$0.00", "unpriced", "-"],
    ]
    assert summary == (
        "3 reservations, 2 running at $188.16 an hour, and 1 without a known price;"
        " 1 more withdrawn (--all shows them)"
    )


def test_all_of_them_are_shown_with_their_ids(api):
    api.when("GET", PATH, page(reservation(**GONE)))
    said = steward("reservations", "list", "--all").stdout.splitlines()
    assert cells(said[0])[-1] == "ID"
    assert cells(said[1])[1] == "withdrawn"
    assert cells(said[1])[-1] == ID
    assert said[-1] == "1 reservation, 0 running at $0.00 an hour"


def test_without_one_it_is_said_how_to_write_one_down(api):
    api.when("GET", PATH, page())
    assert "reservations add NAME" in steward("reservations", "list").stdout
    shown = steward("reservations", "list", "--json").stdout
    assert json.loads(shown) == page()


def test_one_is_written_down_with_what_was_said_alone(api):
    api.when("POST", PATH, reservation(), status=201)
    bought = ("--zone", "asia-south2-a", "--generation", "v5p", "--chips", "64")
    result = steward(
        *("reservations", "add", "autumn", *bought),
        *("--start", "2026-11-05", "--end", "2026-11-07"),
    )
    assert result.exit_code == 0, result.output
    assert api.calls[0].body == {
        "name": "autumn",
        "zone": "asia-south2-a",
        "generation": "v5p",
        "chips": 64,
        "starts_at": "2026-11-05",
        "ends_at": "2026-11-07",
    }
    first, second = result.stdout.splitlines()
    period = "2026-11-05 00:00:00 to 2026-11-07 00:00:00 UTC (2d)"
    assert first == f"autumn: 64 chips of v5p in asia-south2-a, {period}, $9,031.68 in all"
    assert second == f"id {ID}"


def test_all_of_one_can_be_said(api):
    api.when("POST", PATH, reservation(whole=None), status=201)
    arguments = (
        *("reservations", "add", "autumn", "--zone", "asia-south2-a", "--generation", "v5p"),
        *("--chips", "64", "--start", "2026-11-05T00:00:00Z", "--end", "2026-11-07T00:00:00Z"),
        *("--project", "lab", "--owner", "ada", "--team", "infra", "--label", "run=17"),
    )
    assert "with unknown price" in steward(*arguments).stdout
    more = {"project": "lab", "owner": "ada", "team": "infra", "labels": {"run": "17"}}
    assert more.items() <= api.calls[0].body.items()
    assert json.loads(steward(*arguments, "--json").stdout) == reservation(whole=None)


@pytest.mark.parametrize(
    "arguments",
    [
        ("add",),
        ("add", "autumn"),
        ("add", "autumn", "--chips", "0"),
        ("withdraw", ID),
        ("show",),
        ("ledger",),
    ],
)
def test_what_is_left_out_is_a_usage_error(api, arguments):
    assert steward("reservations", *arguments).exit_code == 2
    assert api.calls == []


def test_one_is_shown_by_its_name(api):
    api.when("GET", PATH, page(reservation(id=OTHER, **GONE), reservation()))
    api.when("GET", f"{PATH}/{ID}", reservation())
    said = steward("reservations", "show", "autumn").stdout
    assert [cells(line) for line in said.splitlines()] == [
        ["Name", "autumn"],
        ["Id", ID],
        ["State", "running, ends in 1d12h"],
        ["What", "64 chips of v5p in asia-south2-a, project lab"],
        ["Period", "2026-11-05 00:00:00 to 2026-11-07 00:00:00 UTC (2d)"],
        ["Price", "$2.94 a chip-hour, used or not"],
        ["Cost so far", "$2,257.92"],
        ["Used by nodes", "$1,128.96, 50%"],
        ["Unused", "$1,128.96, 50%"],
        ["At its end", "$9,031.68"],
        ["Team", "infra"],
        ["Labels", "run=17"],
        ["Recorded", "2026-11-04 09:00:00 UTC by caller"],
        ["As of", "2026-11-05 12:00:00 UTC"],
    ]
    assert json.loads(steward("reservations", "show", ID, "--json").stdout) == reservation()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "planned", "starts_at": "2026-11-06T00:00:00Z"}, "planned, begins in 12h00m"),
        ({"state": "over"}, "over"),
        ({"usd_per_chip_hour": None, "whole": None}, "unpriced"),
        ({"unused_chip_seconds": 2_764_799}, "$1,128.96, <1%"),
        ({"unused_chip_seconds": 2_764_799}, "$1,128.96, >99%"),
        ({"unused_chip_seconds": 2_764_800}, "$1,128.96, 0%"),
        ({"unpriced_seconds": 7_200}, "2h00m with unknown price, in no figure"),
        (GONE, "2026-11-05 12:00:00 UTC: bought twice"),
    ],
)
def test_what_is_different_about_one_is_said(api, changes, said):
    api.when("GET", f"{PATH}/{ID}", reservation(**changes))
    assert said in steward("reservations", "show", ID).stdout


def test_a_name_that_only_a_withdrawn_one_had_can_be_read(api):
    api.when("GET", PATH, page(reservation(**GONE)))
    api.when("GET", f"{PATH}/{ID}", reservation(**GONE))
    api.when("GET", f"{PATH}/{ID}/ledger", {"entries": [], "next_page_token": ""})
    assert "bought twice" in steward("reservations", "show", "autumn").stdout
    assert "nothing is posted yet" in steward("reservations", "ledger", "autumn").stdout
    again = steward("reservations", "withdraw", "autumn", "--reason", "x")
    assert again.exit_code == 1
    assert f"every reservation named 'autumn' is withdrawn: {ID}" in again.stderr


def test_one_is_withdrawn_with_its_reason(api):
    api.when("GET", PATH, page(reservation()))
    api.when("DELETE", f"{PATH}/{ID}", reservation(**GONE))
    result = steward("reservations", "withdraw", "autumn", "--reason", "bought twice")
    assert result.exit_code == 0, result.output
    assert api.calls[-1].query == {"reason": ["bought twice"]}
    assert result.stdout.splitlines()[0] == "autumn is withdrawn: bought twice"
    shown = steward("reservations", "withdraw", ID, "--reason", "bought twice", "--json").stdout
    assert json.loads(shown) == reservation(**GONE)


def test_a_name_that_several_have_is_not_guessed(api):
    api.when("GET", PATH, page(reservation(), reservation(id=OTHER, zone="us-east5-a")))
    result = steward("reservations", "withdraw", "autumn", "--reason", "x")
    assert result.exit_code == 1
    assert ID in result.stderr
    assert f"{OTHER} in us-east5-a" in result.stderr
    result = steward("reservations", "show", "spring")
    assert result.exit_code == 1
    assert "no reservation is named 'spring'" in result.stderr


def test_a_refusal_is_told_in_the_words_of_the_api(api):
    problem = {
        "detail": "give a reason: why is the record wrong?",
        "status": 422,
        "field": "reason",
    }
    api.when("DELETE", f"{PATH}/{ID}", problem, status=422)
    result = steward("reservations", "withdraw", ID, "--reason", " ")
    assert result.exit_code == 1
    assert "give a reason: why is the record wrong?" in result.stderr


def test_its_ledger_is_what_nobody_used_hour_by_hour(api):
    entries = [entry(), entry(number=8, amount="188.160000000", chip_seconds=230_400)]
    api.when("GET", f"{PATH}/{ID}/ledger", {"entries": entries, "next_page_token": ""})
    said = steward("reservations", "ledger", ID).stdout.splitlines()
    assert cells(said[1])[-3:] == ["115,200", "$2.94", "$94.08"]
    assert said[-1] == "$282.24 in 2 entries"
    shown = steward("reservations", "ledger", ID, "--json").stdout
    assert json.loads(shown)["entries"] == entries
