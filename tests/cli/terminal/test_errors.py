"""What the API says is wrong, as lines that say what to do."""

from __future__ import annotations

import pytest

from service.cli.terminal.errors import problem_to_lines

ZONES = [f"us-central{number}-a" for number in range(15)]


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"detail": "no"}, ["no"]),
        ({"title": "Not found"}, ["Not found"]),
        ({}, ["the API answered 422"]),
        (
            {"detail": "x is for v6e", "compatible": ["a", "b"], "field": "runtime_version"},
            ["x is for v6e", "  these fit: a, b"],
        ),
        (
            {"detail": "not offered", "offered_in": ZONES},
            ["not offered", f"  it is offered in: {', '.join(ZONES[:12])} and 3 more"],
        ),
        ({"detail": "did you mean a or b?", "closest": ["a", "b"]}, ["did you mean a or b?"]),
        ({"detail": "no", "closest": []}, ["no"]),
        (
            {"detail": "…", "errors": [{"field": "ttl_seconds", "message": "should be more"}]},
            ["ttl_seconds: should be more"],
        ),
        ({"detail": "no", "errors": "odd", "limit": 3}, ["no"]),
    ],
)
def test_a_problem_becomes_what_is_wrong_and_what_to_do(document, shown):
    assert problem_to_lines(422, document) == shown


def test_an_unknown_caller_is_told_about_the_token():
    assert problem_to_lines(401, {"detail": "send the header"}) == [
        "the service needs a token: set STEWARD_TOKEN"
    ]
