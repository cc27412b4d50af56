"""Budgets as a page: how each stands, what it holds, and what it refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.application.budgets.budgets import BudgetStatus
from service.dashboard.pages.costs import budgets
from service.dashboard.pages.costs.budgets import WIDTH, build_bar
from service.domain.budgets.alerts import Alert
from service.domain.budgets.budget import (
    Budget,
    BudgetStanding,
    HeldAmount,
    OnExceeded,
    Period,
    Threshold,
)
from service.domain.clock import DAY, HOUR
from service.domain.errors import BudgetExceeded
from service.domain.money import NANOS
from service.domain.notifications.notification import Channel, Notification
from service.domain.time_window import Window
from service.store.budgets import BudgetRefusal
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON

WINDOW = Window(NOON - 4 * DAY, NOON + 26 * DAY)


def put(lab: Lab, **changes: Any) -> Budget:
    return lab.services.budgets.create(factories.budget(**changes)).shown.budget


def test_before_there_is_one_it_is_said_how_to_set_it(browser: TestClient) -> None:
    said = text_of(browser.get("/budgets"))
    assert "None yet. A budget with a cap refuses a node before its money is spent:" in said
    assert "tpu-steward budgets create vision --amount 5000" in said


def test_a_budget_is_shown_with_what_is_spent_held_and_left(lab: Lab, browser: TestClient) -> None:
    put(lab, thresholds=(Threshold(40), Threshold(80)), on_exceeded=OnExceeded.REFUSE)
    lab.ran(NOON - 5 * HOUR, team="vision", ttl_seconds=7 * HOUR)
    said = text_of(browser.get("/budgets"))
    assert "vision monthly team vision; each month, refuses new nodes when exceeded" in said
    assert "Spent $48.00 48 % Held $19.36 Left $32.64 Amount $100.00 Forecast no forecast" in said
    assert "Resets in 25 d 12 h" in said
    assert "Alerts at 40 %, 80 %." in said
    assert "in order" in said
    assert 'width="480"' in browser.get("/budgets").text


def test_a_budget_of_its_own_window_ends_and_does_not_reset(lab: Lab, browser: TestClient) -> None:
    put(lab, period=Period.CUSTOM, start=NOON - DAY, end=NOON + 2 * DAY)
    said = text_of(browser.get("/budgets"))
    assert "team vision; once, notifies only" in said
    assert "Ends in 2 d" in said
    assert "Resets" not in said


def test_what_it_refused_is_said(lab: Lab, browser: TestClient) -> None:
    put(lab, amount=1, on_exceeded=OnExceeded.REFUSE)
    with pytest.raises(BudgetExceeded):
        lab.services.nodes.request(factories.wish())
    said = text_of(browser.get("/budgets"))
    assert "Recent refusals 2026-11-05 12:00:00 UTC: the budget 'vision monthly' has $0.0" in said


def test_that_nobody_is_told_before_a_deletion_is_said(lab: Lab, browser: TestClient) -> None:
    put(lab, on_exceeded=OnExceeded.DELETE)
    said = text_of(browser.get("/budgets"))
    assert "Note: no recipient is notified before its nodes are deleted" in said


def test_what_was_not_delivered_is_said(lab: Lab, browser: TestClient) -> None:
    budget = put(lab)
    one = Notification(
        "n", budget.id, Channel.WEBHOOK, "s", "{}", NOON, NOON, 1, None, "answers 500"
    )
    with lab.units() as unit:
        unit.notifications.add(one)
        unit.alerts.save(budget.id, Alert("actual:80", NOON - 4 * DAY - 12 * HOUR, NOON))
    said = text_of(browser.get("/budgets"))
    assert "Not delivered by webhook: answers 500" in said
    assert "Alerted: 80 % at 2026-11-05 12:00:00 UTC." in said


def test_nothing_of_a_name_becomes_markup(lab: Lab, browser: TestClient) -> None:
    budget = put(lab, name=HOSTILE)
    with lab.units() as unit:
        unit.budgets.add_refusal(budget.id, BudgetRefusal(NOON, HOSTILE))
    assert HOSTILE not in browser.get("/budgets").text


def test_the_fullest_is_first_and_the_rest_is_counted(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lab, name="wide", amount=10**6 * NANOS)
    put(lab, name="tight")
    put(lab, name="late", start=NOON + DAY)
    lab.ran(NOON - HOUR, team="vision", ttl_seconds=HOUR)
    page = browser.get("/budgets").text
    assert page.index(">tight<") < page.index(">wide<") < page.index(">late<")
    assert "not active now" in page
    monkeypatch.setattr(budgets, "SHOWN", 1)
    assert "and 2 more: tpu-steward budgets list shows all." in text_of(browser.get("/budgets"))


def test_one_node_without_a_price_hides_nothing_of_what_is_known(
    lab: Lab, browser: TestClient
) -> None:
    budget = put(lab, on_exceeded=OnExceeded.NOTIFY)
    lab.ran(NOON - HOUR, team="vision", ttl_seconds=2 * HOUR)
    known = lab.services.budgets.get(budget.id).shown.standing
    nowhere: Any = {"zone": "africa-south1-a", "zones": ("africa-south1-a",)}
    lab.ran(NOON - HOUR, team="vision", ttl_seconds=2 * HOUR, name="lost", **nowhere)
    shown = lab.services.budgets.get(budget.id).shown.standing
    assert known is not None
    assert shown is not None
    assert (shown.spent, shown.held.known) == (known.spent, known.held.known)
    assert shown.spent > 0 < shown.held.known
    assert (shown.held.total, shown.unpriced, shown.unpriced_seconds) == (None, ("lost",), HOUR)
    text = text_of(browser.get("/budgets"))
    assert "at least $" in text
    assert "Note: no price is known for lost." in text
    assert "Note: 1 h of usage with unknown price is not in the spend." in text


def standing(spent: int, held: int | None) -> BudgetStanding:
    known = HeldAmount(0, ("n-1",)) if held is None else HeldAmount(held * NANOS)
    return BudgetStanding(WINDOW, spent * NANOS, known, None, NOON, unpriced=known.unpriced)


@pytest.mark.parametrize(
    ("spent", "held", "bar"),
    [
        (0, 0, (0, 0, WIDTH)),
        (48, 20, (480, 200, WIDTH)),
        (100, 100, (500, 500, 500)),
        (300, None, (1_000, 0, 333)),
    ],
)
def test_a_bar_never_runs_over(spent: int, held: int | None, bar: tuple[int, int, int]) -> None:
    made = build_bar(factories.budget(), standing(spent, held), ())
    assert (made.spent, made.held, made.cap) == bar
    assert made.spent + made.held <= WIDTH


def test_a_mark_is_where_its_threshold_is_and_says_whether_it_fired() -> None:
    budget = factories.budget(thresholds=(Threshold(50), Threshold(150)))
    fired = (Alert("actual:50", WINDOW.start, NOON),)
    marks = build_bar(budget, standing(60, 0), fired).marks
    assert [(one.at, one.name, one.fired) for one in marks] == [(500, "50 %", True)]
    marks = build_bar(budget, standing(150, 50), fired).marks
    assert [(one.at, one.fired) for one in marks] == [(250, True), (750, False)]


@pytest.mark.parametrize(
    ("budget", "now", "deletes_at", "verdict"),
    [
        ({}, None, None, ("still", "not active now")),
        ({}, (1, 1), None, ("up", "in order")),
        ({}, (101, 0), None, ("trouble", "exceeded")),
        ({}, (1, None), None, ("up", "in order")),
        (
            {"on_exceeded": OnExceeded.REFUSE},
            (1, None),
            None,
            ("trouble", "refuses new nodes: no price is known for n-1"),
        ),
        (
            {"on_exceeded": OnExceeded.REFUSE},
            (50, 50),
            None,
            ("going", "everything is spent or held"),
        ),
        ({"period": Period.DAY}, (50, 60), None, ("up", "in order")),
        (
            {},
            (101, 0),
            NOON,
            ("trouble", "exceeded; nodes are deleted at 2026-11-05 12:00:00 UTC"),
        ),
    ],
)
def test_a_sign_says_how_it_stands(
    budget: dict[str, Any],
    now: tuple[int, int | None] | None,
    deletes_at: int | None,
    verdict: tuple[str, str],
) -> None:
    shown = BudgetStatus(factories.budget(**budget), None if now is None else standing(*now))
    assert budgets.describe_state(replace(shown, deletes_at=deletes_at)) == verdict
