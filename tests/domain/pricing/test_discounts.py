"""Discounts: how much is left, of which price, at which second, and which may not meet."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY
from service.domain.pricing.discounts import (
    MILLION,
    Discount,
    find_clash,
    keep_latest,
    parse_percent,
)

OURS = Discount("d", "v5e", "spot", 125_000, DAY, 3 * DAY, "our contract")


@pytest.mark.parametrize(
    ("text", "ppm", "shown"),
    [
        ("12.5", 125_000, "12.5"),
        ("10", 100_000, "10"),
        ("0.0001", 1, "0.0001"),
        ("99.9999", 999_999, "99.9999"),
        ("7.0500", 70_500, "7.05"),
    ],
)
def test_a_percentage_is_kept_as_parts_per_million(text, ppm, shown):
    assert parse_percent(text) == ppm
    assert replace(OURS, ppm=ppm).percent == shown


@given(st.integers(1, MILLION - 1))
def test_every_share_reads_back_as_it_is_written(ppm):
    assert parse_percent(replace(OURS, ppm=ppm).percent) == ppm


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a percentage"),
        ("12,5", "not a percentage"),
        ("12.5 %", "not a percentage"),
        ("0", "more than 0"),
        ("-1", "more than 0"),
        ("100", "less than 100"),
        ("1e400", "less than 100"),
        ("NaN", "more than 0"),
        ("Infinity", "less than 100"),
        ("0.00001", "four decimal places"),
        ("12.50000000000000000000000000000001", "four decimal places"),
        ("1e-400", "four decimal places"),
        ("1e1", "not a plain number"),
        ("+5", "not a plain number"),
        (" 5", "not a plain number"),
        (".5", "not a plain number"),
    ],
)
def test_what_is_no_share_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_percent(text)


@pytest.mark.parametrize(
    ("nanos", "ppm", "left"),
    [
        (1_200_000_000, 125_000, 1_050_000_000),
        (3, 500_000, 2),
        (5, 500_000, 2),
        (7, 500_000, 4),
        (1, 999_999, 1),
    ],
)
def test_what_is_left_is_rounded_to_the_even_nano_dollar_and_never_nothing(nanos, ppm, left):
    assert replace(OURS, ppm=ppm).take_off(nanos) == left


def test_it_is_in_force_from_its_first_second_until_before_its_last():
    instants = (DAY - 1, DAY, 3 * DAY - 1, 3 * DAY)
    assert [OURS.is_in_force(at) for at in instants] == [False, True, True, False]
    assert replace(OURS, effective_until=None).is_in_force(10**10)


@pytest.mark.parametrize(
    ("generation", "model", "covers"),
    [
        ("v5e", "spot", True),
        ("", "spot", True),
        ("v5e", "", True),
        ("", "", True),
        ("v6e", "spot", False),
        ("v5e", "on_demand", False),
        ("", "on_demand", False),
    ],
)
def test_what_it_leaves_open_means_any(generation, model, covers):
    assert replace(OURS, generation=generation, model=model).covers_series("v5e", "spot") is covers


def test_of_the_rows_of_one_discount_the_last_counts():
    ended, other = replace(OURS, effective_until=2 * DAY), replace(OURS, id="e")
    assert set(keep_latest([OURS, other, ended])) == {ended, other}


@pytest.mark.parametrize(
    ("changes", "clashes"),
    [
        ({}, True),
        ({"generation": ""}, True),
        ({"model": ""}, True),
        ({"generation": "", "model": ""}, True),
        ({"generation": "", "model": "on_demand"}, False),
        ({"generation": "v6e"}, False),
        ({"model": "on_demand"}, False),
        ({"effective_from": 3 * DAY, "effective_until": None}, False),
        ({"effective_from": 3 * DAY - 1, "effective_until": None}, True),
        ({"effective_from": 0, "effective_until": DAY}, False),
        ({"effective_from": 0, "effective_until": DAY + 1}, True),
        ({"effective_from": 2 * DAY, "effective_until": 2 * DAY}, False),
    ],
)
def test_two_on_one_price_at_one_second_clash_a_general_and_a_special_one_too(changes, clashes):
    other = replace(OURS, id="e", **changes)
    assert find_clash(OURS, [other]) == (other if clashes else None)
    assert find_clash(other, [OURS]) == (OURS if clashes else None)


SOME = st.builds(
    Discount,
    st.uuids().map(str),
    st.sampled_from(["", "v5e", "v6e"]),
    st.sampled_from(["", "spot", "on_demand"]),
    st.integers(1, MILLION - 1),
    st.integers(0, 20),
    st.none() | st.integers(0, 20),
    st.just("a test"),
)


@given(SOME, SOME)
def test_what_does_not_clash_never_applies_twice_and_what_clashes_does_somewhere(one, other):
    twice = [
        (at, generation, model)
        for at in range(45)
        for generation in ("v5e", "v6e")
        for model in ("spot", "on_demand")
        if all(d.is_in_force(at) and d.covers_series(generation, model) for d in (one, other))
    ]
    for a, b in permutations((one, other)):
        assert (find_clash(a, [b]) is not None) is bool(twice)


@pytest.mark.parametrize("model", ["", "on_demand"])
def test_one_for_every_tpu_stands_beside_one_for_a_machine(model):
    every = Discount("a", "", model, 1, DAY, None, "ours")
    machine = Discount("b", "n1-standard-8", model, 1, DAY, None, "ours")
    assert find_clash(machine, [every]) is find_clash(every, [machine]) is None
    assert find_clash(replace(machine, id="c"), [machine]) is machine
    assert (every.what, machine.what) == (
        "every on_demand TPU" if model else "every TPU",
        f"n1-standard-8 {model}".strip(),
    )
