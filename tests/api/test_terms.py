"""What a node says of its own idleness and time to live, over HTTP, and what comes of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.application.cleanup.cleanup import IdleMode
from service.application.cleanup.policies import PolicyService
from service.application.nodes.nodes import NodeService
from service.domain.budgets.budget import OnExceeded
from service.domain.idle.policy import Action
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.controllers.budgeting import HOURLY
from tests.hands import NOON

OWN = {"after_seconds": 600, "grace_seconds": 60, "action": "delete"}


def path_of(node):
    return f"/v1/nodes/{node['id']}"


@pytest.fixture
def up(ask, units):
    """Ask for a node that is READY since noon."""

    def up(**changes):
        node = ask(**changes)
        with units() as unit:
            stored = unit.nodes.get(node["id"])
            unit.nodes.save(replace(stored, state="READY", ready_at=NOON, attempt=1))
        return node

    return up


def test_a_request_is_answered_with_the_policy_and_what_is_really_done(client, ask):
    node = ask(idle=OWN)
    assert node["idle"] == {**OWN, "also": []}
    assert node["policy"]["source"] == "node"
    assert (node["policy"]["action"], node["policy"]["applied_action"]) == ("delete", "observe")
    assert node["policy"]["limits"] == ["STEWARD_IDLE_MODE is observe"]
    assert node["warnings"][-1] == (
        "idle.action is delete, and observe is done: STEWARD_IDLE_MODE is observe"
    )


def test_a_request_that_says_nothing_of_idleness_inherits_and_is_told_so(client, ask):
    node = ask()
    assert (node["idle"], node["policy"]["source"], node["warnings"]) == (None, "default", [])


@pytest.fixture
def set_mode(services, units, clock):
    """Set STEWARD_IDLE_MODE."""

    def set_mode(ceiling):
        mode = IdleMode(ceiling)
        policies = PolicyService(units, PriceBookCache(), clock, [factories.PROJECT], mode)
        nodes = NodeService(units, PriceBookCache(), clock, [factories.PROJECT], ceiling=ceiling)
        object.__setattr__(services, "policies", policies)
        object.__setattr__(services, "nodes", nodes)

    return set_mode


WEAKER = {
    (Action.OBSERVE, Action.OBSERVE): Action.OBSERVE,
    (Action.OBSERVE, Action.NOTIFY): Action.OBSERVE,
    (Action.OBSERVE, Action.STOP): Action.OBSERVE,
    (Action.OBSERVE, Action.DELETE): Action.OBSERVE,
    (Action.NOTIFY, Action.OBSERVE): Action.OBSERVE,
    (Action.NOTIFY, Action.NOTIFY): Action.NOTIFY,
    (Action.NOTIFY, Action.STOP): Action.NOTIFY,
    (Action.NOTIFY, Action.DELETE): Action.NOTIFY,
    (Action.STOP, Action.OBSERVE): Action.OBSERVE,
    (Action.STOP, Action.NOTIFY): Action.NOTIFY,
    (Action.STOP, Action.STOP): Action.STOP,
    (Action.STOP, Action.DELETE): Action.STOP,
    (Action.DELETE, Action.OBSERVE): Action.OBSERVE,
    (Action.DELETE, Action.NOTIFY): Action.NOTIFY,
    (Action.DELETE, Action.STOP): Action.STOP,
    (Action.DELETE, Action.DELETE): Action.DELETE,
}
"""By mode and the action of a policy: the action that is taken."""


@pytest.mark.parametrize(("mode", "action"), list(WEAKER))
def test_a_request_is_answered_with_the_weaker_of_the_mode_and_its_own_policy(
    ask, set_mode, mode, action
):
    set_mode(mode)
    node, done = ask(idle=OWN | {"action": action}), WEAKER[mode, action]
    limits = [] if done is action else [f"STEWARD_IDLE_MODE is {mode}"]
    assert (node["policy"]["source"], node["policy"]["action"]) == ("node", action)
    assert (node["policy"]["applied_action"], node["policy"]["limits"]) == (done, limits)
    warned = f"idle.action is {action}, and {done} is done: STEWARD_IDLE_MODE is {mode}"
    assert node["warnings"] == ([warned] if limits else [])


@pytest.mark.parametrize(("mode", "action"), list(WEAKER))
def test_a_request_is_answered_with_the_weaker_of_the_mode_and_the_policy_that_it_inherits(
    client, ask, set_mode, mode, action
):
    set_mode(mode)
    client.put("/v1/cleanup/policies/team:vision", json={"action": action})
    policy, done = ask()["policy"], WEAKER[mode, action]
    assert (policy["source"], policy["action"]) == ("team:vision", action)
    assert policy["applied_action"] == done
    assert policy["limits"] == ([] if done is action else [f"STEWARD_IDLE_MODE is {mode}"])


@pytest.mark.parametrize(
    ("mode", "done", "limits"),
    [
        (Action.DELETE, "notify", 1),
        (Action.STOP, "notify", 1),
        (Action.NOTIFY, "notify", 2),
        (Action.OBSERVE, "observe", 2),
    ],
)
def test_a_request_is_told_that_an_inherited_stop_only_notifies_where_google_cannot_stop(
    client, ask, set_mode, mode, done, limits
):
    set_mode(mode)
    client.put("/v1/cleanup/policies/team:vision", json={"action": "stop"})
    policy = ask(provisioning_model="spot")["policy"]
    assert (policy["action"], policy["applied_action"]) == ("stop", done)
    assert policy["limits"][0].startswith("the cloud cannot stop this node: ")
    assert policy["limits"][1:] == [f"STEWARD_IDLE_MODE is {mode}"][: limits - 1]


def test_the_idle_policy_is_set_and_taken_away_again(client, up):
    node = up()
    client.put("/v1/cleanup/policies/team:vision", json={"idle_after_seconds": 900})
    answer = client.patch(path_of(node), json={"idle": OWN | {"also": ["no_progress"]}})
    assert answer.status_code == 200
    assert answer.json()["idle"] == OWN | {"also": ["no_progress"]}
    assert answer.json()["policy"]["source"] == "node"
    assert answer.json()["policy"]["limits"] == ["STEWARD_IDLE_MODE is observe"]
    assert answer.headers["etag"] == f'"{answer.json()["version"]}"'
    assert client.patch(path_of(node), json={"team": "vision"}).json()["idle"] is not None
    answer = client.patch(path_of(node), json={"idle": None}).json()
    assert (answer["idle"], answer["policy"]["source"]) == (None, "team:vision")
    story = [event["message"] for event in client.get(f"{path_of(node)}/events").json()["events"]]
    assert "idle policy inherited, was delete after 600 s with 60 s of grace, also no_progress" in (
        story
    )


def test_the_time_to_live_is_set_and_taken_away_again(client, up):
    node = up()
    answer = client.patch(path_of(node), json={"ttl_seconds": 3_600}).json()
    assert (answer["ttl_seconds"], answer["deletes_at"]) == (3_600, "2026-11-05T13:00:00Z")
    answer = client.patch(path_of(node), json={"ttl_seconds": None}).json()
    assert (answer["ttl_seconds"], answer["deletes_at"]) == (None, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"idle": OWN | {"after_seconds": 299}}, "the least is 300 s"),
        ({"idle": OWN | {"after_seconds": 2_592_001}}, "idle.after_seconds"),
        ({"idle": OWN | {"action": "stop"}}, "cannot stop"),
        ({"idle": OWN | {"action": "kill"}}, "idle.action"),
        ({"idle": {"also": ["crash_loop"]}}, "leave out also"),
        ({"idle": {"also": ["boredom"]}}, "idle.also"),
        ({"idle": {"after": 60}}, "idle.after"),
        ({"ttl_seconds": 0}, "ttl_seconds"),
        ({"ttl_seconds": 1.5}, "ttl_seconds"),
    ],
)
def test_terms_that_cannot_hold_are_refused_of_a_new_node_and_of_one_that_is_there(
    client, up, body, said
):
    spot = {"provisioning_model": "spot"}
    node = up(**spot)
    for answer in (
        client.patch(path_of(node), json=body | {"team": "other"}),
        client.post("/v1/nodes", json={"accelerator_type": "v5litepod-8"} | spot | body),
    ):
        assert answer.status_code == 422
        assert said in answer.text
    assert client.get(path_of(node)).json()["team"] == "vision"
    assert len(client.get("/v1/nodes").json()["nodes"]) == 1


def test_the_least_idle_time_is_a_fact_of_the_refusal(client, up):
    answer = client.patch(path_of(up()), json={"idle": {"after_seconds": 60}}).json()
    assert (answer["field"], answer["least"]) == ("idle.after_seconds", 300)


def test_owner_and_terms_are_changed_together_or_not_at_all(client, up):
    node = up()
    wanted = {"owner": "grace", "idle": OWN, "ttl_seconds": 7_200}
    answer = client.patch(path_of(node), json=wanted).json()
    assert (answer["owner"], answer["idle"]["action"], answer["ttl_seconds"]) == (
        "grace",
        "delete",
        7_200,
    )
    stale = client.patch(path_of(node), json={"ttl_seconds": 60}, headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    assert client.get(path_of(node)).json()["ttl_seconds"] == 7_200


def test_a_longer_time_to_live_is_refused_where_a_budget_has_no_room(client, up, services):
    node = up(ttl_seconds=3_600)
    services.budgets.create(factories.budget(amount=2 * HOURLY, on_exceeded=OnExceeded.REFUSE))
    for longer in (10_800, None):
        answer = client.patch(path_of(node), json={"ttl_seconds": longer})
        assert answer.status_code == 403, longer
    assert client.get(path_of(node)).json()["ttl_seconds"] == 3_600
    assert client.patch(path_of(node), json={"ttl_seconds": 5_400}).status_code == 200
    assert client.patch(path_of(node), json={"ttl_seconds": 60}).status_code == 200


def test_nothing_can_be_changed_of_a_node_that_goes(client, up):
    node = up()
    client.delete(path_of(node))
    assert client.patch(path_of(node), json={"idle": OWN}).status_code == 409
