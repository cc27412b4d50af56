"""What the forms of a node do is what the API does."""

from __future__ import annotations

import pytest

from service.application.cleanup.keeps import KeepOrder
from service.dashboard.actions.nodes import list_node_actions
from service.dashboard.kit.figures import to_moment
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.clock import DAY, HOUR
from service.domain.nodes.node import Asked, NodeState
from tests import factories
from tests.dashboard.actions.sending import send_form
from tests.dashboard.reading import text_of
from tests.hands import NOON


def _names(node, now=NOON):
    return [link.name for link in list_node_actions(node, now)]


def test_a_page_offers_what_is_possible_now():
    kept = {"stoppable": False, "kept_until": NOON + 60, "kept_because": "demo"}
    assert _names(factories.node(stoppable=False)) == ["Keep until", "Delete"]
    assert _names(factories.node()) == ["Keep until", "Stop", "Delete"]
    assert _names(factories.node(asked=Asked.STOPPED)) == [
        "Keep until",
        "Start",
        "Delete",
    ]
    assert _names(factories.node(**kept)) == ["Keep longer", "End the keep", "Delete"]
    assert _names(factories.node(**kept), NOON + 60) == ["Keep until", "Delete"]
    assert _names(factories.node(asked=Asked.ABSENT)) == []
    assert _names(factories.node(state=NodeState.FAILED)) == []


def test_the_page_of_a_deletion_says_what_it_costs_and_what_is_lost(lab, caller):
    node = lab.ran(NOON - HOUR, name="trainer", owner="ada", team="vision")
    cost = caller.get(f"/v1/nodes/{node.id}/cost").json()
    lab.services.keeps.keep_node(node.id, KeepOrder("a demo", for_seconds=DAY))
    said = text_of(caller.get(f"/nodes/{node.id}/delete"))
    assert "The node and all data on its disks will be lost." in said
    assert "a demo. The keep ends with it." in said
    hourly = caller.get(f"/v1/nodes/{node.id}").json()["hourly_cost"]
    assert f"Cost per hour ${float(hourly):,.2f} an hour" in said
    assert f"Cost so far ${float(cost['cost']):,.2f}" in said


def test_a_keep_begins_and_ends(lab, caller):
    node = lab.ran(NOON - HOUR, name="trainer")
    path = f"/nodes/{node.id}"
    assert send_form(caller, f"{path}/keep", for_seconds="14400", reason=" a \n demo ").is_redirect
    kept = lab.services.nodes.get(node.id)
    assert (kept.kept_until, kept.kept_because) == (lab.clock.now + 4 * HOUR, "a demo")
    assert send_form(caller, f"{path}/keep", until="2026-11-06", reason="b").is_redirect
    again = send_form(caller, f"{path}/keep", for_seconds="3600", reason="c")
    assert "a shorter keep has no effect" in text_of(caller.get(again.headers["location"]))
    assert send_form(caller, f"{path}/unkeep").is_redirect
    assert lab.services.nodes.get(node.id).kept_until is None
    again = send_form(caller, f"{path}/unkeep", opened=f"{path}/keep")
    assert again.status_code == 409


def test_a_keep_says_when_an_exceeded_budget_deletes_the_node_in_spite_of_it(lab, caller):
    node = lab.ran(NOON - HOUR, name="trainer", team="audio")
    wanted = factories.budget(
        name="audio", scope=Scope(team="audio"), on_exceeded=OnExceeded.DELETE, grace_seconds=900
    )
    budget = lab.services.budgets.create(wanted).shown.budget
    path, wait = f"/nodes/{node.id}/keep", "The budget does not wait for a keep."
    assert wait not in text_of(caller.get(path))
    now = lab.clock.now
    with lab.units() as unit:
        period = budget.window_at(now).start
        unit.alerts.save(budget.id, Alert(EXCEEDED, period, fired_at=now))
    at = to_moment(now + 900).full
    sentence = f"The budget 'audio' is exceeded: the node will be deleted at {at}. {wait}"
    assert sentence in text_of(caller.get(path))
    sent = send_form(caller, path, for_seconds="3600", reason="demo")
    assert sentence in text_of(caller.get(sent.headers["location"]))


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"for_seconds": "3600", "reason": " "}, "reason", "why is the node kept?"),
        ({"for_seconds": "3600", "reason": "x" * 501}, "reason", "at most 500 characters"),
        ({"for_seconds": "-1", "reason": "a"}, "for_seconds", "choose for how long"),
        ({"for_seconds": "9" * 9, "reason": "a"}, "for_seconds", "30 days at most"),
        ({"for_seconds": "9" * 11, "reason": "a"}, "for_seconds", "30 days at most"),
        ({"for_seconds": "9" * 12, "reason": "a"}, "for_seconds", "choose for how long"),
        ({"for_seconds": "\u0663", "reason": "a"}, "for_seconds", "choose for how long"),
        ({"until": "tomorrow", "reason": "a"}, "until", "write it as"),
        ({"until": "2020-01-01", "reason": "a"}, "until", "in the past"),
    ],
)
def test_an_invalid_keep_is_explained_at_its_field(lab, caller, typed, field, said):
    node = lab.ran(NOON - HOUR)
    answer = send_form(caller, f"/nodes/{node.id}/keep", **typed)
    assert answer.status_code == 422
    error = answer.text.partition(f'id="error-{field}">')[2].partition("</p>")[0]
    assert said in error
    assert lab.services.nodes.get(node.id).kept_until is None


def test_a_node_stops_and_starts_where_the_cloud_allows_it(lab, caller):
    one = lab.ran(NOON - HOUR, name="one")
    pod = lab.ran(NOON - HOUR, name="pod", stoppable=False, hosts=4)
    elsewhere = f"/nodes/{one.id}/keep"
    assert send_form(caller, f"/nodes/{one.id}/start", opened=elsewhere).status_code == 409
    assert send_form(caller, f"/nodes/{one.id}/stop").is_redirect
    assert lab.services.nodes.get(one.id).asked is Asked.STOPPED
    assert send_form(caller, f"/nodes/{one.id}/stop", opened=elsewhere).status_code == 409
    assert send_form(caller, f"/nodes/{one.id}/start").is_redirect
    assert lab.services.nodes.get(one.id).asked is Asked.PRESENT
    refused = send_form(caller, f"/nodes/{pod.id}/stop", opened=elsewhere)
    assert refused.status_code == 409
    assert "This node cannot be stopped: it is a pod slice of 4 hosts" in text_of(refused)
    assert caller.get("/nodes/nope/delete").status_code == 404
