"""Tests of the plan: what it is known by, and when it is stale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.errors import Conflict
from service.domain.idle.plan import (
    CleanupPlan,
    PlanBasis,
    PlanEntry,
    check_fresh,
    list_differences,
)
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail

BASIS = PlanBasis(3, 1, 7, "team:vision", 2, "every device is quiet")


def entry(number, **changes):
    base = PlanEntry(f"n{number}", f"node-{number}", Action.DELETE, "idle", 1_000, 5, BASIS)
    return replace(base, **changes)


PLAN = CleanupPlan("lab", 1_000, (entry(1), entry(2)))


def test_the_same_decision_is_the_same_plan_whenever_it_is_made():
    later = replace(
        PLAN, as_of=2_000, entries=(entry(2), entry(1, due_at=5, reason="so", hourly=9))
    )
    assert later.id == PLAN.id
    check_fresh(PLAN.id, PLAN, later)
    assert PLAN.saves_hourly == 10
    assert replace(PLAN, entries=(entry(1, hourly=None),)).saves_hourly == 0


CHANGES = [
    (replace(PLAN, entries=(entry(1),)), "node node-2 is no longer in the plan"),
    (replace(PLAN, entries=(*PLAN.entries, entry(3))), "node node-3 is new in the plan"),
    (
        replace(PLAN, entries=(entry(1), entry(2, action=Action.STOP))),
        "node node-2: stop instead of delete",
    ),
    (replace(PLAN, held_by=(Rail.BREAKER,)), "rails: breaker instead of none"),
    (replace(PLAN, paused=1), "the pause was changed"),
    *(
        (replace(PLAN, entries=(entry(1), entry(2, basis=basis))), f"node node-2: {what} changed")
        for basis, what in (
            (replace(BASIS, node_version=4), "the node"),
            (replace(BASIS, incarnation=2), "its incarnation"),
            (replace(BASIS, course_since=8), "its course"),
            (replace(BASIS, policy="default", policy_version=1), "its policy"),
            (replace(BASIS, verdict="host busy"), "the verdict"),
        )
    ),
]


@pytest.mark.parametrize(("after", "said"), CHANGES)
def test_a_plan_is_stale_once_anything_it_was_decided_from_has_changed(after, said):
    assert list(list_differences(PLAN, after)) == [said]
    with pytest.raises(Conflict) as refused:
        check_fresh(PLAN.id, PLAN, after)
    assert said in str(refused.value)
    assert refused.value.facts["plan_id"] == after.id
    assert refused.value.facts["changed"] == [said]


@pytest.mark.parametrize("plan_id", ["", "x", PLAN.id[:-1], "../../etc"])
def test_a_plan_that_nobody_made_is_refused(plan_id):
    with pytest.raises(Conflict, match="no such plan"):
        check_fresh(plan_id, None, PLAN)


def test_another_project_has_another_plan():
    assert replace(PLAN, project="other").id != PLAN.id
    assert replace(PLAN, entries=()).id != PLAN.id
