"""Everything that may end a node, the strongest first, with what holds it back."""

from __future__ import annotations

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.idle.assess import IdleSubject
from service.domain.idle.cleanup import Cleanup, RailHold, WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.ends import End, EndOutlook, ends_of, list_causes
from service.domain.idle.policy import Action, Waste, apply_policies
from service.domain.idle.proof import IdleVerdict
from service.domain.idle.rails import Rail
from service.domain.idle.signals.signal import Level
from service.domain.lifecycle.precedence import EndCause, Holder
from service.domain.nodes.keep import LABEL, Keep
from service.domain.nodes.node import Asked, IdlePolicy, NodeState
from tests import factories
from tests.hands import NOON

READY = {"state": NodeState.READY, "ready_at": NOON - HOUR}
KEPT = {"kept_until": NOON + HOUR, "kept_because": "a demo"}
PAUSED = Cleanup("lab").with_pause(NOON, "ada", "a demo")
HELD = Cleanup("lab", holds=(RailHold(Rail.MASS, "why", NOON),))


def outlook(cleanup=Cleanup("lab"), own_job="", **changes):  # noqa: B008 - frozen
    return EndOutlook(factories.sent(**(READY | changes)), cleanup, own_job=own_job)


def watched(node, level=Level.QUIET):
    course = IdleCourse(node.id, node.attempt, State.NOTIFIED, NOON, NOON, Action.DELETE)
    return WatchedNode(course, "lab", verdict=IdleVerdict(level, "why"), due_at=NOON + 900)


def of_idle(action="delete", ceiling=Action.DELETE, cleanup=None, level=Level.QUIET, keep=None):
    node = factories.sent(**READY, idle=IdlePolicy(action=action))
    subject = IdleSubject(node, apply_policies(node.spec, "", {}, ceiling), keep=keep)
    seen = EndOutlook(node, cleanup or Cleanup("lab"), subject, watched(node, level))
    return ends_of(seen, NOON)


@pytest.mark.parametrize(
    ("found", "at", "held_by"),
    [
        (outlook(ttl_seconds=2 * HOUR), NOON + HOUR, ()),
        (outlook(ttl_seconds=HOUR), NOON, ()),
        (outlook(ttl_seconds=90 * 60, **KEPT), NOON + HOUR, (Holder.KEEP,)),
        (outlook(ttl_seconds=3 * HOUR, **KEPT), NOON + 2 * HOUR, ()),
        (outlook(ttl_seconds=HOUR, labels={LABEL: "soon"}), None, (Holder.KEEP,)),
        (outlook(PAUSED, ttl_seconds=HOUR), None, (Holder.PAUSE,)),
        (outlook(HELD, ttl_seconds=HOUR), NOON, ()),
    ],
)
def test_a_time_to_live_is_held_by_keep_and_pause_and_by_no_rail(found, at, held_by):
    (end,) = ends_of(found, NOON)
    assert (end.ender, end.at, end.held_by) == (EndCause.TTL, at, held_by)


def test_the_end_of_a_job_is_held_by_a_keep_alone():
    mark = {"ends_after_keep": "job 7 is SUCCEEDED"}
    (end,) = ends_of(outlook(PAUSED, **KEPT, **mark), NOON)
    assert end == End(EndCause.JOB_END, "job 7 is SUCCEEDED", NOON + HOUR, (Holder.KEEP,))
    (end,) = ends_of(outlook(own_job="7"), NOON)
    assert end == End(EndCause.JOB_END, "it goes with job 7", None)


def test_google_ends_a_flex_start_node_whatever_holds():
    flex = {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 2 * HOUR}
    first, second = ends_of(outlook(PAUSED, **flex), NOON)
    assert (first.ender, first.at, first.held_by) == (EndCause.GOOGLE, NOON + HOUR, ())
    assert second.ender is EndCause.TTL


def test_the_first_budget_ends_a_node_and_nothing_holds_it():
    found = EndOutlook(
        factories.sent(**READY, **KEPT, ttl_seconds=HOUR),
        PAUSED,
        budgets={"b": NOON + 9, "a": NOON},
    )
    budget, ttl = ends_of(found, NOON)
    assert budget == End(EndCause.BUDGET, "the budget 'a' is exceeded", NOON)
    assert (ttl.ender, ttl.held_by) == (EndCause.TTL, (Holder.KEEP, Holder.PAUSE))


@pytest.mark.parametrize(
    ("changes", "held_by"),
    [
        ({}, ()),
        ({"keep": Keep(NOON + 1, "a demo")}, (Holder.KEEP,)),
        ({"keep": Keep(NOON, "a demo")}, ()),
        ({"level": Level.UNKNOWN}, (Holder.UNKNOWN,)),
        ({"level": Level.ACTIVE}, ()),
        ({"cleanup": HELD}, (Holder.RAILS,)),
        ({"cleanup": PAUSED}, (Holder.PAUSE,)),
        ({"ceiling": Action.NOTIFY}, (Holder.MODE,)),
    ],
)
def test_idleness_is_held_by_all_of_them(changes, held_by):
    (end,) = of_idle(**changes)
    at = None if {Holder.RAILS, Holder.PAUSE} & {*held_by} else NOON + 900
    assert (end.ender, end.at, end.held_by) == (EndCause.IDLE, at, held_by)
    since = "it has been idle; " if changes.get("level", Level.QUIET) is Level.QUIET else ""
    assert end.reason == f"{since}its own policy deletes idle nodes"


def test_a_policy_that_only_notifies_ends_nothing():
    assert of_idle(action="notify") == ()
    assert of_idle(action="stop")[0].reason.endswith("its own policy stops idle nodes")


@pytest.mark.parametrize("changes", [{"asked": Asked.ABSENT}, {"state": NodeState.DELETED}])
def test_what_is_being_deleted_has_no_other_end(changes):
    assert ends_of(outlook(ttl_seconds=HOUR, **changes), NOON) == ()


def test_the_strongest_stands_first():
    mark = {"ends_after_keep": "job 7 is SUCCEEDED"}
    found = ends_of(outlook(ttl_seconds=HOUR, **KEPT, **mark), NOON)
    assert [end.ender for end in found] == [EndCause.JOB_END, EndCause.TTL]


MARK = {"ends_after_keep": "job 7 is SUCCEEDED"}
JOB_END = (EndCause.JOB_END, "job 7 is SUCCEEDED")
OVER = (EndCause.TTL, "its time to live has expired")
IDLE = (EndCause.IDLE, "it has been idle since 2026-11-05T11:00:00Z")


def causes(state=State.NOTIFIED, action="delete", incarnation=1, verdict=None, budgets=(), **node):
    made = factories.sent(**(READY | node), idle=IdlePolicy(action=action))
    course = IdleCourse(made.id, incarnation, state, NOON)
    verdict = verdict or IdleVerdict(Level.QUIET, "every device is quiet", since=NOON - HOUR)
    seen = WatchedNode(course, "lab", verdict=verdict)
    applied = apply_policies(made.spec, "", {}, Action.OBSERVE)
    return list(list_causes(made, NOON, applied=applied, watched=seen, budgets=dict(budgets)))


def test_every_cause_that_applies_now_is_listed_the_strongest_first_whatever_holds_it():
    exceeded = {"b": NOON + 9, "a": NOON + 9, "c": NOON}
    assert causes(budgets=exceeded, ttl_seconds=HOUR, **KEPT, **MARK) == [
        JOB_END,
        (EndCause.BUDGET, "the budget 'c' is exceeded"),
        (EndCause.BUDGET, "the budget 'a' is exceeded"),
        (EndCause.BUDGET, "the budget 'b' is exceeded"),
        OVER,
        IDLE,
    ]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"state": State.CANDIDATE}, [IDLE]),
        ({"state": State.QUIET}, []),
        ({"state": State.UNKNOWN}, []),
        ({"incarnation": 2}, []),
        ({"action": "notify"}, []),
        ({"action": "stop"}, [IDLE]),
        ({"state": State.QUIET, "ttl_seconds": 2 * HOUR}, []),
        ({"state": State.QUIET, "ttl_seconds": HOUR}, [OVER]),
        ({"verdict": IdleVerdict(Level.ACTIVE, "why", waste=Waste.CRASH_LOOP)}, []),
    ],
)
def test_a_cause_that_does_not_apply_yet_is_not_listed(changes, found):
    assert causes(**changes) == found


def test_a_cause_has_the_same_words_in_the_outlook_and_beside_a_reason():
    node = factories.sent(**READY, ttl_seconds=HOUR, idle=IdlePolicy(action="delete"))
    verdict = IdleVerdict(Level.QUIET, "every device is quiet", since=NOON - HOUR)
    course = IdleCourse(node.id, node.attempt, State.NOTIFIED, NOON)
    seen = WatchedNode(course, "lab", verdict=verdict, due_at=NOON)
    subject = IdleSubject(node, apply_policies(node.spec, "", {}, Action.DELETE))
    found = ends_of(EndOutlook(node, Cleanup("lab"), subject, seen, budgets={"a": NOON}), NOON)
    listed = list_causes(node, NOON, applied=subject.applied, watched=seen, budgets={"a": NOON})
    assert [end.ender for end in found] == [cause for cause, _ in listed]
    for end, (_, text) in zip(found, listed, strict=True):
        assert end.reason.startswith(text)
