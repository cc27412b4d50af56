"""Nodes over HTTP: asked for, seen, stopped and deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.api.nodes.node_views import NodePage, NodeView, RequestedView
from service.domain.nodes.node import NodeState
from tests import factories
from tests.api.conftest import NODE_REQUEST
from tests.hands import NOON
from tests.store import given


def running(units, **changes):
    """A node that has been READY since noon; eight chips at 1.20 dollars an hour each."""
    node = factories.node(state=NodeState.READY, ready_at=NOON, **changes)
    with units() as unit:
        unit.nodes.add(node)
        unit.usage.save(usage := factories.usage(node_id=node.id))
        unit.nodes.add_posted(usage, 0, 0)
    return node


def names(client, **query):
    answer = client.get("/v1/nodes", params=query)
    assert answer.status_code == 200, answer.text
    return [node["name"] for node in answer.json()["nodes"]]


def test_a_request_is_answered_with_the_node_as_it_will_be_shown(client):
    answer = client.post("/v1/nodes", json=NODE_REQUEST)
    node = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/nodes/{node['id']}"
    assert answer.headers["etag"] == '"0"'
    assert "idempotency-hit" not in answer.headers
    assert node.pop("warnings") == []
    assert node.pop("policy")["source"] == "default"
    assert client.get(answer.headers["location"]).json() == node
    assert (node["state"], node["chips"], node["team"]) == ("REQUESTED", 8, "vision")


@pytest.mark.parametrize("reservation", ["a|b", "a|b|c|d", "50%7Coff"])
def test_any_name_of_a_reservation_can_be_listed(client, reservation):
    asked = {"provisioning_model": "reserved", "reservation": reservation}
    answer = client.post("/v1/nodes", json=NODE_REQUEST | asked)
    assert answer.status_code == 201, answer.text
    (node,) = client.get("/v1/nodes").json()["nodes"]
    assert (node["reservation"], node["hourly_cost"]) == (reservation, None)


def test_every_field_of_the_contract_reaches_the_node(client):
    body = {
        "generation": "v5e",
        "chips": 16,
        "zones": ["us-west4-a", "us-west4-b"],
        "framework": {"name": "jax"},
        "provisioning_model": "spot",
        "queued": False,
        "architecture": "vm",
        "name": "trainer",
        "project": "lab",
        "owner": "ada",
        "team": "vision",
        "labels": {"run": "17"},
        "network": "default",
        "subnetwork": "inner",
        "external_ip": True,
        "service_account": "tpu@lab.iam.gserviceaccount.com",
        "data_disks": ["disk-1"],
        "metadata": {"k": "v"},
        "startup_script": "#!/bin/bash\necho hello\n",
        "ttl_seconds": 14_400,
        "idle": {
            "after_seconds": 600,
            "grace_seconds": 60,
            "action": "delete",
            "also": ["crash_loop"],
        },
        "recreate_on_preemption": True,
        "max_wait_seconds": 3_600,
    }
    answer = client.post("/v1/nodes", json=body)
    assert answer.status_code == 201, answer.text
    node = answer.json()
    shown = {key: node[key] for key in body if key in node}
    assert shown == {key: body[key] for key in shown}
    assert node["accelerator_type"] == "v5litepod-16"


def test_what_is_null_is_left_to_the_service(client):
    answer = client.post(
        "/v1/nodes", json=NODE_REQUEST | {"name": None, "labels": None, "idle": None}
    )
    assert answer.status_code == 201


def test_the_same_key_with_the_same_request_is_one_node(client):
    key = {"Idempotency-Key": "k-1"}
    first = client.post("/v1/nodes", json=NODE_REQUEST, headers=key)
    again = client.post("/v1/nodes", json=dict(reversed(NODE_REQUEST.items())), headers=key)
    assert again.status_code == 201
    assert again.headers["idempotency-hit"] == "true"
    assert again.json()["id"] == first.json()["id"]
    assert len(names(client)) == 1


def test_the_same_key_with_another_request_is_refused(client):
    key = {"Idempotency-Key": "k-1"}
    first = client.post("/v1/nodes", json=NODE_REQUEST, headers=key).json()
    answer = client.post("/v1/nodes", json=NODE_REQUEST | {"team": "nlp"}, headers=key)
    assert answer.status_code == 422
    assert answer.json()["led_to"] == first["id"]
    assert "use a new key" in answer.json()["detail"]
    assert len(names(client)) == 1


def test_a_name_that_is_alive_is_taken(client, ask):
    first = ask(name="trainer")
    answer = client.post("/v1/nodes", json=NODE_REQUEST | {"name": "trainer"})
    assert answer.status_code == 409
    assert answer.json()["node_id"] == first["id"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["c", "b", "a"]),
        ({"team": "vision"}, ["c", "a"]),
        ({"team": ["vision", "nlp"]}, ["c", "b", "a"]),
        ({"owner": "bob"}, ["b"]),
        ({"zone": "us-west4-b"}, ["c"]),
        ({"generation": "v6e"}, []),
        ({"project": "lab"}, ["c", "b", "a"]),
        ({"name": "a"}, ["a"]),
        ({"state": ["REQUESTED", "READY"]}, ["c", "b", "a"]),
        ({"state": "DELETED"}, []),
        ({"label": "run:1"}, ["b", "a"]),
        ({"label": ["run:1", "kind:x"]}, ["a"]),
        ({"label": "run:"}, []),
    ],
)
def test_a_list_holds_what_the_filters_leave(client, ask, query, found):
    ask(name="a", labels={"run": "1", "kind": "x"})
    ask(name="b", team="nlp", owner="bob", labels={"run": "1"})
    ask(name="c", zone="us-west4-b")
    assert names(client, **query) == found


def test_pages_follow_each_other_from_the_newest_to_the_oldest(client, ask):
    for name in "abcde":
        ask(name=name)
    seen, token = [], ""
    for _ in range(3):
        page = client.get("/v1/nodes", params={"page_size": 2, "page_token": token}).json()
        seen += [node["name"] for node in page["nodes"]]
        token = page["next_page_token"]
    assert (seen, token) == (list("edcba"), "")


def test_documents_are_what_openapi_says_they_are(client, ask, units):
    running(units)
    requested = ask(
        idle={"after_seconds": 600}, labels={"run": "1"}, ttl_seconds=60, provisioning_model="spot"
    )
    RequestedView.model_validate(requested)
    NodeView.model_validate(client.get(f"/v1/nodes/{requested['id']}").json())
    assert len(NodePage.model_validate(client.get("/v1/nodes").json()).nodes) == 2


def test_a_deletion_is_accepted_and_told(client, ask):
    node = ask()
    answer = client.delete(f"/v1/nodes/{node['id']}")
    assert answer.status_code == 202
    assert (answer.json()["asked"], answer.headers["etag"]) == ("absent", '"1"')
    again = client.delete(f"/v1/nodes/{node['id']}")
    assert (again.status_code, again.content) == (202, answer.content)
    assert again.headers["etag"] == answer.headers["etag"]
    story = client.get(f"/v1/nodes/{node['id']}/events").json()["events"]
    assert [event["message"] for event in story][2:] == ["deletion requested"]


def test_what_is_gone_is_answered_with_its_end_however_often_it_is_deleted(client, ask, units):
    path = f"/v1/nodes/{ask()['id']}"
    client.delete(path)
    with units() as unit:
        node = unit.nodes.get(path.rpartition("/")[2])
        unit.nodes.save(replace(node, state=NodeState.DELETED, ended_at=NOON, next_try_at=None))
    first, second = client.delete(path), client.delete(path)
    assert (first.status_code, first.json()["state"]) == (202, "DELETED")
    assert (second.status_code, second.content) == (202, first.content)
    assert client.get(path).json() | {"warnings": []} == first.json()
    story = client.get(f"{path}/events").json()["events"]
    assert [event["message"] for event in story].count("deletion requested") == 1


@pytest.mark.parametrize(
    ("tag", "status"), [('"0"', 202), ("*", 202), ('W/"0"', 202), ('"7"', 412), ('"abc"', 412)]
)
def test_a_deletion_from_a_stale_page_is_refused(client, ask, tag, status):
    node = ask()
    answer = client.delete(f"/v1/nodes/{node['id']}", headers={"If-Match": tag})
    assert answer.status_code == status
    shown = client.get(f"/v1/nodes/{node['id']}").json()
    assert shown["asked"] == ("absent" if status == 202 else "present")


def test_an_if_match_that_is_no_etag_is_refused(client, ask):
    answer = client.delete(f"/v1/nodes/{ask()['id']}", headers={"If-Match": "3"})
    assert answer.status_code == 422
    assert '"3"' in answer.json()["detail"]


def test_a_node_is_asked_to_stop_and_to_start(client, ask):
    path = f"/v1/nodes/{ask()['id']}"
    stopped = client.post(f"{path}:stop")
    assert (stopped.status_code, stopped.json()["asked"]) == (202, "stopped")
    started = client.post(f"{path}:start", headers={"If-Match": stopped.headers["etag"]})
    assert (started.status_code, started.json()["asked"]) == (202, "present")


@pytest.mark.parametrize("accelerator_type", ["v5litepod-1", "v5litepod-4", "v5litepod-8"])
def test_what_has_one_host_is_stopped(client, ask, accelerator_type):
    node = ask(accelerator_type=accelerator_type)
    answer = client.post(f"/v1/nodes/{node['id']}:stop")
    assert (answer.status_code, answer.json()["asked"]) == (202, "stopped")


@pytest.mark.parametrize(
    ("asked", "what", "why"),
    [
        (
            {"accelerator_type": "v5litepod-16"},
            "v5litepod-16 (on_demand)",
            "it is a pod slice of 4 hosts, and only one host can be stopped",
        ),
        (
            {"accelerator_type": "v5litepod-4", "provisioning_model": "spot"},
            "v5litepod-4 (spot)",
            "it is spot, which the cloud can preempt and cannot stop",
        ),
    ],
)
def test_what_cannot_be_stopped_says_so(client, ask, asked, what, why):
    path = f"/v1/nodes/{ask(**asked)['id']}"
    answer = client.post(f"{path}:stop")
    assert answer.status_code == 422
    assert answer.json()["detail"] == f"{what} cannot be stopped: {why}; delete it"
    assert client.get(path).json()["asked"] == "present", "and nothing has changed"


def test_a_queued_node_is_told_why_it_cannot_be_stopped(client, ask):
    node = ask(accelerator_type="v6e-8", zone="us-east5-b", queued=True)
    answer = client.post(f"/v1/nodes/{node['id']}:stop")
    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "v6e-8 (on_demand) cannot be stopped: it belongs to a queued resource, whose nodes the"
        " cloud does not stop; delete it"
    )


def test_what_was_deleted_cannot_be_started(client, ask):
    path = f"/v1/nodes/{ask()['id']}"
    client.delete(path)
    assert client.post(f"{path}:start").status_code == 409


@pytest.mark.parametrize("node_id", ["nothing", "projects:lab", "x" * 5_000, "..%2f..%2fetc", "ü"])
@pytest.mark.parametrize("tail", ["", "/events", "/cost", "/ledger"])
def test_what_is_not_there_is_not_found(client, node_id, tail):
    answer = client.get(f"/v1/nodes/{node_id}{tail}")
    assert answer.status_code == 404
    assert len(answer.text) < 1_000


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_a_verb_on_what_is_not_there_is_not_found(client, verb):
    answer = client.post(f"/v1/nodes/nothing:{verb}")
    assert answer.status_code == 404
    assert "'nothing'" in answer.json()["detail"]


def test_the_cost_of_a_running_node_grows_by_the_second(client, units, clock):
    node = running(units)
    clock.pass_(1_800)
    cost = client.get(f"/v1/nodes/{node.id}/cost").json()
    assert [accrual["amount"] for accrual in cost.pop("unposted")] == ["4.800000000"]
    assert cost == {
        "cost": "4.800000000",
        "list_cost": "4.800000000",
        "chip_seconds": 14_400,
        "uncertainty": "0.000000000",
        "estimated": True,
        "unpriced_seconds": 0,
        "not_included": [],
        "free": [],
        "lines": [
            {
                "what": "v5litepod-8",
                "kind": "tpu",
                "cost": "4.800000000",
                "list_cost": "4.800000000",
                "seconds": 1_800,
                "unpriced_seconds": 0,
            }
        ],
        "occupancy": [],
        "as_of": "2026-11-05T12:30:00Z",
    }
    shown = client.get(f"/v1/nodes/{node.id}").json()
    assert (shown["cost"], shown["hourly_cost"]) == ("4.800000000", "9.600000000")


def test_the_ledger_is_shown_as_it_was_posted(client, units, clock):
    node = running(units)
    with units() as unit:
        interval = unit.usage.find_open(node.id)
        entries = [
            given.entry(interval, hour=NOON + hour * 3_600, price_id="p", amount=24)
            for hour in range(3)
        ]
        whose = {0: factories.attribution(node_id=node.id)}
        unit.ledger.post(entries, interval, whose, clock())
    path = f"/v1/nodes/{node.id}/ledger"
    first = client.get(path, params={"page_size": 2}).json()
    entry = first["entries"][0]
    assert len(first["entries"]) == 2
    assert (entry["amount"], entry["usd_per_chip_hour"]) == ("0.000000024", "1.200000000")
    assert (entry["start"], entry["kind"]) == ("2026-11-05T12:00:00Z", "usage")
    rest = client.get(path, params={"page_token": first["next_page_token"]}).json()
    assert (len(rest["entries"]), rest["next_page_token"]) == (1, "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "chose v2-alpha-tpuv5-lite for JAX, as no framework was named: Google's "),
        ({"framework": {"name": "pytorch"}}, "chose v2-alpha-tpuv5-lite for PyTorch: Google's "),
        (
            {"runtime_version": "v2-alpha-tpuv5-lite"},
            "took v2-alpha-tpuv5-lite, which was requested by name: it fits one host of v5e",
        ),
    ],
)
def test_the_story_says_why_a_node_gets_its_runtime_version(client, ask, changes, said):
    _, why = client.get(f"/v1/nodes/{ask(**changes)['id']}/events").json()["events"]
    assert (why["kind"], why["actor"]) == ("runtime", "steward")
    assert why["message"].startswith(said)


def test_the_story_of_a_node_is_told_in_pages(client, ask):
    node = ask()
    client.post(f"/v1/nodes/{node['id']}:stop")
    path = f"/v1/nodes/{node['id']}/events"
    first = client.get(path, params={"page_size": 1}).json()
    (event,) = first["events"]
    assert (event["kind"], event["actor"], event["at"]) == (
        "asked",
        "caller",
        "2026-11-05T12:00:00Z",
    )
    rest = client.get(path, params={"page_token": first["next_page_token"]}).json()
    assert [e["message"] for e in rest["events"]][1:] == ["stop requested"]
    assert rest["next_page_token"] == ""


def test_another_team_and_other_labels_are_charged_from_now_on(client, units, clock):
    node = running(units, team="vision", labels={"run": "1", "draft": "yes"})
    clock.pass_(3_600)
    body = {"team": "nlp", "labels": {"run": "2", "draft": None}}
    answer = client.patch(f"/v1/nodes/{node.id}", json=body)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["team"], answer.json()["labels"]) == ("nlp", {"run": "2"})
    assert names(client, label="run:2") == names(client, team="nlp") == [node.name]
    assert names(client, label="draft:yes") == []
    clock.pass_(1_800)
    spent = client.get("/v1/costs", params={"aggregate": "team"}).json()["rows"]
    assert [(row["team"], row["cost"]) for row in spent] == [
        ("nlp", "4.800000000"),
        ("vision", "9.600000000"),
    ]
    story = client.get(f"/v1/nodes/{node.id}/events").json()["events"]
    assert story[-1]["message"] == (
        "charged from now on to: team nlp, was vision; labels run=2, was draft=yes, run=1"
    )


def test_saying_again_who_is_charged_changes_nothing(client, units):
    node = running(units, team="vision")
    before = client.get(f"/v1/nodes/{node.id}")
    answer = client.patch(f"/v1/nodes/{node.id}", json={"team": "vision"})
    assert answer.headers["ETag"] == before.headers["ETag"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"labels": {"steward-id": "mine"}}, 422),
        ({"labels": {"UPPER": "x"}}, 422),
        ({"state": "READY"}, 422),
        ({"team": "two\nlines"}, 422),
    ],
)
def test_what_cannot_be_charged_is_refused(client, units, body, status):
    node = running(units)
    assert client.patch(f"/v1/nodes/{node.id}", json=body).status_code == status


def test_who_is_charged_for_what_is_no_more_is_not_changed(client, units):
    node = factories.node(state=NodeState.DELETED, ended_at=NOON)
    with units() as unit:
        unit.nodes.add(node)
    assert client.patch(f"/v1/nodes/{node.id}", json={"team": "nlp"}).status_code == 409
