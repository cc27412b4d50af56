"""What happened on a day is marked in the chart of the first page, and told in the table behind."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient

from service.domain.clock import DAY
from service.domain.nodes.placement import Outcome
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import main_of, text_of
from tests.hands import NOON


def test_a_price_change_and_preemptions_are_marked(lab: Lab, browser: TestClient) -> None:
    lab.clock.now = changed = NOON - 2 * DAY
    lab.services.prices.add(factories.price(1_000_000_000, effective_from=changed))
    lab.clock.now = NOON
    lab.ran(NOON - 5 * DAY)
    lab.tried(lab.asked_for(), (DAY, Outcome.PREEMPTED, 10), (DAY - 60, Outcome.PREEMPTED, 10))
    page = browser.get("/?window=7d")
    assert main_of(page).count('<text class="marker"') == 2
    chart = main_of(page).partition('id="chart-heading"')[2]
    table = re.search(r"<tbody>.*?</tbody>", chart, re.DOTALL)
    assert table is not None
    said = re.findall(r"</time></a>(?: so far)?(?:<small>(.*?)</small>)?</th>", table[0])
    change = "the list price of v5e on_demand in us-west4 changes from $1.20 to $1.00"
    assert said == ["", "2 preemptions", change, "", "", "", ""]
    assert "price change, preemption or correction on that day" in text_of(page)


def test_a_quiet_week_has_no_mark(lab: Lab, browser: TestClient) -> None:
    lab.ran(NOON - 5 * DAY)
    page = browser.get("/?window=7d")
    assert 'class="marker"' not in page.text
    assert "price change" not in text_of(page)


def test_a_correction_of_a_closed_month_is_marked(lab: Lab, browser: TestClient) -> None:
    now = lab.clock.now
    lab.clock.now = NOON - 25 * DAY
    node = lab.ran(NOON - 26 * DAY, NOON - 26 * DAY + 3_600)
    lab.clock.now = now
    lab.ran(NOON - DAY)
    lab.learned(node, end=NOON - 26 * DAY + 1_800)
    lab.clock.pass_(60)
    page = browser.get("/?window=7d")
    assert "earlier months are corrected by -$4.80" in text_of(page)
