"""Addresses of costs: what they ask, and that page and API are asked the same."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from service.dashboard.kit.cost_query import CostsAsked, parse_costs_query
from service.domain.errors import Rejected
from service.domain.time_window import Granularity, Window
from tests.dashboard.reading import HOSTILE
from tests.hands import NOON


def _again(address: str) -> CostsAsked:
    """The question of an address, as the page reads it."""
    named = parse_qs(urlsplit(address).query, keep_blank_values=True)
    return parse_costs_query(
        named.get("window", [""])[0],
        named.get("aggregate"),
        named.get("step", [""])[0],
        named.get("tz", [""])[0],
        named.get("filter", []),
    )


def test_what_is_not_said_is_this_month_by_team() -> None:
    assert parse_costs_query("", None, "", "", []) == CostsAsked("mtd", ("team",), "all", "UTC", ())


def test_a_group_that_is_left_empty_is_no_group() -> None:
    assert parse_costs_query("7d", [""], "day", "UTC", []).aggregate == ()


@pytest.mark.parametrize(
    "value", ["vision", "", HOSTILE, "a,b", "a\\", 'say "no" & go #1', "ü+%2C"]
)
@pytest.mark.parametrize("dimension", ["team", "label:run"])
def test_an_address_asks_what_it_was_made_of(dimension: str, value: str) -> None:
    asked = CostsAsked("7d", ("zone", "label:run"), "week", "Europe/Berlin").drill_into(
        dimension, value
    )
    assert _again(asked.page) == asked
    assert asked.to_question().only == {dimension: [value]}


def test_the_api_is_asked_by_the_same_parameters() -> None:
    asked = CostsAsked(only=("team:vision",))
    assert urlsplit(asked.at("/v1/costs")).query == urlsplit(asked.page).query
    assert asked.at("/v1/costs", format="csv").endswith("&format=csv")


def test_one_level_deeper_is_one_value_broken_down() -> None:
    asked = (
        CostsAsked(aggregate=("region",))
        .drill_into("region", "us-west4")
        .drill_into("zone", "us-west4-a")
    )
    assert asked.aggregate == ("node",)
    assert asked.only == ("region:us-west4", "zone:us-west4-a")
    assert asked.without_filter("region:us-west4").only == ("zone:us-west4-a",)


def test_a_shorter_time_is_told_by_its_two_ends() -> None:
    asked = CostsAsked().narrow_to(Window(NOON, NOON + 3_600), Granularity.ALL)
    assert asked.window == "2026-11-05T12:00:00Z,2026-11-05T13:00:00Z"


def test_a_step_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(Rejected, match="hour, day, week, month, all"):
        CostsAsked(step="decade").to_question()
