"""The page of nodes: what is listed, in which order, and sums that agree with the rows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from service.dashboard.pages.nodes import nodes as nodes_page
from service.dashboard.pages.nodes.nodes import NodesAsked
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.rollup import ActivityHour
from service.domain.nodes.node import Asked, Node, NodeState
from service.store.sorted_nodes import SortKey
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.hands import NOON


def rows_of(page: Response) -> list[dict[str, str]]:
    """The rows of the table, by the title of the column."""
    head, *rows = cells_of(page.text)
    titles = [title.rstrip(" \u25be\u25b4") for title in head]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def names_of(page: Response) -> list[str]:
    return [row["Name"] for row in rows_of(page)]


def fleet(lab: Lab) -> None:
    """Three billed nodes of different prices, one that is coming, and one that has ended."""
    lab.ran(NOON - 7_200, name="small", team="nlp", owner="grace", ttl_seconds=4 * HOUR)
    lab.ran(NOON - 600, name="large", accelerator_type="v5litepod-64", chips=64, hosts=8)
    lab.ran(NOON - 900, name="spot", provisioning_model=ProvisioningModel.SPOT)
    lab.asked_for(name="coming", state=NodeState.CREATING)
    lab.ran(NOON - 9_000, NOON - 60, name="gone")


def failing(lab: Lab) -> Node:
    """A READY node whose deletion fails."""
    return lab.ran(
        NOON - 7_200,
        name="stuck",
        asked=Asked.ABSENT,
        delete_requested_at=NOON - 120,
        tries=3,
        last_error=f"503 {HOSTILE}",
        next_try_at=NOON + 40,
    )


def test_live_nodes_come_dearest_first_and_their_rates_add_up_to_the_sum(
    lab: Lab, browser: TestClient
) -> None:
    fleet(lab)
    page = browser.get("/nodes")
    rows = rows_of(page)
    assert [row["Name"] for row in rows] == ["large", "small", "spot", "coming"]
    burn = lab.services.health.read_fleet().burn
    (shown,) = re.findall(r"4 nodes, (\S+)/h now", text_of(page)) or [""]
    billed = [row["$/h now"] for row in rows[:3]]
    assert nanos_of(shown) == sum(map(nanos_of, billed))
    assert abs(nanos_of(shown) - burn) < 10**7
    assert rows[3]["$/h now"].split() == ["\u2013", "$9.60", "once", "READY"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=ended", {"gone"}),
        ("state=all", {"large", "small", "spot", "coming", "gone"}),
        ("state=CREATING", {"coming"}),
        ("state=failing", set()),
        ("team=nlp", {"small"}),
        ("owner=grace&team=vision", set()),
        ("model=spot", {"spot"}),
        ("search=AR", {"large"}),
        ("state=dreaming&sort=luck&order=up&after=x", {"large", "small", "spot", "coming"}),
    ],
)
def test_filters_choose_the_nodes_and_stay_in_the_form(
    lab: Lab, browser: TestClient, query: str, found: set[str]
) -> None:
    fleet(lab)
    page = browser.get(f"/nodes?{query}")
    assert page.status_code == 200
    assert set(names_of(page) if found else []) == found
    number = "1 node" if len(found) == 1 else f"{len(found)} nodes"
    assert f"{number}," in text_of(page)
    if "team=nlp" in query:
        assert '<option value="nlp" selected>' in page.text


@pytest.mark.parametrize(
    ("sort", "first"),
    [("name", "coming"), ("cost", "small"), ("age", "small"), ("deletes_at", "small")],
)
def test_a_column_sorts_and_turns_round(
    lab: Lab, browser: TestClient, sort: str, first: str
) -> None:
    fleet(lab)
    title = {"name": "Name", "cost": "Cost so far", "age": "Age", "deletes_at": "Deletes at"}[sort]
    page = browser.get(links_of(browser.get("/nodes").text)[title])
    assert names_of(page)[0] == first
    (link,) = re.findall(r'aria-sort="\w+"><a href="([^"]*)"', page.text)
    turned = browser.get(link.replace("&amp;", "&"))
    assert 'aria-sort="descending"' in page.text + turned.text
    assert 'aria-sort="ascending"' in page.text + turned.text
    if sort != "deletes_at":
        assert names_of(turned) == names_of(page)[::-1]


def test_pages_hold_every_node_once_and_say_what_they_show(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_page, "NODES", 2)
    fleet(lab)
    page = browser.get("/nodes")
    assert "2 shown, " in text_of(page)
    second = browser.get(links_of(page.text)["Next page"])
    assert names_of(page) + names_of(second) == ["large", "small", "spot", "coming"]
    assert "Next page" not in second.text
    assert names_of(browser.get(links_of(second.text)["First page"])) == names_of(page)


def test_the_earlier_end_is_shown_with_its_cause(lab: Lab, browser: TestClient) -> None:
    idle = lab.ran(NOON - HOUR, name="idle", ttl_seconds=9 * HOUR)
    lab.ran(NOON - HOUR, name="ttl", ttl_seconds=2 * HOUR)
    lab.ran(NOON - HOUR, name="stays")
    lab.ran(NOON - HOUR, name="budget", team="small", ttl_seconds=9 * HOUR)
    scope = Scope(team="small")
    budget = factories.budget(
        name="of the team", scope=scope, on_exceeded=OnExceeded.DELETE, grace_seconds=1_800
    )
    window = budget.window_at(NOON)
    assert window is not None
    course = IdleCourse(idle.id, idle.attempt, State.NOTIFIED, NOON)
    with lab.units() as unit:
        unit.idle_courses.save([WatchedNode(course, "lab", due_at=NOON + 600)])
        unit.budgets.add(budget)
        unit.alerts.save(budget.id, Alert(EXCEEDED, window.start, fired_at=NOON))
    rows = rows_of(browser.get("/nodes?sort=deletes_at"))
    assert [(row["Name"], row["Deletes at"].split()) for row in rows] == [
        ("idle", ["in", "10", "min", "idle"]),
        ("budget", ["in", "30", "min", "budget", "of", "the", "team"]),
        ("ttl", ["in", "1", "h", "TTL"]),
        ("stays", ["\u2013"]),
    ]


def test_the_used_share_has_a_column_only_where_one_is_known(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - HOUR, name="half")
    lab.ran(NOON - HOUR, name="blind")
    assert "Used in 24 h" not in rows_of(browser.get("/nodes"))[0]
    with lab.units() as unit:
        unit.idle_rollups.save([ActivityHour(node.id, 1, NOON - HOUR, "BBBIIIIII...")])
    rows = rows_of(browser.get("/nodes?sort=used"))
    assert [row["Used in 24 h"] for row in rows] == ["33 %", "\u2013"]


def test_a_failing_deletion_is_said_on_each_page_that_shows_its_node(
    lab: Lab, browser: TestClient
) -> None:
    node = failing(lab)
    for address in ("/nodes", "/nodes?state=failing", "/", f"/nodes/{node.id}"):
        page = browser.get(address)
        said = text_of(page)
        assert "DELETING (failing)" in said, address
        assert "nodes.delete failed 3 times in 2 min" in said
        assert "next try in 40 s" in said
        assert HOSTILE not in page.text


def test_a_hostile_filter_is_text(browser: TestClient) -> None:
    page = browser.get("/nodes", params={"team": HOSTILE, "search": HOSTILE})
    assert page.status_code == 200
    assert HOSTILE not in page.text
    assert "No node matches. All live nodes" in text_of(page)


@pytest.mark.parametrize(
    "asked", [NodesAsked(), NodesAsked(state="all", search="a b&c", sort=SortKey.USED, order="asc")]
)
def test_the_address_keeps_what_was_asked(browser: TestClient, asked: NodesAsked) -> None:
    query: Any = browser.build_request("GET", asked.href).url.params
    assert NodesAsked.from_query(query) == asked
