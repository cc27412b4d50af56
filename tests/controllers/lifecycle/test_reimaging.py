"""Legacy TPU Nodes get other software: once, exactly billed, whatever comes between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.catalog.provisioning import Architecture
from service.domain.errors import CapacityUnavailable, CloudUnavailable, InvalidRequest
from service.domain.lifecycle.reimaging import Software
from service.domain.nodes.node import NodeState
from tests.controllers.conftest import Lab

NEW = Software("2.16.1")
LEGACY = {
    "accelerator_type": "v2-8",
    "zone": "us-central1-b",
    "architecture": Architecture.NODE,
    "runtime_version": "2.12.0",
}


def up(lab: Lab):
    """A legacy TPU Node that is READY."""
    return lab.up(**LEGACY)


def versions(lab, node):
    found = lab.node(node)
    return found.spec.runtime_version, lab.cloud.nodes[lab.cloud.only].runtime_version


def test_a_request_for_other_software_becomes_one_reimage(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    assert lab.cloud.count("reimage") == 0
    lab.tick()
    assert lab.node(node).state == NodeState.REIMAGING
    lab.tick(30)
    lab.tick(30)
    lab.cloud.reimaged()
    lab.tick()
    after = lab.node(node)
    assert (after.state, after.last_error, after.spec.reimage_from) == (NodeState.READY, "", "")
    assert versions(lab, node) == ("2.16.1", "2.16.1")
    lab.tick(600)
    assert lab.cloud.count("reimage") == 1
    assert "reimaged: 2.16.1, was 2.12.0" in lab.story(node)


def test_asking_twice_is_asking_once(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    lab.nodes.reimage(node.id, NEW)
    lab.tick()
    lab.nodes.reimage(node.id, NEW)
    lab.tick()
    lab.cloud.reimaged()
    lab.tick()
    lab.nodes.reimage(node.id, NEW)
    lab.tick(60)
    assert lab.cloud.count("reimage") == 1
    assert lab.story(node).count("reimage requested") == 1


def test_nobody_pays_while_it_is_reimaged(lab):
    node = up(lab)
    lab.tick(100)
    lab.nodes.reimage(node.id, NEW)
    began = lab.clock() + 5
    lab.tick()
    lab.clock.pass_(40)
    ended = lab.cloud.reimaged()
    lab.tick(20)
    lab.tick(100)
    lab.nodes.delete(node.id)
    lab.tick()
    with lab.units.reading() as unit:
        first, second = unit.usage.list_by_node(node.id)
    assert (first.end, first.uncertain_seconds) == (began, 0)
    assert (second.start, second.uncertain_seconds) == (ended, 0)


def test_an_answer_that_is_lost_does_not_lead_to_a_second_reimage(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    lab.cloud.fail("reimage", CloudUnavailable("the line went dead"), after=True)
    lab.tick()
    assert lab.node(node).last_error == "the line went dead"
    lab.tick(10)
    assert lab.node(node).state == NodeState.REIMAGING
    lab.cloud.reimaged()
    lab.tick(30)
    lab.tick(300)
    assert lab.cloud.count("reimage") == 1
    assert lab.node(node).spec.reimage_from == ""
    assert lab.node(node).last_error == ""


def test_the_end_of_a_reimage_is_exact_though_nobody_heard_that_it_began(lab):
    node = lab.ask(**LEGACY)
    lab.tick()
    lab.clock.pass_(20)
    lab.cloud.come_up()
    lab.inventory.tick(lab.lease)
    lab.nodes.reimage(node.id, NEW)  # before the lifecycle has put the create aside
    lab.cloud.fail("reimage", CloudUnavailable("the line went dead"), after=True)
    for seconds in (5, 10):
        lab.clock.pass_(seconds)
        lab.lifecycle.tick(lab.lease)
    assert lab.node(node).state == NodeState.REIMAGING
    lab.clock.pass_(40)
    ended = lab.cloud.reimaged()
    lab.clock.pass_(30)
    lab.lifecycle.tick(lab.lease)
    with lab.units.reading() as unit:
        _, second = unit.usage.list_by_node(node.id)
    assert (second.start, second.uncertain_seconds) == (ended, 0)


def test_a_daemon_that_dies_in_the_middle_is_no_reason_to_begin_anew(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    lab.tick()
    lab.start_daemon("second")
    lab.tick(30)
    lab.cloud.reimaged()
    lab.start_daemon("third")
    lab.tick()
    lab.tick(300)
    assert lab.cloud.count("reimage") == 1
    assert versions(lab, node) == ("2.16.1", "2.16.1")


def test_a_look_that_is_behind_the_times_does_not_lead_to_a_second_reimage(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    lab.tick()
    lab.cloud.become(NodeState.READY)  # as it was before
    lab.tick()
    lab.tick(30)
    assert lab.cloud.count("reimage") == 1
    lab.cloud.reimaged()
    lab.tick(60)
    assert lab.node(node).spec.reimage_from == ""


def test_a_reimage_that_fails_in_the_cloud_is_tried_three_times_and_given_up(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    for tries in (1, 2, 3):
        lab.tick(60)
        assert lab.cloud.count("reimage") == tries
        lab.cloud.reimaged(CapacityUnavailable("no room"))
    lab.tick(60)
    lab.tick(600)
    after = lab.node(node)
    assert lab.cloud.count("reimage") == 3
    assert (after.state, after.spec.reimage_from) == (NodeState.READY, "")
    assert versions(lab, node) == ("2.12.0", "2.12.0")
    assert "reimage given up, it stays 2.12.0: no room" in lab.story(node)


def test_a_refusal_is_doubted_twice_and_then_believed(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    for _ in range(3):
        lab.cloud.fail("reimage", InvalidRequest('The field "TensorflowVersion" cannot be'))
        lab.tick(60)
    after = lab.node(node)
    assert after.last_error == (
        'reimage given up, it stays 2.12.0: The field "TensorflowVersion" cannot be'
    )
    assert (after.state, versions(lab, node)) == (NodeState.READY, ("2.12.0", "2.12.0"))
    lab.tick(600)
    assert lab.cloud.count("reimage") == 3


def test_a_version_that_the_zone_does_not_list_is_never_sent(lab):
    node = up(lab)
    lab.cloud.offered["us-central1-b"] = ["2.12.0", "2.15.0"]
    lab.nodes.reimage(node.id, NEW)
    for _ in range(3):
        lab.tick(60)
    assert lab.cloud.count("reimage") == 0
    assert "does not list the runtime version 2.16.1" in lab.node(node).last_error


def test_a_stop_goes_first_and_the_reimage_follows_the_start(lab):
    node = up(lab)
    lab.nodes.reimage(node.id, NEW)
    lab.nodes.stop(node.id)
    lab.tick()
    lab.cloud.settle()
    lab.tick()
    assert lab.node(node).state == NodeState.STOPPED
    assert lab.cloud.count("reimage") == 0
    lab.nodes.start(node.id)
    lab.tick()
    lab.cloud.come_up()
    lab.tick()
    lab.tick()
    assert lab.cloud.count("reimage") == 1


def test_what_is_made_anew_after_a_preemption_has_the_new_software(lab):
    node = lab.up(**LEGACY, recreate_on_preemption=True)
    lab.nodes.reimage(node.id, NEW)
    lab.tick()
    lab.cloud.become(NodeState.PREEMPTED)
    for _ in range(4):
        lab.tick(30)
        lab.cloud.settle()
    for _ in range(40):
        lab.tick(30)
        if lab.cloud.nodes:
            break
    assert lab.cloud.nodes[lab.cloud.only].runtime_version == "2.16.1"
    lab.cloud.come_up()
    lab.tick(30)
    lab.tick(30)
    assert lab.cloud.count("reimage") == 1
    assert lab.node(node).spec.reimage_from == ""


@pytest.mark.parametrize("spelled", ["2.12", "v2.12.0-official"])
def test_a_version_that_the_cloud_spells_otherwise_leaves_the_node_at_work(spelled, lab):
    up(lab)
    path = lab.cloud.only
    lab.cloud.nodes[path] = replace(lab.cloud.nodes[path], runtime_version=spelled)
    lab.tick()
    lab.tick(600)
    assert lab.cloud.count("reimage") == 0
