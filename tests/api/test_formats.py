"""Patterns and bounds in the OpenAPI document, held against what the code takes."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given
from hypothesis import strategies as st

from service.api.budgets.budgets import ScopeBody
from service.api.nodes.node_list import read_query
from service.domain.billing_period import period_named
from service.domain.budgets.budget import instant_of
from service.domain.clock import parse_instant_or_date
from service.domain.costs.dimensions import FILTER, GROUPS, check_dimensions, only_of, words_of
from service.domain.errors import Rejected
from service.domain.pricing.discounts import parse_percent
from service.domain.time_window import parse_window
from tests.api.schemas import schemas_of
from tests.hands import NOON

UTC = ZoneInfo("UTC")

INSTANTS = {
    "2026-11-01": True,
    "2026-11-01T00:00:00Z": True,
    "2026-11-01t00:00:00z": True,
    "2026-11-01T00:00:00.123456789Z": True,
    "2026-11-01T00:00:00+05:30": True,
    "": False,
    "now": False,
    "2026-11": False,
    "2026-13-01": False,
    "2026-11-32": False,
    "20261101": False,
    "2026-11-01T00:00:00": False,
    "2026-11-01T00:00Z": False,
    "2026-11-01 00:00:00Z": False,
    "2026-11-01T24:00:00Z": False,
    "2026-11-01T00:00:00+0530": False,
    "20261101T000000Z": False,
    "2026-W44-7T00:00:00Z": False,
    "2026-11-01T00:00:00Z\n": False,
    "\uff12\uff10\uff12\uff16-11-01": False,
}
WINDOWS = {
    "7d": True,
    "9999d": True,
    "24h": True,
    "99999h": True,
    "today": True,
    "mtd": True,
    "2026-11-01,2026-11-02": True,
    " 2026-11-01 , 2026-11-02T00:00:00+01:00 ": True,
    "": False,
    "7": False,
    "0d": False,
    "07d": False,
    "10000d": False,
    "100000h": False,
    "7m": False,
    "7 d": False,
    "today ": False,
    "ytd": False,
    "2026-11-01": False,
    "2026-11-01,": False,
    "2026-11-01,2026-11-02,2026-11-03": False,
    "2026-11-01;2026-11-02": False,
    "7d\n": False,
}
MONTHS = {
    "2026-11": True,
    "1970-01": True,
    "8999-12": True,
    "1969-12": False,
    "9000-01": False,
    "2026-00": False,
    "2026-13": False,
    "2026-1": False,
    "2026-11-01": False,
    "2026": False,
    "": False,
}
PERCENTS = {
    "12.5": True,
    "99.9999": True,
    "0.0001": True,
    "0.5": True,
    "7.0500": True,
    "0": False,
    "0.0000": False,
    "100": False,
    "-1": False,
    "0.00001": False,
    "1e1": False,
    "+5": False,
    " 5": False,
    ".5": False,
    "12.5 %": False,
    "12,5": False,
    "": False,
}
FILTERS = {
    "": True,
    "team:vision": True,
    "team:": True,
    "label:run:17": True,
    "team:vision, zone:us-west4-a,,": True,
    r"team:vision\, and language": True,
    "activity:idle": True,
    "team": False,
    "colour:red": False,
    "label:run": False,
    "label::17": False,
    "team:vision,red": False,
    r"team\:vision": False,
}
AGGREGATES = {
    "": True,
    "team": True,
    "team, owner,,zone": True,
    "label:run": True,
    "activity": True,
    "teams": False,
    "label:": False,
    "label": False,
    "team owner": False,
    "team,colour": False,
}
LABELS = {"run:17": True, "run:": True, "a:b:c": True, "run": False, ":17": False, "": False}


TAKEN = {
    "window": lambda text: parse_window(text, UTC, NOON),
    "filter": lambda text: only_of([text]),
    "groups": lambda text: check_dimensions(words_of([text])),
    "label": lambda text: read_query([("label", text)]),
    "label of a scope": lambda text: ScopeBody(label=text).to_scope(),
    "month": period_named,
    "instant": parse_instant_or_date,
    "instant in Berlin": lambda text: instant_of(text, "Europe/Berlin", "start"),
    "percent": parse_percent,
}
PLACES = [
    ("/v1/costs window", "window", WINDOWS),
    ("/v1/exports/focus window", "window", WINDOWS),
    ("/v1/catalog/capacity window", "window", WINDOWS),
    ("/v1/commitments/usage window", "window", WINDOWS),
    ("/v1/costs filter", "filter", FILTERS),
    ("/v1/forecasts filter", "filter", FILTERS),
    ("/v1/costs aggregate", "groups", AGGREGATES),
    ("/v1/nodes label", "label", LABELS),
    ("ScopeBody label", "label of a scope", LABELS),
    ("/v1/statements/{period} period", "month", MONTHS),
    ("/v1/prices at", "instant", INSTANTS),
    ("/v1/prices/discounts at", "instant", INSTANTS),
    ("NodeRequest valid_until", "instant", INSTANTS),
    ("KeepRequest until", "instant", INSTANTS),
    ("HeartbeatRequest at", "instant", INSTANTS),
    ("PlanRequest deadline", "instant", INSTANTS),
    ("PriceRequest effective_from", "instant", INSTANTS),
    ("DiscountRequest effective_until", "instant", INSTANTS),
    ("EndRequest effective_until", "instant", INSTANTS),
    ("ReservationRequest starts_at", "instant", INSTANTS),
    ("BudgetRequest start", "instant in Berlin", INSTANTS),
    ("BudgetChange end", "instant in Berlin", INSTANTS),
    ("DiscountRequest percent", "percent", PERCENTS),
]
WORDS = st.lists(
    st.sampled_from([",", "\\", " ", ":", "a", "label", "label:", "team", "team:", "zone:y", ":z"]),
    max_size=9,
).map("".join)


def at(document, place):
    """The schema of a parameter, or of a field of a body."""
    where, name = place.split()
    if where not in document["paths"]:
        return document["components"]["schemas"][where]["properties"][name]
    parameters = document["paths"][where]["get"]["parameters"]
    return next(parameter["schema"] for parameter in parameters if parameter["name"] == name)


def matches(schema, text):
    """Whether a schema takes a text, by its patterns. `$` of ECMA-262 is the end, and no line."""
    options = [schema_ for schema_ in schema.get("anyOf", [schema]) if schema_ != {"type": "null"}]
    patterns = [schema_["pattern"] for schema_ in (o.get("items", o) for o in _flat(options))]
    return any(re.search(pattern.removesuffix("$") + r"\Z", text) for pattern in patterns)


def _flat(options):
    for option in options:
        yield from option.get("anyOf", [option])


def is_taken(kind, text):
    try:
        TAKEN[kind](text)
    except (ValueError, Rejected, RequestValidationError):
        return False
    return True


@pytest.mark.parametrize(("place", "kind", "samples"), PLACES, ids=[place[0] for place in PLACES])
def test_a_pattern_takes_what_the_code_takes_and_refuses_what_the_code_refuses(
    document, place, kind, samples
):
    schema = at(document, place)
    for text, is_good in samples.items():
        assert is_taken(kind, text) is is_good, text
        assert matches(schema, text) is is_good, text


@given(WORDS.filter(lambda text: not text.isspace()))
def test_the_patterns_of_filters_and_groups_read_lists_as_the_code_does(text):
    assert is_taken("filter", text) is (re.fullmatch(FILTER, text) is not None)
    assert is_taken("groups", text) is (re.fullmatch(GROUPS, text) is not None)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("burn_rate", (2, 100), (1, 101)),
        ("grace_seconds", (0, 86_400), (-1, 86_401)),
        ("thresholds", ([1], [1_000], [*range(1, 21)]), ([0], [1_001], [*range(1, 22)])),
        ("thresholds", ([{"percent": 1}], [{"percent": 1_000}]), ([{"percent": 0}],)),
    ],
)
def test_bounds_of_a_budget_are_those_of_the_code(client, document, field, good, bad):
    schema = at(document, f"BudgetRequest {field}")
    for value in (*good, *bad):
        body = {"name": str(value), "amount": "100", "period": "month", field: value}
        answer = client.post("/v1/budgets", json=body)
        assert answer.status_code == (201 if value in good else 422), answer.text
        assert is_within(document, schema, value) is (value in good)


def is_within(document, schema, value):
    """Whether a schema takes a value, by its type and its bounds."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return any(is_within(document, schema_, value) for schema_ in schema["anyOf"])
    match schema["type"], value:
        case "integer", int():
            return schema["minimum"] <= value <= schema["maximum"]
        case "array", list():
            few = len(value) <= schema["maxItems"]
            return few and all(is_within(document, schema["items"], schema_) for schema_ in value)
        case "object", dict():
            properties = schema["properties"]
            return all(is_within(document, properties[name], value[name]) for name in value)
        case _:
            return False


def _is_month(schema):
    return any(str(example)[:7] == "2026-11" for example in schema.get("examples", ["2026-11"]))


def test_every_instant_percentage_and_month_says_what_it_is(document):
    for place, schema in schemas_of(document):
        name = place.rpartition("/")[2].rpartition(" ")[2]
        plain = [
            schema_
            for schema_ in _flat([schema])
            if schema_.get("type") not in (None, "null", "object")
        ]
        for schema_ in plain:
            if name.endswith("_at") and schema_["type"] == "string":
                assert schema_["format"] in {"date-time", "date"}, place
            if name == "percent" or name.endswith("_percent"):
                assert "pattern" in schema_ or "minimum" in schema_, place
            if name in {"period", "month"} and "enum" not in schema_ and _is_month(schema):
                assert "pattern" in schema_, place
            if name == "window" and schema_["type"] == "string":
                assert schema_["pattern"], place
