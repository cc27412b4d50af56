"""Placing: which candidate is tried next, or until when all are left alone, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import to_rfc3339
from service.domain.errors import NotAllowed
from service.domain.nodes.node import Hardware
from service.domain.nodes.placement import HardwareKey, Outcome, Placement
from service.domain.placement.choice import (
    SHOWN,
    choose_candidate,
    describe_denial,
    describe_next_try,
    describe_passed,
    describe_refusals,
    explain_choice,
    list_candidates,
    next_look_at,
    relevant_attempts,
    with_hardware,
)
from service.domain.placement.cooldown import find_cooldowns
from tests import factories
from tests.hands import NOON

ZONES = ("us-west4-a", "us-west4-b", "us-east5-a")
SPEC = factories.spec(zones=ZONES, provisioning_model=ProvisioningModel.SPOT)
KEYS = list_candidates(SPEC)
WEST, WEST_B, EAST = KEYS


def hardware(name, zones, **changes):
    base = Hardware(
        name, name.partition("-")[0], 16, 4, "4x4", f"image-of-{name}", stoppable=False, zones=zones
    )
    return replace(base, **changes)


EITHER = replace(
    SPEC,
    cheapest_first=True,
    alternatives=(
        hardware("v6e-16", ("us-east5-a",)),
        hardware("v5e-16", ZONES, stoppable=True),
        hardware("v6e-16", ("us-east5-b",)),
    ),
)


def ended(key, outcome=Outcome.STOCK_OUT, at=0, reason="no", number=1):
    return Placement(
        node_id="n",
        attempt=number,
        zone=key.zone,
        model=key.model,
        cloud_id=f"c-{number}",
        started_at=NOON + at,
        outcome=outcome,
        reason=reason,
        ended_at=NOON + at,
        accelerator_type=key.accelerator_type,
        generation=key.generation,
    )


def instant(seconds):
    return to_rfc3339(NOON + seconds)


def test_the_candidates_are_the_zones_in_their_order():
    assert [key.zone for key in KEYS] == list(ZONES)
    assert {(key.accelerator_type, key.generation, key.model) for key in KEYS} == {
        ("v5litepod-8", "v5e", "spot")
    }


def test_the_candidates_of_several_types_are_in_the_order_of_the_alternatives():
    assert [(key.accelerator_type, key.zone) for key in list_candidates(EITHER)] == [
        ("v6e-16", "us-east5-a"),
        *(("v5e-16", zone) for zone in ZONES),
        ("v6e-16", "us-east5-b"),
    ]


def test_what_refused_this_very_node_is_no_candidate_any_more():
    tried = [ended(WEST, Outcome.REFUSED), ended(EAST, Outcome.STOCK_OUT)]
    assert list_candidates(SPEC, tried) == (WEST_B, EAST)


def test_the_first_that_is_free_is_tried_at_once():
    choice = choose_candidate(KEYS, [], NOON)
    assert (choice.key, choice.at, choice.passed) == (WEST, NOON, ())
    choice = choose_candidate(KEYS, [ended(WEST)], NOON + 5)
    assert (choice.key, choice.at) == (WEST_B, NOON + 5)
    assert [key for key, _ in choice.passed] == [WEST]


def test_if_none_is_free_the_soonest_is_waited_for():
    history = [ended(key, at=at) for key, at in zip(KEYS, (20, 0, 10), strict=True)]
    choice = choose_candidate(KEYS, history, NOON + 30)
    assert (choice.key, choice.at, len(choice.passed)) == (WEST_B, NOON + 60, 3)


def test_a_lone_candidate_that_keeps_running_out_is_tried_ever_more_rarely():
    history: list[Placement] = []
    now, waits = NOON, []
    for number in range(8):
        choice = choose_candidate([WEST], history, now)
        waits.append(choice.at - now)
        now = choice.at
        history.append(ended(WEST, at=now - NOON, number=number))
    assert waits == [0, 60, 120, 300, 600, 1_800, 1_800, 1_800]


def test_the_attempt_is_made_of_the_type_that_was_chosen():
    key = list_candidates(EITHER)[1]
    made = with_hardware(EITHER, key)
    assert (made.accelerator_type, made.runtime_version, made.stoppable) == (
        "v5e-16",
        "image-of-v5e-16",
        True,
    )
    assert (made.zones, made.alternatives) == (EITHER.zones, EITHER.alternatives)
    assert with_hardware(SPEC, WEST) == SPEC


def test_a_node_in_googles_queue_waits_there_for_what_ran_out_and_not_here():
    node = factories.node(id="me", queued=True)
    theirs = [ended(WEST), ended(WEST, Outcome.FAILED), ended(WEST_B, Outcome.QUOTA)]
    mine = replace(ended(EAST), node_id="me")
    history = [*theirs, mine]
    assert set(find_cooldowns(KEYS, relevant_attempts(node, history), NOON)) == {WEST_B, EAST}
    assert relevant_attempts(factories.node(id="me"), history) == history


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, 1_800),
        ({"max_wait_seconds": 100}, 100),
        ({"max_wait_seconds": 5_000}, 1_800),
        ({"valid_until": NOON + 90, "max_wait_seconds": 100}, 90),
        ({"max_wait_seconds": 100, "ready_at": NOON - 50}, 1_800),
    ],
)
def test_nobody_waits_past_the_patience_of_the_owner(changes, at):
    assert next_look_at(factories.node(**changes), NOON + 1_800) == NOON + at


# ---- in words

ALONE = "; cooldown until"


def test_an_only_place_needs_no_reason():
    assert explain_choice(choose_candidate([WEST], [], NOON), SPEC, NOON) == ""


def test_the_reason_says_what_is_left_alone_and_until_when():
    cheapest = replace(SPEC, cheapest_first=True)
    assert (
        explain_choice(choose_candidate(KEYS, [], NOON), cheapest, NOON) == ": cheapest of 3 places"
    )
    later = NOON + 40
    assert explain_choice(choose_candidate(KEYS, [ended(WEST)], later), SPEC, later) == (
        ": first left of 3 places; us-west4-a was out of capacity 40 s ago; cooldown until"
        f" {instant(60)}"
    )


def test_several_types_are_named_with_their_zones():
    keys = list_candidates(EITHER)
    choice = choose_candidate(keys, [ended(keys[0])], NOON + 1)
    assert explain_choice(choice, EITHER, NOON + 1).startswith(
        ": cheapest left of 5 places; v6e-16 in us-east5-a was out of capacity 1 s ago"
    )
    assert describe_next_try(choice, EITHER) == f"next: v5e-16 in us-west4-a at {instant(1)}"


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (
            [replace(ended(WEST, Outcome.QUOTA), scope="us-west4")],
            f"was refused for lack of quota in us-west4 3 min ago{ALONE} {instant(300)}",
        ),
        (
            [ended(WEST, Outcome.DENIED)],
            f"denied the service's own credentials 3 min ago{ALONE} {instant(900)}",
        ),
        (
            [ended(WEST), replace(ended(WEST, Outcome.OPEN, 170), ended_at=None)],
            "was out of capacity 3 min ago and another node is trying it now",
        ),
    ],
)
def test_every_reason_is_a_clause(history, said):
    assert describe_passed(
        choose_candidate([WEST], history, NOON + 180).passed, SPEC, NOON + 180
    ) == [f"us-west4-a {said}"]


def test_of_many_reasons_only_some_are_told():
    keys = [replace(WEST, zone=f"us-west4-{letter}") for letter in "abcdefgh"]
    said = describe_passed(
        choose_candidate(keys, [ended(key) for key in keys], NOON).passed, SPEC, NOON
    )
    assert len(said) == SHOWN + 1
    assert said[-1] == "5 more are in cooldown"


def test_refusals_are_told_once_each_with_where_they_were_met():
    alike = [ended(key, Outcome.REFUSED, reason="bad network") for key in KEYS[:2]]
    other = ended(EAST, Outcome.REFUSED, reason="no such disk")
    assert describe_refusals([alike[0]], SPEC) == "bad network"
    assert describe_refusals([*alike, ended(EAST), other], SPEC) == (
        "every place refused it; us-west4-a, us-west4-b: bad network; us-east5-a: no such disk"
    )
    many = [ended(WEST, Outcome.REFUSED, reason=f"reason {n}") for n in range(9)]
    assert describe_refusals(many, SPEC).endswith("us-west4-a: reason 2; and 6 more reasons")


def test_a_denial_says_what_a_human_is_to_do():
    node = factories.node()
    assert "deploy/iam/steward-role.yaml in project lab" in describe_denial(
        node, NotAllowed("no permission")
    )
    login = NotAllowed("expired", run="gcloud auth application-default login")
    assert describe_denial(node, login).endswith("; run: gcloud auth application-default login")


# ---- whatever happens

FAILURES = st.builds(
    ended,
    st.sampled_from(KEYS),
    st.sampled_from([Outcome.STOCK_OUT, Outcome.FAILED, Outcome.QUOTA, Outcome.DENIED]),
    st.integers(-4_000, 0),
)


@given(st.lists(FAILURES, max_size=12))
def test_nothing_is_tried_that_should_be_left_alone_while_another_is_free(history):
    resting, choice = find_cooldowns(KEYS, history, NOON), choose_candidate(KEYS, history, NOON)
    free: list[HardwareKey] = [key for key in KEYS if key not in resting]
    assert choice == choose_candidate(KEYS, reversed(history), NOON)
    if free:
        assert (choice.key, choice.at) == (free[0], NOON)
    else:
        assert NOON < choice.at == min(rest.until for rest in resting.values())
        assert choice.at <= NOON + 1_800
        assert choose_candidate(KEYS, history, choice.at).at == choice.at, "then it is free"


def test_that_the_nodes_of_others_died_young_keeps_nobody_out_of_googles_queue():
    node = factories.node(id="me", queued=True)
    died = replace(ended(WEST, Outcome.PREEMPTED), ready_at=NOON - 30)
    assert WEST in find_cooldowns(KEYS, [died], NOON, died.node_id)
    assert relevant_attempts(node, [died]) == []
    assert relevant_attempts(node, [replace(died, node_id="me")]) != []
