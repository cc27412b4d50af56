"""Money and time in the words of a table."""

from __future__ import annotations

import pytest

from service.cli.terminal import formatting
from service.domain.clock import DAY


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.000000000", "$0.00"),
        ("9.600000000", "$9.60"),
        ("12.015600000", "$12.02"),
        ("1234567.895000000", "$1,234,567.90"),
        ("0.154106667", "$0.15"),
        ("0.004166667", "$0.0042"),
        ("0.000000001", "$0.000000001"),
        ("0.999999999", "$1.00"),
        ("-0.004166667", "-$0.0042"),
        (None, "unpriced"),
    ],
)
def test_money_has_cents_and_small_sums_the_places_they_need(amount, shown):
    assert formatting.format_usd(amount) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("1.200000000", "$1.20"),
        ("0.537500000", "$0.5375"),
        ("0.154106667", "$0.154106667"),
        ("-3.000000000", "-$3.00"),
        ("4", "$4.00"),
        (None, "unpriced"),
    ],
)
def test_exact_money_is_not_rounded(amount, shown):
    assert formatting.format_exact(amount) == shown


def test_a_column_of_figures_has_its_points_below_each_other():
    shown = formatting.format_column(["1.200000000", None, "0.577900000"])
    assert shown == ["$1.2000", "unpriced", "$0.5779"]
    assert formatting.format_column([]) == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"),
        (42, "42s"),
        (192, "3m12s"),
        (3 * 3_600 + 5 * 60, "3h05m"),
        (12 * DAY + 4 * 3_600, "12d04h"),
    ],
)
def test_ages_have_two_units(seconds, shown):
    assert formatting.format_age(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(30, "30s"), (7_200, "2h"), (5_400, "1h30m")])
def test_spans_leave_out_what_is_zero(seconds, shown):
    assert formatting.format_span(seconds) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "0.00"), (48, "0.0133"), (5_400_000, "1,500.00")]
)
def test_chip_hours(amount, shown):
    assert formatting.chip_hours(amount) == shown


@pytest.mark.parametrize(
    ("total", "amounts", "shown"),
    [
        ("10.29", ["3.432", "3.426", "3.432"], ["$3.43", "$3.43", "$3.43"]),
        ("10.294", ["5.146", "5.148"], ["$5.14", "$5.15"]),
        ("1843.204166667", ["1843.2", "0.004166667"], ["$1,843.20", "$0.00"]),
        ("0.0042", ["0.00215", "0.00205"], ["$0.0022", "$0.0020"]),
        ("10.00", ["13.505", "0.001", "-3.506"], ["$13.51", "$0.00", "-$3.51"]),
        ("5", [None, "5"], ["unpriced", "$5.00"]),
        ("0", [], []),
    ],
)
def test_the_parts_of_a_sum_are_shown_so_that_they_add_up_to_it(total, amounts, shown):
    assert formatting.format_parts(total, amounts) == shown


def test_what_comes_to_something_else_is_no_part_and_told_for_itself():
    assert formatting.format_parts("10.29", ["3.436", "0.0042", None]) == [
        "$3.44",
        "$0.0042",
        "unpriced",
    ]
