"""Costs over time: the chart, the matrix and the form, on one lab with hostile amounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.testclient import TestClient

from service.application.costs.aggregation import CostRow
from service.application.costs.costs import CostReport
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.pages.costs.over_time.cost_grid import (
    MOST_GROUPS,
    build_grid,
    choose_step,
    round_grid,
)
from service.dashboard.pages.costs.over_time.cost_matrix import MOST_COLUMNS, build_matrix
from service.domain.clock import DAY, HOUR
from service.domain.money import format_usd, half_even, parse_usd
from service.domain.time_window import Granularity, Window
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.databases import fresh_database
from tests.hands import NOON, HandClock

CENT = 10_000_000
TEAMS = 40


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Pages and API of a lab with 40 teams, thirds of a cent, a huge day and hostile names."""
    with fresh_database("sqlite", tmp_path_factory.mktemp("costs")) as address:
        engine = make_engine(address)
        lab = Lab(Units(engine), HandClock(NOON - 9 * DAY), (factories.PROJECT,))
        lab.services.prices.add(factories.price(1_333_333_333))
        lab.clock.now = NOON
        lab.looked_at()
        lab.lives_a_month()
        for number in range(TEAMS):
            start = NOON - 5 * DAY + 4_001 * number
            lab.ran(start, start + 3_607 + 331 * number, team=f"team-{number:02d}", owner="eve")
        pod = {"generation": "v5p", "accelerator_type": "v5p-6144", "chips": 3_072, "hosts": 768}
        pod["zone"] = "us-east5-a"
        lab.ran(NOON - 2 * DAY, NOON - DAY - 1, team=HOSTILE, owner="x, y", **pod)
        with TestClient(lab.whole(), base_url="http://localhost") as made:
            yield made
        engine.dispose()


def _matrix(page: str) -> tuple[list[str], list[list[int]], list[int]]:
    """The names of the rows, their amounts (the total first), and the row of totals."""
    _, *rows, foot = cells_of(page[page.index('id="matrix-heading"') :])
    amounts = [[_amount(cell) for cell in row[1:]] for row in rows]
    return [unescape(row[0]) for row in rows], amounts, [_amount(cell) for cell in foot[1:]]


def _amount(cell: str) -> int:
    return 0 if cell == "\N{EN DASH}" else nanos_of(cell)


@pytest.mark.parametrize("exact", ["", "&exact=1"])
@pytest.mark.parametrize(
    "question",
    [
        "window=mtd&aggregate=team&step=day",
        "window=30d&aggregate=generation,provisioning_model&step=week",
        "window=90d&aggregate=team&step=day&tz=Europe/Berlin",
        "window=48h&aggregate=zone&step=hour&filter=owner:ada",
        "window=30d&aggregate=&step=all",
    ],
)
def test_the_matrix_adds_up_and_is_what_the_api_says(
    caller: TestClient, question: str, exact: str
) -> None:
    page = caller.get(f"/costs?{question}{exact}")
    names, rows, foot = _matrix(page.text)
    said = caller.get(f"/v1/costs?{question}").json()
    total = parse_usd(said["total"])
    assert all(row[0] == sum(row[1:]) for row in [*rows, foot])
    assert foot == [sum(column) for column in zip(*rows, strict=True)]
    assert len(foot) - 1 <= MOST_COLUMNS + 1
    groups: dict[str, int] = {}
    for row in said["rows"]:
        name = " / ".join(row[dimension] for dimension in said["aggregate"]) or "everything"
        groups[name] = groups.get(name, 0) + parse_usd(row["cost"])
    assert len(names) == min(len(groups), MOST_GROUPS + 1)
    near = 0 if exact else CENT
    for name, row in zip(names[:MOST_GROUPS], rows, strict=False):
        assert abs(row[0] - groups[name]) <= near, name
    assert foot[0] == (total if exact else half_even(total, CENT) * CENT)


def test_hidden_buckets_lose_nothing_below_the_decimals_of_their_sum() -> None:
    costs = [5_000_000, 5_000_000, *([CENT] * MOST_COLUMNS)]
    days = [Window(number * DAY, (number + 1) * DAY) for number in range(len(costs))]
    rows = [CostRow(day, (), cost, cost, 3_600) for day, cost in zip(days, costs, strict=True)]
    window, total = Window(0, days[-1].end), sum(costs)
    report = CostReport(window, (), tuple(rows), total, total, 0, 0, window.end, False, 0)  # noqa: FBT003 - the report's order
    grid = build_grid(report, Granularity.DAY, "UTC")
    asked = CostsAsked("90d", (), Granularity.DAY, exact=True)
    matrix = build_matrix(asked, grid, round_grid(grid), {})
    for row in (*matrix.rows, matrix.total):
        assert (nanos_of(row.total), nanos_of(row.cells[-1])) == (total, CENT)


def test_the_groups_and_the_times_are_rounded_as_in_the_matrix(caller: TestClient) -> None:
    page = caller.get("/costs?window=mtd&aggregate=team&step=day").text
    names, rows, foot = _matrix(page)
    parts = page[page.index('id="group-heading"') :], page[page.index('id="time-heading"') :]
    by_group, by_time = (cells_of(part, to_the_cent=True)[1:] for part in parts)
    costs = {unescape(row[0]): nanos_of(row[1]) for row in by_group}
    assert [costs[name] for name in names[:-1]] == [row[0] for row in rows[:-1]]
    assert [nanos_of(row[1]) for row in by_time[:-1]] == [amount for amount in foot[1:] if amount]
    for table in (by_group, by_time):
        *figures, total = ([nanos_of(row[n]) for n in (1, 3, 4)] for row in table)
        assert [sum(column) for column in zip(*figures, strict=True)] == total
        assert total[0] == foot[0]
        hours = [round(100 * float(row[5].replace(",", ""))) for row in table]
        assert sum(hours[:-1]) == hours[-1]
        assert all(saved == 0 for cost, _, saved in figures[4:8] if cost)


def test_forty_teams_are_seven_layers_and_the_others_and_the_sum_is_right(
    caller: TestClient,
) -> None:
    page = caller.get("/costs?window=7d&aggregate=team&step=day")
    legend = re.findall(r'<li><svg class="swatch".*?</li>', page.text, re.DOTALL)
    entries = [re.search(r'class="sum">([^<]*)<', entry) for entry in legend]
    amounts = [nanos_of(entry[1]) for entry in entries if entry]
    total = _matrix(page.text)[2][0]
    assert len(amounts) == 8
    assert sum(amounts) == total
    assert "36 others" in legend[0]
    heads = re.findall(r'class="reading"[^>]*>[^<]*: ([^<]*)<', page.text)
    assert sum(map(nanos_of, heads)) == total
    assert HOSTILE not in page.text
    assert f"{HOSTILE}: $" in unescape(page.text)


def test_running_sums_end_with_the_total_and_rates_are_cost_by_chip_hours(
    caller: TestClient,
) -> None:
    question = "window=mtd&aggregate=generation&step=day"
    said = caller.get(f"/v1/costs?{question}").json()
    _, rows, foot = _matrix(caller.get(f"/costs?{question}&show=cumulative").text)
    assert all(row[0] == row[1] for row in [*rows, foot])
    assert foot[1:] == sorted(foot[1:], reverse=True)
    assert foot[0] == _matrix(caller.get(f"/costs?{question}").text)[2][0]
    names, rows, foot = _matrix(caller.get(f"/costs?{question}&show=rate&exact=1").text)
    whole = half_even(parse_usd(said["total"]) * HOUR, said["chip_seconds"])
    assert foot[0] == whole
    assert rows[names.index("v5p")][0] == parse_usd("4.2")


def test_the_time_before_is_as_long_and_its_link_leads_to_the_same_sum(caller: TestClient) -> None:
    page = caller.get("/costs?window=7d&step=day")
    said = text_of(page)
    shown = re.search(r"(\$\S+) in the same time before", said)
    assert shown is not None
    before = caller.get(links_of(page.text)[shown[1]])
    assert f"Cost {shown[1]}" in text_of(before)
    assert "2026-10-23 00:00:00 UTC to 2026-10-29 12:12:57 UTC" in text_of(before)
    hints = re.findall(r"the time before: (\S+?)[\"&<\n]", page.text)
    assert abs(sum(map(nanos_of, hints[::2])) - nanos_of(shown[1])) < 7 * CENT
    assert 'class="overlay before"' in page.text


def _sent(caller: TestClient, **fields: str | list[str]) -> str:
    answer = caller.get("/costs", params=fields, follow_redirects=False)
    assert answer.status_code == 303
    return answer.headers["location"]


def test_a_sent_form_leads_to_the_address_that_can_be_shared(caller: TestClient) -> None:
    usual: dict[str, str | list[str]] = {"aggregate": "team", "step": "day", "show": "cost"}
    usual["filter"] = ["", "owner:ada", ""]
    rest = "aggregate=team&step=day&filter=owner%3Aada"
    named = _sent(caller, window="7d", since="", until="", dated="0", **usual)
    assert named == f"/costs?window=7d&{rest}"
    dated = _sent(caller, window="7d", since="2026-11-01", until="2026-11-03", dated="0", **usual)
    assert dated == f"/costs?window=2026-11-01%2C2026-11-04&{rest}"
    page = caller.get(dated).text
    assert 'name="since" value="2026-11-01"' in page
    assert 'name="until" value="2026-11-03"' in page
    same = {"since": "2026-11-01", "until": "2026-11-03", "dated": "1"}
    assert _sent(caller, window="30d", **same, **usual) == f"/costs?window=30d&{rest}"
    assert _sent(caller, window="", **same, **usual) == dated
    wrong = caller.get(_sent(caller, window="", since=HOSTILE, dated="0"))
    assert wrong.status_code == 422
    assert links_of(page)["Link to this view"] == dated
    fixed = links_of(caller.get(named).text)["Link with these times"]
    assert "2026-10-30T00%3A00%3A00Z%2C2026-11-05T12%3A12%3A57Z" in fixed


def test_the_menus_have_the_values_of_the_window_and_keep_other_filters(
    caller: TestClient,
) -> None:
    page = caller.get("/costs?window=24h&filter=team:vision,label:run:17,job:").text
    menus = re.findall(r'<select name="filter">(.*?)</select>', page)
    options = [unescape(value) for menu in menus for value in re.findall(r'value="([^"]*)"', menu)]
    assert "team:vision" in options
    assert "team:team-39" not in options
    assert 'value="team:vision" selected' in page
    assert '<input type="hidden" name="filter" value="label:run:17">' in page
    assert '<input type="hidden" name="filter" value="job:">' in page
    several = caller.get("/costs?window=mtd&filter=team:vision,team:language").text
    assert ">2 chosen</option>" in several
    assert 'name="filter" value="team:language"' in several
    assert "owner:x\\, y" in unescape(several)


def test_a_question_keeps_its_figures_and_decimals_while_it_is_narrowed(
    caller: TestClient,
) -> None:
    page = caller.get("/costs?window=mtd&aggregate=generation&step=day&show=cumulative&exact=1")
    links = links_of(page.text)
    assert links["v5p"].endswith("filter=generation%3Av5p&show=cumulative&exact=1")
    assert "exact" not in links["Show cents"]
    assert "show" not in links["Export JSON"]
    said = caller.get(links["Export CSV"])
    rows = said.text.splitlines()[1:]
    shown = _matrix(page.text)[2][0]
    assert sum(parse_usd(row.split(",")[3]) for row in rows) == shown
    assert format_usd(shown) == caller.get(links["Export JSON"]).json()["total"]


@pytest.mark.parametrize(
    ("length", "asked", "step"),
    [
        (DAY, Granularity.ALL, Granularity.HOUR),
        (31 * DAY, Granularity.ALL, Granularity.DAY),
        (366 * DAY, Granularity.ALL, Granularity.WEEK),
        (9_000 * DAY, Granularity.ALL, Granularity.MONTH),
        (7 * DAY, Granularity.HOUR, Granularity.HOUR),
        (30 * DAY, Granularity.HOUR, Granularity.DAY),
        (9_000 * DAY, Granularity.DAY, Granularity.MONTH),
    ],
)
def test_the_chart_has_a_step_with_which_its_columns_can_be_told_apart(
    length: int, asked: Granularity, step: Granularity
) -> None:
    assert choose_step(Window(0, length), asked) is step
