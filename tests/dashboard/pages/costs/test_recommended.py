"""The page of what to commit to: both terms, the use behind them, and what is not promised."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient

from service.dashboard.kit.figures import to_moment
from service.domain.clock import DAY, HOUR
from service.domain.commitments.recommendation import CAUTION
from tests.dashboard.lab import Lab
from tests.dashboard.reading import text_of
from tests.store.test_recommendations import TODAY, ran

PATH = "/commitments/recommended"


def used(lab: Lab, weeks: int = 13) -> None:
    """Eight chips always, and eight more for eighteen hours of each day."""
    ran(lab.units, TODAY - weeks * 7 * DAY, None)
    for day in range(1, weeks * 7):
        ran(lab.units, TODAY - day * DAY, TODAY - day * DAY + 18 * HOUR)


def test_before_any_use_the_page_says_what_it_needs(browser: TestClient) -> None:
    said = text_of(browser.get(PATH))
    assert "No chip was in use on demand on a full day yet." in said
    assert "A recommendation needs 28 full days of use." in said


def test_both_terms_are_told_with_what_is_due_if_use_stops(lab: Lab, browser: TestClient) -> None:
    used(lab)
    said = text_of(browser.get(PATH))
    assert CAUTION in said
    assert "v5e in us-west4" in said
    assert "1 year 16 chips $0.84 16 h 48 min a day 87.5 %" in said
    assert "3 years 16 chips $0.54 10 h 48 min a day 87.5 %" in said
    assert "16 (16 to 16) $117,734.40" in said
    assert "Choose one of the two terms, not both." in said
    assert f"{to_moment(TODAY - DAY).date}. " in said


def test_the_chart_shows_the_use_and_a_line_at_what_is_recommended(
    lab: Lab, browser: TestClient
) -> None:
    used(lab)
    page = browser.get(PATH).text
    assert page.count('<g class="day">') == 90
    (label,) = re.findall(r'class="level-label[^>]*>([^<]*)<', page)
    assert label == "16 for 1 year or 3 years"
    (line,) = re.findall(r'class="level both" x1="0" x2="100%" y1="([\d.]+)"', page)
    assert float(line) == 60.0, "16 of a scale to 20, on 240 pixels that begin at 12"
    assert "8 chips all day, 16 at most" in page


def test_terms_that_differ_have_a_line_each(lab: Lab, browser: TestClient) -> None:
    ran(lab.units, TODAY - 91 * DAY, None)
    for day in range(1, 91):
        ran(lab.units, TODAY - day * DAY, TODAY - day * DAY + 14 * HOUR)
    page = browser.get(PATH).text
    labels = re.findall(r'class="level-label[^>]*>([^<]*)<', page)
    assert labels == ["8 for 1 year", "16 for 3 years"]


def test_with_too_few_days_there_is_the_use_and_the_reason(lab: Lab, browser: TestClient) -> None:
    used(lab, weeks=2)
    page = browser.get(PATH)
    said = text_of(page)
    assert "14 full days of use are known; a recommendation needs 28." in said
    assert "1 year 14 full days of use are known; a recommendation needs 28" in said.replace(
        "  ", " "
    )
    assert page.text.count('<g class="day">') == 14
    assert "level-label" not in page.text


def test_today_alone_is_no_full_day(lab: Lab, browser: TestClient) -> None:
    ran(lab.units, TODAY + HOUR, None)
    assert "No chip was in use on demand on a full day yet." in text_of(browser.get(PATH))
