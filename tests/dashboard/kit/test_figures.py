"""Money, time and counts in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dashboard.kit.figures import (
    exact_places,
    format_count,
    format_duration,
    format_exact,
    format_money,
    format_units,
    to_moment,
)
from service.domain.costs.display_rounding import places_for, unit_for
from service.domain.money import NANOS, parse_usd

amounts = st.integers(min_value=-(10**18), max_value=10**18)


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        ("0", "$0.00"),
        ("1234567.891", "$1,234,567.89"),
        ("1.005", "$1.00"),
        ("1.015", "$1.02"),
        ("0.48", "$0.48"),
        ("0.4832", "$0.48"),
        ("0.0042", "$0.0042"),
        ("0.0625", "$0.062"),
        ("0.000000007", "$0.000000007"),
        ("-12.5", "\N{MINUS SIGN}$12.50"),
    ],
)
def test_money_is_told_to_the_cent_and_small_sums_truly(usd: str, shown: str) -> None:
    assert format_money(parse_usd(usd)) == shown


@pytest.mark.parametrize(
    ("usd", "shown"), [("1.2", "$1.20"), ("0.59266", "$0.59266"), ("1000", "$1,000.00")]
)
def test_an_exact_amount_has_every_decimal_it_needs(usd: str, shown: str) -> None:
    assert format_exact(parse_usd(usd)) == shown


@given(amounts)
def test_what_is_shown_is_never_off_by_more_than_half_of_its_last_place(nanos: int) -> None:
    shown = parse_usd(
        format_money(nanos).replace("\N{MINUS SIGN}", "-").replace("$", "").replace(",", "")
    )
    assert abs(shown - nanos) * 2 <= unit_for(places_for(nanos))
    assert (shown == 0) == (nanos == 0)


@given(st.lists(amounts, max_size=6))
def test_with_exact_places_nothing_is_rounded(nanos: list[int]) -> None:
    unit = unit_for(exact_places(nanos))
    assert all(amount % unit == 0 for amount in nanos)


def test_units_are_spelled_with_their_places() -> None:
    assert format_units(123_456, 2) == "$1,234.56"
    assert format_units(5, 0) == "$5"
    assert format_units(-1, 4) == "\N{MINUS SIGN}$0.0001"
    assert unit_for(2) * 100 == NANOS


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3, "0 s"),
        (45, "45 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (12_000, "3 h 20 min"),
        (86_400, "1 d"),
        (352_800, "4 d 2 h"),
    ],
)
def test_a_stretch_of_time_has_two_parts_at_most(seconds: int, shown: str) -> None:
    assert format_duration(seconds) == shown


def test_an_instant_names_its_zone() -> None:
    then = to_moment(1_793_880_000)
    assert (then.iso, then.full) == ("2026-11-05T12:00:00Z", "2026-11-05 12:00:00 UTC")
    assert (then.clock, then.date) == ("12:00:00 UTC", "5 Nov 2026")


def test_one_is_not_many() -> None:
    assert [format_count(n, "node") for n in (0, 1, 2_000)] == ["0 nodes", "1 node", "2,000 nodes"]
