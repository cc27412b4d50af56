"""Plan and apply: exactly what was shown is done, once, or nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import update

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.domain.errors import Conflict, NotFound, Rejected
from service.domain.idle.assess import list_holders
from service.domain.idle.policy import Action, Policy, Recipient, Rule
from service.domain.idle.rails import Breaker, Rail
from service.domain.idle.signals.heartbeat import Heartbeat
from service.domain.jobs.job import Phase
from service.domain.lifecycle.precedence import Holder
from service.store.tables import leases
from tests.controllers.idle.conftest import DELETES, REST, TIMES, WORK, IdleLab
from tests.hands import NOON
from tests.store.test_jobs import a_job, an_attempt

IDLE_MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60


@pytest.fixture
def lab(units, engine, clock):
    """Nodes that are looked at, and nothing is ended by itself."""
    made = IdleLab(units, clock, Action.OBSERVE)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    return made


@pytest.fixture
def service(lab):
    """What people may ask."""
    mode = IdleMode(Action.OBSERVE, TIMES)
    return CleanupService(lab.units, lab.prices, lab.clock, ["lab"], mode)


@pytest.mark.deep
def test_a_plan_says_what_would_go_and_why_and_apply_does_just_that(lab, service):
    idle, busy = lab.add(REST), lab.add(WORK)
    kept = lab.add(REST, labels={"keep-until": "2026-12-01"})
    lab.minute(IDLE_MINUTES + 1)
    plan = service.make_plan("", "ada")
    (entry,) = plan.entries
    assert (entry.name, entry.action, entry.due_at) == (idle.name, Action.DELETE, None)
    assert "idle since 2026-11-05T12:10:00Z" in entry.reason
    assert lab.node(idle).asked == "present", "a plan changes nothing"
    assert service.apply_plan(plan.id, "ada").id == plan.id
    assert lab.node(idle).asked == "absent"
    for ended_node in (busy, kept):
        assert lab.node(ended_node).asked == "present"
    (ended,) = service.list_ended()
    assert (ended.actor, ended.plan_id) == ("ada", plan.id)
    assert lab.node(idle).delete_reason == f"requested by ada: {ended.reason}"


@pytest.mark.deep
def test_what_nobody_can_be_told_of_waits_for_a_person(lab, service):
    lab.ceiling = Action.DELETE
    lab.start_daemon("one")
    untold = lab.add(REST, idle=None)
    own = lab.add(REST)
    with lab.units() as unit:
        unit.idle_policies.save(Policy("default", Rule(1_800, 300, Action.DELETE)))
    service.mode = IdleMode(Action.DELETE, service.mode.times)
    lab.minute(IDLE_MINUTES + 1)
    by_itself = {entry.node_id: entry.due_at for entry in service.make_plan("", "ada").entries}
    assert by_itself[untold.id] is None
    assert by_itself[own.id] == lab.course(own).due_at
    subject = service.get_node(untold.id).subject
    assert list_holders(subject, lab.course(untold).verdict, lab.clock()) == [Holder.NOTICE]


@pytest.mark.deep
def test_a_plan_is_the_same_as_long_as_nothing_changes(lab, service):
    lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    first = service.make_plan("lab", "ada")
    lab.minute(3)
    assert service.make_plan("lab", "bob").id == first.id
    assert service.apply_plan(first.id, "ada")


def touch_node(lab, node):
    lab.change(node, health="HEALTHY")


def work_again(lab, node):
    lab.doing[node.id] = WORK
    lab.minute(1)


def pause(lab, _node):
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").with_pause(lab.clock(), "ada", "why"))


def go_dark(lab, node):
    lab.doing[node.id] = None
    lab.minute(15)


def open_breaker(lab, _node):
    with lab.units() as unit:
        row = unit.cleanups.get("lab")
        unit.cleanups.save(replace(row, breaker=Breaker(opened_at=lab.clock(), reason="why")))
    lab.minute(1)


def beat(lab, node):
    with lab.units() as unit:
        unit.heartbeats.save(Heartbeat(node.id, 1, lab.clock(), lab.clock() + 900))


def keep(lab, node):
    lab.change(node, labels={"keep-until": "2026-12-01"})


def queue_a_job(lab, node):
    with lab.units() as unit:
        unit.jobs.add(a_job(node_id=node.id), None)


def one_more(lab, _node):
    lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)


def be_made_again(lab, node):
    lab.change(node, attempt=2)


@pytest.mark.deep
@pytest.mark.parametrize(
    "change",
    [
        touch_node,
        work_again,
        pause,
        go_dark,
        open_breaker,
        beat,
        keep,
        queue_a_job,
        one_more,
        be_made_again,
    ],
)
def test_a_plan_is_stale_when_anything_changed_and_then_nothing_goes(lab, service, change):
    node = lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    plan = service.make_plan("lab", "ada")
    change(lab, node)
    with pytest.raises(Conflict, match="stale"):
        service.apply_plan(plan.id, "ada")
    assert lab.ended() == []
    assert lab.node(node).asked == "present"


@pytest.mark.deep
def test_a_plan_asks_for_as_long_at_rest_as_the_policy_says_now(lab, service):
    node = lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    lab.change(node, spec=replace(node.spec, idle=replace(DELETES, after_seconds=86_400)))
    assert service.make_plan("lab", "ada").entries == ()


@pytest.mark.deep
def test_a_job_that_begins_after_one_that_hung_is_not_ended_by_its_plan(lab, service):
    node = lab.add(REST, idle=replace(DELETES, also=("no_progress",)))
    hung, next_one = a_job(node_id=node.id), a_job(node_id=node.id)
    with lab.units() as unit:
        unit.jobs.add(hung, None)
        attempt = an_attempt(hung, node, phase=Phase.RUNNING)
        unit.jobs.add_attempt(attempt)
    lab.minute(IDLE_MINUTES + 1)
    plan = service.make_plan("lab", "ada")
    assert len(plan.entries) == 1, "the policy means jobs that hang"
    with lab.units() as unit:
        unit.jobs.save_attempt(replace(attempt, released_at=lab.clock()))
        unit.jobs.add(next_one, None)
        unit.jobs.add_attempt(an_attempt(next_one, node, claimed_at=lab.clock()))
    with pytest.raises(Conflict, match="stale"):
        service.apply_plan(plan.id, "ada")
    assert lab.node(node).asked == "present"


@pytest.mark.deep
def test_a_change_of_the_policy_makes_a_plan_stale(lab, service):
    node = lab.add(REST, idle=None)
    told = (Recipient(emails=("ada@example.com",)),)
    with lab.units() as unit:
        policy = Policy("default", Rule(1_800, 300, Action.DELETE), told)
        unit.idle_policies.save(policy)
    lab.minute(IDLE_MINUTES + 1)
    plan = service.make_plan("lab", "ada")
    assert len(plan.entries) == 1
    with lab.units() as unit:
        row = unit.idle_policies.get("default")
        unit.idle_policies.save(row)
    with pytest.raises(Conflict, match="policy"):
        service.apply_plan(plan.id, "ada")
    assert lab.node(node).asked == "present"


@pytest.mark.deep
def test_a_forged_plan_does_nothing(lab, service):
    lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    for forged in ("", "0" * 32, "x" * 10_000):
        with pytest.raises(Conflict):
            service.apply_plan(forged, "mallory")
    assert lab.ended() == []


@pytest.mark.deep
def test_what_nobody_looked_at_lately_is_in_no_plan(lab, service):
    lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    assert len(service.make_plan("lab", "ada").entries) == 1
    lab.clock.pass_(600)
    assert service.make_plan("lab", "ada").entries == ()


@pytest.mark.deep
@pytest.mark.parametrize(("age", "is_stale"), [(180, False), (181, True)])
def test_a_plan_is_refused_where_the_last_look_is_older_than_two_periods_and_a_minute(
    lab, service, age, is_stale
):
    node = lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    plan = service.make_plan("lab", "ada")
    lab.clock.pass_(age)
    if is_stale:
        with pytest.raises(Conflict, match="stale"):
            service.apply_plan(plan.id, "ada")
    else:
        service.apply_plan(plan.id, "ada")
    assert lab.node(node).asked == ("present" if is_stale else "absent")


@pytest.mark.deep
def test_a_policy_that_only_notifies_is_in_no_plan(lab, service):
    node = lab.add(REST, idle=None)
    lab.minute(120)
    assert lab.course(node).course.state == "CANDIDATE"
    assert service.make_plan("lab", "ada").entries == ()


@pytest.mark.deep
@pytest.mark.concurrent
def test_two_who_apply_at_once_delete_each_node_once(lab, service):
    nodes = [lab.add(REST, idle=DELETES) for _ in range(6)]
    lab.minute(IDLE_MINUTES + 1)
    plan = service.make_plan("lab", "ada")
    assert len(plan.entries) == 6

    def apply(actor):
        try:
            service.apply_plan(plan.id, actor)
        except Conflict:
            return ""
        return actor

    with ThreadPoolExecutor(4) as pool:
        winners = [who for who in pool.map(apply, ["ada", "bob", "eve", "joe"]) if who]
    assert len(winners) == 1
    ended = service.list_ended()
    assert sorted(ended_node.name for ended_node in ended) == sorted(node.name for node in nodes)
    assert {ended_node.actor for ended_node in ended} == set(winners)


def test_pause_wants_a_reason_and_resume_a_pause(lab, service):
    with pytest.raises(Rejected):
        service.pause("", "ada", "  ")
    with pytest.raises(Conflict):
        service.resume("")
    with pytest.raises(NotFound):
        service.pause("other", "ada", "why")
    (row,) = service.pause("", "ada", "a demo")
    assert row.is_paused
    (standing,) = service.list_statuses()
    assert (standing.cleanup.pause_reason, standing.next_tick_at) == ("a demo", None)
    (row,) = service.resume("lab")
    assert not row.is_paused
    lab.minute(1)
    assert service.list_statuses()[0].next_tick_at == lab.clock() + TIMES.period


@pytest.mark.deep
def test_the_idleness_of_a_node_is_shown_after_its_end_as_well(lab, service):
    node = lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    shown = service.get_node(node.id)
    assert shown.subject is not None
    assert shown.watched.verdict.level == "QUIET"
    assert shown.ended == []
    service.apply_plan(service.make_plan("", "ada").id, "ada")
    shown = service.get_node(node.id)
    assert shown.subject is None
    assert shown.ended[0].evidence["verdict"]["level"] == "QUIET"
    with pytest.raises(NotFound):
        service.get_node("nobody")


def breaker_of(lab):
    with lab.units.reading() as unit:
        return unit.cleanups.get("lab").breaker


@pytest.mark.deep
def test_a_breaker_that_a_person_closed_opens_for_new_losses_only(lab, service):
    nodes = [lab.add(WORK, idle=None) for _ in range(12)]
    lab.minute(20)
    for node in nodes[:5]:
        lab.doing[node.id] = None
    lab.minute(14)
    assert breaker_of(lab).is_open
    with pytest.raises(Rejected, match="reason"):
        service.close_breaker("lab", "ada", " ")
    closed_at = lab.clock()
    service.close_breaker("", "ada", "one zone is down")
    lab.minute(2)
    lab.start_daemon("two")
    lab.minute(20)
    breaker = breaker_of(lab)
    assert (breaker.is_open, breaker.closed_at, breaker.closed_by) == (False, closed_at, "ada")
    assert breaker.closed_reason == "one zone is down"
    for node in nodes[5:9]:
        lab.doing[node.id] = None
    lab.minute(14)
    assert breaker_of(lab).is_open, "four of seven more"
    assert breaker_of(lab).closed_at is None


@pytest.mark.deep
def test_a_person_applies_a_plan_that_the_mass_rail_keeps_the_daemon_from(lab, service):
    lab.ceiling = Action.DELETE
    lab.start_daemon("one")
    nodes = [lab.add(REST) for _ in range(8)]
    lab.minute(IDLE_MINUTES + DELETES.grace_seconds // 60 + 5)
    (status,) = service.list_statuses()
    assert [held.rail for held in status.cleanup.holds] == [Rail.MASS]
    assert lab.ended() == [], "the daemon waits"
    plan = service.make_plan("lab", "ada")
    assert (len(plan.entries), plan.held_by) == (8, (Rail.MASS,))
    service.apply_plan(plan.id, "ada")
    assert sorted(lab.ended()) == sorted(node.name for node in nodes), "all at once"
    assert {lab.node(node).asked for node in nodes} == {"absent"}
    assert {ended.actor for ended in service.list_ended()} == {"ada"}
