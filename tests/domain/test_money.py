"""Money: rounded once, and spelled without a loss."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.money import MAX_NANOS, format_cents, format_usd, half_even, parse_usd


@given(st.integers(), st.integers(min_value=1))
def test_half_even_is_how_an_exact_fraction_is_rounded(numerator, denominator):
    assert half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"),
    [(1, 2, 0), (3, 2, 2), (5, 2, 2), (-1, 2, 0), (-3, 2, -2), (5, 3, 2), (4, 3, 1), (0, 7, 0)],
)
def test_a_tie_goes_to_the_even_neighbour(numerator, denominator, rounded):
    assert half_even(numerator, denominator) == rounded


@given(st.integers(-MAX_NANOS, MAX_NANOS))
def test_what_is_spelled_is_read_back_to_the_nano(nanos):
    assert parse_usd(format_usd(nanos)) == nanos


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (12_015_600_000, "12.015600000"),
        (-1, "-0.000000001"),
        (0, "0.000000000"),
        (-5_000_000_000, "-5.000000000"),
    ],
)
def test_an_amount_is_spelled_with_nine_places(nanos, text):
    assert format_usd(nanos) == text


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1.2", 1_200_000_000),
        ("0.000000001", 1),
        ("1E+3", 1_000_000_000_000),
        ("-0", 0),
        ("1." + "0" * 60, 1_000_000_000),
        ("9223372036.854775807", MAX_NANOS),
    ],
)
def test_an_amount_may_be_written_in_any_way_that_is_exact(text, nanos):
    assert parse_usd(text) == nanos


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ten",
        "1,20",
        "NaN",
        "sNaN",
        "Infinity",
        "-Infinity",
        "0.0000000001",
        "1.00000000000000000000000000000001",
        "9223372036.854775808",
        "99999999999999999999999999999999.000000001",
        "1e999999",
        "1e-999999",
        "1e-1000020",
    ],
)
def test_an_amount_that_cannot_be_kept_exactly_is_refused(text):
    with pytest.raises(ValueError, match=r"amount|decimal places"):
        parse_usd(text)


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (40_013_333_333, "$40.01"),
        (1_178_930_666_667, "$1,178.93"),
        (2_005_000_000, "$2.00"),
        (2_015_000_000, "$2.02"),
        (999_999_999, "$0.999999999"),
        (5, "$0.000000005"),
        (0, "$0.00"),
        (-1_234_567_891, "-$1.23"),
    ],
)
def test_a_sum_in_a_sentence_has_cents_and_a_small_one_keeps_its_places(nanos, text):
    assert format_cents(nanos) == text
