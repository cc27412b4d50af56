"""Where hardware was to be had lately, as a page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from service.dashboard.pages import capacity
from service.dashboard.pages.capacity import describe_failures
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY
from service.domain.nodes.placement import HardwareKey, Outcome
from service.domain.placement.quota import Limit, Size, Tier
from service.store.capacity import AttemptCounts
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, text_of
from tests.hands import NOON

KEY = HardwareKey("us-west4-a", "v5litepod-8", "v5e", "spot")
NEVER = AttemptCounts("lab", KEY, 0, 0, 0, 0, 0, 0, 0, NOON)


def test_before_anything_was_tried_there_is_nothing_to_tell(browser: TestClient) -> None:
    said = text_of(browser.get("/capacity"))
    assert "Cooldowns None. New requests are tried at once." in said
    assert "No attempts in this period." in said


def test_what_is_left_alone_is_said_with_the_reason_and_until_when(
    lab: Lab, browser: TestClient
) -> None:
    node = lab.asked_for(provisioning_model=ProvisioningModel.SPOT)
    lab.tried(node, (45, Outcome.STOCK_OUT, None))
    said = text_of(browser.get("/capacity"))
    assert "v5litepod-8 in us-west4-a, spot: was out of capacity 40 s ago." in said
    assert "Cooldown until 2026-11-05 12:00:20 UTC, in 20 s." in said


def test_what_a_quota_bars_is_left_alone_for_a_day(lab: Lab, browser: TestClient) -> None:
    lab.tried(lab.asked_for(), (1_800, Outcome.QUOTA, None))
    limit = Limit(
        "lab", "", "us-west4", "v5e", Tier.ON_DEMAND, Size.ANY, 0, NOON - 1_800, "Limit: 0."
    )
    with lab.units() as unit:
        unit.quotas.save(limit)
    said = text_of(browser.get("/capacity"))
    assert "on_demand: may not have 8 chips (Google's limit is 0 in us-west4)." in said
    assert "Cooldown until 2026-11-06 11:30:00 UTC" in said


def test_what_was_tried_is_a_row_for_each_kind_of_hardware(lab: Lab, browser: TestClient) -> None:
    lab.tried(
        lab.asked_for(),
        (7_200, Outcome.PREEMPTED, 100),
        (3_600, Outcome.READY, 200),
        (1_800, Outcome.QUOTA, None),
    )
    lab.tried(lab.asked_for(zone="us-east5-a"), (60, Outcome.OPEN, None))
    _, east, west = cells_of(browser.get("/capacity").text)
    assert east[:3] == ["us-east5-a", "v5litepod-8", "on_demand"]
    assert east[3] == "0 of 1 came up1 open or other"
    assert east[4:] == ["\u2013", "\u2013", "1 min ago"]
    assert west[3] == "2 of 3 came up1 over quota"
    assert west[4:] == ["1 min", "1 after 5 s", "30 min ago"]


def test_the_project_is_named_where_there_are_several(lab: Lab, browser: TestClient) -> None:
    lab.tried(lab.asked_for(), (60, Outcome.OPEN, None))
    assert "Project" not in cells_of(browser.get("/capacity").text)[0]
    lab.tried(lab.asked_for(project="elsewhere"), (60, Outcome.STOCK_OUT, None))
    page = browser.get("/capacity")
    assert {row[3] for row in cells_of(page.text)} == {"Project", "elsewhere", "lab"}
    assert "on_demand, project elsewhere: was out of capacity" in text_of(page)


@pytest.mark.parametrize(("window", "rows"), [("24h", 1), ("7d", 2), ("30d", 3), (HOSTILE, 2)])
def test_the_period_can_be_chosen(lab: Lab, browser: TestClient, window: str, rows: int) -> None:
    for zone, days in (("us-west4-a", 0), ("us-east5-a", 3), ("us-central1-a", 20)):
        lab.tried(lab.asked_for(zone=zone), (days * DAY + 60, Outcome.READY, 10))
    page = browser.get("/capacity", params={"window": window})
    assert page.status_code == 200
    assert len(cells_of(page.text)) == 1 + rows
    assert page.text.count('aria-current="true"') == 1


def test_of_very_many_rows_some_are_shown_and_the_others_counted(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "SHOWN", 1)
    for zone in ("us-west4-a", "us-east5-a", "us-central1-a"):
        lab.tried(lab.asked_for(zone=zone), (60, Outcome.STOCK_OUT, None))
    said = text_of(browser.get("/capacity"))
    assert said.count("and 2 more: tpu-steward catalog capacity shows all.") == 2


def test_what_did_not_come_up_is_told_in_words() -> None:
    assert describe_failures(NEVER) == ""
    tried = replace(NEVER, attempts=1_016, ready=2, stock_outs=1_000, quota_refusals=3)
    assert describe_failures(replace(tried, denied=4, failed=5)) == (
        "1,000 stockout, 3 over quota, 4 denied, 5 failed, 2 open or other"
    )
