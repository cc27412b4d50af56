"""`--sort-by`: columns of words, amounts and ages, and fields of the API."""

from __future__ import annotations

import pytest
import typer

from service.cli.terminal.sorting import sort_documents, sort_rows

COLUMNS = {
    "NAME": ["b", "C", "a", "d"],
    "PER HOUR": ["$9.00", "unpriced", "$1,000.00", "-$2.50"],
    "AGE": ["3m12s", "59s", "2d01h", "-"],
    "FROM (UTC)": ["2026-11-05 12:00:00", "2026-11-04 12:00:00", "-", "2025-12-31 00:00:00"],
    "LEFT": ["<=$9.00", "$80.00", "-", "$9.50"],
    "": ["9%", "100%", "11 %", "-"],
    "ENDS": ["12m", "failing", "-", "now"],
    "SIZE": ["2x4", "10x10", "1x1", "8"],
}
ROWS = ("b", "C", "a", "d")


@pytest.mark.parametrize(
    ("sort_by", "order"),
    [
        ("", "bCad"),
        ("name", "abCd"),
        ("-name", "dCba"),
        ("per-hour", "dbaC"),
        ("-Per Hour", "abdC"),
        ("age", "Cbad"),
        ("-from", "bCda"),
        ("LEFT", "bdCa"),
        ("size", "Cabd"),
        ("ends", "Cdba"),
    ],
)
def test_rows_are_in_the_order_of_what_the_column_shows(sort_by, order):
    assert "".join(sort_rows(ROWS, COLUMNS, sort_by)) == order


def test_an_unknown_column_is_a_usage_error_that_names_the_known_ones():
    with pytest.raises(typer.BadParameter, match=r"'colour' is not a column.*name, per-hour, age"):
        sort_rows(ROWS, COLUMNS, "colour")


def test_rows_that_are_equal_keep_their_order():
    assert sort_rows([1, 2, 3], {"TEAM": ["x", "x", "a"]}, "team") == [3, 1, 2]


def test_resources_are_in_the_order_of_the_exact_field():
    found = [{"id": "a", "cost": "10.000000001"}, {"id": "b", "cost": "9.9"}, {"id": "c"}]
    assert [document["id"] for document in sort_documents(found, "cost")] == ["b", "a", "c"]
    assert [document["id"] for document in sort_documents(found, "-cost")] == ["a", "b", "c"]
