"""A cell of a CSV file is never a formula."""

from __future__ import annotations

import pytest

from service.domain.costs.csv_cell import format_cell


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("vision", "vision"),
        (28_800, "28800"),
        ("-9.600000000", "-9.600000000"),
        ('=HYPERLINK("https://example.com")', '\'=HYPERLINK("https://example.com")'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
    ],
)
def test_a_cell_is_what_it_was_but_never_a_formula(value, text):
    assert format_cell(value) == text
