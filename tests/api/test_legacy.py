"""Legacy TPU Nodes over HTTP: asked for, reached, reimaged, and told apart from TPU VMs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.node import Endpoint, NodeState

LEGACY = {"accelerator_type": "v2-8", "zone": "us-central1-b", "architecture": "node"}
ELSEWHERE = "the VM that drives the legacy TPU Node is billed by Compute Engine"


def bring_up(units, document):
    """The node as it will be once the daemon has done its part."""
    with units() as unit:
        node = unit.nodes.get(document["id"])
        at = (Endpoint("10.240.1.2", 8470),)
        return unit.nodes.save(replace(node, state=NodeState.READY, endpoints=at))


def test_a_legacy_node_is_asked_for_and_shown_with_what_it_needs(client, ask):
    document = ask(**LEGACY, framework={"name": "tensorflow", "version": "2.12"})
    assert (document["architecture"], document["runtime_version"]) == ("node", "2.12.1")
    assert document["warnings"] == ["your own VM has to run TensorFlow 2.12.1", ELSEWHERE]
    assert client.get(f"/v1/nodes/{document['id']}").json()["architecture"] == "node"
    assert ask()["architecture"] == "vm"


def test_what_it_costs_elsewhere_is_told_beside_what_it_costs_here(client, ask):
    costs = {
        kind: client.get(f"/v1/nodes/{document['id']}/cost").json()["not_included"]
        for kind, document in (("node", ask(**LEGACY)), ("vm", ask()))
    }
    assert costs == {"node": [ELSEWHERE], "vm": []}


def test_a_connection_is_everything_that_is_needed(client, units, ask):
    document = ask(**LEGACY, runtime_version="2.12.0")
    bring_up(units, document)
    found = client.get(f"/v1/nodes/{document['id']}/connection").json()
    assert found["architecture"] == "node"
    assert found["address"] == "grpc://10.240.1.2:8470"
    assert found["vm_software"] == "TensorFlow 2.12.0"
    assert found["not_included"] == [ELSEWHERE]
    assert [(one["worker"], one["ip"], one["port"]) for one in found["workers"]] == [
        (0, "10.240.1.2", 8470)
    ]
    works = {one["framework"]: one["works"] for one in found["recipes"]}
    assert works == {"tensorflow": True, "pytorch": False, "jax": False}


def test_a_node_that_is_not_ready_has_no_connection_yet(client, ask):
    answer = client.get(f"/v1/nodes/{ask()['id']}/connection")
    assert answer.status_code == 409
    assert answer.json()["detail"].endswith("REQUESTED: it can be reached while it is READY")


def test_a_reimage_is_a_wish_that_is_stored(client, units, ask):
    document = ask(**LEGACY, runtime_version="2.12.0")
    bring_up(units, document)
    path = f"/v1/nodes/{document['id']}:reimage"
    answer = client.post(path, json={"framework": {"name": "tensorflow", "version": "2.15"}})
    assert answer.status_code == 202
    assert answer.json()["runtime_version"] == "2.15.0"
    again = client.post(path, json={"runtime_version": "2.15.0"})
    assert (again.status_code, again.headers["ETag"]) == (202, answer.headers["ETag"])
    stale = client.post(path, json={"runtime_version": "2.16.1"}, headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    story = client.get(f"/v1/nodes/{document['id']}/events").json()["events"]
    assert [one["message"] for one in story][2:] == ["reimage asked for: 2.15.0, was 2.12.0"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "either runtime_version or framework"),
        (
            {"runtime_version": "2.16.1", "framework": {"name": "jax"}},
            422,
            "either runtime_version or framework",
        ),
        ({"runtime_version": "2.4"}, 422, "no runtime version '2.4' is known"),
        ({"framework": {"name": "jax"}}, 422, "architecture vm"),
        ({"version": "2.16.1"}, 422, "did you mean runtime_version?"),
        ({"runtime_version": "x" * 81}, 422, "at most 80"),
        ({"runtime_version": "a\0"}, 422, "not allowed"),
    ],
)
def test_a_reimage_that_makes_no_sense_is_refused_with_what_to_do(client, ask, body, status, said):
    answer = client.post(f"/v1/nodes/{ask(**LEGACY)['id']}:reimage", json=body)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


def test_a_tpu_vm_is_not_reimaged(client, ask):
    path = f"/v1/nodes/{ask()['id']}:reimage"
    answer = client.post(path, json={"runtime_version": "2.16.1"})
    assert answer.status_code == 422
    assert "delete it, and ask for a new one" in answer.json()["detail"]


def test_a_node_on_its_way_out_is_not_reimaged(client, ask):
    document = ask(**LEGACY)
    client.delete(f"/v1/nodes/{document['id']}")
    path = f"/v1/nodes/{document['id']}:reimage"
    assert client.post(path, json={"runtime_version": "2.15.0"}).status_code == 409


@pytest.mark.parametrize(("method", "tail"), [("GET", "/connection"), ("POST", ":reimage")])
def test_what_is_not_there_is_not_found(client, method, tail):
    answer = client.request(method, f"/v1/nodes/nothing{tail}", json={"runtime_version": "2.15.0"})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"startup_script": "echo"}, "give it to your own VM"),
        ({"external_ip": True}, "give it to your own VM"),
        ({"queued": True}, "leave it out"),
        ({"provisioning_model": "spot"}, "preemptible instead"),
        ({"accelerator_type": "v5litepod-8", "zone": "us-west4-a"}, "ask for architecture vm"),
    ],
)
def test_what_a_legacy_node_cannot_be_is_refused_with_what_to_do(client, changes, said):
    answer = client.post("/v1/nodes", json={**LEGACY, **changes})
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text
