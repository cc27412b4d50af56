"""Everything that is shown adds up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.costs.display_rounding import in_units, round_table
from service.domain.money import half_even

CENT = 10_000_000


@st.composite
def tables(draw: st.DrawFn) -> list[list[int]]:
    """A few days by a few groups; many cells are empty or whole cents."""
    columns = draw(st.integers(1, 6))
    cell = st.one_of(
        st.just(0),
        st.integers(0, 10**12),
        st.integers(0, 1_000).map(lambda cents: cents * CENT),
        st.integers(-(10**9), 10**9),
    )
    return draw(st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=1))


def _is_beside(units: int, nanos: int) -> bool:
    return units in (nanos // CENT, -(-nanos // CENT))


@given(tables())
def test_every_displayed_cent_adds_up_to_the_displayed_total(table: list[list[int]]) -> None:
    assert sum(map(sum, round_table(table, CENT))) == half_even(sum(map(sum, table)), CENT)


@given(tables())
def test_every_cell_row_and_column_is_the_cent_below_or_above_the_truth(
    table: list[list[int]],
) -> None:
    shown = round_table(table, CENT)
    for row, units in zip(table, shown, strict=True):
        assert _is_beside(sum(units), sum(row))
        assert all(map(_is_beside, units, row))
    for column, cells in zip(zip(*table, strict=True), zip(*shown, strict=True), strict=True):
        assert _is_beside(sum(cells), sum(column))


@given(tables())
def test_the_first_column_is_rounded_as_its_sum_is_shown_elsewhere(table: list[list[int]]) -> None:
    shown = round_table(table, CENT)
    total, first = sum(map(sum, table)), sum(row[0] for row in table)
    if 2 * (total % CENT) != CENT and 2 * (first % CENT) != CENT:  # a tie goes to the even cent
        assert sum(row[0] for row in shown) == half_even(first, CENT)


@given(tables(), st.data())
def test_one_row_is_rounded_as_its_sum_is_shown_elsewhere(
    table: list[list[int]], data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, len(table) - 1))
    total, row = sum(map(sum, table)), sum(table[chosen])
    shown = round_table(table, CENT, chosen)
    assert sum(map(sum, shown)) == half_even(total, CENT)
    if 2 * (total % CENT) != CENT and 2 * (row % CENT) != CENT:  # a tie goes to the even cent
        assert sum(shown[chosen]) == half_even(row, CENT)


def test_three_thirds_of_a_dollar_are_a_dollar() -> None:
    third = 333_333_333
    [row] = round_table([[third, third, third + 1]], CENT)
    assert sorted(row) == [33, 33, 34]


def test_the_same_table_is_always_rounded_the_same_way() -> None:
    table = [[n * 7_654_321 + m * 1_234_567 for n in range(5)] for m in range(31)]
    assert round_table(table, CENT) == round_table(table, CENT)


def test_no_table_is_no_table() -> None:
    assert round_table([], CENT) == []
    assert round_table([[], []], CENT) == [[], []]


amounts = st.lists(
    st.one_of(st.just(0), st.integers(-(10**12), 10**12), st.integers(0, 1_000).map(CENT.__mul__)),
    max_size=12,
)


@given(amounts)
def test_the_parts_of_a_sum_add_up_to_it_and_each_is_the_cent_beside_the_truth(
    parts: list[int],
) -> None:
    shown = in_units(parts, CENT)
    assert sum(shown) == half_even(sum(parts), CENT)
    assert all(map(_is_beside, shown, parts))


@given(amounts, st.booleans())
def test_the_parts_add_up_to_either_cent_beside_their_sum(parts: list[int], up: bool) -> None:
    total = -(-sum(parts) // CENT) if up else sum(parts) // CENT
    shown = in_units(parts, CENT, total)
    assert sum(shown) == total
    assert all(map(_is_beside, shown, parts))


def test_the_cent_that_is_missing_goes_to_the_part_that_lacks_the_most() -> None:
    assert in_units([3_000_000, 6_000_000, 1_000_000], CENT) == [0, 1, 0]
    assert in_units([-4_000_000, CENT], CENT) == [0, 1]
