"""A node crosses the border: Google's message in our words, our order in Google's."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import tpu_v2

from service.cloud.google.nodes import create_request, from_message
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import InvalidRequest
from service.domain.nodes.node import CloudNode, Endpoint, NodeState, Place
from tests.cloud.google import given
from tests.cloud.google.given import CREATED_AT, PLACE, RawNode


def test_all_that_the_cloud_shows_is_read():
    shown = given.node(
        state=7 + 4,
        health=5,
        health_description="a maintenance event is under way",
        scheduling_config={"spot": True},
        queued_resource="projects/lab/locations/us-east5-b/queuedResources/q1",
    )
    assert from_message(shown) == CloudNode(
        place=PLACE,
        uid="7000000000000000001",
        state=NodeState.PREEMPTED,
        health="UNHEALTHY_MAINTENANCE",
        health_description="a maintenance event is under way",
        accelerator_type="v6e-8",
        runtime_version="v2-alpha-tpuv6e",
        provisioning_model=ProvisioningModel.SPOT,
        labels={"steward-id": "n1"},
        endpoints=(Endpoint("10.0.0.2", 8470, "34.1.2.3"),),
        created_at=CREATED_AT,
        queued_resource="projects/lab/locations/us-east5-b/queuedResources/q1",
    )


def test_a_node_that_shows_nothing_but_its_name_is_read_too():
    assert from_message(RawNode(name=PLACE.path)) == CloudNode(
        place=PLACE, uid="", state="STATE_UNSPECIFIED"
    )


STATES: Any = tpu_v2.Node.State


@pytest.mark.parametrize("state", [s for s in STATES if s])
def test_every_state_of_google_is_one_that_we_know(state):
    assert NodeState(from_message(given.node(state=state.value)).state).value == state.name


def test_a_state_and_a_health_of_tomorrow_are_kept_as_their_numbers():
    shown = from_message(given.node(state=99, health=77))
    assert (shown.state, shown.health) == ("STATE_99", "HEALTH_77")


@pytest.mark.parametrize(
    ("scheduling", "model"),
    [
        ({}, "on_demand"),
        ({"reserved": True}, "reserved"),
        ({"preemptible": True}, "preemptible"),
        ({"spot": True}, "spot"),
        ({"spot": True, "preemptible": True, "reserved": True}, "spot"),
        ({"preemptible": True, "reserved": True}, "preemptible"),
    ],
)
def test_the_provisioning_model_follows_from_the_flags(scheduling, model):
    assert from_message(given.node(scheduling_config=scheduling)).provisioning_model == model


def test_an_accelerator_type_that_is_a_path_is_read_by_its_last_part():
    path = "projects/123/locations/us-east5-b/acceleratorTypes/v6e-8"
    assert from_message(given.node(accelerator_type=path)).accelerator_type == "v6e-8"


def test_the_first_network_card_of_each_worker_is_its_endpoint():
    shown = given.node(
        network_configs=[{"network": "a"}, {"network": "b"}],
        network_endpoints=[{"ip_address": ip} for ip in ("w0a", "w0b", "w1a", "w1b")],
    )
    assert [endpoint.ip for endpoint in from_message(shown).endpoints] == ["w0a", "w1a"]


@pytest.mark.parametrize("name", ["", "n1", "projects/lab/nodes/n1", "a/b/c/d/e/f", "x" * 10_000])
def test_a_name_that_names_no_place_is_shown_and_not_raised(name):
    assert from_message(given.node(name=name)).place == Place("", "", name[:200])


def test_hostile_texts_are_cut_off():
    huge = "x" * 1_000_000
    shown = from_message(
        given.node(
            health_description=huge,
            accelerator_type=huge,
            runtime_version=huge,
            queued_resource=huge,
            labels={huge: huge},
        )
    )
    assert len(repr(shown)) < 3_000


def sent(**changes):
    """The node that is sent for an order with a changed spec."""
    return create_request(given.order(**changes)).node


def test_a_plain_order_says_what_was_asked_and_nothing_more():
    request = create_request(given.order())
    assert request == tpu_v2.CreateNodeRequest(
        parent="projects/lab/locations/us-east5-b",
        node_id=PLACE.cloud_id,
        node=tpu_v2.Node(
            accelerator_type="v6e-8",
            runtime_version="v2-alpha-tpuv6e",
            network_config=tpu_v2.NetworkConfig(enable_external_ips=False),
            labels={"steward-id": "n1", "team": "vision"},
        ),
    )
    assert "scheduling_config" not in request.node
    assert "service_account" not in request.node
    assert "network_config" in request.node


def test_the_network_is_the_one_that_was_asked_for():
    assert sent(network="prod", subnetwork="tpus", external_ip=True).network_config == (
        tpu_v2.NetworkConfig(network="prod", subnetwork="tpus", enable_external_ips=True)
    )


@pytest.mark.parametrize("model", ["spot", "preemptible", "reserved"])
def test_each_provisioning_model_sets_its_flag_alone(model):
    node = sent(provisioning_model=ProvisioningModel(model))
    assert node.scheduling_config == tpu_v2.SchedulingConfig(**{model: True})
    assert from_message(tpu_v2.Node.pb(node)).provisioning_model == model


def test_flex_start_cannot_be_said_in_this_api():
    with pytest.raises(InvalidRequest, match="queued resource"):
        sent(provisioning_model=ProvisioningModel.FLEX_START)


def test_the_startup_script_goes_into_the_metadata():
    node = sent(metadata={"a": "b"}, startup_script="#!/bin/sh\ntrue")
    assert dict(node.metadata) == {"a": "b", "startup-script": "#!/bin/sh\ntrue"}


def test_a_service_account_has_the_scope_of_the_whole_platform():
    assert sent(service_account="tpu@lab.iam").service_account == tpu_v2.ServiceAccount(
        email="tpu@lab.iam", scope=["https://www.googleapis.com/auth/cloud-platform"]
    )


@pytest.mark.parametrize(("hosts", "mode"), [(1, "READ_WRITE"), (2, "READ_ONLY")])
def test_only_a_single_host_may_write_to_a_disk(hosts, mode):
    path = "projects/other/zones/us-east5-b/disks/data"
    disks = sent(hosts=hosts, data_disks=(path, "scratch")).data_disks
    assert [(disk.source_disk, disk.mode.name) for disk in disks] == [
        (path, mode),
        ("projects/lab/zones/us-east5-b/disks/scratch", mode),
    ]
