"""Whose something is, and whether it may go: tables, and properties over all circumstances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.nodes.node import NodeState
from service.domain.nodes.ownership import LABEL_ID, LABEL_INSTALL
from service.domain.orphans.fleet_watch import EVERYWHERE, WINDOW_SECONDS, FleetWatch
from service.domain.orphans.orphan import STEWARD, Orphan, OrphanKind, OrphanVerdict
from service.domain.orphans.verdict import (
    LOOKS,
    OrphanFinding,
    OrphanMove,
    classify_resource,
    deletion_limit,
    judge_orphan,
    next_move,
    record_sighting,
)
from tests.factories import ZONE
from tests.garbage import ID, INSTALL, LONG, OURS, PERIOD, attempt, orphan, shown, watch
from tests.hands import NOON

CERTAIN, DOUBTFUL = True, False
DOUBT = "it is in doubt"
THEIRS = {LABEL_ID: ID, LABEL_INSTALL: "another"}
QR: dict[str, Any] = {"queued": True, "uid": ""}
OVER = OrphanFinding(OrphanKind.OURS)


@pytest.mark.parametrize(
    ("what", "attempts", "manned", "kind", "certain"),
    [
        (shown(labels={}), [], False, OrphanKind.STRANGER, DOUBTFUL),
        (shown(labels=THEIRS), [], False, OrphanKind.STRANGER, DOUBTFUL),
        (shown(labels=THEIRS), [attempt()], False, OrphanKind.STRANGER, DOUBTFUL),
        (shown(labels={LABEL_ID: ID}), [attempt()], False, OrphanKind.STRANGER, DOUBTFUL),
        (shown(), [], False, OrphanKind.OURS, DOUBTFUL),
        (shown(state="PREEMPTED"), [], False, OrphanKind.OURS, DOUBTFUL),
        (shown(), [attempt(node_id="another")], False, OrphanKind.OURS, DOUBTFUL),
        (shown(), [attempt(zone="us-east1-c")], False, OrphanKind.OURS, DOUBTFUL),
        (shown(), [attempt("run-1-2")], False, OrphanKind.OURS, DOUBTFUL),
        (shown(), [attempt()], False, OrphanKind.OURS, CERTAIN),
        (shown(state="CREATING"), [attempt()], False, OrphanKind.OURS, CERTAIN),
        (shown(state="PREEMPTED"), [attempt()], False, OrphanKind.LEFTOVER, CERTAIN),
        (shown(state="TERMINATED"), [attempt()], False, OrphanKind.LEFTOVER, CERTAIN),
        (shown(state="SUSPENDED", **QR), [attempt()], True, OrphanKind.ZOMBIE, CERTAIN),
        (shown(state="FAILED", **QR), [attempt()], False, OrphanKind.ZOMBIE, CERTAIN),
        (shown(state="ACTIVE", **QR), [attempt()], False, OrphanKind.ZOMBIE, CERTAIN),
        (shown(state="ACTIVE", **QR), [attempt()], True, OrphanKind.OURS, CERTAIN),
        (shown(state="WAITING_FOR_RESOURCES", **QR), [attempt()], False, OrphanKind.OURS, CERTAIN),
        (shown(state="FAILED", **QR), [], False, OrphanKind.OURS, DOUBTFUL),
        (shown(state="FAILED", labels={}, **QR), [], False, OrphanKind.STRANGER, DOUBTFUL),
    ],
)
def test_whose_it_is_follows_from_its_labels_and_from_the_books(
    what, attempts, manned, kind, certain
):
    found = classify_resource(what, attempts, INSTALL, manned=manned)
    assert found is not None
    assert (found.kind, found.is_certain) == (kind, certain)


@pytest.mark.parametrize(
    ("what", "by"),
    [
        (shown(), attempt(present=True)),
        (shown(labels={}), attempt(present=True)),
        (shown("run-0"), attempt("run", slices=2, present=True)),
        (shown("run-1"), attempt("run", slices=2, present=True)),
        (shown("run", **QR), attempt("run", slices=2, present=True)),
    ],
)
def test_what_a_live_record_is_at_is_no_orphan(what, by):
    assert classify_resource(what, [by], INSTALL, manned=False) is None


@pytest.mark.parametrize("cloud_id", ["run-2", "run-01", "run", "run-x", "run-99999999999"])
def test_what_a_record_of_two_slices_never_made_is_one(cloud_id):
    by = attempt("run", slices=2, present=True)
    assert classify_resource(shown(cloud_id), [by], INSTALL, manned=False) is not None


def test_a_second_attempt_is_not_the_second_slice_of_the_first():
    by = attempt("run", present=True)
    assert classify_resource(shown("run-2"), [by, attempt("run-2")], INSTALL, manned=False) == OVER


MADE_BY_US = attempt(uids=("7001",))
SLICES = attempt("run", slices=3, uids=("7000", "", "7002"))


@pytest.mark.parametrize(
    ("what", "by", "certain"),
    [
        (shown(), MADE_BY_US, CERTAIN),
        (shown(uid="9001"), MADE_BY_US, DOUBTFUL),
        (shown(uid="9001", state="PREEMPTED"), MADE_BY_US, DOUBTFUL),
        (shown(uid=""), MADE_BY_US, DOUBTFUL),
        (shown(uid="9001"), attempt(), CERTAIN),
        (shown(state="SUSPENDED", **QR), MADE_BY_US, CERTAIN),
        (shown("run-0", uid="7000"), SLICES, CERTAIN),
        (shown("run-2", uid="7000"), SLICES, DOUBTFUL),
        (shown("run-1", uid="9001"), SLICES, CERTAIN),
    ],
)
def test_another_incarnation_with_our_labels_was_made_by_somebody_else(what, by, certain):
    found = classify_resource(what, [by], INSTALL, manned=False)
    assert found is not None
    assert found.is_certain is certain
    if not certain:
        assert found.kind is OrphanKind.OURS
        assert "Google's id is not that of the recorded resource" in found.doubt


CALLED_GONE = attempt(uids=("7001",), called_gone_at=NOON)


@pytest.mark.parametrize(
    ("what", "kind", "said"),
    [
        (shown(), OrphanKind.OURS, "adopt it, or delete it"),
        (shown(state="REPAIRING"), OrphanKind.OURS, "adopt it once it is READY, or delete it"),
        (shown(state="STOPPED"), OrphanKind.OURS, "adopt it once it is READY, or delete it"),
        (
            shown(queued_resource="q"),
            OrphanKind.OURS,
            "automatically; delete it, and its queued resource",
        ),
        (shown(state="ACTIVE", **QR), OrphanKind.OURS, "automatically; delete it when"),
        (shown(state="PREEMPTED"), OrphanKind.LEFTOVER, ""),
        (shown(state="SUSPENDED", **QR), OrphanKind.ZOMBIE, ""),
    ],
)
def test_what_lives_though_it_was_called_gone_is_left_to_a_human(what, kind, said):
    found = classify_resource(what, [CALLED_GONE], INSTALL, manned=True)
    assert found is not None
    assert found.kind is kind
    assert found.is_certain is not bool(said)
    assert said in found.doubt
    if said:
        assert "it was recorded as gone at 2026-11-05T12:00:00Z and is listed again" in found.doubt


def test_what_is_certain_goes_after_two_looks_and_a_while():
    assert judge_orphan(orphan(), watch(), NOON)[0] is OrphanVerdict.COLLECT


@pytest.mark.parametrize(
    ("changes", "around", "said"),
    [
        ({"looks": 1}, {}, "less than 15 minutes"),
        ({"since": NOON - WINDOW_SECONDS}, {}, "less than 15 minutes"),
        ({"shown": shown(created_at=NOON - 60)}, {}, "less than 15 minutes"),
        ({"shown": shown(created_at=NOON + 60)}, {}, "less than 15 minutes"),
        ({"shown": shown(state="DELETING")}, {}, "is being deleted"),
        ({"next_try_at": NOON}, {}, "being checked by name"),
        ({}, {"since": NOON - WINDOW_SECONDS}, "this daemon"),
        ({}, {"sizes": ((10, NOON - LONG), (5, NOON - 60))}, "half of the project's nodes or more"),
        ({}, {"blind": frozenset({(False, ZONE)})}, "did not answer"),
        ({}, {"blind": frozenset({(False, EVERYWHERE)})}, "did not answer"),
    ],
)
def test_each_rail_holds_it_and_says_why(changes, around, said):
    judged, reason = judge_orphan(orphan(**changes), watch(**around), NOON)
    assert judged is OrphanVerdict.OBSERVE
    assert said in reason


def test_a_zone_that_hides_its_queue_says_all_of_its_nodes():
    blind = frozenset({(True, ZONE), (True, EVERYWHERE)})
    assert judge_orphan(orphan(), watch(blind=blind), NOON)[0] is OrphanVerdict.COLLECT
    queued = orphan(kind=OrphanKind.ZOMBIE, shown=shown(state="FAILED", **QR))
    assert judge_orphan(queued, watch(blind=blind), NOON)[0] is OrphanVerdict.OBSERVE


def test_what_runs_under_our_label_without_a_record_is_only_shown():
    finding = classify_resource(shown(), [], INSTALL, manned=False)
    assert finding is not None
    one = record_sighting(None, shown(), finding, NOON - 3_600, PERIOD)
    judged, reason = judge_orphan(one, watch(), NOON)
    assert (one.verdict, one.reason) == (judged, reason)
    assert judged is OrphanVerdict.LEAVE
    assert "adopt it, or delete it" in reason


ADOPT, LATER = "; adopt it, or delete it", "; adopt it once it is READY, or delete it"
REPEAT, UNNEEDED = " by repeating its name", "; delete it when nobody needs it"
BOTH = "; delete it, and its queued resource too,"


@pytest.mark.parametrize(
    ("what", "stranger", "ours"),
    [
        (shown(), ADOPT + REPEAT, ADOPT),
        (shown(state="STOPPED"), LATER + REPEAT, LATER),
        (shown(state="PREEMPTED"), "; delete it" + REPEAT, UNNEEDED),
        (shown(uid=""), "; delete it" + REPEAT, UNNEEDED),
        (shown(accelerator_type="v99-8"), "; delete it" + REPEAT, UNNEEDED),
        (shown(state="ACTIVE", **QR), "; delete it" + REPEAT, UNNEEDED),
        (
            shown(queued_resource="q"),
            BOTH + " by repeating their names",
            BOTH + " when nobody needs them",
        ),
    ],
)
def test_only_what_can_be_adopted_is_said_to_be(what, stranger, ours):
    """Of a stranger, of what the books know nothing of, and of another under a name of ours."""
    for labels, attempts, said in (
        ({}, [], stranger),
        (OURS, [], ours),
        (OURS, [attempt(uids=("9001",))] if not what.queued else [], ours),
    ):
        found = classify_resource(replace(what, labels=labels), attempts, INSTALL, manned=True)
        assert found is not None
        assert found.doubt.endswith(said)


orphans = st.builds(
    Orphan,
    kind=st.sampled_from(OrphanKind),
    certain=st.booleans(),
    shown=st.builds(
        shown,
        state=st.sampled_from([*NodeState, "SUSPENDED", "ACTIVE"]),
        created_at=st.none() | st.integers(NOON - 2_000, NOON + 10),
        queued=st.booleans(),
    ),
    first_seen=st.integers(NOON - 2_000, NOON),
    since=st.integers(NOON - 2_000, NOON),
    last_seen=st.integers(NOON - 2_000, NOON),
    looks=st.integers(1, LOOKS),
    next_try_at=st.none() | st.just(NOON),
)
watches = st.none() | st.builds(
    FleetWatch,
    since=st.integers(NOON - 2_000, NOON),
    asked=st.integers(NOON - 20, NOON),
    sizes=st.lists(st.integers(0, 20), max_size=4, unique=True).map(
        lambda some: tuple((size, NOON - 60) for size in sorted(some, reverse=True))
    ),
    blind=st.sets(st.tuples(st.booleans(), st.sampled_from([ZONE, EVERYWHERE, "x"]))).map(
        frozenset
    ),
)


@given(orphans, watches)
def test_a_stranger_and_what_is_in_doubt_is_never_collected(one, around):
    if one.kind is OrphanKind.STRANGER or not one.certain:
        assert judge_orphan(one, around, NOON)[0] is OrphanVerdict.LEAVE


@given(orphans, watches)
def test_nothing_is_collected_unless_every_rail_lets_it(one, around):
    if judge_orphan(one, around, NOON)[0] is not OrphanVerdict.COLLECT:
        return
    assert one.looks >= LOOKS
    assert one.next_try_at is None
    assert NOON - max(one.since, one.shown.created_at or 0) > WINDOW_SECONDS
    assert around is not None
    assert NOON - around.since > WINDOW_SECONDS
    assert not around.is_shrunk
    assert (one.shown.queued, ZONE) not in around.blind


def test_a_look_that_shows_the_same_is_not_worth_writing_down():
    one = orphan()
    assert record_sighting(one, one.shown, OVER, NOON + 15, PERIOD) is one


def test_looks_count_when_they_are_a_period_apart():
    first = record_sighting(None, shown(), OVER, NOON, PERIOD)
    assert (first.looks, first.first_seen, first.verdict) == (1, NOON, OrphanVerdict.OBSERVE)
    assert record_sighting(first, first.shown, OVER, NOON + PERIOD - 1, PERIOD) is first
    assert record_sighting(first, first.shown, OVER, NOON + PERIOD, PERIOD).looks == 2


@pytest.mark.parametrize("changes", [{"uid": "7002"}, {"created_at": NOON}])
def test_another_incarnation_begins_anew_and_no_request_carries_over(changes):
    one = orphan(wanted="delete", asked_by="caller", next_try_at=NOON, version=3)
    other = record_sighting(one, shown(**changes), OVER, NOON, PERIOD)
    assert (other.wanted, other.looks, other.since, other.version) == ("", 1, NOON, 3)


def test_what_was_in_doubt_and_becomes_certain_waits_anew():
    one = orphan(certain=False)
    after = record_sighting(one, one.shown, OVER, NOON, PERIOD)
    assert (after.first_seen, after.since, after.looks) == (one.first_seen, NOON, 1)
    assert judge_orphan(after, watch(), NOON + 60)[0] is OrphanVerdict.OBSERVE


def test_what_was_certain_and_falls_into_doubt_says_why_and_is_not_written_again():
    doubt = OrphanFinding(OrphanKind.OURS, DOUBT)
    after = record_sighting(orphan(), shown(), doubt, NOON, PERIOD)
    assert (after.certain, after.verdict, after.reason) == (False, OrphanVerdict.LEAVE, DOUBT)
    assert record_sighting(after, shown(), doubt, NOON + 15, PERIOD) is after
    other = record_sighting(
        after, shown(), OrphanFinding(OrphanKind.OURS, "for another reason"), NOON + 15, PERIOD
    )
    assert other.reason == "for another reason"


def test_what_was_adopted_and_outlives_its_record_begins_anew():
    after = record_sighting(orphan(wanted="adopted"), shown(), OVER, NOON, PERIOD)
    assert (after.wanted, after.first_seen) == ("", NOON)


def test_what_is_seen_again_need_not_be_asked_for_by_name():
    assert (
        record_sighting(orphan(next_try_at=NOON), shown(), OVER, NOON, PERIOD).next_try_at is None
    )


BY_ITSELF = {"wanted": "delete", "asked_by": STEWARD, "next_try_at": NOON}
BY_SOMEONE = {"wanted": "delete", "asked_by": "caller", "next_try_at": NOON}
NOT_OURS = OrphanFinding(OrphanKind.STRANGER, DOUBT)
LEFT = OrphanFinding(OrphanKind.LEFTOVER)
UNSURE = OrphanFinding(OrphanKind.OURS, DOUBT)


@pytest.mark.parametrize(
    ("one", "found", "finding", "allowed", "move"),
    [
        (orphan(**BY_ITSELF), None, None, OrphanVerdict.COLLECT, OrphanMove.GONE),
        (orphan(), None, None, OrphanVerdict.OBSERVE, OrphanMove.GONE),
        (orphan(**BY_ITSELF), shown(), None, OrphanVerdict.COLLECT, OrphanMove.KNOWN),
        (orphan(**BY_SOMEONE), shown(), None, OrphanVerdict.COLLECT, OrphanMove.KNOWN),
        (orphan(), shown(), OVER, OrphanVerdict.OBSERVE, OrphanMove.FOUND),
        (orphan(**BY_ITSELF), shown(), OVER, OrphanVerdict.COLLECT, OrphanMove.DELETE),
        (orphan(**BY_ITSELF), shown(), OVER, OrphanVerdict.OBSERVE, OrphanMove.RELEASE),
        (orphan(**BY_ITSELF), shown(uid="7002"), OVER, OrphanVerdict.COLLECT, OrphanMove.RELEASE),
        (
            orphan(**BY_ITSELF),
            shown(labels={}),
            NOT_OURS,
            OrphanVerdict.COLLECT,
            OrphanMove.RELEASE,
        ),
        (orphan(**BY_ITSELF), shown(), LEFT, OrphanVerdict.COLLECT, OrphanMove.RELEASE),
        (orphan(**BY_ITSELF), shown(), UNSURE, OrphanVerdict.COLLECT, OrphanMove.RELEASE),
        (orphan(**BY_SOMEONE), shown(), UNSURE, OrphanVerdict.LEAVE, OrphanMove.DELETE),
        (
            orphan(**BY_ITSELF),
            shown(state="DELETING"),
            OVER,
            OrphanVerdict.OBSERVE,
            OrphanMove.WAIT,
        ),
        (orphan(**BY_SOMEONE), shown(), OVER, OrphanVerdict.OBSERVE, OrphanMove.DELETE),
        (orphan(**BY_SOMEONE), shown(), LEFT, OrphanVerdict.OBSERVE, OrphanMove.DELETE),
        (orphan(**BY_SOMEONE), shown(uid="7002"), OVER, OrphanVerdict.OBSERVE, OrphanMove.RELEASE),
        (orphan(**BY_SOMEONE), shown(labels={}), NOT_OURS, OrphanVerdict.LEAVE, OrphanMove.RELEASE),
        (
            orphan(confirmed=True, **BY_SOMEONE),
            shown(labels={}),
            NOT_OURS,
            OrphanVerdict.LEAVE,
            OrphanMove.DELETE,
        ),
    ],
)
def test_what_is_done_follows_from_what_is_there_now(one, found, finding, allowed, move):
    assert next_move(one, found, finding, allowed, occupied=False) is move


def test_a_queued_resource_waits_for_the_node_that_is_at_work():
    one = orphan(shown=shown(**QR), **BY_SOMEONE)
    assert next_move(one, one.shown, OVER, OrphanVerdict.COLLECT, occupied=True) is OrphanMove.WAIT


@given(
    orphans,
    st.sampled_from(OrphanKind),
    st.booleans(),
    st.sampled_from(OrphanVerdict),
    st.booleans(),
)
def test_nothing_that_is_not_ours_is_deleted_unless_its_name_was_repeated(
    one, kind, certain, allowed, confirmed
):
    finding = OrphanFinding(kind, "" if certain else DOUBT)
    for request in (BY_ITSELF, BY_SOMEONE, {"wanted": ""}):
        asked = replace(one, confirmed=confirmed, **request)
        move = next_move(asked, one.shown, finding, allowed, occupied=False)
        if move is OrphanMove.DELETE:
            assert asked.to_be_deleted
            assert kind is not OrphanKind.STRANGER or confirmed
            assert asked.asked_by != STEWARD or allowed is OrphanVerdict.COLLECT


@pytest.mark.parametrize(("live", "most"), [(0, 1), (9, 1), (19, 1), (20, 2), (1_000, 100)])
def test_a_tenth_of_the_fleet_is_the_most_that_goes_at_once(live, most):
    assert deletion_limit(live) == most
