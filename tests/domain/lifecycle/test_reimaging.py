"""Reimages: when one is asked for, when it is due, and when it is given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import CapacityUnavailable, Conflict, Rejected, RuntimeMismatch
from service.domain.lifecycle.lifecycle import next_step
from service.domain.lifecycle.reimaging import (
    Software,
    with_reimage_done,
    with_reimage_given_up,
    with_reimage_request,
)
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.node import Asked, NodeState
from tests import factories
from tests.hands import NOON

NEW = Software("2.16.1")
LATER = NOON + 600


def legacy(**changes):
    """A legacy TPU Node with TensorFlow 2.12.0 that is READY."""
    defaults = {
        "accelerator_type": "v2-8",
        "generation": "v2",
        "runtime_version": "2.12.0",
        "architecture": Architecture.NODE,
        "state": NodeState.READY,
        "cloud_uid": "7001",
        "operation": "",
        "up_since": NOON,
    }
    return factories.sent(**(defaults | changes))


def test_a_request_for_other_software_remembers_what_there_was():
    node = legacy(tries=2, next_try_at=None)
    after = with_reimage_request(node, NEW, LATER)
    assert (after.spec.runtime_version, after.spec.reimage_from) == ("2.16.1", "2.12.0")
    assert (after.tries, after.next_try_at) == (0, LATER)
    again = with_reimage_request(after, Software("2.15.0"), LATER)
    assert (again.spec.runtime_version, again.spec.reimage_from) == ("2.15.0", "2.12.0")


@pytest.mark.parametrize(
    ("software", "name"),
    [
        (Software(framework=Framework.PYTORCH, framework_version="1.11"), "pytorch-1.11"),
        (Software(framework=Framework.TENSORFLOW), "2.16.1"),
        (Software("1.15.3"), "1.15.3"),
    ],
)
def test_the_version_is_named_or_follows_from_the_framework(software, name):
    assert with_reimage_request(legacy(), software, LATER).spec.runtime_version == name


def test_asking_for_what_it_has_or_is_getting_is_asking_for_nothing():
    node = legacy()
    assert with_reimage_request(node, Software("2.12.0"), LATER) is node
    under_way = with_reimage_request(node, NEW, LATER)
    busy = replace(under_way, state=NodeState.REIMAGING, operation="operation-reimage")
    assert with_reimage_request(busy, NEW, LATER) is busy


def test_whatever_it_may_be_made_of_later_gets_the_same_software():
    other = replace(legacy().spec.hardware, accelerator_type="v3-8", generation="v3")
    after = with_reimage_request(legacy(alternatives=(other,)), NEW, LATER)
    assert [alternative.runtime_version for alternative in after.spec.alternatives] == ["2.16.1"]
    assert [
        alternative.runtime_version
        for alternative in with_reimage_given_up(after, "no").spec.alternatives
    ] == ["2.12.0"]


@pytest.mark.parametrize(
    ("changes", "software", "error", "said"),
    [
        ({"architecture": Architecture.VM}, NEW, Rejected, "delete it, and create a new node"),
        ({}, Software(), Rejected, "exactly one of runtime_version and framework"),
        (
            {},
            Software("2.16.1", Framework.JAX),
            Rejected,
            "exactly one of runtime_version and framework",
        ),
        ({}, Software("2.4"), RuntimeMismatch, "no runtime version '2.4' is known"),
        ({}, Software("v2-alpha-tpuv6e"), RuntimeMismatch, "is for TPU VMs"),
        ({}, Software(framework=Framework.JAX), RuntimeMismatch, "request another framework"),
        ({"asked": Asked.ABSENT}, NEW, Conflict, "create a new node"),
        ({"state": NodeState.DELETED}, NEW, Conflict, "create a new node"),
        ({"asked": Asked.STOPPED}, NEW, Conflict, "start it first"),
        ({"state": NodeState.REIMAGING}, NEW, Conflict, "when it is READY"),
        (
            {"reimage_from": "2.1", "operation": "operation-reimage"},
            NEW,
            Conflict,
            "is getting 2.12.0",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(changes, software, error, said):
    with pytest.raises(error, match=said):
        with_reimage_request(legacy(**changes), software, LATER)


def reimage(**changes):
    return factories.operation("reimage", **changes)


FAILED = reimage(done=True, error=CapacityUnavailable("no"))


@pytest.mark.parametrize(
    ("shown", "state", "operation", "step"),
    [
        ("2.12.0", NodeState.READY, None, NodeStep.REIMAGE),
        (
            "2.12.0",
            NodeState.READY,
            factories.operation(done=True, ended_at=NOON),
            NodeStep.REIMAGE,
        ),
        ("2.12.0", NodeState.READY, reimage(), NodeStep.WAIT),
        ("2.12.0", NodeState.REIMAGING, reimage(), NodeStep.WAIT),
        ("2.12.0", NodeState.REIMAGING, None, NodeStep.WAIT),
        ("2.12.0", NodeState.READY, FAILED, NodeStep.REIMAGE),
        ("2.16.1", NodeState.READY, reimage(), NodeStep.WAIT),
        ("2.16.1", NodeState.READY, reimage(done=True, ended_at=NOON), NodeStep.SETTLE),
        ("2.16.1", NodeState.READY, None, NodeStep.SETTLE),
        ("spelled otherwise", NodeState.READY, reimage(done=True, ended_at=NOON), NodeStep.SETTLE),
        ("2.12.0", NodeState.CREATING, None, NodeStep.WAIT),
        ("2.12.0", NodeState.PREEMPTED, reimage(), NodeStep.REPLACE),
    ],
)
def test_the_step_follows_from_the_request_and_the_sight(shown, state, operation, step):
    node = with_reimage_request(legacy(), NEW, NOON)
    sight = factories.sight(node, state=state, runtime_version=shown)
    assert next_step(node, NodeLook(sight, operation), NOON) is step


def test_a_version_that_the_cloud_spells_otherwise_is_no_reason_to_reimage():
    sight = factories.sight(legacy(), runtime_version="2.12")
    assert next_step(legacy(), NodeLook(sight), NOON) is NodeStep.SETTLE


@pytest.mark.parametrize(
    ("asked", "state", "step"),
    [
        (Asked.STOPPED, NodeState.READY, NodeStep.STOP),
        (Asked.STOPPED, NodeState.STOPPED, NodeStep.SETTLE),
        (Asked.ABSENT, NodeState.READY, NodeStep.DELETE),
        (Asked.PRESENT, NodeState.STOPPED, NodeStep.START),
    ],
)
def test_what_was_asked_for_since_goes_first(asked, state, step):
    node = replace(with_reimage_request(legacy(), NEW, NOON), asked=asked)
    sight = factories.sight(node, state=state, runtime_version="2.12.0")
    assert next_step(node, NodeLook(sight), NOON) is step


def test_the_request_ends_granted_or_given_up():
    node = with_reimage_request(legacy(ttl_seconds=3_600, ready_at=NOON), NEW, NOON)
    granted = with_reimage_done(node)
    assert (granted.spec.runtime_version, granted.spec.reimage_from) == ("2.16.1", "")
    given_up = with_reimage_given_up(node, "it cannot be")
    assert (given_up.spec.runtime_version, given_up.spec.reimage_from) == ("2.12.0", "")
    assert (given_up.last_error, given_up.next_try_at) == ("it cannot be", NOON + 3_600)
