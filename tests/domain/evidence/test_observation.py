"""Observation: what a look at the cloud changes in what we believe."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY
from service.domain.errors import CapacityUnavailable, CloudUnavailable
from service.domain.evidence.observation import (
    close_usage_of_down_node,
    observe_node,
    observe_queue,
)
from service.domain.evidence.poll import Poll
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Meter
from service.domain.nodes.node import Endpoint, NodeState
from service.domain.nodes.queued_resource import QueuedResource, QueueState
from tests import factories
from tests.hands import NOON

CREATING, READY, STOPPED = NodeState.CREATING, NodeState.READY, NodeState.STOPPED
OPERATION, OBSERVED = Evidence.OPERATION, Evidence.OBSERVED


def created(ended_at, **changes):
    return factories.operation("create", done=True, ended_at=ended_at, **changes)


def started(ended_at):
    return factories.operation("start", done=True, ended_at=ended_at, created_at=ended_at - 30)


def stopped(created_at):
    return factories.operation("stop", created_at=created_at)


def deleted(created_at, **changes):
    return factories.operation("delete", created_at=created_at, **changes)


def look(node, state, now, *operations, before=None, running=None, **sight):
    poll = Poll(now, node.seen_at if before is None else before, operations)
    return observe_node(node, factories.sight(node, state=state, **sight), running, poll)


def interval(usage):
    return usage.start, usage.start_hi, usage.start_evidence


def ending(usage):
    return usage.end_lo, usage.end, usage.end_evidence


# ---- how sure a look is


def test_what_was_seen_held_when_it_was_asked_and_may_have_begun_when_it_was_answered():
    node = factories.sent()
    poll = Poll(NOON + 300, NOON, (), asked_at=NOON + 60)
    belief = observe_node(node, factories.sight(node, state=READY), None, poll)
    assert interval(belief.usage) == (NOON, NOON + 300, OBSERVED)
    assert belief.node.seen_at == NOON + 60


def test_a_node_that_was_up_is_not_believed_to_be_created_again():
    node = factories.sent(state=READY, up_since=NOON, ready_at=NOON, cloud_uid="7")
    running = factories.usage(node_id=node.id)
    belief = look(node, CREATING, NOON + 60, running=running, uid="7")
    assert (belief.node, belief.usage) == (node, running)


# ---- a node comes up


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], (NOON, NOON + 60, OBSERVED)),
        ([created(NOON + 40)], (NOON + 40, NOON + 40, OPERATION)),
        ([factories.operation("create")], (NOON, NOON + 60, OBSERVED)),
        (
            [created(NOON + 40, error=CapacityUnavailable("none"))],
            (NOON, NOON + 60, OBSERVED),
        ),
        ([created(NOON - DAY)], (NOON, NOON + 60, OBSERVED)),
        ([created(NOON - DAY), started(NOON + 50)], (NOON + 50, NOON + 50, OPERATION)),
        (
            [created(NOON - CLOCK_TOLERANCE)],
            (NOON - CLOCK_TOLERANCE, NOON - CLOCK_TOLERANCE, OPERATION),
        ),
        ([created(NOON - CLOCK_TOLERANCE - 1)], (NOON, NOON + 60, OBSERVED)),
        ([created(NOON + 60 + CLOCK_TOLERANCE + 1)], (NOON, NOON + 60, OBSERVED)),
    ],
)
def test_usage_opens_with_the_best_evidence_there_is(operations, expected):
    belief = look(factories.sent(), READY, NOON + 60, *operations)
    assert interval(belief.usage) == expected
    assert belief.usage.end is None
    assert belief.node.ready_at == belief.node.up_since == belief.usage.start


def test_usage_keeps_what_hardware_it_is_of():
    node = factories.sent(hosts=4, chips=16, zone="europe-west4-b")
    usage = look(node, READY, NOON + 60).usage
    assert usage.node_id == node.id
    assert (usage.chips, usage.zone, usage.sku.region) == (16, "europe-west4-b", "europe-west4")
    assert not usage.sku.single_device
    assert usage.posted_until == usage.start


def test_the_node_is_believed_as_it_was_shown():
    node = factories.sent()
    seen = {"health": "HEALTHY", "endpoints": (Endpoint("10.0.0.2", 8_470),), "uid": "42"}
    after = look(node, READY, NOON + 60, **seen).node
    assert (after.state, after.state_since, after.seen_at) == (READY, NOON + 60, NOON + 60)
    assert (after.health, after.cloud_uid) == ("HEALTHY", "42")
    assert after.endpoints == (Endpoint("10.0.0.2", 8_470),)


def test_the_first_ready_of_all_is_kept_when_a_later_attempt_comes_up():
    node = factories.sent(ready_at=NOON - DAY)
    after = look(node, READY, NOON + 60, created(NOON + 40)).node
    assert (after.ready_at, after.up_since) == (NOON - DAY, NOON + 40)


def test_looking_again_changes_nothing_but_the_hour_of_the_look():
    first = look(factories.sent(), READY, NOON + 60, created(NOON + 40))
    again = look(first.node, READY, NOON + 75, created(NOON + 40), running=first.usage)
    assert again.usage == first.usage
    assert again.node == replace(first.node, seen_at=NOON + 75)
    assert again.events == ()


@pytest.mark.parametrize("state", ["CREATING", "STARTING", "STATE_99", "UNKNOWN", "REPAIRING"])
def test_what_is_not_ready_and_never_was_costs_nothing(state):
    assert look(factories.sent(), state, NOON + 60).usage is None


def test_a_change_of_state_is_told_with_what_the_cloud_said():
    node = factories.sent()
    (event,) = look(node, "REPAIRING", NOON + 60, health_description="host error").events
    assert event.message == "REPAIRING in us-west4-a, was CREATING: host error"
    assert event.facts == {"from": "CREATING", "to": "REPAIRING"}
    assert look(node, CREATING, NOON + 60).events == ()


# ---- a node goes down


@pytest.fixture
def up():
    """A node that is READY since noon, last seen so at ten past."""
    belief = look(factories.sent(), READY, NOON + 60, created(NOON))
    return replace(belief.node, seen_at=NOON + 600), belief.usage


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], (NOON + 600, NOON + 615, OBSERVED)),
        ([stopped(NOON + 607)], (NOON + 607, NOON + 607, OPERATION)),
        ([deleted(NOON + 607)], (NOON + 607, NOON + 607, OPERATION)),
        ([deleted(NOON + 595)], (NOON + 595, NOON + 595, OPERATION)),
        ([deleted(NOON + 594)], (NOON + 600, NOON + 615, OBSERVED)),
        (
            [deleted(NOON + 607, done=True, error=CapacityUnavailable("no"))],
            (NOON + 600, NOON + 615, OBSERVED),
        ),
        ([stopped(NOON - DAY)], (NOON + 600, NOON + 615, OBSERVED)),
        ([stopped(NOON - DAY), deleted(NOON + 607)], (NOON + 607, NOON + 607, OPERATION)),
    ],
)
@pytest.mark.parametrize("state", [NodeState.STOPPING, NodeState.DELETING, NodeState.REPAIRING])
def test_usage_closes_with_the_best_evidence_there_is(up, state, operations, expected):
    node, running = up
    belief = look(node, state, NOON + 615, *operations, running=running)
    assert ending(belief.usage) == expected
    assert belief.usage.id == running.id
    assert not belief.usage.free


@pytest.mark.parametrize("state", [s for s in NodeState if s not in (READY, CREATING)])
def test_usage_closes_in_every_state_but_ready(up, state):
    node, running = up
    assert look(node, state, NOON + 615, running=running).usage.end == NOON + 615


def test_what_is_gone_from_the_cloud_is_closed_too(up):
    node, running = up
    poll = Poll(NOON + 615, NOON + 600, (deleted(NOON + 610),))
    assert ending(close_usage_of_down_node(node, running, poll)) == (
        NOON + 610,
        NOON + 610,
        OPERATION,
    )


@pytest.mark.parametrize(
    ("state", "seconds", "free"),
    [
        (NodeState.PREEMPTED, 59, True),
        (NodeState.TERMINATED, 59, True),
        (NodeState.PREEMPTED, 60, False),
        (NodeState.STOPPED, 59, False),
        (NodeState.DELETING, 59, False),
    ],
)
def test_only_a_preemption_in_the_first_minute_is_free(state, seconds, free):
    opened = look(factories.sent(), READY, NOON + 20, created(NOON + 10))
    node = replace(opened.node, seen_at=NOON + seconds)
    closed = look(node, state, NOON + seconds, running=opened.usage).usage
    assert bool(closed.free) is free


# ---- what two looks missed


def test_ready_that_two_looks_missed_is_found_in_the_clouds_record():
    operations = created(NOON + 40), deleted(NOON + 640)
    belief = look(factories.sent(), NodeState.DELETING, NOON + 900, *operations)
    assert interval(belief.usage) == (NOON + 40, NOON + 40, OPERATION)
    assert ending(belief.usage) == (NOON + 640, NOON + 640, OPERATION)
    assert belief.node.ready_at == NOON + 40


def test_a_missed_end_is_charged_up_to_the_look_that_found_it():
    belief = look(factories.sent(), NodeState.PREEMPTED, NOON + 900, created(NOON + 100))
    assert ending(belief.usage) == (NOON + 100, NOON + 900, OBSERVED)
    assert not belief.usage.free


def test_a_node_that_came_and_went_between_two_looks_is_found_once_it_is_gone():
    operations = (created(NOON + 40), deleted(NOON + 640))
    usage = close_usage_of_down_node(factories.sent(), None, Poll(NOON + 900, NOON, operations))
    assert usage is not None
    assert (usage.start, usage.end) == (NOON + 40, NOON + 640)


@pytest.mark.parametrize(
    ("changes", "operations"),
    [
        ({}, (created(NOON + 40, error=CapacityUnavailable("none")),)),
        ({"up_since": NOON, "state": NodeState.PREEMPTED}, (created(NOON + 40),)),
        ({"up_since": NOON, "state": NodeState.STOPPED}, ()),
        ({"seen_at": NOON + 896}, ()),
    ],
)
def test_nothing_is_charged_where_the_record_does_not_say_that_it_came_up(changes, operations):
    node = factories.sent(**changes)
    poll = Poll(NOON + 900, max(NOON, node.seen_at), operations)
    assert close_usage_of_down_node(node, None, poll) is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"up_since": NOON - 60, "state": NodeState.RESTARTING},
        {"up_since": NOON - 60, "state": NodeState.REPAIRING},
        {"up_since": NOON - 60, "state": NodeState.STARTING},
    ],
)
def test_what_nobody_saw_and_nothing_rules_out_is_charged_and_called_uncertain(changes):
    usage = close_usage_of_down_node(factories.sent(**changes), None, Poll(NOON + 900, NOON))
    assert usage is not None
    assert (usage.start, usage.end, usage.uncertain_seconds) == (NOON, NOON + 900, 900)
    assert usage.start_evidence is Evidence.UNSEEN


def test_a_create_that_stays_open_does_not_rule_out_that_the_node_was_up():
    """Operations have been seen to stay open long after the node was READY."""
    usage = close_usage_of_down_node(
        factories.sent(), None, Poll(NOON + 900, NOON, (factories.operation("create"),))
    )
    assert usage is not None
    assert (usage.start, usage.end, usage.uncertain_seconds) == (NOON, NOON + 900, 900)


def test_a_start_that_two_looks_both_missed_is_charged_from_its_record():
    node = factories.sent(up_since=NOON - 60, state=NodeState.STARTING)
    started = factories.operation("start", done=True, ended_at=NOON + 300)
    usage = close_usage_of_down_node(
        node, None, Poll(NOON + 900, NOON, (started, deleted(NOON + 640)))
    )
    assert usage is not None
    assert (usage.start, usage.end, usage.uncertain_seconds) == (NOON + 300, NOON + 640, 0)


def test_an_operation_that_was_over_before_the_last_look_makes_the_whole_interval_uncertain():
    node = factories.sent(seen_at=NOON + 100)
    usage = close_usage_of_down_node(
        node, None, Poll(NOON + 160, NOON + 100, (created(NOON + 40),))
    )
    assert usage is not None
    meter = Meter(usage, factories.book(), NOON + DAY)
    assert (usage.start, usage.end) == (NOON + 100, NOON + 160)
    assert usage.uncertain_seconds == 60
    assert meter.total_uncertainty() == meter.total_charge()


# ---- stop and start


def test_each_cycle_of_stop_and_start_is_an_interval_of_its_own():
    record = [created(NOON + 40)]
    first = look(factories.sent(), READY, NOON + 60, *record)
    record.append(stopped(NOON + 1_000))
    down = look(first.node, NodeState.STOPPING, NOON + 1_005, *record, running=first.usage)
    still = look(down.node, STOPPED, NOON + 1_100, *record)
    record.append(started(NOON + 2_000))
    second = look(still.node, READY, NOON + 2_010, *record)
    assert still.usage is None
    assert ending(down.usage) == (NOON + 1_000, NOON + 1_000, OPERATION)
    assert interval(second.usage) == (NOON + 2_000, NOON + 2_000, OPERATION)
    assert second.usage.id != first.usage.id
    assert second.node.up_since == NOON + 40


def test_the_stop_of_an_earlier_cycle_does_not_end_the_present_one():
    record = created(NOON + 40), stopped(NOON + 1_000), started(NOON + 1_030)
    node = factories.sent(seen_at=NOON + 1_020, up_since=NOON + 40, state=STOPPED)
    second = look(node, READY, NOON + 1_035, *record)
    lost = look(second.node, NodeState.PREEMPTED, NOON + 1_040, *record, running=second.usage)
    assert ending(lost.usage) == (NOON + 1_035, NOON + 1_040, OBSERVED)


def test_ready_seen_while_the_start_is_still_open_does_not_reach_back_to_the_create():
    record = created(NOON + 40), stopped(NOON + 1_000), factories.operation("start")
    node = factories.sent(seen_at=NOON + 2_000, up_since=NOON + 40, state=STOPPED)
    assert interval(look(node, READY, NOON + 2_015, *record).usage) == (
        NOON + 2_000,
        NOON + 2_015,
        OBSERVED,
    )


def test_a_node_that_was_up_before_does_not_begin_again_with_the_same_create():
    """Seen READY, under repair and READY again within seconds: no second is charged twice."""
    record = created(NOON + 40)
    first = look(factories.sent(), READY, NOON + 41, record)
    repair = look(first.node, NodeState.REPAIRING, NOON + 43, record, running=first.usage)
    second = look(repair.node, READY, NOON + 50, record)
    assert (repair.usage.start, repair.usage.end) == (NOON + 40, NOON + 43)
    assert interval(second.usage) == (NOON + 43, NOON + 50, OBSERVED)


# ---- any looks


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 3_000),
    st.lists(st.integers(0, 4_000), max_size=25),
    st.booleans(),
)
def test_whenever_one_looks_and_however_often_the_same_seconds_are_charged(up, lasted, at, doubled):
    """The cloud comes up and goes down at two instants of its own and keeps a record of both."""
    up, down = NOON + up, NOON + up + lasted
    node, running, intervals = factories.sent(), None, {}
    looks = sorted([*(NOON + seconds for seconds in at), down + 1_000])
    for now in [now for now in looks for _ in range(1 + doubled)]:
        record = [created(up)] if now >= up else [factories.operation("create")]
        record += [deleted(down)] if now >= down else []
        state = CREATING if now < up else READY if now < down else NodeState.DELETING
        belief = look(node, state, now, *record, running=running)
        node = belief.node
        if belief.usage is not None:
            intervals[belief.usage.id] = belief.usage
            running = belief.usage if belief.usage.end is None else None
    (usage,) = intervals.values()
    assert (usage.start, usage.end) == (up, down)
    assert usage.uncertain_seconds == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-50, 400), st.sampled_from([*NodeState, "STATE_99"])), max_size=30
    )
)
def test_not_even_a_clock_that_is_set_back_makes_an_interval_run_backwards(steps):
    node, running, now, intervals = factories.sent(), None, NOON, {}
    for passed, state in steps:
        now += passed
        belief = look(node, state, now, running=running)
        node = belief.node
        if belief.usage is not None:
            intervals[belief.usage.id] = belief.usage
            running = belief.usage if belief.usage.end is None else None
    closed = [usage for usage in intervals.values() if usage.end is not None]
    assert len(intervals) - len(closed) <= 1
    for usage in closed:
        assert usage.start <= usage.end_lo <= usage.end
        assert 0 <= usage.uncertain_seconds <= usage.end - usage.start


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 60),
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from([READY, CREATING, "REPAIRING", STOPPED])),
        max_size=30,
    ),
)
def test_no_sequence_of_looks_makes_intervals_that_overlap(came_up, steps):
    node, running, now, intervals = factories.sent(), None, NOON, {}
    for passed, state in steps:
        now += passed
        record = [created(NOON + came_up)] if now >= NOON + came_up else []
        belief = look(node, state, now, *record, running=running)
        node = belief.node
        if belief.usage is not None:
            intervals[belief.usage.id] = belief.usage
            running = belief.usage if belief.usage.end is None else None
    ordered = sorted(intervals.values(), key=lambda usage: (usage.start, usage.end or now))
    assert all(left.end <= right.start for left, right in pairwise(ordered))


def test_that_somebody_deleted_a_spot_node_does_not_prove_that_it_ran_until_then():
    spot = ProvisioningModel.SPOT
    node = factories.sent(state=NodeState.READY, up_since=NOON, provisioning_model=spot)
    sku = replace(factories.usage().sku, model=spot)
    running = factories.usage(node_id=node.id, sku=sku)
    usage = close_usage_of_down_node(
        node, running, Poll(NOON + 900, NOON + 300, (deleted(NOON + 640),))
    )
    assert usage is not None
    assert (usage.end_lo, usage.end) == (NOON + 300, NOON + 640)
    exact = close_usage_of_down_node(
        node, running, Poll(NOON + 641, NOON + 640, (deleted(NOON + 640),))
    )
    assert exact is not None
    assert (exact.end_lo, exact.end) == (NOON + 640, NOON + 640)


def test_a_deletion_that_failed_before_the_one_that_did_not_leaves_the_end_uncertain():
    """It was DELETING for a while, READY again, and nobody saw for how long."""
    node = factories.sent(state=NodeState.READY, up_since=NOON)
    running = factories.usage(node_id=node.id)
    failed = replace(deleted(NOON + 341), error=CloudUnavailable("it did not work"), done=True)
    poll = Poll(NOON + 348, NOON + 300, (failed, deleted(NOON + 349)))
    usage = close_usage_of_down_node(node, running, poll)
    assert usage is not None
    assert (usage.end_lo, usage.end) == (NOON + 341, NOON + 349)
    assert usage.end_evidence is OBSERVED
    alone = close_usage_of_down_node(
        node, running, Poll(NOON + 348, NOON + 300, (deleted(NOON + 349),))
    )
    assert alone is not None
    assert (alone.end_lo, alone.end) == (NOON + 349, NOON + 349)


def failed(at, ended):
    error = CloudUnavailable("it did not work")
    return deleted(NOON + at, ended_at=NOON + ended, done=True, error=error)


@pytest.mark.parametrize("state", [NodeState.RESTARTING, NodeState.REPAIRING])
def test_what_breaks_after_a_stop_that_failed_had_been_ready_since(state):
    """Only what is up has hardware that fails, so it was READY from when the stop was over."""
    node = factories.sent(state=NodeState.STOPPING, state_since=NOON + 349, up_since=NOON)
    usage = look(node, state, NOON + 426, failed(349, 359)).usage
    assert (usage.start, usage.end, usage.end_evidence) == (NOON + 359, NOON + 426, OBSERVED)
    assert usage.uncertain_seconds == 426 - 359
    unrecorded = look(node, state, NOON + 426, deleted(NOON + 349))
    assert unrecorded.usage is None, "no record says that it failed"


def test_what_is_ready_after_a_deletion_that_failed_may_have_been_so_since():
    node = factories.sent(state="DELETING", state_since=NOON, seen_at=NOON + 100, up_since=NOON - 9)
    usage = look(node, READY, NOON + 128, failed(0, 30), failed(90, 110)).usage
    assert interval(usage) == (NOON + 30, NOON + 128, OBSERVED)
    usage = look(node, READY, NOON + 128, failed(90, 110)).usage
    assert interval(usage) == (NOON + 100, NOON + 128, OBSERVED)


def test_what_came_up_twice_between_two_looks_is_charged_from_the_first_time_on():
    """A call for a reimage that was given up took effect late: it was READY in between."""
    node = factories.sent(state="REIMAGING", state_since=NOON, seen_at=NOON, up_since=NOON - 200)
    twice = [
        factories.operation(
            "reimage", created_at=NOON + begun, ended_at=NOON + begun + 30, done=True
        )
        for begun in (0, 55)
    ]
    usage = look(node, READY, NOON + 128, *twice).usage
    assert (usage.start, usage.start_hi) == (NOON + 30, NOON + 85)
    assert usage.start_evidence is OBSERVED
    once = look(node, READY, NOON + 128, *twice[:1]).usage
    assert interval(once) == (NOON + 30, NOON + 30, OPERATION)
    looked = look(node, READY, NOON + 128, *twice, before=NOON + 60).usage
    assert interval(looked) == interval(usage), "though looks on both sides saw it on its way up"


@pytest.mark.parametrize("state", ["RESTARTING", "REPAIRING"])
def test_what_was_stopped_had_come_back_by_itself_and_nobody_knows_when(state):
    """Only what is READY can be stopped; that it came back no record says."""
    node = factories.sent(state=state, state_since=NOON, seen_at=NOON, up_since=NOON - 200)
    stop, start = (
        factories.operation(verb, created_at=NOON + at, ended_at=NOON + at + 10, done=True)
        for verb, at in (("stop", 60), ("start", 100))
    )
    usage = look(node, READY, NOON + 128, stop, start).usage
    assert (usage.start, usage.start_hi) == (NOON, NOON + 110)
    assert usage.start_evidence is OBSERVED
    alone = look(node, READY, NOON + 128, start).usage
    assert interval(alone) == (NOON + 110, NOON + 110, OPERATION)
    still = look(replace(node, state="STOPPED"), READY, NOON + 128, stop, start).usage
    assert interval(still) == (NOON + 110, NOON + 110, OPERATION)


def test_what_is_started_again_when_it_is_first_seen_was_ready_until_it_was_stopped():
    belief = look(factories.sent(), "STARTING", NOON + 100, created(NOON + 20), stopped(NOON + 60))
    assert interval(belief.usage) == (NOON + 20, NOON + 20, OPERATION)
    assert ending(belief.usage) == (NOON + 60, NOON + 60, OPERATION)
    assert belief.node.up_since == belief.node.ready_at == NOON + 20
    seen_up = factories.sent(state=STOPPED, up_since=NOON - 200, ready_at=NOON - 200)
    again = look(seen_up, "STARTING", NOON + 100, created(NOON - 200), stopped(NOON - 60))
    assert again.usage is None


LATE = created(NOON + 900, created_at=NOON + 100)
"""Of a node that was up long before its create ended."""


def test_what_was_started_again_before_its_create_ended_is_ready_since_that_start():
    node = factories.sent(state=NodeState.REQUESTED)
    again = replace(started(NOON + 430), created_at=NOON + 400)
    belief = look(node, READY, NOON + 1_000, LATE, stopped(NOON + 300), again)
    assert interval(belief.usage) == (NOON + 430, NOON + 430, OPERATION)


@pytest.mark.parametrize("down", [stopped(NOON + 300), deleted(NOON + 300)])
@pytest.mark.parametrize(
    ("state", "charged"), [(NodeState.REQUESTED, None), (CREATING, (NOON, NOON + 300))]
)
def test_what_was_taken_down_before_its_create_ended_is_not_charged_from_that_end(
    down, state, charged
):
    node = factories.sent(state=state)
    usage = close_usage_of_down_node(node, None, Poll(NOON + 1_000, NOON, (LATE, down)))
    assert (usage and (usage.start, usage.end)) == charged
    assert usage is None or usage.uncertain_seconds == 300


@pytest.mark.parametrize("state", [NodeState.PREEMPTED, NodeState.TERMINATED])
def test_what_was_taken_away_may_have_come_up_though_its_create_is_said_to_have_failed(state):
    failed = created(NOON + 40, error=CloudUnavailable("an internal error has occurred"))
    usage = look(factories.sent(), state, NOON + 900, failed).usage
    assert (usage.start, usage.end, usage.uncertain_seconds) == (NOON, NOON + 900, 900)
    assert usage.start_evidence is Evidence.UNSEEN
    assert (
        close_usage_of_down_node(factories.sent(), None, Poll(NOON + 900, NOON, (failed,))) is None
    )


def test_what_was_stopped_had_come_up_though_its_create_is_said_to_have_failed():
    stop, start = (
        factories.operation(verb, created_at=NOON + at, ended_at=NOON + at + 10, done=True)
        for verb, at in (("stop", 60), ("start", 100))
    )
    failed = created(NOON + 20, error=CloudUnavailable("an internal error has occurred"))
    for create in ((failed,), ()):
        usage = look(factories.sent(), READY, NOON + 128, *create, stop, start).usage
        assert interval(usage) == (NOON, NOON + 110, OBSERVED)
    told = look(factories.sent(), READY, NOON + 128, created(NOON + 20), stop, start).usage
    assert interval(told) == (NOON + 20, NOON + 110, OBSERVED)
    unstopped = look(factories.sent(), READY, NOON + 128, failed, start).usage
    assert interval(unstopped) == (NOON + 110, NOON + 110, OPERATION)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 90),
            st.sampled_from([state for state in [*NodeState, "STATE_99"] if state != READY]),
        ),
        max_size=20,
    )
)
def test_looks_that_never_show_it_ready_charge_nothing_that_is_certain(steps):
    node, now = factories.sent(), NOON
    for passed, state in steps:
        now += passed
        belief = look(node, state, now)
        node = belief.node
        if belief.usage is not None:
            lasted = belief.usage.end - belief.usage.start
            assert belief.usage.uncertain_seconds == lasted, "it may have been, and nobody knows"


@pytest.mark.parametrize(
    ("state", "seen_at"),
    [
        (QueueState.WAITING_FOR_RESOURCES, NOON + 90),
        (QueueState.PROVISIONING, NOON),
        (QueueState.ACTIVE, NOON),
        (QueueState.SUSPENDED, NOON),
    ],
)
def test_only_what_waits_in_line_is_known_not_to_have_been_ready_meanwhile(state, seen_at):
    node = factories.sent(state="QUEUED", seen_at=NOON, queue_state="ACCEPTED")
    shown = QueuedResource(node.place, state, nodes=(node.cloud_id,))
    after, _ = observe_queue(node, shown, NOON + 90, NOON + 95)
    assert after.seen_at == seen_at


# ---- what a queued resource may have run before anybody looked


def granted_unseen(seconds=600, refused=False, **changes):
    spec = factories.spec(queued=True)
    values = {"state": NodeState.QUEUED, "operation": "operations/1", "seen_at": NOON}
    node = factories.sent(**({"spec": spec} | values | changes))
    return close_usage_of_down_node(node, None, Poll(NOON + seconds, NOON, (), refused=refused))


@pytest.mark.parametrize("queue_state", ["", QueueState.PROVISIONING, QueueState.ACTIVE])
@pytest.mark.parametrize("state", [NodeState.QUEUED, NodeState.REQUESTED])
def test_what_was_taken_into_the_queue_and_is_all_gone_may_have_run_meanwhile(state, queue_state):
    usage = granted_unseen(state=state, queue_state=queue_state)
    assert (usage.start, usage.end) == (NOON, NOON + 600)
    assert usage.uncertain_seconds == 600
    assert usage.start_evidence is Evidence.UNSEEN


def test_what_was_never_seen_did_not_run_before_it_was_asked_for():
    spec = factories.spec(queued=True)
    node = factories.sent(spec=spec, state=NodeState.QUEUED, operation="o", sent_at=NOON + 100)
    usage = close_usage_of_down_node(replace(node, seen_at=0), None, Poll(NOON + 600, 0))
    assert usage is not None
    assert (usage.start, usage.uncertain_seconds) == (NOON + 100, 500)


@pytest.mark.parametrize(
    "changes",
    [
        {"queue_state": QueueState.WAITING_FOR_RESOURCES},
        {"queue_state": QueueState.SUSPENDED},
        {"operation": ""},
        {"refused": True},
        {"seconds": 60},
        {"spec": factories.spec()},
        {"state": NodeState.STOPPED},
    ],
    ids=[
        "seen in line",
        "taken back before",
        "never taken in",
        "refused",
        "too short a time",
        "not queued",
        "stopped",
    ],
)
def test_where_something_says_that_it_did_not_run_nothing_is_charged(changes):
    assert granted_unseen(**changes) is None
