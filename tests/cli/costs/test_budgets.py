"""Budgets on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import steward

ID = "01a2b3c4-0000-7000-8000-000000000000"


def budget(**overrides):
    """A budget as the API shows it."""
    return {
        "id": ID,
        "name": "vision monthly",
        "scope": {"project": None, "team": "vision", "owner": None, "job": None, "label": None},
        "amount": "100.000000000",
        "period": "month",
        "tz": "UTC",
        "thresholds": [{"percent": 80, "of": "actual"}, {"percent": 100, "of": "forecast"}],
        "on_exceeded": "refuse",
        "burn_rate": None,
        "grace_seconds": 900,
        "webhook": "https://hooks.example.com/...",
        "emails": ["ada@example.com"],
        "starts_at": "2026-11-01T00:00:00Z",
        "ends_at": "2026-12-01T00:00:00Z",
        "spent": "48.000000000",
        "held": "19.200000000",
        "held_known": "19.200000000",
        "left": "32.800000000",
        "left_at_most": "32.800000000",
        "unpriced_nodes": 0,
        "unpriced": [],
        "unpriced_seconds": 0,
        "percent": 48,
        "forecast": None,
        "alerts": [],
        "deletes_at": None,
        "warnings": [],
        **overrides,
    }


ONE_UNPRICED = {"held": None, "left": None, "unpriced_nodes": 1, "unpriced": ["v6e-1f3a"]}


def page(*some):
    return {"budgets": list(some), "next_page_token": ""}


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_list_says_how_each_stands(api):
    late = dict.fromkeys(("spent", "held", "left", "percent", "unpriced_nodes"))
    some = [
        budget(),
        budget(name="late", on_exceeded="notify", **late),
        budget(name="over", on_exceeded="delete", **ONE_UNPRICED),
        budget(name="going", on_exceeded="delete", deletes_at="2026-11-05T12:15:00Z"),
    ]
    api.when("GET", "/v1/budgets", page(*some))
    heading, *rows = steward("budgets", "list").stdout.splitlines()
    assert cells(heading)[3:8] == ["AMOUNT", "SPENT", "USED", "HELD", "LEFT AT WORST"]
    assert [cells(row) for row in rows] == [
        [
            *("vision monthly", "team vision", "month", "$100.00", "$48.00", "48%", "$19.20"),
            *("$32.80", "refuse"),
        ],
        ["late", "team vision", "month", "$100.00", "-", "-", "-", "-", "notify"],
        [
            *("over", "team vision", "month", "$100.00", "$48.00", "48%", ">=$19.20", "<=$32.80"),
            "delete after 15m",
        ],
        [
            *("going", "team vision", "month", "$100.00", "$48.00", "48%", "$19.20", "$32.80"),
            "deletes at 2026-11-05 12:15:00",
        ],
    ]


def test_what_is_spent_held_and_left_adds_up_to_the_amount(api):
    odd = {"amount": "10.000000000", "spent": "3.334000000", "held_known": "3.334000000"}
    thirds = budget(**odd, left_at_most="3.332000000")
    api.when("GET", "/v1/budgets", page(thirds))
    _, row = steward("budgets", "list").stdout.splitlines()
    assert cells(row)[3:8] == ["$10.00", "$3.34", "48%", "$3.33", "$3.33"]
    api.when("GET", f"/v1/budgets/{ID}", thirds | {"refusals": [], "notifications": []})
    shown = steward("budgets", "show", ID).stdout
    for line in ("$3.34, 48%", "$3.33 for running and requested nodes", "Left at worst  $3.33"):
        assert line in shown


def test_a_budget_that_is_over_says_by_how_much_before_the_worst_case(api):
    over = budget(spent="104.500000000", left_at_most="-23.700000000", percent=104)
    api.when("GET", "/v1/budgets", page(over))
    api.when("GET", f"/v1/budgets/{ID}", over | {"refusals": [], "notifications": []})
    lines = steward("budgets", "show", ID).stdout.splitlines()
    assert "Over by        $4.50" in lines
    assert "Left at worst  -$23.70" in lines


def test_what_is_known_is_shown_beside_the_nodes_without_a_price(api):
    shown = budget(**ONE_UNPRICED) | {"refusals": [], "notifications": []}
    api.when("GET", "/v1/budgets", page(budget()))
    api.when("GET", f"/v1/budgets/{ID}", shown)
    lines = steward("budgets", "show", ID).stdout.splitlines()
    assert "Held           at least $19.20 for running and requested nodes" in lines
    assert "Left at worst  at most $32.80" in lines
    assert "No price       v6e-1f3a" in lines


def test_without_a_budget_it_is_said_how_to_set_one(api):
    api.when("GET", "/v1/budgets", page())
    assert "budgets create NAME --amount USD" in steward("budgets", "list").stdout


def test_one_is_shown_by_its_name_with_what_it_refused_and_told(api):
    api.when("GET", "/v1/budgets", page(budget()))
    message = {
        "subject": "80",
        "channel": "webhook",
        "created_at": "2026-11-05T12:00:00Z",
        "sent_at": None,
        "next_try_at": None,
        "last_error": "answers 500",
    }
    detail = budget(
        alerts=[{"kind": "actual:80", "fired_at": "2026-11-05T12:00:00Z"}],
        refusals=[{"at": "2026-11-05T12:00:00Z", "message": "no room"}],
        notifications=[
            message,
            message | {"next_try_at": "2026-11-05T12:01:00Z"},
            message | {"sent_at": "2026-11-05T12:00:00Z", "last_error": ""},
        ],
    )
    api.when("GET", f"/v1/budgets/{ID}", detail)
    said = steward("budgets", "show", "vision monthly").stdout
    for part in (
        "$100.00 a month (UTC)",
        "$48.00, 48%",
        "no forecast",
        "80% spent, 100% by forecast",
        "actual:80 (2026-11-05 12:00:00)",
        "https://hooks.example.com/..., ada@example.com",
        "Refused lately:",
        "2026-11-05 12:00:00  no room",
        "80, webhook, given up: answers 500",
        "80, webhook, retry at 2026-11-05 12:01:00: answers 500",
        "80, webhook, sent",
    ):
        assert part in said
    api.when("GET", f"/v1/budgets/{ID}", detail)
    assert json.loads(steward("budgets", "show", ID, "--json").stdout) == detail


def test_a_budget_of_its_own_window_is_of_one_time(api):
    found = budget(period="custom", refusals=[], notifications=[])
    api.when("GET", "/v1/budgets", page(found))
    api.when("GET", f"/v1/budgets/{ID}", found)
    done = steward("budgets", "show", ID)
    assert done.exit_code == 0, done.output
    said = done.stdout
    assert "Amount         $100.00 once\n" in said
    assert "custom" not in said


def test_a_budget_is_set_as_it_was_said(api):
    api.when("POST", "/v1/budgets", budget(), status=201)
    result = steward(
        *("budgets", "create", "vision monthly", "--amount", "100", "--scope", "team=vision"),
        *("--scope", "label:run=17", "--threshold", "80", "--threshold", "forecast:100%"),
        *("--on-exceeded", "delete", "--grace", "1h", "--email", "ada@example.com"),
    )
    assert result.exit_code == 0, result.output
    assert api.calls[0].body == {
        "name": "vision monthly",
        "amount": "100",
        "period": "month",
        "tz": "UTC",
        "scope": {"team": "vision", "label": "run:17"},
        "thresholds": [{"percent": 80, "of": "actual"}, {"percent": 100, "of": "forecast"}],
        "on_exceeded": "delete",
        "grace_seconds": 3_600,
        "emails": ["ada@example.com"],
    }
    assert "$48.00, 48%" in result.stdout


def test_that_nobody_is_told_before_nodes_are_deleted_is_said_where_it_is_set_and_shown(api):
    said = "no recipient is notified before its nodes are deleted: add a webhook (--webhook)"
    silent = budget(on_exceeded="delete", webhook="", emails=[], warnings=[said])
    api.when("POST", "/v1/budgets", silent, status=201)
    made = steward("budgets", "create", "x", "--amount", "1", "--on-exceeded", "delete")
    assert made.exit_code == 0
    assert made.stdout.splitlines()[-1] == f"note: {said}"
    api.when("GET", "/v1/budgets", page(silent))
    api.when("GET", f"/v1/budgets/{ID}", silent | {"refusals": [], "notifications": []})
    assert f"note: {said}" in steward("budgets", "show", ID).stdout


def test_a_webhook_without_a_secret_gets_one_that_is_shown_once(api):
    api.when("POST", "/v1/budgets", budget(), status=201)
    arguments = ("budgets", "create", "x", "--amount", "1", "--webhook", "https://x.example.com")
    result = steward(*arguments)
    secret = api.calls[0].body["webhook_secret"]
    assert len(secret) >= 32
    assert secret in result.stderr
    assert secret not in result.stdout
    api.when("POST", "/v1/budgets", budget(), status=201)
    mine = "a secret of some length"
    result = steward(*arguments, STEWARD_WEBHOOK_SECRET=mine)
    assert api.calls[1].body["webhook_secret"] == mine
    assert mine not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scope", "vision"), "KEY=VALUE"),
        (("--scope", "team=a", "--scope", "team=b"), "twice"),
        (("--threshold", "most"), "not a threshold"),
        (("--grace", "soon"), "not a duration"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(api, arguments, said):
    result = steward("budgets", "create", "x", "--amount", "1", *arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert api.calls == []


def test_a_refusal_of_the_api_is_told(api):
    problem = {"detail": "the amount must be more than 0", "status": 422, "field": "amount"}
    api.when("POST", "/v1/budgets", problem, status=422)
    result = steward("budgets", "create", "x", "--amount", "0")
    assert result.exit_code == 1
    assert "the amount must be more than 0" in result.stderr


def test_one_is_taken_away_by_its_name(api):
    api.when("GET", "/v1/budgets", page(budget()))
    api.when("DELETE", f"/v1/budgets/{ID}", budget())
    assert steward("budgets", "delete", "vision monthly").stdout == (
        "the budget vision monthly is deleted\n"
    )
    api.when("GET", "/v1/budgets", page())
    result = steward("budgets", "delete", "other")
    assert result.exit_code == 1
    assert "no budget is named 'other'" in result.stderr


def test_an_edit_sends_what_was_typed_and_nothing_else(api, monkeypatch):
    monkeypatch.setenv("STEWARD_WEBHOOK_SECRET", "of another budget")
    api.when("GET", "/v1/budgets", page(budget()))
    api.when("PATCH", f"/v1/budgets/{ID}", budget(amount="8000.000000000"))
    options = ("--amount", "8000", "--threshold", "forecast:90", "--grace", "30m")
    shown = steward("budgets", "edit", "vision monthly", *options, "--reset", "burn-rate").stdout
    assert api.calls[-1].body == {
        "amount": "8000",
        "thresholds": [{"percent": 90, "of": "forecast"}],
        "grace_seconds": 1_800,
        "burn_rate": None,
    }
    assert "Amount         $8,000.00 a month (UTC)" in shown.splitlines()


def test_a_new_webhook_gets_a_new_secret_and_an_old_one_goes_with_its_secret(api):
    api.when("GET", "/v1/budgets", page(budget()))
    api.when("PATCH", f"/v1/budgets/{ID}", budget())
    result = steward("budgets", "edit", ID, "--webhook", "https://hooks.example.com/x")
    secret = api.calls[-1].body["webhook_secret"]
    assert len(secret) > 30
    assert result.stderr == f"webhook secret, not shown again: {secret}\n"
    steward("budgets", "edit", ID, "--reset", "webhook")
    assert api.calls[-1].body == {"webhook": None, "webhook_secret": None}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--reset", "amount"),
        ("--threshold", "soon"),
        ("--threshold", "80", "--reset", "threshold"),
        ("--webhook", "https://hooks.example.com/x", "--reset", "webhook"),
    ],
)
def test_an_edit_that_makes_no_sense_is_a_usage_error(api, options):
    result = steward("budgets", "edit", "vision", *options)
    assert (result.exit_code, api.calls) == (2, [])
