"""Where hardware was to be had lately, as a page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from service.application.placement.capacity import CapacityRow
from service.dashboard.kit.figures import to_moment
from service.dashboard.pages import capacity
from service.dashboard.pages.capacity import HeatCooldown, build_heat_map, describe_failures
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY
from service.domain.nodes.placement import HardwareKey, Outcome
from service.domain.placement.quota import Limit, Size, Tier
from service.store.capacity import AttemptCounts
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, main_of, text_of
from tests.hands import NOON

KEY = HardwareKey("us-west4-a", "v5litepod-8", "v5e", "spot")
NEVER = AttemptCounts("lab", KEY, 0, 0, 0, 0, 0, 0, 0, NOON)


def table_of(page: Response) -> list[list[str]]:
    """The table behind the heat map."""
    return cells_of(page.text[page.text.index('id="behind"') :])


def test_before_anything_was_tried_there_is_nothing_to_tell(browser: TestClient) -> None:
    said = text_of(browser.get("/capacity"))
    assert "Cooldowns None. New requests are tried at once." in said
    assert "No attempts in this period." in said
    assert "tpu-steward nodes create --accelerator-type v5litepod-8" in said


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
    _, east, west = table_of(browser.get("/capacity"))
    assert east[:3] == ["us-east5-a", "v5litepod-8", "on_demand"]
    assert east[3] == "0 of 1 READY1 without a result"
    assert east[4:] == ["\u2013", "\u2013", "1 min ago"]
    assert west[3] == "2 of 3 READY1 over quota"
    assert west[4:] == ["1 min", "1 after 5 s", "30 min ago"]


def test_the_project_is_named_where_there_are_several(lab: Lab, browser: TestClient) -> None:
    lab.tried(lab.asked_for(), (60, Outcome.OPEN, None))
    assert "Project" not in table_of(browser.get("/capacity"))[0]
    lab.tried(lab.asked_for(project="elsewhere"), (60, Outcome.STOCK_OUT, None))
    page = browser.get("/capacity")
    assert {row[3] for row in table_of(page)} == {"Project", "elsewhere", "lab"}
    assert "on_demand, project elsewhere: was out of capacity" in text_of(page)


@pytest.mark.parametrize(("window", "rows"), [("24h", 1), ("7d", 2), ("30d", 3), (HOSTILE, 2)])
def test_the_period_can_be_chosen(lab: Lab, browser: TestClient, window: str, rows: int) -> None:
    for zone, days in (("us-west4-a", 0), ("us-east5-a", 3), ("us-central1-a", 20)):
        lab.tried(lab.asked_for(zone=zone), (days * DAY + 60, Outcome.READY, 10))
    page = browser.get("/capacity", params={"window": window})
    assert page.status_code == 200
    assert len(table_of(page)) == 1 + rows
    assert main_of(page).count('aria-current="true"') == 1


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
        "1,000 stockouts, 3 over quota, 4 denied, 5 failed, 2 without a result"
    )


def row(zone: str, what: str, until: int | None = None, **counts: Any) -> CapacityRow:
    model = "spot" if until else "on_demand"
    tried = replace(NEVER, key=HardwareKey(zone, what, "v5e", model), **counts)
    return CapacityRow(tried, until, "")


def test_a_cell_of_the_map_sums_all_models_and_says_what_came_of_it() -> None:
    heat = build_heat_map(
        [
            row("us-west4-a", "v5litepod-8", attempts=5, ready=2, stock_outs=2),
            row("us-west4-a", "v5litepod-8", NOON + 60, attempts=3, stock_outs=1, denied=2),
            row("us-east5-a", "v5litepod-8", attempts=4, ready=4),
            row("us-east5-a", "v6e-8", NOON + DAY, attempts=1, quota_refusals=1),
            row("us-west4-a", "v6e-8", attempts=1),
        ],
        NOON,
    )
    assert heat.types == ("v5litepod-8", "v6e-8")
    east, west = heat.rows
    assert (east.zone, west.zone) == ("us-east5-a", "us-west4-a")
    assert [
        (cell.shade, cell.tone, cell.verdict, cell.instead)
        for cell in (*east.cells, *west.cells)
        if cell is not None
    ] == [
        ("all", "up", "4 of 4 READY", ""),
        ("no", "trouble", "0 of 1 READY", "1 over quota"),
        ("some", "going", "2 of 8 READY", "3 stockouts, 2 denied, 1 without a result"),
        ("", "coming", "0 of 1 READY", "1 without a result"),
    ]
    assert west.cells[0] is not None
    soon = HeatCooldown("spot", to_moment(NOON + 60), "12:01:00 UTC")
    assert west.cells[0].cooldowns == (soon,)
    assert east.cells[1] is not None
    assert [cooldown.text for cooldown in east.cells[1].cooldowns] == ["2026-11-06 12:00:00 UTC"]


def test_the_map_has_the_most_used_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MOST_TYPES", 1)
    monkeypatch.setattr(capacity, "MOST_ZONES", 1)
    heat = build_heat_map(
        [
            row("us-east5-a", "v6e-8", attempts=1),
            row("us-west4-a", "v6e-8", attempts=3),
            row("us-west4-a", "v5litepod-8", attempts=2),
        ],
        NOON,
    )
    assert heat.types == ("v6e-8",)
    assert [(row.zone, len(row.cells)) for row in heat.rows] == [("us-west4-a", 1)]
    assert (heat.types_left_out, heat.zones_left_out) == (1, 1)


def test_the_map_on_the_page_has_words_for_every_cell(lab: Lab, browser: TestClient) -> None:
    spot = ProvisioningModel.SPOT
    lab.tried(lab.asked_for(provisioning_model=spot), (45, Outcome.STOCK_OUT, None))
    other = {"accelerator_type": "v6e-8", "generation": "v6e", "zone": "us-east5-a"}
    lab.tried(lab.asked_for(**other), (60, Outcome.READY, 10))
    assert cells_of(browser.get("/capacity").text) == [
        ["Zone", "v5litepod-8", "v6e-8"],
        ["us-east5-a", "not tried", "1 of 1 READY"],
        [
            "us-west4-a",
            "0 of 1 READY1 stockoutspot: cooldown until 12:00:20 UTC",
            "not tried",
        ],
    ]
