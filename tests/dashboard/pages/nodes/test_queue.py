"""What a node's page says of the queue, of its slices, of its placements and of its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.application.health import ComingSum
from service.dashboard.kit import banners
from service.dashboard.pages.nodes.queue import SLICES_OPEN, tone_of_queue
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.event import Event
from service.domain.nodes.node import Asked, Node, NodeState, Slice
from service.domain.nodes.placement import Outcome
from service.domain.nodes.queued_resource import QueueState
from tests.dashboard.lab import Lab
from tests.dashboard.reading import cells_of, text_of
from tests.hands import NOON

WAITING = {"queued": True, "state": NodeState.QUEUED, "queue_state": "WAITING_FOR_RESOURCES"}


def _page(lab: Lab, browser: TestClient, **changes: Any) -> str:
    return text_of(browser.get(f"/nodes/{lab.asked_for(**changes).id}"))


def _changed(lab: Lab, node: Node, **changes: Any) -> Node:
    with lab.units() as unit:
        return unit.nodes.save(replace(unit.nodes.get(node.id), **changes))


def test_a_node_that_waits_says_for_what_and_until_when(lab: Lab, browser: TestClient) -> None:
    said = _page(lab, browser, **WAITING, max_wait_seconds=HOUR, reservation="ours")
    assert "Its queued resource is WAITING_FOR_RESOURCES: waiting in the queue for" in said
    assert "hardware. Waiting costs nothing. It is given up if it is not READY by" in said
    assert "by 2026-11-05 13:00:00 UTC." in said
    assert "Provisioning model on_demand, through the queue" in said
    assert "Reservation ours" in said


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ({"queue_state": ""}, "and Google has not shown it yet. Waiting costs nothing.", "given"),
        (
            {"queue_state": "DREAMING"},
            "Its queued resource is DREAMING.",
            "Waiting costs nothing",
        ),
        (
            {"state": NodeState.CREATING, "queue_state": "PROVISIONING"},
            "hardware is available and is being set up.",
            "Waiting costs nothing",
        ),
        (
            {"valid_until": NOON + 60, "max_wait_seconds": HOUR},
            "not READY by 2026-11-05 12:01:00 UTC.",
            "13:00:00",
        ),
        (
            {"state": NodeState.READY, "queue_state": "ACTIVE", "ready_at": NOON},
            "Queued resource ACTIVE",
            "Its queued resource",
        ),
    ],
)
def test_what_is_said_of_the_queue_is_what_was_seen(
    lab: Lab, browser: TestClient, changes: dict[str, Any], said: str, unsaid: str
) -> None:
    page = _page(lab, browser, **{**WAITING, **changes})
    assert said in page
    assert unsaid not in page


@pytest.mark.parametrize("state", list(QueueState))
def test_every_state_of_the_queue_has_a_sign(state: QueueState) -> None:
    assert tone_of_queue(state) != "unknown"
    assert tone_of_queue("DREAMING") == "unknown"


def test_the_list_says_for_how_long_a_node_has_waited(lab: Lab, browser: TestClient) -> None:
    lab.asked_for(**WAITING, state_since=NOON - 2 * HOUR)
    assert "QUEUED in the queue for 2 h" in text_of(browser.get("/"))


def test_the_first_page_says_what_comes_and_what_it_will_cost(
    lab: Lab, browser: TestClient
) -> None:
    assert "coming" not in text_of(browser.get("/"))
    lab.asked_for(**WAITING)
    assert "1 node coming: $9.60/h more" in text_of(browser.get("/"))
    lab.asked_for(**WAITING, slices=3, chips=24, hosts=3)
    assert "2 nodes coming: $38.40/h more" in text_of(browser.get("/"))
    fleet = lab.services.health.read_fleet()
    assert (fleet.burn, fleet.coming) == (0, ComingSum(2, 38_400_000_000, 0))
    lab.asked_for(**WAITING, accelerator_type="v99-8", generation="v99")
    said = text_of(browser.get("/"))
    assert "3 nodes coming: $38.40/h more, 1 at an unknown price" in said


def test_what_comes_at_no_known_price_has_no_sum(lab: Lab, browser: TestClient) -> None:
    lab.asked_for(**WAITING, accelerator_type="v99-8", generation="v99")
    assert "1 node coming, at an unknown price" in text_of(browser.get("/"))


def _of_slices(lab: Lab, *states: str) -> Node:
    node = lab.asked_for(
        **(WAITING | {"state": NodeState.CREATING, "queue_state": "ACTIVE"}),
        slices=len(states),
        chips=8 * len(states),
        hosts=len(states),
        cloud_id="run-1",
        provisioning_model=ProvisioningModel.SPOT,
    )
    seen = tuple(Slice(state=state, health="HEALTHY") for state in states)
    return _changed(lab, node, slices_seen=seen)


def test_each_slice_is_shown_with_its_state(lab: Lab, browser: TestClient) -> None:
    node = _of_slices(lab, NodeState.READY, NodeState.CREATING)
    page = browser.get(f"/nodes/{node.id}")
    assert "Slices 1 of 2 READY" in text_of(page)
    assert cells_of(page.text)[1:] == [
        ["0", "READY", "HEALTHY", "run-1-0"],
        ["1", "CREATING", "HEALTHY", "run-1-1"],
    ]
    assert "Hardware 16 chips on 2 hosts, 2x4 each" in text_of(page)


def test_a_group_of_which_a_part_is_billed_does_not_look_free(
    lab: Lab, browser: TestClient
) -> None:
    _of_slices(lab, NodeState.READY, NodeState.CREATING)
    said = text_of(browser.get("/"))
    assert "2 \N{MULTIPLICATION SIGN} v5litepod-8" in said
    assert "1 of 2 slices billed" in said
    assert "once READY" not in said


def test_very_many_slices_are_shown_on_demand(lab: Lab, browser: TestClient) -> None:
    node = _of_slices(lab, *[NodeState.READY] * (SLICES_OPEN + 1))
    assert "<details><summary>Each slice</summary>" in browser.get(f"/nodes/{node.id}").text


def test_a_placement_says_of_what_it_was_and_why_it_was_there(
    lab: Lab, browser: TestClient
) -> None:
    node = lab.asked_for()
    lab.tried(node, (60, Outcome.STOCK_OUT, None), (50, Outcome.OPEN, None))
    facts = {"attempt": 2, "why": "first left of 2 places; us-east5-b was out of capacity 5 s ago"}
    with lab.units() as unit:
        unit.events.add(Event(node.id, NOON, "placement", "attempt 1", facts={"attempt": 1}))
        unit.events.add(Event(node.id, NOON, "placement", "attempt 2", facts=facts))
    said = text_of(browser.get(f"/nodes/{node.id}"))
    assert "v5litepod-8 in us-west4-a, on_demand: stock out after 5 s attempt 1," in said
    assert (
        "open for 50 s Why there: first left of 2 places; us-east5-b was out of capacity 5 s ago."
        in said
    )


def _late(lab: Lab, **changes: Any) -> Node:
    node = lab.ran(NOON - 4 * HOUR, **changes)
    asked = {"asked": Asked.ABSENT, "delete_requested_at": NOON - 2 * HOUR, "alarmed_at": NOON}
    return _changed(lab, node, **asked)


def test_a_deletion_that_does_not_end_is_the_first_thing_said(
    lab: Lab, browser: TestClient
) -> None:
    node = _late(lab, name="stuck")
    page = browser.get("/")
    assert (
        "stuck: its deletion was requested 2 h ago and has not ended. It is READY in us-west4-a, it"
        " costs $9.60/h meanwhile, and the deletion is retried indefinitely."
    ) in text_of(page)
    assert page.text.index("notice alarm") < page.text.index("Burning now")
    assert f'<a href="/nodes/{node.id}">stuck</a>:' in page.text


def test_a_deletion_that_makes_room_for_another_says_that(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - 4 * HOUR, name="stuck")
    _changed(lab, node, replacing=True, replacing_since=NOON - HOUR, alarmed_at=NOON)
    said = text_of(browser.get("/"))
    assert (
        "stuck: its deletion before the next attempt was requested 1 h ago and has not ended."
        in said
    )


def test_what_costs_nothing_meanwhile_or_nobody_knows_what_says_so(
    lab: Lab, browser: TestClient
) -> None:
    _late(lab, zone="asia-nowhere1-a")
    unbilled = lab.asked_for(name="still", state=NodeState.STOPPED)
    _changed(lab, unbilled, delete_requested_at=NOON - HOUR, alarmed_at=NOON)
    said = text_of(browser.get("/"))
    assert "it costs money at an unknown price" in said
    assert "It is STOPPED in us-west4-a, it costs nothing meanwhile" in said


def test_of_many_deletions_that_do_not_end_the_oldest_are_named(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(banners, "OVERDUE_SHOWN", 1)
    for _ in range(3):
        _late(lab)
    page = browser.get("/")
    assert page.text.count("its deletion was requested") == 1
    assert "2 more deletions have not ended." in text_of(page)


def test_an_alarm_is_told_on_the_page_of_the_node_until_it_is_gone(
    lab: Lab, browser: TestClient
) -> None:
    node = _late(lab)
    with lab.units() as unit:
        unit.events.add(Event(node.id, NOON, "alarm", "it is still there"))
    address = f"/nodes/{node.id}"
    assert "2026-11-05 12:00:00 UTC: It is still there." in text_of(browser.get(address))
    _changed(lab, node, state=NodeState.DELETED, ended_at=NOON)
    assert "UTC: It is still there." not in text_of(browser.get(address))
