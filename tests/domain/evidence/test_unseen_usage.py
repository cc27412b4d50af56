"""What ran between two looks, of which the cloud's record alone knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import CloudUnavailable
from service.domain.evidence.poll import Poll
from service.domain.evidence.unseen_usage import (
    describe_unseen_usage,
    find_return,
    find_unseen_usage,
)
from service.domain.metering.meter import Evidence
from service.domain.nodes.node import NodeState
from tests import factories
from tests.domain.drawn import moderate
from tests.hands import NOON

NODE = factories.sent(sent_at=NOON - 100)


def operation(verb, at, ended=None, **changes):
    values = {"created_at": at, "ended_at": ended, "done": ended is not None}
    return factories.operation(verb, **(values | changes))


STARTED = operation("start", NOON + 100, NOON + 115)
STOPPED = operation("stop", NOON + 170, NOON + 180)
STARTED_AGAIN = operation(
    "start", NOON + 500, NOON + 510, error=CloudUnavailable("it was deleted meanwhile")
)
DELETED = operation("delete", NOON + 510)


def found(*operations, usages=(), node=NODE):
    return [(usage.start, usage.end) for usage in find_unseen_usage(node, usages, operations)]


def test_what_was_started_and_stopped_unseen_is_charged_to_the_second():
    (usage,) = find_unseen_usage(NODE, (), (STARTED, STOPPED, STARTED_AGAIN, DELETED))
    assert (usage.start, usage.start_hi, usage.end_lo, usage.end) == (
        NOON + 115,
        NOON + 115,
        NOON + 170,
        NOON + 170,
    )
    assert (usage.start_evidence, usage.end_evidence) == (Evidence.OPERATION, Evidence.OPERATION)
    assert usage.uncertain_seconds == 0
    said = describe_unseen_usage(NODE, usage, NOON + 600).message
    assert said.startswith("it was READY from 2026-11-05T12:01:55Z to 2026-11-05T12:02:50Z")


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 115, [(115, 170)]),
        (0, 116, []),
        (115, 170, []),
        (169, 300, []),
        (170, 300, [(115, 170)]),
    ],
)
def test_what_somebody_saw_a_part_of_is_left_to_that(start, end, left):
    seen = factories.usage(start=NOON + start, end=NOON + end, end_lo=NOON + end)
    expected = [(NOON + a, NOON + b) for a, b in left]
    assert found(STARTED, STOPPED, usages=[seen]) == expected


LATE = operation("create", NOON + 100, NOON + 900)
"""Of a node that was up long before its create ended."""


@pytest.mark.parametrize(
    ("stopped", "ran"),
    [
        (operation("stop", NOON + 100, NOON + 180), [(NOON + 900, NOON + 1_000)]),
        (operation("stop", NOON + 101, NOON + 180), [(NOON + 100, NOON + 101)]),
        (operation("stop", NOON + 899, NOON + 950), [(NOON + 100, NOON + 899)]),
        (operation("stop", NOON + 899), [(NOON + 900, NOON + 1_000)]),
        (operation("stop", NOON + 950, NOON + 960), [(NOON + 900, NOON + 950)]),
    ],
)
def test_a_create_that_ends_after_its_node_was_stopped_tells_of_what_ran_before(stopped, ran):
    assert found(LATE, stopped, operation("delete", NOON + 1_000)) == ran


def test_usage_before_the_end_of_its_own_create_is_wholly_uncertain():
    stopped = operation("stop", NOON + 500, NOON + 510)
    again = operation("start", NOON + 600, NOON + 615)
    seen = factories.usage(start=NOON + 615, end=NOON + 2_000, end_lo=NOON + 2_000)
    (usage,) = find_unseen_usage(NODE, [seen], (LATE, stopped, again, DELETED))
    assert (usage.start, usage.end) == (NOON + 100, NOON + 500)
    assert usage.uncertain_seconds == 400
    assert usage.start_evidence is Evidence.UNSEEN
    said = describe_unseen_usage(NODE, usage, NOON + 2_100).message
    assert "from 2026-11-05T12:01:40Z at the earliest to 2026-11-05T12:08:20Z" in said


def test_nothing_is_added_to_what_was_seen_before_the_end_of_its_create():
    stopped = operation("stop", NOON + 500, NOON + 510)
    seen = factories.usage(start=NOON + 130, end=NOON + 500, end_lo=NOON + 500)
    assert found(LATE, stopped, operation("delete", NOON + 1_000), usages=[seen]) == []


def test_what_was_taken_down_in_the_second_in_which_it_came_up_ran_for_none():
    assert found(STARTED, operation("stop", NOON + 115, NOON + 125), DELETED) == []


@pytest.mark.parametrize(
    "operations",
    [
        (),
        (STARTED,),
        (STOPPED, DELETED),
        (operation("start", NOON + 100), STOPPED),
        (operation("start", NOON + 100, NOON + 115, error=CloudUnavailable("no")), STOPPED),
        (operation("create", NOON - 300, NOON - 200), operation("delete", NOON - 150)),
    ],
    ids=[
        "no record",
        "nothing ended it",
        "nothing began it",
        "it has not come up",
        "it failed to",
        "another attempt",
    ],
)
def test_without_both_ends_in_the_record_nothing_is_charged(operations):
    assert found(*operations) == []


@pytest.mark.parametrize("model", [ProvisioningModel.SPOT, ProvisioningModel.PREEMPTIBLE])
def test_of_what_google_may_take_back_the_record_tells_no_end(model):
    spec = factories.spec(provisioning_model=model)
    assert found(STARTED, STOPPED, node=factories.sent(spec=spec, sent_at=NOON - 100)) == []


def test_what_was_never_sent_ran_for_nothing():
    assert found(STARTED, STOPPED, node=factories.node(sent_at=None)) == []


@moderate
@given(st.lists(st.integers(0, 300), min_size=2, max_size=10, unique=True), st.randoms())
def test_once_it_is_charged_there_is_nothing_left_to_find(steps, luck):
    instants = [NOON + 10 * step for step in sorted(steps)]
    pairs = list(zip(instants[::2], instants[1::2], strict=False))
    ups = [operation("start", up - 5, up) for up, _ in pairs]
    operations = ups + [operation("stop", down, down + 4) for _, down in pairs]
    luck.shuffle(operations)
    usages = list(find_unseen_usage(NODE, (), operations))
    assert [(usage.start, usage.end) for usage in usages] == pairs
    assert found(*operations, usages=usages) == []


def deletion(at, ended=None, **changes):
    return operation("delete", NOON + at, None if ended is None else NOON + ended, **changes)


FAILED = CloudUnavailable("it did not work")


@pytest.mark.parametrize(
    ("others", "end", "evidence"),
    [
        ((deletion(425),), 425, Evidence.OPERATION),
        ((deletion(425, 433, error=FAILED), deletion(500)), 500, Evidence.OPERATION),
        ((), 900, Evidence.OBSERVED),
    ],
)
def test_a_deletion_that_failed_unseen_let_it_run_until_the_next(others, end, evidence):
    node = factories.sent(state=NodeState.DELETING, state_since=NOON + 349, up_since=NOON)
    poll = Poll(NOON + 900, NOON + 349, (deletion(349, 357, error=FAILED), *others))
    usage = find_return(node, NOON + 349, poll)
    assert usage is not None
    assert (usage.start, usage.end, usage.end_evidence) == (NOON + 357, NOON + end, evidence)
    assert usage.uncertain_seconds == end - 357
    assert find_return(node, usage.end, poll) is None, "the second time there is nothing to find"
    assert find_return(node, None, poll) is None, "it had not been READY"
    assert find_return(node, NOON + 100, poll) is None, "what ended it did not fail"
