"""Budgets as a page: how each stands, what it holds, and what it refused."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.application.budgets.budgets import BudgetService, BudgetStatus
from service.dashboard.kit.figures import to_moment
from service.dashboard.pages.costs import budgets
from service.dashboard.pages.costs.budgets import (
    CAP,
    WIDTH,
    Outlook,
    build_bar,
    build_budgets_page,
    find_outlook,
)
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import (
    Budget,
    BudgetStanding,
    HeldAmount,
    Measure,
    OnExceeded,
    Period,
    Scope,
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
from tests.dashboard.reading import HOSTILE, links_of, main_of, text_of
from tests.hands import NOON

EACH = "Alerts when 50 % is spent, and when the forecast reaches 100 %."
WINDOW = Window(NOON - 4 * DAY, NOON + 26 * DAY)


def put(lab: Lab, **changes: Any) -> Budget:
    return lab.services.budgets.create(factories.budget(**changes)).shown.budget


def test_before_there_is_one_it_is_said_how_to_set_it(browser: TestClient) -> None:
    page = browser.get("/budgets")
    said = text_of(page)
    assert "None yet. A budget with a cap refuses a node before its money is spent." in said
    assert links_of(main_of(page))["Create the first budget"] == "/budgets/new"
    assert "tpu-steward budgets create vision --amount 5000" in said


def test_a_budget_is_shown_with_what_is_spent_held_and_left(lab: Lab, browser: TestClient) -> None:
    put(lab, thresholds=(Threshold(40), Threshold(80)), on_exceeded=OnExceeded.REFUSE)
    lab.ran(NOON - 5 * HOUR, team="vision", ttl_seconds=7 * HOUR)
    said = text_of(browser.get("/budgets"))
    assert "vision monthly team vision; each month, refuses new nodes when exceeded" in said
    assert (
        "Spent $48.00 48 % Held $19.36 Left at worst $32.64 Amount $100.00 Forecast no forecast"
        in said
    )
    assert "Resets in 25 d 12 h" in said
    assert "Alerts when 40 % or 80 % is spent." in said
    assert "in order" in said
    assert 'width="384"' in browser.get("/budgets").text


def test_a_budget_of_its_own_window_ends_and_does_not_reset(lab: Lab, browser: TestClient) -> None:
    put(lab, period=Period.CUSTOM, start=NOON - DAY, end=NOON + 2 * DAY)
    said = text_of(browser.get("/budgets"))
    assert "team vision; once, notifies only" in said
    assert "Ends in 2 d" in said
    assert "Resets" not in said


def test_what_it_refused_is_said(lab: Lab, browser: TestClient) -> None:
    put(lab, amount=1, on_exceeded=OnExceeded.REFUSE)
    with pytest.raises(BudgetExceeded):
        lab.services.nodes.request(factories.request())
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
    assert "Alerted: 80 % was spent at 2026-11-05 12:00:00 UTC." in said


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
        (0, 0, (0, 0, 0, False)),
        (48, 20, (384, 160, 0, False)),
        (100, 25, (800, 200, 0, False)),
        (110, 20, (880, 120, 80, True)),
        (300, None, (1_000, 0, 200, True)),
        (-5, 0, (0, 0, 0, False)),
    ],
)
def test_a_bar_is_scaled_to_the_amount_and_never_runs_over(
    spent: int, held: int | None, bar: tuple[int, int, int, bool]
) -> None:
    made = build_bar(factories.budget(), standing(spent, held), ())
    assert (made.spent, made.held, made.over, made.cut) == bar
    assert made.cap == CAP < WIDTH


def test_a_mark_is_where_its_threshold_is_and_says_whether_it_fired() -> None:
    budget = factories.budget(thresholds=(Threshold(50), Threshold(120), Threshold(150)))
    fired = (Alert("actual:50", WINDOW.start, NOON),)
    for now in (standing(60, 0), standing(150, 50)):  # the amount stays where it is
        marks = build_bar(budget, now, fired).marks
        assert [(mark.at, mark.name, mark.fired) for mark in marks] == [
            (400, "50 %", True),
            (960, "120 %", False),
        ]


def expecting(lab: Lab) -> None:
    """Have the budgets read the forecasts, as they do in a service."""

    def expect(budget: Budget, window: Window, _now: int) -> int:
        found = lab.services.forecasts.forecast_window(budget.scope.cost_filter, window, budget.tz)
        return found.total.mid

    shared = lab.units, lab.prices, lab.clock
    forecast = BudgetService(*shared, lab.services.costs, expect)
    lab.services = replace(lab.services, budgets=forecast)


def test_a_budget_that_will_exceed_says_when_and_stands_before_the_fuller_one(
    lab: Lab, caller: TestClient
) -> None:
    for day in range(1, 15):  # 24 hours a day at $9.60 an hour for two weeks
        lab.ran(NOON - day * DAY, NOON - (day - 1) * DAY, team="vision")
    lab.ran(NOON - 9 * DAY, NOON, team="language")
    lab.ran(NOON - 60, team="vision", ttl_seconds=HOUR)
    expecting(lab)
    soon = put(lab, name="soon", amount=4_000 * NANOS)
    over = {"period": Period.CUSTOM, "start": NOON - 4 * DAY, "end": NOON + HOUR}
    put(lab, name="fuller", scope=Scope(team="language"), amount=960 * NANOS, **over)
    gone = put(lab, name="gone", amount=500 * NANOS)
    page = build_budgets_page(lab.services)
    assert [row.name for row in page.rows] == ["gone", "soon", "fuller"]
    assert page.summary == "3 budgets: 1 exceeded, 1 more by the forecast"
    shown = lab.services.budgets.get(soon.id).shown
    assert shown.standing is not None
    assert shown.standing.forecast is not None
    assert shown.standing.spent < soon.amount < shown.standing.forecast
    outlook = find_outlook(lab.services, shown)
    assert outlook is not None
    # the rest of the way to the amount, at an even pace from noon on the 5th to the end of November
    whole = shown.standing.forecast - shown.standing.spent
    part = soon.amount - shown.standing.spent
    assert outlook.at == NOON + (25 * DAY + DAY // 2) * part // whole
    date = to_moment(outlook.at).date.removesuffix(" 2026")
    assert page.rows[1].tone == "going"
    assert page.rows[1].verdict == f"will exceed on {date}, by the forecast"
    assert find_outlook(lab.services, lab.services.budgets.get(gone.id).shown) is None


def test_a_run_rate_of_less_than_seven_days_is_quiet(lab: Lab) -> None:
    lab.ran(NOON - 2 * DAY, team="vision")
    expecting(lab)
    put(lab, amount=3_000 * NANOS)
    (row,) = build_budgets_page(lab.services).rows
    assert row.tone == "still"
    assert row.verdict.startswith("at the run-rate so far, would exceed on ")


def test_what_exceeds_today_has_an_hour() -> None:
    assert Outlook(NOON + HOUR, NOON, is_run_rate=False).verdict == (
        "going",
        "will exceed today at 13:00 UTC, by the forecast",
    )


def test_an_exceeded_budget_says_by_how_much(lab: Lab, browser: TestClient) -> None:
    put(lab, amount=40 * NANOS)
    lab.ran(NOON - 5 * HOUR, team="vision", ttl_seconds=5 * HOUR)
    assert "Over by $8.00 Amount $40.00" in text_of(browser.get("/budgets"))


def test_a_budget_that_only_its_held_part_exceeds_is_over_at_worst(
    lab: Lab, browser: TestClient
) -> None:
    put(lab, amount=60 * NANOS)
    lab.ran(NOON - 5 * HOUR, team="vision", ttl_seconds=7 * HOUR)
    said = text_of(browser.get("/budgets"))
    assert "Spent $48.00 80 % Held $19.36 At worst over by $7.36 Amount $60.00" in said


@pytest.mark.parametrize(
    ("thresholds", "sentence"),
    [
        ((Threshold(50), Threshold(100, Measure.FORECAST)), EACH),
        ((Threshold(100, Measure.FORECAST),), "Alerts when the forecast reaches 100 %."),
    ],
)
def test_thresholds_say_what_they_are_compared_with(
    lab: Lab, browser: TestClient, thresholds: tuple[Threshold, ...], sentence: str
) -> None:
    put(lab, thresholds=thresholds)
    assert sentence in text_of(browser.get("/budgets"))


def test_the_time_of_a_deletion_is_an_element_that_can_be_shown_in_local_time(
    lab: Lab, browser: TestClient
) -> None:
    budget = put(lab, amount=40 * NANOS, on_exceeded=OnExceeded.DELETE)
    lab.ran(NOON - 5 * HOUR, team="vision", ttl_seconds=7 * HOUR)
    exceeded = Alert(EXCEEDED, NOON - 4 * DAY - 12 * HOUR, NOON)
    with lab.units() as unit:
        unit.alerts.save(budget.id, exceeded)
    shown = lab.services.budgets.get(budget.id).shown
    assert shown.deletes_at is not None
    at = to_moment(shown.deletes_at)
    for path in ("/budgets", "/"):
        page = browser.get(path).text
        assert f'exceeded; nodes are deleted at <time datetime="{at.iso}"' in page


def test_forty_budgets_of_hostile_names_are_all_shown_as_text(
    lab: Lab, browser: TestClient
) -> None:
    names = (HOSTILE, "\u202e" + "\u05d0\u05d1" * 30, "\U0001f680" * 30, "x" * 63)
    for number in range(40):
        scope = Scope(team=names[number % 4])
        put(lab, name=f"{number} {names[number % 4]}"[:63], scope=scope)
    page = browser.get("/budgets")
    assert page.text.count('<li id="budget-') == 40
    assert HOSTILE not in page.text
    for name in names:
        assert f"team {name}" in unescape(page.text)


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
            ("trouble", "exceeded; nodes are deleted"),
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


def test_the_first_page_begins_with_exceeded_budgets_and_says_how_many_there_are(
    lab: Lab, browser: TestClient
) -> None:
    """However small the exceeded budget is, and however many larger ones there are."""
    lab.ran(NOON - 2 * HOUR, team="vision")
    for number in range(45):
        scope = Scope(team=f"t{number}")
        amount = (1_000 + number) * NANOS
        lab.services.budgets.create(
            factories.budget(name=f"large {number}", scope=scope, amount=amount)
        )
    small = factories.budget(name="small", scope=Scope(team="vision"), amount=5 * NANOS)
    made = lab.services.budgets.create(small).shown.budget
    with lab.units() as unit:
        window = made.window_at(NOON)
        assert window is not None
        unit.alerts.save(made.id, Alert(EXCEEDED, window.start, NOON - 60))
    page = browser.get("/").text
    section = page[page.index('id="budgets-heading"') :]
    assert "5 of 46 · " in section[: section.index("</div>")]
    assert links_of(section)["All budgets"] == "/budgets"
    assert section.index(">small</a>") < section.index(">large")
