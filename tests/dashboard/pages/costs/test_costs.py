"""The page of costs: what it says is what the API says, and it adds up to the last nano-dollar."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.dashboard.kit.figures import format_difference, format_money
from service.dashboard.pages.costs import breakdown
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.metering.meter import Evidence
from service.domain.money import parse_usd
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.hands import NOON

CENT = 10_000_000
QUESTIONS = [
    "window=mtd&aggregate=team",
    "window=30d&aggregate=generation,provisioning_model",
    "window=7d&aggregate=zone&tz=Europe/Berlin",
    "window=2026-10-01,2026-11-01&aggregate=accelerator_type&filter=team:vision",
    "window=24h&aggregate=region&filter=generation:v5p,generation:v4",
]


def _table(page: str, heading: str, *, to_the_cent: bool = False) -> list[list[str]]:
    found = page[page.index(f'id="{heading}-heading"') :]
    return cells_of(found, to_the_cent=to_the_cent)


def _figures(row: list[str]) -> tuple[int, int, int]:
    """Cost, list price and savings of a row."""
    cost, _, listed, saved, _ = row[-5:]
    return nanos_of(cost), nanos_of(listed), nanos_of(saved)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_figures_are_those_of_the_api(lab: Lab, caller: TestClient, question: str) -> None:
    lab.lives_a_month()
    page = caller.get(f"/costs?{question}&step=all").text
    said = caller.get(links_of(page)["Export JSON"]).json()
    head, *rows, total = _table(page, "group")
    by = said["aggregate"]
    assert [name.lower().replace(" ", "_") for name in head[: len(by)]] == by
    shown = {tuple(row[: len(by)]): row for row in rows}
    assert len(said["rows"]) == len(shown) > 0
    for row in said["rows"]:
        cells = shown[tuple(row[name] for name in by)]
        cost, listed = parse_usd(row["cost"]), parse_usd(row["list_cost"])
        assert _figures(cells) == (cost, listed, listed - cost)
        hours = f"{row['chip_hours']}".rstrip("0").rstrip(".")
        assert cells[-1].replace(",", "") == hours
    assert nanos_of(total[-5]) == parse_usd(said["total"]) == sum(_figures(row)[0] for row in rows)
    assert nanos_of(total[-3]) == parse_usd(said["list_total"])
    assert nanos_of(total[-2]) == parse_usd(said["savings"])
    assert f"Cost {format_money(parse_usd(said['total']))}" in text_of(
        caller.get(f"/costs?{question}")
    )


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_cents_that_are_shown_add_up_in_rows_and_columns_and_to_the_headline(
    lab: Lab, caller: TestClient, question: str
) -> None:
    lab.lives_a_month()
    answer = caller.get(f"/costs?{question}&step=day")
    said = text_of(answer)
    for heading in ("group", "time"):
        _, *rows, total = _table(answer.text, heading, to_the_cent=True)
        figures = [_figures(row) for row in rows]
        assert all(cost + saved == listed for cost, listed, saved in figures)
        assert tuple(map(sum, zip(*figures, strict=True))) == _figures(total)
        assert all(nanos % CENT == 0 for row in (*figures, _figures(total)) for nanos in row)
        assert f"Cost {total[-5]}" in said
        assert f"At list price {total[-3]}" in said
        assert f"Saved {total[-2]}" in said


@pytest.mark.parametrize("step", ["hour", "day", "week", "month"])
@pytest.mark.parametrize("tz", ["UTC", "Australia/Lord_Howe"])
def test_by_time_and_by_group_come_to_the_same(
    lab: Lab, caller: TestClient, step: str, tz: str
) -> None:
    lab.lives_a_month()
    page = caller.get("/costs", params={"window": "7d", "step": step, "tz": tz}).text
    said = caller.get(links_of(page)["Export JSON"]).json()
    by_time, by_group = _table(page, "time"), _table(page, "group")
    assert _figures(by_time[-1]) == _figures(by_group[-1])
    assert nanos_of(by_time[-1][-5]) == parse_usd(said["total"])
    assert sum(_figures(row)[0] for row in by_time[1:-1]) == _figures(by_time[-1])[0]
    assert len(by_time) - 2 == len({row["start"] for row in said["rows"]})


def test_each_time_leads_to_its_own_page_in_shorter_steps(lab: Lab, caller: TestClient) -> None:
    lab.lives_a_month()
    page = caller.get("/costs?window=7d&step=day").text
    _, row, total = _table(page, "time")[:2] + _table(page, "time")[-1:]
    inner = caller.get(links_of(page)[row[0]]).text
    assert _figures(_table(inner, "time")[-1]) == _figures(row)
    assert nanos_of(total[-5]) > nanos_of(row[-5])
    assert "By hour" in inner


def test_each_name_leads_to_what_it_is_made_of(lab: Lab, caller: TestClient) -> None:
    lab.lives_a_month()
    page = caller.get("/costs?window=mtd&aggregate=team").text
    for row in _table(page, "group")[1:-1]:
        inner = caller.get(links_of(page)[row[0]])
        assert f"only team: {row[0]}" in text_of(inner)
        assert _table(inner.text, "group")[0][0] == "Node"
        assert _figures(_table(inner.text, "group")[-1]) == _figures(row)


NAMES = [HOSTILE, "a, b", 'the "best" & \\only', "<script>alert(1)</script>", "x" * 200, ""]


@pytest.mark.parametrize("name", NAMES)
def test_strange_names_stay_text_and_lead_where_they_should(
    lab: Lab, caller: TestClient, name: str
) -> None:
    lab.ran(NOON - HOUR, team=name, owner=name, name=HOSTILE)
    lab.ran(NOON - HOUR, team="other", owner="other")
    page = caller.get("/costs?aggregate=team,owner")
    assert "<script>a" not in page.text
    assert "<img" not in page.text
    inner = caller.get(links_of(page.text)[name or "no team"])
    assert inner.status_code == 200
    assert "<img" not in inner.text
    assert _figures(_table(inner.text, "group")[-1])[0] == 9_600_000_000
    said = caller.get(links_of(inner.text)["Export JSON"])
    assert said.json()["total"] == "9.600000000"
    without = links_of(inner.text)[f"remove the filter team: {name or '(none)'}"]
    assert _figures(_table(caller.get(without).text, "group")[-1])[0] == 19_200_000_000


def test_of_many_rows_the_largest_are_shown_and_the_others_summed(
    lab: Lab, caller: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakdown, "SHOWN", 5)
    lab.lives_a_month()
    page = caller.get("/costs?window=30d&aggregate=node&step=day").text
    for heading in ("group", "time"):
        _, *rows, rest, total = _table(page, heading)
        assert len(rows) == 5
        assert rest[0] == "25 more"
        for column in range(3):
            figures = [_figures(row)[column] for row in (*rows, rest)]
            assert sum(figures) == _figures(total)[column]
    assert "the 5 that cost most of 30" in text_of(caller.get("/costs?window=30d&aggregate=node"))


def test_a_node_leads_to_its_page_and_its_cost_to_its_lines(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 2 * HOUR, name="train")
    page = caller.get("/costs?aggregate=node").text
    assert links_of(page)["train"] == f"/nodes/{node.id}"
    assert links_of(page)["$19.20"].startswith(f"/nodes/{node.id}/ledger?window=mtd")


def test_labels_can_be_grouped_by(lab: Lab, caller: TestClient) -> None:
    lab.ran(NOON - HOUR, labels={"run": "17"})
    page = caller.get("/costs?aggregate=label:run").text
    assert _table(page, "group")[0][0] == "Label run"
    assert "only label run: 17" in text_of(caller.get(links_of(page)["17"]))


def test_one_sum_is_a_group_too(lab: Lab, caller: TestClient) -> None:
    lab.ran(NOON - HOUR)
    assert _table(caller.get("/costs?aggregate=").text, "group")[1][0] == "everything"


def test_before_anything_was_charged_it_is_said_so(caller: TestClient) -> None:
    page = caller.get("/costs")
    assert page.status_code == 200
    assert "No charges in this window." in text_of(page)
    assert "No charges in this window with these filters." in text_of(
        caller.get("/costs?filter=team:vision")
    )


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("window=5y", "'5y' is not a window; write 7d, 24h, today, mtd"),
        ("window=2026-11-02,2026-11-01", "ends before it starts"),
        ("tz=Mars/Olympus", "'Mars/Olympus' is not a time zone"),
        ("step=decade", "'decade' is not a step; write one of hour, day"),
        ("step=hour&window=9999d", "use a longer step"),
        ("aggregate=colour", "there are project, team, owner"),
        ("filter=colour:red", "is not a dimension to filter costs by; there are project"),
        ("filter=vision", "write dimension:value, as in team:vision"),
        (f"window={HOSTILE}", "is not a window"),
        (f"filter={HOSTILE}", "is not a filter"),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_with_what_would(
    caller: TestClient, question: str, said: str
) -> None:
    page = caller.get(f"/costs?{question}")
    assert page.status_code == 422
    assert said in text_of(page).replace("&#39;", "'")
    assert "<img" not in page.text
    assert '<form class="asking"' in page.text
    assert "Export JSON" not in page.text


def test_what_has_no_price_and_what_is_uncertain_is_said_in_words(
    lab: Lab, caller: TestClient
) -> None:
    lab.ran(NOON - 600, zone="asia-nowhere1-a")
    gone, seen = lab.ran(NOON - 2 * HOUR, NOON - HOUR), NOON - HOUR - 30
    lab.clock.pass_(60)
    lab.learned(gone, end_lo=seen, end_evidence=Evidence.OBSERVED)
    said = text_of(caller.get("/costs"))
    assert "11 min of usage has no known price." in said
    assert "$0.080 of it is uncertain: no poll confirms these seconds" in said
    assert "Some usage still runs" in said


def test_what_was_idle_is_not_made_up(lab: Lab, caller: TestClient) -> None:
    lab.ran(NOON - HOUR)
    said = text_of(caller.get("/costs?aggregate=activity"))
    assert "Unknown: time that no signal covers." in said


def test_the_token_that_the_links_need_is_told_of(lab: Lab, caller: TestClient) -> None:
    lab.ran(NOON - HOUR)
    hint = '-H "Authorization: Bearer $STEWARD_ADMIN_TOKEN"'
    assert hint not in text_of(caller.get("/costs"))
    assert hint in text_of(caller.get("/costs", headers={"Authorization": "Basic eDp5"}))


def test_the_first_page_leads_to_its_figures(lab: Lab, caller: TestClient) -> None:
    lab.lives_a_month()
    first = caller.get("/?group=team")
    links = links_of(first.text)
    month = caller.get("/v1/costs?window=mtd").json()
    today = caller.get("/v1/costs?window=today").json()
    for said, address in ((month, "/costs?window=mtd"), (today, "/costs?window=today&step=hour")):
        shown = format_money(parse_usd(said["total"]))
        assert links[shown] == address
        assert f"Cost {shown}" in text_of(caller.get(address))
    saved = format_difference(parse_usd(month["list_total"]), parse_usd(month["total"]))
    assert f"Saved this month {saved}" in text_of(first)
    assert f"Saved {saved}" in text_of(caller.get(links[saved]))
    assert f"Cost {_team(first, 'vision')}" in text_of(caller.get(links["vision"]))


def _team(page: Any, name: str) -> str:
    """What the legend of the chart says of a team."""
    said = text_of(page)
    return said[said.index(f" {name} $") + len(name) + 2 :].split()[0]


def test_a_day_of_the_first_page_leads_to_its_hours(lab: Lab, caller: TestClient) -> None:
    lab.ran(NOON - DAY - HOUR, NOON - DAY, provisioning_model=ProvisioningModel.ON_DEMAND)
    inner = caller.get(links_of(caller.get("/").text)["Wed 4 Nov 2026"])
    assert "Cost $9.60" in text_of(inner)
    assert _table(inner.text, "time")[1][0] == "Wed 4 Nov 2026 11:00 UTC"
