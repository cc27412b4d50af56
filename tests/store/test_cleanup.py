"""Idle nodes in the database: read as they were written, and never written over unseen."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from service.domain.clock import DAY, HOUR
from service.domain.errors import Conflict, NotFound, StaleVersion
from service.domain.idle.cleanup import Cleanup, EndRecord, RailHold, WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.links import Link, Verb
from service.domain.idle.plan import CleanupPlan, PlanBasis, PlanEntry
from service.domain.idle.policy import Action, Format, Policy, Recipient, Rule, Waste
from service.domain.idle.proof import Blocker, Host, IdleVerdict, Signals
from service.domain.idle.rails import BegunEnd, Breaker, Rail, Waiting, share_of
from service.domain.idle.readings import FamilyRead
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.heartbeat import Heartbeat, HeartbeatToken
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.store.tables import cleanups, idle_courses
from tests import factories
from tests.hands import NOON

RULE = Rule(7_200, 60, Action.DELETE, frozenset({Waste.CRASH_LOOP, Waste.NO_PROGRESS}))
TOLD = (
    Recipient(webhook="https://hooks.example.com/x", secret="s" * 16, format=Format.SLACK),
    Recipient(emails=("ada@example.com",)),
)


@pytest.fixture
def node(units):
    made = factories.node()
    with units() as unit:
        unit.nodes.add(made)
    return made


def watched(node, **changes):
    signals = Signals(
        {(0, Kind.CPU): SignalTrack(NOON, 1.5, Level.QUIET, ((NOON - 60, NOON),), NOON - 90)},
        {0: Host(NOON, "python 7", sessions=1, held_since=NOON - 300)},
        NOON,
        {0: "987"},
    )
    verdict = IdleVerdict(Level.QUIET, "quiet", since=NOON, blockers=(Blocker.SESSION,), lacking=())
    course = IdleCourse(node.id, 1, State.NOTIFIED, NOON, NOON, Action.STOP, None, 7)
    return replace(WatchedNode(course, "lab", signals, verdict, NOON, NOON + 900), **changes)


def test_a_policy_is_read_as_it_was_written(units):
    with units() as unit:
        saved = unit.idle_policies.save(Policy("team:nlp", RULE, TOLD, updated_at=NOON))
        assert saved.version == 1
        assert unit.idle_policies.get("team:nlp") == saved
        assert unit.idle_policies.find_all() == {"team:nlp": saved}
        with pytest.raises(NotFound):
            unit.idle_policies.get("team:cv")


def test_a_policy_is_not_written_over_unseen(units):
    with units() as unit:
        first = unit.idle_policies.save(Policy("default", RULE))
        unit.idle_policies.save(replace(first, rule=Rule()))
    for stale in (first, Policy("default", RULE)):
        with pytest.raises(StaleVersion), units() as unit:
            unit.idle_policies.save(stale)
    with pytest.raises(StaleVersion), units() as unit:
        unit.idle_policies.delete(first, NOON)


def test_a_version_of_a_policy_never_means_two_policies(units):
    with units() as unit:
        first = unit.idle_policies.save(Policy("default", RULE, TOLD))
        unit.idle_policies.delete(first, NOON)
        assert unit.idle_policies.find_all() == {}
        with pytest.raises(NotFound):
            unit.idle_policies.get("default")
        again = Policy("default", Rule(), version=unit.idle_policies.read_version("default"))
        assert unit.idle_policies.save(again).version == 3


def test_a_course_is_read_as_it_was_written(units, node):
    wanted = watched(node)
    with units() as unit:
        (saved,) = unit.idle_courses.save([wanted])
        assert saved == replace(wanted, course=replace(wanted.course, version=1))
        assert unit.idle_courses.find_by_node(node.id) == saved
        assert unit.idle_courses.find_by_project(node.spec.project, {}) == {node.id: saved}
        later = replace(saved, verdict=None, due_at=None, signals=Signals())
        (again,) = unit.idle_courses.save([later])
        assert unit.idle_courses.find_by_node(node.id) == again
        assert unit.idle_courses.find_by_node("nobody") is None


def test_a_holder_in_an_older_row_has_no_instant(units, engine, node):
    with units() as unit:
        unit.idle_courses.save([watched(node)])
    with engine.begin() as connection:
        (signals,) = connection.execute(select(idle_courses.c.signals)).scalars()
        document = json.loads(signals)
        assert document["hosts"]["0"].pop("held_since") == NOON - 300
        connection.execute(update(idle_courses).values(signals=json.dumps(document)))
    with units.reading() as unit:
        found = unit.idle_courses.find_by_node(node.id)
    assert found.signals.hosts == {0: Host(NOON, "python 7", sessions=1)}


def test_the_course_of_a_node_that_ended_can_still_be_read(units, node):
    with units() as unit:
        unit.idle_courses.save([watched(node)])
        unit.nodes.save(replace(node, ended_at=NOON))
        assert unit.idle_courses.find_by_project(node.spec.project, {}) == {}
        assert unit.idle_courses.find_by_node(node.id) is not None


def test_one_stale_course_of_many_writes_none(units):
    nodes = [factories.node(name=f"n{number}") for number in range(3)]
    with units() as unit:
        for node in nodes:
            unit.nodes.add(node)
        saved = list(unit.idle_courses.save(watched(node) for node in nodes))
        unit.idle_courses.save(saved[:1])
    with pytest.raises(StaleVersion), units() as unit:
        unit.idle_courses.save(saved)
    with units.reading() as unit:
        found = unit.idle_courses.find_by_project(nodes[0].spec.project, {})
        assert [found[node.id].course.version for node in nodes] == [2, 1, 1]
    with pytest.raises(StaleVersion), units() as unit:
        unit.idle_courses.save([watched(nodes[1])])


def test_hours_are_joined_with_what_was_known_and_thinned_by_age(units, node):
    hour = NOON - NOON % HOUR
    first = ActivityHour(node.id, 1, hour, "I" * 12, {Kind.CPU: [1.0] * 11 + [None]})
    old = ActivityHour(node.id, 1, hour - 31 * DAY, "B" * 12, {Kind.CPU: [9.0] * 12})
    oldest = ActivityHour(node.id, 1, hour - 401 * DAY, "B" * 12)
    with units() as unit:
        unit.idle_rollups.save([first, old, oldest])
        unit.idle_rollups.save([replace(first, levels="B" * 12)])
        unit.idle_rollups.save([])
        unit.idle_rollups.delete_old(NOON)
        found = unit.idle_rollups.list_hours([node.id], 0, NOON + HOUR)
        assert found == {node.id: [replace(old, values={}), replace(first, levels="B" * 12)]}
        assert unit.idle_rollups.list_hours([node.id], hour + HOUR, NOON + DAY) == {}


def test_the_cleanup_of_a_project_is_read_as_it_was_written(units):
    wanted = Cleanup(
        "lab",
        NOON,
        breaker=Breaker((("n", NOON),), NOON, "why", NOON, NOON, "ada", "seen", ("m",)),
        families={Kind.CPU: FamilyRead(NOON, NOON, "")},
        holds=(RailHold(Rail.MASS, "why", NOON),),
        waiting=(Waiting("n", Rail.HOUR, 1, NOON, NOON - 60),),
    ).with_pause(NOON, "ada", "a demo")
    with units() as unit:
        assert unit.cleanups.get("lab") == Cleanup("lab")
        saved = unit.cleanups.save(wanted)
        assert saved.version == 1
        assert unit.cleanups.get("lab") == saved
        unit.cleanups.save(saved.without_pause())
    for stale in (saved, wanted):
        with pytest.raises(StaleVersion), units() as unit:
            unit.cleanups.save(stale)


def test_a_row_of_an_earlier_version_says_less_and_is_read(units, engine):
    with units() as unit:
        unit.cleanups.save(Cleanup("lab"))
    with engine.begin() as connection:
        connection.execute(
            update(cleanups).values(
                breaker='{"lost":[["n",7]],"opened_at":7,"reason":"why","fresh_since":null}',
                waiting='[{"node_id":"n","rail":"hour","place":1,"until":9}]',
            )
        )
    with units.reading() as unit:
        row = unit.cleanups.get("lab")
    assert row.breaker == Breaker((("n", 7),), 7, "why")
    assert row.waiting == (Waiting("n", Rail.HOUR, 1, 9, since=None),)


def test_a_plan_is_found_by_its_id_until_it_is_old(units):
    basis = PlanBasis(1, 1, 1, "default", 0, "QUIET")
    plan = CleanupPlan("lab", NOON, (PlanEntry("n", "n", Action.STOP, "idle", NOON, 5, basis),))
    with units() as unit:
        unit.cleanups.save_plan(plan, "ada")
        unit.cleanups.save_plan(replace(plan, as_of=NOON + 60), "bob")
        assert unit.cleanups.find_plan(plan.id) == replace(plan, as_of=NOON + 60)
        unit.cleanups.save_plan(replace(plan, entries=(), as_of=NOON + 3 * DAY), "ada")
        assert unit.cleanups.find_plan(plan.id) is None


def test_a_plan_that_two_people_make_at_once_is_one_plan(units):
    plan = CleanupPlan("lab", NOON, ())

    def show():
        with units() as unit:
            unit.cleanups.save_plan(plan, "bob")

    with ThreadPoolExecutor(1) as pool:
        with units() as unit:
            unit.cleanups.save_plan(plan, "ada")
            other = pool.submit(show)
            wait([other], timeout=0.3)
        other.result()
    with units.reading() as unit:
        assert unit.cleanups.find_plan(plan.id) == plan


def ended(node, **changes):
    made = EndRecord(
        "lab", NOON, node.id, 1, node.name, Action.DELETE, "the cleanup daemon", "idle", 7
    )
    return replace(made, **changes)


def test_an_incarnation_is_deleted_once(units, node):
    with units() as unit:
        unit.cleanups.add_end(ended(node, action=Action.STOP))
        unit.cleanups.add_end(ended(node, action=Action.STOP, at=NOON + 60))
        unit.cleanups.add_end(ended(node, evidence={"signals": [1, None]}))
        with pytest.raises(Conflict):
            unit.cleanups.add_end(ended(node, actor="ada"))
        unit.cleanups.add_end(ended(node, incarnation=2, actor="ada"))
        assert unit.cleanups.list_begun("lab", "the cleanup daemon", NOON + 1) == [
            BegunEnd(NOON + 60, share_of(node.id, node.owner, node.team))
        ]
        assert unit.cleanups.list_by_node(node.id)[1].evidence == {"signals": [1, None]}
        numbered = unit.cleanups.list_ended(["lab"], 0, 2)
        assert [one.incarnation for _, one in numbered] == [2, 1]
        assert len(unit.cleanups.list_ended(["lab"], numbered[-1][0], 9)) == 2
        assert unit.cleanups.list_ended(["other"], 0, 9) == []


def test_what_was_ended_in_one_project_takes_no_turn_in_another(units, node):
    with units() as unit:
        unit.cleanups.add_end(ended(node, project="other"))
        assert unit.cleanups.list_begun("lab", "the cleanup daemon", NOON) == []
        assert len(unit.cleanups.list_begun("other", "the cleanup daemon", NOON)) == 1


def test_two_who_delete_the_same_incarnation_at_once_are_one(units, node):
    def end(actor):
        try:
            with units() as unit:
                unit.cleanups.add_end(ended(node, actor=actor))
        except Conflict:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(end, ["a", "b", "c", "d"])) == 1


def test_a_link_is_used_once(units, node):
    link = Link("h" * 64, Verb.KEEP, node.id, 1, NOON, NOON + DAY)
    with units() as unit:
        unit.links.add(link, NOON)
        assert unit.links.find_by_hash(link.token_hash) == link
        assert unit.links.find_by_hash("other") is None

    def use(_):
        try:
            with units() as unit:
                unit.links.mark_used(link, NOON)
        except StaleVersion:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(use, range(4))) == 1
    with units() as unit:
        assert unit.links.find_by_hash(link.token_hash) == replace(link, used_at=NOON, version=1)
        unit.links.add(replace(link, token_hash="later"), NOON + 2 * DAY)
        assert unit.links.find_by_hash(link.token_hash) is not None, (
            "it still says that it has expired"
        )
        unit.links.add(replace(link, token_hash="other"), NOON + 40 * DAY)
        assert unit.links.find_by_hash(link.token_hash) is None


def test_the_newest_heartbeat_counts_and_is_not_written_over_unseen(units, node):
    beat = Heartbeat(node.id, 1, NOON, NOON + 900, "step 7")
    with units() as unit:
        assert unit.heartbeats.find_by_node(node.id) is None
        saved = unit.heartbeats.save(beat)
        assert unit.heartbeats.find_by_node(node.id) == saved
        unit.heartbeats.save(saved)
    for stale in (beat, saved):
        with pytest.raises(StaleVersion), units() as unit:
            unit.heartbeats.save(stale)


def test_a_node_has_twenty_heartbeat_tokens_at_most(units, node):
    tokens = [
        HeartbeatToken(f"{number:064}", node.id, 1, NOON + number, NOON + DAY)
        for number in range(22)
    ]
    with units() as unit:
        for token in tokens:
            unit.heartbeats.add_token(token)
        known = [unit.heartbeats.find_token(token.token_hash) for token in tokens]
    assert known == [None, None, *tokens[2:]]
