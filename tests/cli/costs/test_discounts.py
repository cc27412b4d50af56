"""Discounts, read and entered as a person would."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.given import steward

OURS: dict[str, Any] = {
    "id": "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11",
    "percent": "12.5",
    "generation": "v5e",
    "provisioning_model": "",
    "effective_from": "2026-11-05T12:00:00Z",
    "effective_until": None,
    "source": "our contract",
    "recorded_at": "2026-11-05T12:00:00Z",
}
PATH = "/v1/prices/discounts"


def test_discounts_say_of_what_and_from_when_until_when(api):
    over = OURS | {"generation": "", "effective_until": "2026-12-01T00:00:00Z", "percent": "7"}
    api.when("GET", PATH, {"discounts": [OURS, over], "next_page_token": ""})
    heading, first, second = steward("prices", "discount", "list").stdout.splitlines()
    assert heading.split("  ")[0].strip() == "PERCENT"
    assert first.split() == [
        *("12.5", "v5e", "any", "2026-11-05", "12:00:00", "-", "our", "contract", OURS["id"]),
    ]
    assert second.split()[:7] == [
        *("7", "any", "any", "2026-11-05", "12:00:00", "2026-12-01", "00:00:00"),
    ]
    api.when("GET", PATH, {"discounts": [], "next_page_token": ""})
    assert steward("prices", "discount", "list").stdout == "no discount is known\n"


def test_only_those_of_an_instant_are_asked_for(api):
    api.when("GET", PATH, {"discounts": [], "next_page_token": ""})
    steward("prices", "discount", "list", "--at", "2026-11-01", "--json")
    assert api.calls[0].query["at"] == ["2026-11-01"]


def test_a_discount_is_entered_with_what_was_said_alone(api):
    api.when("POST", PATH, OURS, status=201)
    shown = steward("prices", "discount", "add", "12.5", "--generation", "v5e").stdout
    assert shown.splitlines() == [
        "12.5 % off v5e from 2026-11-05 12:00:00 (UTC)",
        f"id {OURS['id']}",
    ]
    assert api.calls[0].body == {"percent": "12.5", "generation": "v5e"}


def test_all_of_a_discount_can_be_said(api):
    api.when("POST", PATH, OURS | {"effective_until": "2027-01-01T00:00:00Z"}, status=201)
    asked = ("--provisioning-model", "flex-start", "--from", "2026-12-01", "--until", "2027-01-01")
    result = steward("prices", "discount", "add", "5", *asked, "--source", "letter", "--json")
    assert result.exit_code == 0
    assert api.calls[0].body == {
        "percent": "5",
        "provisioning_model": "flex_start",
        "effective_from": "2026-12-01",
        "effective_until": "2027-01-01",
        "source": "letter",
    }


def test_a_refusal_is_told_in_the_words_of_the_api(api):
    problem = {"title": "Conflict", "detail": "the discount d already takes 5 % off v5e"}
    api.when("POST", PATH, problem, status=409)
    result = steward("prices", "discount", "add", "5")
    assert result.exit_code == 1
    assert "already takes 5 % off v5e" in result.stderr


@pytest.mark.parametrize("option", ["--from", "--until"])
def test_an_instant_that_is_none_is_not_sent(api, option):
    assert steward("prices", "discount", "add", "5", option, "soon").exit_code == 2
    assert api.calls == []


def test_a_discount_is_ended_now_or_when_it_is_said(api):
    ended = OURS | {"generation": "", "effective_until": "2026-12-01T00:00:00Z"}
    api.when("POST", f"{PATH}/{OURS['id']}:end", ended)
    shown = steward("prices", "discount", "end", OURS["id"]).stdout
    told = "12.5 % off every TPU from 2026-11-05 12:00:00 until 2026-12-01 00:00:00 (UTC)"
    assert shown.splitlines() == [told]
    steward("prices", "discount", "end", OURS["id"], "--at", "2026-12-01", "--json")
    assert [call.body for call in api.calls] == [{}, {"effective_until": "2026-12-01"}]


def test_prices_show_what_is_taken_off_and_what_is_paid(api):
    price = {
        "generation": "v5e",
        "provisioning_model": "on_demand",
        "region": "us-west4",
        "usd": "1.200000000",
        "discount": {"id": OURS["id"], "percent": "12.5", "usd": "1.050000000", "source": "ours"},
        "unit": "chip_hour",
        "effective_from": "2024-05-02T00:00:00Z",
        "source": "Cloud Billing Catalog",
    }
    plain = price | {"region": "us-east5", "discount": None}
    api.when("GET", "/v1/prices", {"prices": [price, plain], "next_page_token": ""})
    _, first, second = steward("prices", "list").stdout.splitlines()
    assert first.split()[2:8] == ["us-west4", "$1.20", "12.5", "%", "$1.05", "chip-hour"]
    assert second.split()[2:7] == ["us-east5", "$1.20", "-", "$1.20", "chip-hour"]
    assert first.endswith("Cloud Billing Catalog")
