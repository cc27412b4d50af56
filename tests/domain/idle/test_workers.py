"""Tests of the workers of a node by their ids in metrics, over all slices of a group."""

from __future__ import annotations

import pytest

from service.cloud.ports import Sample
from service.domain.idle.assess import IdleSubject, IdleTimes, verdict_on
from service.domain.idle.policy import Action, AppliedRule, Rule
from service.domain.idle.proof import MetricFamily
from service.domain.idle.readings import with_samples
from service.domain.idle.signals.signal import MONITORED, Kind, Level
from service.domain.idle.workers import workers_of
from service.domain.nodes.node import NodeState, Slice
from tests import factories
from tests.hands import NOON

APPLIED = AppliedRule(Rule(1_800, 300, Action.DELETE), "node", 0, Action.DELETE, (), (), "")
PRESENT = dict.fromkeys(MONITORED, MetricFamily.PRESENT)
START = NOON - 7_200
REST = {Kind.TENSORCORE_IDLE: 1e6, Kind.CPU: 2.0, Kind.NETWORK: 100.0}
SLICES = ("7001", "7002", "7003")


def group():
    """A group of three slices of two workers each, READY for a long time."""
    seen = tuple(Slice(uid, NodeState.READY, NOON, up_since=START) for uid in SLICES)
    node = factories.node(
        slices=3, hosts=6, chips=24, attempt=1, state_since=START, up_since=START, slices_seen=seen
    )
    return IdleSubject(node, APPLIED)


def verdict(works=None, unseen=None):
    """The verdict on a group quiet, in which one worker of one slice works or is not seen."""
    subject = group()
    samples = {
        kind: [
            Sample(uid, worker, "", START, NOON, rest)
            for uid in SLICES
            for worker in (0, 1)
            if (uid, worker) != unseen
        ]
        for kind, rest in REST.items()
    }
    if works is not None:
        uid, worker = works
        samples[Kind.TENSORCORE_IDLE].append(Sample(uid, worker, "", NOON - 60, NOON, 0.0))
    found = with_samples({}, workers_of([subject]), samples.items(), 0)
    subject = subject.with_tracks(found.tracks[subject.node.id])
    return verdict_on(subject, PRESENT, NOON, IdleTimes())


def test_a_group_of_slices_is_idle_if_every_worker_of_every_slice_is():
    assert verdict().level is Level.QUIET


@pytest.mark.parametrize(("slice_number", "worker"), [(0, 0), (1, 1), (2, 0), (2, 1)])
def test_a_group_of_slices_is_judged_by_its_most_active_slice(slice_number, worker):
    found = verdict(works=(SLICES[slice_number], worker))
    assert found.level is Level.ACTIVE
    assert found.reason.startswith(f"worker {2 * slice_number + worker} is active")


def test_a_slice_of_which_a_worker_is_not_seen_makes_the_group_unknown():
    found = verdict(unseen=(SLICES[1], 1))
    assert (found.level, found.reason.split(";")[0]) == (
        Level.UNKNOWN,
        "nothing shows that the device of worker 3 is quiet",
    )
