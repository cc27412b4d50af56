"""Committed-use discounts as a page: what is used, by whom, and what is lost."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.dashboard.pages.costs import commitments
from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.commitments.commitment import Commitment, Term
from service.domain.time_window import Window
from tests.commitments import commitment
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON

START = NOON - 4 * HOUR


def record(lab: Lab, **changes: Any) -> Commitment:
    """Eight chips for a year since four hours ago, at the list price of 0.84 dollars."""
    base = {"start": START, "contract": None, "team": "infra"}
    wanted = commitment(**(base | changes))
    return lab.services.commitments.record(wanted).shown.commitment


@pytest.fixture
def trained(lab: Lab) -> None:
    """Two hours of a node of eight chips, and one of a larger one beside it."""
    lab.ran(NOON - 3 * HOUR, NOON - HOUR, name="train", team="vision")
    lab.ran(NOON - 2 * HOUR, NOON - HOUR, name="serve", team="nlp", chips=24)


def test_before_there_is_one_it_is_said_how_to_record_it(browser: TestClient) -> None:
    said = text_of(browser.get("/commitments"))
    assert "None is recorded." in said
    assert "tpu-steward commitments add NAME --region us-west4" in said


def test_the_page_says_what_is_used_unused_and_lost(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    record(lab)
    page = browser.get("/commitments?window=24h")
    said = text_of(page)
    assert "base 8 v5e chips in us-west4 for every project of the billing account; infra" in said
    assert "running, 364 d 20 h left" in said
    assert (
        "Rate $0.84 a chip-hour Fee $26.88 Used $13.44 50 % Unused $13.44 50 % Coverage 40 %"
        " Net saving \N{MINUS SIGN}$7.68"
    ) in said
    assert (
        "It lost $7.68 in this time: the fee is $26.88, and what it covered would have cost $19.20"
        " without it. 50 % of it was not used."
    ) in said
    assert 'aria-label="50 % of what was committed was used"' in page.text
    assert 'class="bar-spent" width="500"' in page.text


def test_who_used_it_is_named_with_the_part_of_the_fee(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    record(lab)
    said = text_of(browser.get("/commitments?window=24h"))
    assert "train vision 10 31 % $8.40" in said
    assert "serve nlp 6 19 % $5.04" in said


def test_teams_see_what_they_cost_after_commitments(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    record(lab)
    said = text_of(browser.get("/commitments?window=24h"))
    assert "nlp $28.80 $7.20 $5.04 25 % $26.64" in said
    assert "vision $19.20 $12.00 $8.40 63 % $15.60" in said
    assert "Total $48.00 $19.20 $13.44 40 % $42.24" in said


def test_one_that_saves_money_says_so_and_has_no_complaint(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    record(lab, start=NOON - 3 * HOUR, chips=4)
    window = f"{to_rfc3339(NOON - 3 * HOUR)},{to_rfc3339(NOON - HOUR)}"
    said = text_of(browser.get("/commitments", params={"window": window}))
    assert "It lost" not in said
    assert (
        "Together they saved $2.88: what they cover was charged $9.60, and the fees are $6.72."
    ) in said


def test_one_without_a_rate_is_named_and_is_not_free(lab: Lab, browser: TestClient) -> None:
    record(lab, start=NOON - 365 * DAY + HOUR)
    said = text_of(browser.get("/commitments"))
    assert "No rate is known for the first second of its term" in said
    assert "$0.00" not in said


def test_what_runs_is_first_and_what_was_wrong_is_last(lab: Lab, browser: TestClient) -> None:
    wrong = record(lab, name="wrong")
    lab.services.commitments.withdraw(wrong.id, "it was for three years")
    record(lab, name="over", start=NOON - 400 * DAY, contract=840_000_000)
    record(lab, name="planned", start=NOON + DAY)
    record(lab, name="running", term=Term.THREE_YEARS)
    page = browser.get("/commitments")
    places = [page.text.index(f">{name}<") for name in ("running", "planned", "over", "wrong")]
    assert places == sorted(places)
    said = text_of(page)
    assert "begins in 1 d" in said
    assert "over for 35 d" in said
    assert "Withdrawn 2026-11-05 12:00:00 UTC: it was for three years" in said


def test_of_very_many_the_rest_is_counted(
    lab: Lab, browser: TestClient, trained: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commitments, "SHOWN", 1)
    monkeypatch.setattr(commitments, "USERS_SHOWN", 1)
    record(lab)
    record(lab, name="winter")
    said = text_of(browser.get("/commitments?window=24h"))
    assert "and 1 more: tpu-steward commitments list shows all." in said
    assert "and 1 more: tpu-steward commitments usage lists all." in said


def test_a_window_that_makes_no_sense_is_said_and_the_month_is_shown(
    lab: Lab, browser: TestClient
) -> None:
    record(lab)
    page = browser.get("/commitments", params={"window": HOSTILE})
    assert page.status_code == 200
    assert "is not a window" in text_of(page)
    assert HOSTILE not in page.text
    assert "Fees $26.88" in text_of(page)


def test_the_same_as_json_is_asked_of_the_same_window(lab: Lab, browser: TestClient) -> None:
    record(lab)
    window = "2026-11-05T00:00:00+01:00,2026-11-06"
    page = browser.get("/commitments", params={"window": window})
    assert 'href="/v1/commitments/usage?window=2026-11-05T00:00:00%2B01:00,2026-11-06"' in page.text


def test_the_pages_of_costs_lead_to_the_commitments(browser: TestClient) -> None:
    assert '<a href="/commitments">Commitments</a>' in browser.get("/costs").text


# ---- the page of costs

AFTER = (
    "$48.00 as charged, $55.68 after commitments (plus $26.88 of fees, less $19.20 for the usage"
    " that they cover)."
)


def test_costs_are_shown_before_and_after_commitments(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    record(lab)
    assert AFTER in text_of(browser.get("/costs?window=24h"))


@pytest.mark.parametrize("more", ["&filter=team:vision", "&window=2026-11-01,2026-11-02"])
def test_of_a_part_of_the_usage_or_another_time_nothing_is_said_of_commitments(
    lab: Lab, browser: TestClient, trained: None, more: str
) -> None:
    record(lab)
    window = "" if "window" in more else "&window=24h"
    assert "after commitments" not in text_of(browser.get(f"/costs?{window}{more}"))


def test_without_a_commitment_the_page_of_costs_says_nothing_of_them(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    assert "after commitments" not in text_of(browser.get("/costs?window=24h"))
    gone = record(lab)
    lab.services.commitments.withdraw(gone.id, "bought twice")
    assert "after commitments" not in text_of(browser.get("/costs?window=24h"))


def test_a_commitment_without_a_rate_is_said_to_be_in_no_figure(
    lab: Lab, browser: TestClient, trained: None
) -> None:
    record(lab, start=NOON - 365 * DAY + HOUR)
    said = text_of(browser.get("/costs?window=24h"))
    assert "Commitments are in no figure here: no rate is known for them." in said


def test_the_line_on_the_costs_page_is_worked_out_once_a_minute(lab: Lab, trained: None) -> None:
    record(lab)
    last_hours = (lab.services.commitments.find_usage(Window(START, NOON)) for _ in "ab")
    first, again = last_hours
    assert first is not None
    assert again is first
    lab.clock.pass_(59)
    assert lab.services.commitments.find_usage(Window(START, NOON + 59)) is first
    lab.clock.pass_(1)
    later = lab.services.commitments.find_usage(Window(START, NOON + 60))
    assert later is not None
    assert later.fee > first.fee
