"""Budgets are created, edited and deleted by forms, with the rules and messages of the API."""

from __future__ import annotations

from html import unescape

import pytest

from service.domain.budgets.alerts import Alert
from service.domain.budgets.budget import Measure, OnExceeded, Period, Scope, Threshold
from service.domain.money import NANOS
from tests.dashboard.actions.sending import BROWSER, hidden_fields, send_form
from tests.dashboard.reading import HOSTILE, links_of, text_of

NEW = {"name": "vision", "amount": "5000.50", "period": "month", "scope_team": "vision"}


def _only(lab):
    (budget,) = lab.services.budgets.list_all()
    return budget


def test_a_new_budget_has_the_fields_of_its_form(lab, caller):
    assert links_of(caller.get("/budgets").text)["Create a budget"] == "/budgets/new"
    more = {
        "on_exceeded": "refuse",
        "scope_label": "run:17",
        "thresholds_actual": "50, 80 100%",
        "thresholds_forecast": "100",
        "emails": "ada@example.com; bob@example.com",
        "grace_seconds": "600",
        "tz": "Europe/Berlin",
        "end": "2027-01-01",
    }
    answer = send_form(caller, "/budgets/new", **NEW, **more)
    assert answer.status_code == 303
    said = text_of(caller.get(answer.headers["location"]))
    assert "Budget vision is created. It applies from now on." in said
    made = _only(lab)
    assert (made.amount, made.period, made.tz) == (5_000_500_000_000, Period.MONTH, "Europe/Berlin")
    assert (made.scope, made.on_exceeded) == (
        Scope(team="vision", label=("run", "17")),
        OnExceeded.REFUSE,
    )
    assert made.thresholds == (
        Threshold(50),
        Threshold(80),
        Threshold(100),
        Threshold(100, Measure.FORECAST),
    )
    assert (made.emails, made.grace_seconds) == (("ada@example.com", "bob@example.com"), 600)
    assert made.end == 1_798_758_000


def test_a_form_sent_twice_is_one_budget(lab, caller):
    fields = hidden_fields(caller.get("/budgets/new").text) | NEW
    for said in ("is created", "was created by this form before"):
        answer = caller.post("/budgets/new", data=fields, headers=BROWSER)
        assert said in text_of(answer)
    assert _only(lab).name == "vision"
    assert send_form(caller, "/budgets/new", **NEW).status_code == 409


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount": "0"}, "amount"),
        ({"amount": "many"}, "amount"),
        ({"name": " "}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"scope_team": "x" * 201}, "scope_team"),
        ({"scope_label": "run"}, "scope_label"),
        ({"tz": "Mars/Base"}, "tz"),
        ({"thresholds_actual": "80, x"}, "thresholds_actual"),
        ({"grace_seconds": "-1"}, "grace_seconds"),
        ({"period": "custom"}, "end"),
        ({"start": "soon"}, "start"),
        ({"webhook": "https://hooks.example.com", "webhook_secret": "short"}, "webhook_secret"),
        ({"emails": HOSTILE}, "emails"),
    ],
)
def test_an_invalid_budget_keeps_what_was_typed_and_says_why(lab, caller, changes, field):
    answer = send_form(caller, "/budgets/new", **(NEW | changes))
    assert answer.status_code == 422
    assert answer.text.partition(f'id="error-{field}">')[2].partition("</p>")[0]
    assert 'name="scope_team" value="' in answer.text
    assert HOSTILE not in answer.text
    assert lab.services.budgets.list_all() == []


def test_only_edited_fields_change_and_alerts_stay_after_a_new_name(lab, caller):
    send_form(caller, "/budgets/new", **NEW, webhook_secret="s" * 16, webhook="https://a.example/x")
    before = _only(lab)
    with lab.units() as unit:
        unit.alerts.save(before.id, Alert("actual:50", 0, fired_at=lab.clock.now))
    path = f"/budgets/{before.id}/edit"
    assert links_of(caller.get("/budgets").text)["Edit"] == path
    typed = {"name": "vision <b>", "amount": "5000.5"}
    assert send_form(caller, "/budgets/vision/edit", **typed).status_code == 303
    after = _only(lab)
    assert (after.name, after.amount, after.secret) == ("vision <b>", before.amount, "s" * 16)
    assert (after.scope, after.created_at) == (before.scope, before.created_at)
    with lab.units() as unit:
        assert unit.alerts.find_by_budget(before.id)
    assert send_form(caller, path, amount="6000", scope_team="").status_code == 303
    assert (_only(lab).amount, _only(lab).scope) == (6_000 * NANOS, Scope())
    with lab.units() as unit:
        assert not unit.alerts.find_by_budget(before.id)
    assert "vision <b>" in text_of(caller.get(path))


def test_a_change_by_others_meanwhile_is_not_overwritten(lab, caller):
    send_form(caller, "/budgets/new", **NEW)
    path = f"/budgets/{_only(lab).id}/edit"
    fields = hidden_fields(caller.get(path).text) | NEW
    assert send_form(caller, path, **(NEW | {"amount": "7000"})).status_code == 303
    late = caller.post(path, data=fields | {"amount": "8000"}, headers=BROWSER)
    assert late.status_code == 409
    assert 'value="8000"' in late.text
    assert _only(lab).amount == 7_000 * NANOS
    again = hidden_fields(late.text) | NEW | {"amount": "8000"}
    sent = caller.post(path, data=again, headers=BROWSER, follow_redirects=False)
    assert sent.status_code == 303
    assert _only(lab).amount == 8_000 * NANOS


def test_a_form_that_would_undo_a_change_by_others_shows_what_they_saved(lab, caller):
    send_form(caller, "/budgets/new", **NEW)
    path = f"/budgets/{_only(lab).id}/edit"
    fields = hidden_fields(caller.get(path).text) | NEW
    theirs = NEW | {"name": HOSTILE, "scope_team": ""}
    assert send_form(caller, path, **theirs).status_code == 303
    typed = {"amount": "8000", "webhook_secret": "s" * 16}
    late = caller.post(path, data=fields | typed, headers=BROWSER)
    assert late.status_code == 409

    def error_of(field: str) -> str:
        return unescape(late.text.partition(f'id="error-{field}">')[2].partition("</p>")[0])

    found = {name: error_of(name) for name in (*NEW, "webhook_secret")}
    assert found == {
        "name": f"saved meanwhile: {HOSTILE}",
        "amount": "saved meanwhile: 5000.5",
        "period": "",
        "scope_team": "saved meanwhile: nothing",
        "webhook_secret": "",
    }
    assert HOSTILE not in late.text
    assert (_only(lab).name, _only(lab).scope, _only(lab).secret) == (HOSTILE, Scope(), "")


def test_a_budget_is_deleted_by_its_name(lab, caller):
    send_form(caller, "/budgets/new", **(NEW | {"name": HOSTILE}))
    path = f"/budgets/{_only(lab).id}/delete"
    assert HOSTILE not in caller.get(path).text
    assert send_form(caller, path, confirm="vision").status_code == 422
    assert send_form(caller, path, confirm=HOSTILE).status_code == 303
    assert lab.services.budgets.list_all() == []
    assert caller.get("/budgets/nope/edit").status_code == 404


def test_the_deletion_of_a_custom_budget_says_that_its_amount_is_granted_once(lab, caller):
    send_form(caller, "/budgets/new", **(NEW | {"period": "custom"}), end="2027-01-01")
    said = text_of(caller.get(f"/budgets/{_only(lab).id}/delete"))
    assert "Amount $5,000.50 once" in said
