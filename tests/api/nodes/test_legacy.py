"""Legacy TPU Nodes over HTTP: asked for, reached, reimaged, and told apart from TPU VMs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.controllers.recording.posting import post_usage
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import start_usage, with_end
from service.domain.nodes.node import Endpoint, NodeState
from service.store.pricebook import PriceBookCache
from tests.hands import NOON

LEGACY = {"accelerator_type": "v2-8", "zone": "us-central1-b", "architecture": "node"}
VM = {"machine_type": "n1-standard-8"}
BESIDES = (
    "Compute Engine bills the VM of a legacy TPU Node from its start to its stop, and also"
    " its disks. Here it is charged for the time of the TPU"
)
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
    assert [(worker["worker"], worker["ip"], worker["port"]) for worker in found["workers"]] == [
        (0, "10.240.1.2", 8470)
    ]
    works = {recipe["framework"]: recipe["works"] for recipe in found["recipes"]}
    assert works == {"tensorflow": True, "pytorch": False, "jax": False}


def test_a_node_that_is_not_ready_has_no_connection_yet(client, ask):
    answer = client.get(f"/v1/nodes/{ask()['id']}/connection")
    assert answer.status_code == 409
    assert answer.json()["detail"].endswith("REQUESTED: only a READY node can be reached")


def test_a_reimage_is_a_request_that_is_stored(client, units, ask):
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
    assert [event["message"] for event in story][2:] == ["reimage requested: 2.15.0, was 2.12.0"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "exactly one of runtime_version and framework"),
        (
            {"runtime_version": "2.16.1", "framework": {"name": "jax"}},
            422,
            "exactly one of runtime_version and framework",
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
    assert "delete it, and create a new node" in answer.json()["detail"]


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
        ({"startup_script": "echo"}, "set it on your own VM"),
        ({"external_ip": True}, "set it on your own VM"),
        ({"queued": True}, "leave it out"),
        ({"provisioning_model": "spot"}, "preemptible instead"),
        ({"accelerator_type": "v5litepod-8", "zone": "us-west4-a"}, "use architecture vm"),
    ],
)
def test_what_a_legacy_node_cannot_be_is_refused_with_what_to_do(client, changes, said):
    answer = client.post("/v1/nodes", json={**LEGACY, **changes})
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text


def runs(units, clock, document, seconds, free=""):
    """Have the node been READY for so long since noon, and all of it be posted."""
    clock.pass_(seconds)
    with units() as unit:
        node = unit.nodes.get(document["id"])
        usage = with_end(
            start_usage(node, NOON, NOON, Evidence.OPERATION),
            NOON + seconds,
            NOON + seconds,
            Evidence.OPERATION,
        )
        usage = replace(usage, free=free)
        usage = unit.usage.save(usage)
        unit.usage_versions.add(usage, NOON)
        post_usage(unit, usage, PriceBookCache().get_book(unit), clock())


def entries_of(client, document):
    return client.get(f"/v1/nodes/{document['id']}/ledger").json()["entries"]


def test_its_vm_is_named_and_shown_and_said_to_be_charged(client, ask):
    document = ask(**LEGACY, vm=VM)
    assert document["vm"] == VM | {"provisioning_model": "on_demand"}
    assert document["warnings"][1:] == [BESIDES]
    assert document["hourly_cost"] == "4.879998000", "4.50 for the device, 0.379998 for the VM"
    assert client.get(f"/v1/nodes/{document['id']}").json()["vm"] == document["vm"]
    assert ask(**LEGACY)["vm"] is None
    spot = ask(**LEGACY, vm=VM | {"provisioning_model": "spot"})
    assert spot["vm"]["provisioning_model"] == "spot"


@pytest.mark.parametrize("architecture", ["vm", "node"])
def test_a_vm_that_is_null_is_none(ask, architecture):
    assert ask(**LEGACY | {"architecture": architecture}, vm=None)["vm"] is None


@pytest.mark.parametrize(
    ("vm", "changes", "said"),
    [
        (VM, {"architecture": "vm"}, "use vm only with architecture node"),
        (VM | {"machine_type": "N1"}, {}, "write it as n1-standard-8"),
        (VM | {"machine_type": ""}, {}, "should not be empty"),
        (VM | {"machine_type": "a" * 81}, {}, "at most 80"),
        (VM | {"machine_type": "a\0b"}, {}, "not allowed"),
        (VM | {"machine_type": 8}, {}, "string"),
        (VM | {"machine_type": "v2-8"}, {}, "v2-8 is an accelerator type"),
        (VM | {"provisioning_model": "reserved"}, {}, "'on_demand' or 'spot'"),
        (VM | {"machine": "n1"}, {}, "known fields are"),
        ({}, {}, "machine_type"),
        ("n1-standard-8", {}, "vm"),
    ],
)
def test_a_vm_that_cannot_be_is_refused_with_what_to_do(client, vm, changes, said):
    answer = client.post("/v1/nodes", json=LEGACY | changes | {"vm": vm})
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text


def test_the_vm_is_a_line_of_the_cost_beside_the_tpu(client, units, clock, ask):
    document = ask(**LEGACY, vm=VM)
    runs(units, clock, document, 5_400)
    cost = client.get(f"/v1/nodes/{document['id']}/cost").json()
    same = {"seconds": 5_400, "unpriced_seconds": 0}
    assert cost["lines"] == [
        same | {"what": "v2-8", "kind": "tpu", "cost": "6.750000000", "list_cost": "6.750000000"},
        same
        | {
            "what": "n1-standard-8",
            "kind": "vm",
            "cost": "0.569997000",
            "list_cost": "0.569997000",
        },
    ]
    assert (cost["cost"], cost["list_cost"]) == ("7.319997000", "7.319997000")
    assert cost["chip_seconds"] == 4 * 5_400
    assert cost["not_included"] == [BESIDES]
    assert client.get(f"/v1/nodes/{document['id']}").json()["cost"] == cost["cost"]
    told = [
        (entry["what"], entry["unit"], entry["chip_seconds"], entry["vm_seconds"], entry["amount"])
        for entry in entries_of(client, document)
    ]
    assert told == [
        ("v2-8", "chip_hour", 14_400, 0, "4.500000000"),
        ("v2-8", "chip_hour", 7_200, 0, "2.250000000"),
        ("n1-standard-8", "vm_hour", 0, 3_600, "0.379998000"),
        ("n1-standard-8", "vm_hour", 0, 1_800, "0.189999000"),
    ]


def test_both_lines_are_explained_and_the_vm_says_whose_seconds_those_are(
    client, units, clock, ask
):
    document = ask(**LEGACY, vm=VM)
    runs(units, clock, document, 1_800)
    tpu, vm = (
        client.get(f"/v1/nodes/{document['id']}/ledger/{entry['number']}").json()
        for entry in entries_of(client, document)
    )
    assert tpu["explanation"][0] == "4 chips x 1,800 s x $1.125 a chip-hour / 3,600 = $2.25"
    assert vm["explanation"][0] == "1 VM x 1,800 s x $0.379998 an hour / 3,600 = $0.189999"
    price, why, *rest = vm["explanation"][1:]
    assert price.startswith("$0.379998 per hour for n1-standard-8 on_demand in us-central1, in")
    assert why == (
        "this VM drives v2-8, and is charged for the time of its TPU. Compute Engine bills the"
        " VM from its start to its stop, which this service cannot see"
    )
    assert rest == tpu["explanation"][2:], "both ends of the same interval, and the same team"
    assert (vm["price"]["unit"], vm["price"]["generation"]) == ("vm_hour", "n1-standard-8")
    assert (vm["accelerator_type"], vm["chips"], vm["entry"]["what"]) == (
        *("v2-8", 4),
        "n1-standard-8",
    )


def test_a_tpu_that_is_free_leaves_its_vm_to_be_paid(client, units, clock, ask):
    document = ask(**LEGACY, vm=VM)
    runs(units, clock, document, 45, free="preempted in its first minute")
    (vm,) = entries_of(client, document)
    found = client.get(f"/v1/nodes/{document['id']}/ledger/{vm['number']}").json()
    assert found["explanation"][0].endswith("= $0.004749975")
    assert found["explanation"][2].endswith(
        "; its TPU is free (preempted in its first minute), which is a rule about TPUs alone"
    )


def test_a_vm_whose_price_nobody_knows_is_unpriced_and_said_to_be(client, units, clock, ask):
    odd = {"machine_type": "c9-standard-8"}
    document = ask(**LEGACY, vm=odd)
    warning = document["warnings"][-1]
    assert warning.startswith("no on_demand price is known for c9-standard-8 in us-central1.")
    assert "POST /v1/prices with generation c9-standard-8 and unit vm_hour" in warning
    assert document["hourly_cost"] is None
    runs(units, clock, document, 3_600)
    cost = client.get(f"/v1/nodes/{document['id']}/cost").json()
    assert (cost["cost"], cost["unpriced_seconds"]) == ("4.500000000", 3_600)
    assert cost["lines"][1] == {
        "what": "c9-standard-8",
        "kind": "vm",
        "cost": "0.000000000",
        "list_cost": None,
        "seconds": 3_600,
        "unpriced_seconds": 3_600,
    }
    entered = client.post(
        "/v1/prices",
        json={
            "generation": "c9-standard-8",
            "provisioning_model": "on_demand",
            "region": "us-central1",
            "unit": "vm_hour",
            "usd": "0.5",
            "effective_from": "2026-11-05T12:00:00Z",
        },
    )
    assert entered.status_code == 201, entered.text
    cost = client.get(f"/v1/nodes/{document['id']}/cost").json()
    assert (cost["cost"], cost["unpriced_seconds"]) == ("5.000000000", 0)
    assert ask(**LEGACY, vm=odd)["warnings"][-1] == BESIDES


def test_a_month_says_the_vm_beside_its_tpu_and_still_adds_up(client, units, clock, ask):
    runs(units, clock, ask(**LEGACY, vm=VM, team="vision"), 5_400)
    found = client.get("/v1/statements/2026-11").json()
    told = [
        (line["accelerator_type"], line["chip_seconds"], line["vm_seconds"], line["amount"])
        for line in found["lines"]
    ]
    assert told == [
        ("n1-standard-8", 0, 5_400, "0.569997000"),
        ("v2-8", 21_600, 0, "6.750000000"),
    ]
    assert (found["amount"], found["chip_seconds"]) == ("7.319997000", 21_600)


def test_the_same_request_with_another_vm_is_another_request(client):
    key = {"Idempotency-Key": "once"}
    body = LEGACY | {"vm": VM}
    first = client.post("/v1/nodes", json=body, headers=key)
    assert client.post("/v1/nodes", json=body, headers=key).json()["id"] == first.json()["id"]
    other = LEGACY | {"vm": VM | {"provisioning_model": "spot"}}
    assert client.post("/v1/nodes", json=other, headers=key).status_code == 422
