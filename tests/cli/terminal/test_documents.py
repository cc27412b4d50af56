"""The fields of an answer as YAML and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from service.cli.terminal.client import ApiAnswer
from service.cli.terminal.documents import find_list, format_answer, format_csv, format_yaml
from service.cli.terminal.printing import Output, Printing

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["no", "NULL", "~", "2026-11-05T12:00:00Z", "1_000", "0x1f", "1:30", "a: b", "- x", "#", "é\n"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_parser_reads_what_was_written(value):
    assert yaml.safe_load(format_yaml(value)) == value


def test_yaml_is_easy_to_read():
    nodes: list[dict[str, Any]] = [
        {"name": "trainer", "labels": {"run": "17"}, "zones": [], "ended_at": None}
    ]
    assert format_yaml({"nodes": nodes}).splitlines() == [
        "nodes:",
        "- name: trainer",
        "  labels:",
        "    run: '17'",
        "  zones: []",
        "  ended_at: null",
    ]


def test_csv_has_every_field_and_runs_no_formula():
    rows: list[dict[str, Any]] = [
        {"name": '=cmd|"x"', "cost": "-4.500000000", "labels": {"a": "b,c"}, "queued": False},
        {"name": "two\nlines", "cost": None, "team": "vision"},
    ]
    assert list(csv.reader(io.StringIO(format_csv(rows, has_headings=True)))) == [
        ["name", "cost", "labels", "queued", "team"],
        ['\'=cmd|"x"', "-4.500000000", '{"a": "b,c"}', "false", ""],
        ["two\nlines", "", "", "", "vision"],
    ]
    assert format_csv(rows[:1], has_headings=False).startswith("\"'=cmd")
    assert format_csv([], has_headings=True) == ""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"aggregate": ["team"], "rows": [{"team": "a"}]}, "rows"),
        ({"rows": [], "next_page_token": ""}, "rows"),
        ({"id": "x", "labels": {}}, None),
    ],
)
def test_the_resources_of_a_list_are_found(value: dict[str, Any], name):
    assert find_list(value) == name


def test_an_answer_is_sorted_by_its_field_and_else_left_as_it_is():
    text = '{"nodes":[{"name":"b"},  {"name":"a"}]}'
    answer = ApiAnswer(text, json.loads(text))
    assert format_answer(answer, Printing(Output.JSON)) == text
    by_name = format_answer(answer, Printing(Output.JSON, "name"))
    assert json.loads(by_name) == {"nodes": [{"name": "a"}, {"name": "b"}]}
    assert format_answer(answer, Printing(Output.CSV, "-name")) == "name\nb\na"
