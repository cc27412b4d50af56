"""The daemon and idle nodes: what is idle goes with its evidence, and nothing else does."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from service.application.cleanup.daemon import DaemonActs
from service.controllers.notifications import NotificationController
from service.domain.clock import HOUR, parse_rfc3339
from service.domain.errors import StaleVersion
from service.domain.event import Event
from service.domain.idle.course import State
from service.domain.idle.links import Verb, hash_of
from service.domain.idle.policy import Action, Policy, Recipient, Rule
from service.domain.idle.proof import MetricFamily
from service.domain.idle.rails import Rail
from service.domain.idle.readings import families_of
from service.domain.idle.signals.heartbeat import Heartbeat
from service.domain.idle.signals.signal import Kind, name_signal
from service.domain.nodes.node import Asked, IdlePolicy, NodeState
from service.domain.notifications.notification import About, Channel
from service.store.cleanups import Cleanups
from service.store.tables import leases
from tests import factories
from tests.controllers.idle.conftest import DELETES, REST, TIMES, WORK, IdleLab, Later
from tests.hands import NOON

IDLE_MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60
GRACE_MINUTES = 5
ENOUGH = IDLE_MINUTES + GRACE_MINUTES + 2


@pytest.mark.deep
def test_an_idle_node_goes_after_its_notice_and_a_busy_one_stays(lab):
    idle, busy = lab.add(REST), lab.add(WORK)
    lab.minute(IDLE_MINUTES - 1)
    assert lab.course(idle).course.state == "QUIET"
    lab.minute(2)
    assert lab.course(idle).course.state == "NOTIFIED"
    assert lab.node(idle).asked == "present"
    lab.minute(GRACE_MINUTES)
    assert lab.node(idle).asked == "absent"
    assert lab.node(idle).delete_reason.startswith("it has been idle since 2026-11-05T12:10:00Z")
    assert lab.course(idle).course.state == "DELETING"
    assert lab.node(busy).asked == "present"
    assert lab.course(busy).course.state == "ACTIVE"
    assert lab.ended() == [idle.name]


@pytest.mark.deep
def test_the_evidence_is_kept_after_the_end(lab):
    idle = lab.add(REST)
    lab.minute(ENOUGH)
    lab.change(idle, ended_at=lab.clock(), state=NodeState.DELETED)
    with lab.units.reading() as unit:
        (ended,) = unit.cleanups.list_by_node(idle.id)
        events = [event.message for _, event in unit.events.list_by_node(idle.id, 0, 100)]
    evidence = ended.evidence
    assert evidence["verdict"]["level"] == "QUIET"
    assert evidence["policy"]["source"] == "node"
    levels = {(signal["signal"], signal["level"]) for signal in evidence["signals"]}
    assert ("tensorcore_idle_duration", "QUIET") in levels
    assert ended.action is Action.DELETE
    assert any("deleted at" in message for message in events), "it was told before"
    assert lab.course(idle).verdict.level == "QUIET"


@pytest.mark.deep
@pytest.mark.parametrize("lost", [Kind.CPU, Kind.NETWORK, Kind.TENSORCORE_IDLE])
def test_a_signal_that_stops_freezes_the_course(lab, lost):
    idle = lab.add(REST)
    lab.minute(20)
    lab.doing[idle.id] = {kind: value for kind, value in REST.items() if kind is not lost}
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "present"
    assert lab.course(idle).course.state == "UNKNOWN"
    assert name_signal(lost) in lab.course(idle).verdict.reason


@pytest.mark.deep
def test_a_metric_that_cannot_be_read_freezes_the_course(lab):
    idle = lab.add(REST)
    lab.minute(IDLE_MINUTES)
    lab.telemetry.broken.add(Kind.DUTY_CYCLE)
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "present"
    assert lab.course(idle).course.state == "UNKNOWN"
    lab.telemetry.broken.clear()
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "absent"


def test_a_metric_with_points_of_ten_hours_ago_is_present_and_they_are_no_readings(lab):
    node = lab.add(REST)
    end = lab.clock() - 10 * HOUR
    lab.doing[node.id] = {kind: REST[kind] for kind in (Kind.CPU, Kind.NETWORK)}
    lab.measure(Kind.TENSORCORE_IDLE, 0, 0, end - 60, 1e6)
    lab.minute(2)
    with lab.units.reading() as unit:
        reads = unit.cleanups.get("lab").families
    families = families_of(reads, lab.clock(), TIMES.telemetry, TIMES.period)
    assert reads[Kind.TENSORCORE_IDLE].seen_at == end
    assert families[Kind.TENSORCORE_IDLE] is MetricFamily.PRESENT
    assert families[Kind.DUTY_CYCLE] is MetricFamily.ABSENT
    assert (0, Kind.TENSORCORE_IDLE) not in lab.course(node).signals.tracks
    asked = [kind for kind, *_ in lab.telemetry.reads if kind is Kind.TENSORCORE_IDLE]
    assert len(asked) == 3, "the first read is of two parts"


@pytest.mark.deep
def test_scheduled_chips_are_read_and_a_read_that_fails_holds_nothing(lab):
    idle = lab.add({**REST, Kind.SCHEDULED_CHIPS: 4.0})
    lab.minute()
    assert Kind.SCHEDULED_CHIPS in {kind for kind, *_ in lab.telemetry.reads}
    lab.telemetry.broken.add(Kind.SCHEDULED_CHIPS)
    lab.start_daemon("two")
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_node_of_which_nothing_is_measured_stays(lab):
    dark, idle = lab.add(None), lab.add(REST)
    lab.minute(ENOUGH)
    assert lab.ended() == [idle.name]
    assert lab.course(dark).course.state == "UNKNOWN"


@pytest.mark.deep
def test_work_in_the_newest_minute_saves_a_node_that_is_due(lab):
    idle = lab.add(REST)
    lab.minute(IDLE_MINUTES + GRACE_MINUTES - 1)
    assert lab.course(idle).course.state == "NOTIFIED"
    lab.doing[idle.id] = WORK
    lab.minute(3)
    assert lab.node(idle).asked == "present"
    assert lab.course(idle).course.state == "ACTIVE"


@pytest.mark.deep
def test_the_notice_is_not_cut_short_by_another_daemon(lab):
    idle = lab.add(REST)
    lab.minute(IDLE_MINUTES + 1)
    assert lab.course(idle).course.state == "NOTIFIED"
    lab.start_daemon("two")
    lab.minute(GRACE_MINUTES - 2)
    assert lab.node(idle).asked == "present"
    lab.minute(2)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_node_that_worked_while_no_daemon_looked_is_told_of_anew(lab):
    idle = lab.add(REST, owner="ada@example.com")
    lab.minute(IDLE_MINUTES + 1)
    first = lab.course(idle).course.notified_at
    lab.controller.tick = lambda _lease: None
    lab.minute(10)
    lab.doing[idle.id] = WORK
    lab.minute(10)
    lab.doing[idle.id] = REST
    lab.minute(60)
    lab.start_daemon("two")
    lab.minute(2)
    assert lab.node(idle).asked == "present"
    assert lab.course(idle).course.notified_at > first
    assert len(messages(lab)) == 2
    lab.minute(GRACE_MINUTES)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_keep_that_came_and_went_while_no_daemon_looked_gives_the_whole_grace(lab):
    idle = lab.add(REST, owner="ada@example.com")
    lab.minute(IDLE_MINUTES + 1)
    lab.change(idle, kept_until=lab.clock() + 3_600, kept_because="a demo")
    lab.controller.tick = lambda _lease: None
    lab.minute(90)
    lab.start_daemon("two")
    lab.minute(GRACE_MINUTES)
    assert lab.node(idle).asked == "present"
    assert len(messages(lab)) == 2
    lab.minute(2)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_nothing_of_an_earlier_incarnation_counts(lab):
    idle = lab.add(REST)
    lab.minute(IDLE_MINUTES)
    lab.change(idle, attempt=2, state_since=lab.clock(), up_since=lab.clock())
    lab.minute(GRACE_MINUTES + 4)
    assert lab.course(idle).course.state == "WARMING"
    assert lab.course(idle).course.incarnation == 2
    lab.minute(ENOUGH - GRACE_MINUTES)
    assert lab.node(idle).asked == "absent"


def test_a_heartbeat_holds_for_its_own_incarnation_only(lab):
    held, other = lab.add(REST), lab.add(REST)
    with lab.units() as unit:
        unit.heartbeats.save(Heartbeat(held.id, 1, NOON, NOON + 86_400))
        unit.heartbeats.save(Heartbeat(other.id, 7, NOON, NOON + 86_400))
    lab.minute(ENOUGH)
    assert lab.ended() == [other.name]
    assert lab.course(held).verdict.reason == "a heartbeat says that it is active"


@pytest.mark.deep
def test_a_heartbeat_that_comes_within_a_look_stops_the_end(lab, monkeypatch):
    idle = lab.add(REST)
    end, tried = DaemonActs.request_end, []

    def end_after_a_beat(acts, unit, assessed, cleanup, now):
        tried.append(now)
        unit.heartbeats.save(Heartbeat(idle.id, 1, now, now + 600))
        end(acts, unit, assessed, cleanup, now)

    monkeypatch.setattr(DaemonActs, "request_end", end_after_a_beat)
    lab.minute(ENOUGH)
    assert tried
    assert lab.ended() == []


@pytest.mark.deep
def test_idleness_counts_from_the_end_of_a_heartbeat(lab):
    idle = lab.add(REST)
    until = NOON + 3_600
    with lab.units() as unit:
        unit.heartbeats.save(Heartbeat(idle.id, 1, NOON, until))
    lab.minute(60 + (1_800 + TIMES.telemetry) // 60 - 1)
    assert lab.course(idle).course.state == "QUIET"
    lab.minute(2)
    assert lab.course(idle).course.state == "NOTIFIED"
    assert lab.course(idle).verdict.since == until


@pytest.mark.deep
def test_a_label_keeps_a_node_and_one_that_cannot_be_read_does_as_well(lab):
    kept = lab.add(REST, labels={"keep-until": "2026-11-20"})
    protected = lab.add(REST, labels={"keep-until": "soon"})
    over = lab.add(REST, labels={"keep-until": "2026-11-05"})
    lab.minute(ENOUGH)
    assert lab.ended() == [over.name]
    for node in (kept, protected):
        assert lab.course(node).course.state == "CANDIDATE", "it takes its course"


@pytest.mark.deep
def test_a_node_that_was_kept_stays_until_then_through_another_incarnation(lab):
    kept = lab.add(REST, kept_until=NOON + 14_400, kept_because="a demo")
    lab.minute(ENOUGH)
    lab.change(kept, attempt=2, state_since=lab.clock(), up_since=lab.clock())
    lab.minute(240 - ENOUGH - 1)
    assert lab.node(kept).asked == "present"
    assert lab.course(kept).course.state == "CANDIDATE"
    lab.minute(GRACE_MINUTES)
    assert lab.course(kept).course.state == "NOTIFIED"
    assert lab.node(kept).asked == "present", "the grace begins when the keep is over"
    lab.minute(2)
    assert lab.node(kept).asked == "absent"


@pytest.mark.deep
def test_the_mode_of_the_installation_is_a_ceiling(units, engine, clock):
    lab = IdleLab(units, clock, Action.NOTIFY)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    idle = lab.add(REST)
    lab.minute(ENOUGH + 60)
    assert lab.node(idle).asked == "present"
    assert lab.course(idle).course.state == "NOTIFIED"


@pytest.mark.deep
def test_an_inherited_policy_deletes_nothing_that_nobody_was_told_of(lab):
    idle = lab.add(REST, idle=None)
    rule = Rule(1_800, 300, Action.DELETE)
    with lab.units() as unit:
        policy = unit.idle_policies.save(Policy("project:lab", rule))
    lab.minute(ENOUGH + 10)
    assert lab.node(idle).asked == "present"
    with lab.units.reading() as unit:
        said = [event.message for _, event in unit.events.list_by_node(idle.id, 0, 100)]
    assert any("nobody can be notified" in message for message in said)
    with lab.units.reading() as unit:
        (alarm,) = unit.events.list_by_kind(idle.id, "alarm", 0)
    assert "names recipients" in alarm.message
    with lab.units() as unit:
        told = replace(policy, recipients=(Recipient(emails=("ada@example.com",)),))
        unit.idle_policies.save(told)
    lab.minute(GRACE_MINUTES)
    assert lab.node(idle).asked == "present", "whoever can be told now has the whole grace"
    with lab.units.reading() as unit:
        messages = [
            notification.about_id for notification in unit.notifications.list_due(lab.clock(), 100)
        ]
    assert messages == [idle.id]
    lab.minute(2)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_node_is_stopped_where_the_policy_says_so_and_may_be_stopped_again(lab):
    stops = IdlePolicy(after_seconds=1_800, grace_seconds=300, action="stop")
    idle = lab.add(REST, idle=stops)
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "stopped"
    lab.change(idle, asked="present", state_since=lab.clock())
    lab.minute(GRACE_MINUTES)
    assert lab.node(idle).asked == "present"
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "stopped"
    assert lab.ended() == [idle.name, idle.name]


@pytest.mark.deep
def test_a_daemon_that_has_just_begun_ends_nothing(lab, engine):
    idle = lab.add(REST)
    lab.minute(IDLE_MINUTES + GRACE_MINUTES - 1)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=lab.clock()))
    lab.minute(TIMES.start // 60 - 1)
    assert lab.node(idle).asked == "present"
    with lab.units.reading() as unit:
        (held,) = unit.cleanups.get("lab").holds
        (waiting,) = unit.cleanups.get("lab").waiting
    assert (held.rail, waiting.rail, waiting.node_id) == (Rail.START, Rail.START, idle.id)
    assert waiting.until == held.until
    lab.minute(2)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_daemon_ends_nothing_before_it_has_read_every_metric_itself(lab, engine):
    later = Later()
    idle, burst = lab.add(REST), lab.add(REST)
    lab.minute(IDLE_MINUTES + GRACE_MINUTES - 1)
    assert lab.course(burst).course.state == "NOTIFIED"
    lab.start_daemon("two", later)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    lab.doing[burst.id] = WORK
    lab.minute(3)
    assert lab.ended() == [], "the rows that it knows are from before the burst"
    with lab.units.reading() as unit:
        (held,) = unit.cleanups.get("lab").holds
    assert (held.rail, held.until) == ("start", None)
    later.go_on()
    lab.minute()
    assert lab.ended() == [idle.name]
    assert lab.node(burst).asked == "present"


@pytest.mark.deep
def test_a_node_without_a_supervisor_ends_with_a_fresh_read_of_monitoring_only(lab, engine):
    later, is_slow = Later(), False
    lab.start_daemon("two", lambda work: later(work) if is_slow else work())
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    idle = lab.add(REST)
    lab.minute(IDLE_MINUTES + GRACE_MINUTES - 3)
    is_slow = True
    lab.minute(4)
    course = lab.course(idle)
    assert (course.course.state, course.verdict.level) == ("NOTIFIED", "QUIET")
    assert course.due_at <= lab.clock(), "it would go, if Monitoring was read"
    assert lab.ended() == []
    later.go_on()
    lab.minute()
    assert lab.ended() == [idle.name]


@pytest.mark.deep
def test_a_pause_holds_everything_until_it_is_over(lab):
    idle = lab.add(REST)
    lab.minute(2)
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").with_pause(lab.clock(), "ada", "a demo"))
    lab.minute(ENOUGH + 10)
    assert lab.node(idle).asked == "present"
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").without_pause())
    lab.minute(1)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_what_was_decided_before_a_pause_is_not_done_after_it(lab):
    idle = lab.add(REST)
    decided = []
    acts = DaemonActs()
    lab.controller._acts.request_end = lambda _unit, *order: decided.append(order)
    lab.minute(ENOUGH)
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").with_pause(lab.clock(), "ada", "stop it"))
    with pytest.raises(StaleVersion), lab.units() as unit:
        acts.request_end(unit, *decided[-1])
    assert lab.node(idle).asked == "present"


@pytest.mark.deep
@pytest.mark.parametrize("scope", ["default", "project:lab", "team:vision"])
def test_what_was_decided_by_another_policy_is_not_done(lab, scope):
    """A nearer policy may have the same version as the one that was decided by."""
    with lab.units() as unit:
        rule, told = Rule(1_800, 300, Action.DELETE), (Recipient(emails=("ada@example.com",)),)
        unit.idle_policies.save(Policy("default", rule, told))
    idle = lab.add(REST, idle=None, team="vision")
    decided = []
    acts = DaemonActs()
    lab.controller._acts.request_end = lambda _unit, *order: decided.append(order)
    lab.minute(ENOUGH)
    with lab.units() as unit:
        before = unit.idle_policies.find_all().get(scope, Policy(scope))
        unit.idle_policies.save(replace(before, rule=Rule(action=Action.OBSERVE)))
    with pytest.raises(StaleVersion, match="policy"), lab.units() as unit:
        acts.request_end(unit, *decided[-1])
    assert lab.node(idle).asked == "present"


@pytest.mark.deep
def test_three_at_most_go_in_a_tick_and_a_tenth_and_one_of_an_owner(lab):
    same = [lab.add(REST, owner="ada") for _ in range(2)]
    busy = [lab.add(WORK) for _ in range(18)]
    lab.minute(IDLE_MINUTES + GRACE_MINUTES)
    assert len(lab.ended()) == 1
    lab.minute(1)
    assert sorted(lab.ended()) == sorted(node.name for node in same)
    assert all(lab.node(node).asked == "present" for node in busy)


@pytest.mark.deep
def test_a_daemon_that_takes_over_does_not_begin_the_tick_again(lab):
    for _ in range(2):
        lab.add(REST)
    for _ in range(10):
        lab.add(WORK)
    lab.minute(IDLE_MINUTES + GRACE_MINUTES)
    assert len(lab.ended()) == 1
    lab.clock.pass_(12)
    lab.start_daemon("two")
    lab.controller.tick(lab.lease)
    assert len(lab.ended()) == 1
    lab.minute(1)
    assert len(lab.ended()) == 2


@pytest.mark.deep
def test_when_most_nodes_are_idle_at_once_none_goes_for_an_hour(lab):
    nodes = [lab.add(REST) for _ in range(8)]
    lab.minute(ENOUGH)
    assert lab.ended() == []
    with lab.units.reading() as unit:
        rails = [held.rail for held in unit.cleanups.get("lab").holds]
        assert len(unit.cleanups.get("lab").waiting) == 8
    assert rails == [Rail.MASS]
    lab.minute(IDLE_MINUTES + 60 - ENOUGH - 1)
    assert lab.ended() == []
    lab.minute(3)
    assert 0 < len(lab.ended()) <= 3, "and then at its pace"
    assert len(nodes) == 8


@pytest.mark.deep
def test_when_monitoring_goes_dark_the_breaker_opens_and_closes_by_itself(lab):
    nodes = [lab.add(REST) for _ in range(5)]
    busy = [lab.add(WORK) for _ in range(5)]
    lab.minute(20)
    lab.telemetry.broken.update(Kind)
    lab.minute(12)
    with lab.units.reading() as unit:
        assert Rail.BREAKER in [held.rail for held in unit.cleanups.get("lab").holds]
    lab.telemetry.broken.clear()
    lab.minute(14)
    assert lab.ended() == []
    lab.minute(ENOUGH)
    assert lab.ended()
    assert set(lab.ended()) <= {node.name for node in nodes}
    assert len(busy) == 5


def rails_of(lab):
    with lab.units.reading() as unit:
        return [held.rail for held in unit.cleanups.get("lab").holds]


def write_fails(monkeypatch, when):
    """Have the row of the project not be written once, as somebody else wrote it just then."""
    save = Cleanups.save
    failed: list[Any] = []

    def save_or_fail(cleanups, row):
        if when(row) and not failed:
            failed.append(row)
            raise StaleVersion("the cleanup was changed just now")
        return save(cleanups, row)

    monkeypatch.setattr(Cleanups, "save", save_or_fail)
    return failed


def minutes_in_spite_of(lab, count, failed):
    """Let minutes pass until the tick that fails, and one more."""
    for _ in range(count):
        try:
            lab.minute(1)
        except StaleVersion:
            break
    assert failed
    lab.minute(1)


def test_nodes_that_became_unknown_in_a_tick_that_failed_open_the_breaker_all_the_same(
    lab, monkeypatch
):
    nodes = [lab.add(REST, idle=None) for _ in range(10)]
    lab.minute(20)
    for node in nodes[:5]:
        lab.doing[node.id] = None
    failed = write_fails(monkeypatch, lambda row: len(row.breaker.lost) == 5)
    minutes_in_spite_of(lab, 20, failed)
    assert Rail.BREAKER in rails_of(lab)


def test_a_clock_that_jumped_in_a_tick_that_failed_holds_all_the_same(lab, monkeypatch):
    lab.add(REST)
    ahead = [0.0]
    lab.controller._monotonic = lambda: lab.clock() - ahead[0]
    lab.minute(2)
    ahead[0] = 120.0
    failed = write_fails(monkeypatch, lambda row: any(hold.rail == "clock" for hold in row.holds))
    minutes_in_spite_of(lab, 1, failed)
    assert Rail.CLOCK in rails_of(lab)


def alarms_of(lab):
    """Who was told of what holds the cleanup of the project, the earliest first."""
    with lab.units.reading() as unit:
        found = unit.notifications.list_newest("lab", 100, About.PROJECT)
    return [(node.recipient.emails, json.loads(node.body)) for node in reversed(found)]


def tells(lab, scope, *emails):
    with lab.units() as unit:
        unit.idle_policies.save(Policy(scope, Rule(), (Recipient(emails=emails),)))


@pytest.mark.deep
def test_people_are_told_once_that_a_rail_holds_with_what_waits_and_what_that_costs(lab):
    tells(lab, "default", "ada@example.com")
    for _ in range(8):
        lab.add(REST)
    lab.minute(ENOUGH)
    ((emails, told),) = alarms_of(lab)
    assert emails == ("ada@example.com",)
    assert (told["kind"], told["rail"], told["project"]) == ("cleanup.held", "mass", "lab")
    assert "apply" in told["commands"]
    lab.start_daemon("two")
    lab.minute(10)
    assert len(alarms_of(lab)) == 1, "another daemon does not tell it again"


@pytest.mark.deep
def test_a_rail_that_holds_once_more_is_told_once_more(lab):
    tells(lab, "default", "ada@example.com")
    for _ in range(8):
        lab.add(REST)
    lab.minute(30)
    lab.telemetry.broken.update(Kind)
    lab.minute(12)
    assert [told["rail"] for _, told in alarms_of(lab)] == ["breaker"]
    lab.telemetry.broken.clear()
    lab.minute(30)
    lab.telemetry.broken.update(Kind)
    lab.minute(12)
    assert [told["rail"] for _, told in alarms_of(lab)].count("breaker") == 2


@pytest.mark.deep
def test_the_recipients_of_the_project_are_told_before_those_of_the_default(lab):
    tells(lab, "default", "ada@example.com")
    tells(lab, "project:lab", "lab@example.com")
    tells(lab, "team:vision", "vision@example.com")
    for _ in range(8):
        lab.add(REST)
    lab.minute(ENOUGH)
    assert [emails for emails, _ in alarms_of(lab)] == [("lab@example.com",)]


@pytest.mark.deep
def test_nobody_is_told_of_a_start_a_pause_and_the_pace(lab):
    tells(lab, "default", "ada@example.com")
    for _ in range(4):
        lab.add(REST)
    with lab.units() as unit:
        unit.leases.release(lab.lease)
        unit.cleanups.save(unit.cleanups.get("lab").with_pause(NOON, "ada", "a demo"))
    lab.start_daemon("two")
    lab.minute(ENOUGH)
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").without_pause())
    lab.minute(3)
    assert lab.ended()
    assert alarms_of(lab) == []


def test_a_label_that_cannot_be_read_protects_and_alarms_once(lab):
    kept = lab.add(REST, labels={"keep-until": "soon"})
    lab.minute(ENOUGH)
    assert lab.node(kept).asked == "present"
    with lab.units.reading() as unit:
        (alarm,) = unit.events.list_by_kind(kept.id, "alarm", 0)
    assert "label keep-until=soon" in alarm.message
    assert "write it as keep-until=2026-12-01" in alarm.message


@pytest.mark.deep
def test_people_are_told_once_of_a_label_that_nobody_can_read(lab):
    lab.add(REST, owner="ada@example.com", labels={"keep-until": "soon"})
    lab.minute(ENOUGH)
    ((_, body),) = messages(lab)
    assert (body["kind"], body["reason"]) == ("node.keep_unreadable", "label keep-until=soon")


def test_an_earlier_alarm_about_something_else_does_not_hide_the_one_about_a_label(lab):
    kept = lab.add(REST, labels={"keep-until": "soon"})
    with lab.units() as unit:
        unit.events.add(Event(kept.id, NOON, "alarm", "its deletion does not end"))
    lab.minute(2)
    with lab.units.reading() as unit:
        _, *alarms = unit.events.list_by_kind(kept.id, "alarm", 0)
    assert ["label keep-until=soon" in alarm.message for alarm in alarms] == [True]


def test_a_label_that_can_be_read_alarms_nobody(lab):
    kept = lab.add(REST, labels={"keep-until": "2026-12-01"})
    lab.minute(ENOUGH)
    assert lab.node(kept).asked == "present"
    with lab.units.reading() as unit:
        assert unit.events.list_by_kind(kept.id, "alarm", 0) == []


def test_the_first_minutes_of_a_node_that_never_worked_are_no_work(lab):
    node = lab.add(
        {kind: value for kind, value in REST.items() if kind is not Kind.TENSORCORE_IDLE}
    )
    for minute in range(12):
        if minute:  # the counter began a moment before we saw the node READY
            seconds = float(60 * minute - 15)
            lab.measure(Kind.TENSORCORE_IDLE, 0, 0, lab.clock() - 60, seconds)
        lab.minute()
        assert lab.course(node).course.state in ("WARMING", "QUIET")
    assert "B" not in lab.hour(node).levels


def test_rollups_tell_what_each_node_did(lab):
    idle, busy = lab.add(REST), lab.add(WORK)
    lab.minute(40)
    of_idle, of_busy = lab.hour(idle), lab.hour(busy)
    assert of_idle.levels.rstrip(".") == "I" * len(of_idle.levels.rstrip("."))
    assert of_busy.levels.rstrip(".") == "B" * len(of_busy.levels.rstrip("."))
    written = (len(of_idle.levels.rstrip(".")), len(of_busy.levels.rstrip(".")))
    assert 6 <= written[0] <= 7, "35 minutes are proved quiet, of which five may be unwritten"
    assert 7 <= written[1] <= 8
    assert of_idle.values[Kind.CPU][0] == 2.0


def test_a_node_that_goes_takes_nothing_along_that_its_hours_do_not_say(lab):
    busy = lab.add(WORK)
    lab.minute(13)
    lab.change(busy, asked=Asked.ABSENT)
    lab.minute(1)
    assert lab.hour(busy).levels == "BBB" + "." * 9
    assert lab.hour(busy).values[Kind.CPU][:3] == [2.0] * 3


def test_a_course_that_did_not_change_is_written_every_five_minutes(lab):
    busy = lab.add(WORK)
    lab.minute(3)
    versions = []
    for _ in range(20):
        lab.minute(1)
        versions.append(lab.course(busy).course.version)
    assert versions[-1] - versions[0] in (3, 4)
    assert lab.clock() - lab.course(busy).judged_at <= 300


@pytest.mark.deep
def test_what_was_decided_is_written_at_once(lab):
    idle = lab.add(REST)
    seen = []
    for _ in range(60):
        lab.minute(1)
        if lab.ended():
            break
        seen.append(lab.course(idle).course.state)
    assert [state for state, _ in groupby(seen)] == [
        State.WARMING,
        State.QUIET,
        State.NOTIFIED,
    ]
    assert seen.count(State.NOTIFIED) == DELETES.grace_seconds // 60


@pytest.mark.deep
def test_a_new_daemon_reads_again_what_the_one_before_had_not_written(lab):
    idle = lab.add(REST)
    lab.telemetry.late = 240
    lab.minute(12)
    for _ in range(5):  # wherever in its five minutes the one before was
        lab.start_daemon("next")
        lab.minute(6)
        track = lab.course(idle).signals.tracks[0, Kind.CPU]
        assert track.at_rest == ((NOON, track.end),), "without a gap"


@pytest.mark.deep
def test_a_daemon_that_gets_its_lease_back_reads_what_was_measured_meanwhile(lab):
    node = lab.add(REST)
    lab.minute(IDLE_MINUTES - 2)
    first = lab.controller
    lab.start_daemon("two")
    lab.doing[node.id] = WORK
    lab.minute()
    lab.doing[node.id] = REST
    lab.minute(7)
    lab.start_daemon("one")
    lab.controller = first
    lab.minute(GRACE_MINUTES + 5)
    assert lab.course(node).course.state == "QUIET", "it worked a quarter of an hour ago"
    assert lab.node(node).asked == "present"


def test_a_daemon_without_the_lease_writes_nothing(lab):
    idle = lab.add(REST)
    lab.minute(2)
    before = lab.course(idle)
    old = lab.lease
    lab.start_daemon("two")
    lab.lease = old
    with pytest.raises(Exception, match="another daemon"):
        lab.minute(1)
    assert lab.course(idle) == before


def messages(lab):
    """The bodies of what is to be sent, the first one first."""
    with lab.units.reading() as unit:
        due = unit.notifications.list_due(lab.clock() + 86_400, 100)
    return [(node.channel, json.loads(node.body)) for node in due]


@pytest.mark.deep
def test_an_owner_with_an_address_is_told_once_before_the_end(lab):
    idle = lab.add(REST, owner="ada@example.com")
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "absent"
    ((channel, body),) = messages(lab)
    assert (channel, body["kind"]) == ("mail", "node.idle")
    assert body["node"]["name"] == idle.name
    assert body["message"]
    assert (body["hourly_cost"], body["idle_cost"]) == (None, None), "no price is known"


@pytest.mark.deep
def test_a_message_says_what_the_idle_time_has_cost(lab):
    idle = lab.add(REST, owner="ada@example.com")
    with lab.units() as unit:
        unit.usage.save(factories.usage(node_id=idle.id, start=NOON, chips=8))
        unit.prices.add(factories.price(nanos=1_200_000_000))
    lab.minute(IDLE_MINUTES + 1)
    ((_, body),) = messages(lab)
    hours = (parse_rfc3339(body["at"]) - parse_rfc3339(body["idle_since"])) / 3_600
    assert float(body["idle_cost"]) == pytest.approx(float(body["hourly_cost"]) * hours)
    assert float(body["idle_cost"]) > 0


@pytest.mark.deep
def test_the_owner_of_a_node_that_nobody_can_see_is_told_after_two_hours_and_then_daily(lab):
    dark = lab.add(None, owner="ada@example.com")
    lab.minute(10 + 119)
    assert messages(lab) == []
    lab.minute(3)
    assert [body["kind"] for _, body in messages(lab)] == ["node.unknown"]
    lab.minute(60)
    assert len(messages(lab)) == 1
    assert lab.node(dark).asked == "present"


@pytest.mark.deep
def test_an_inherited_policy_waits_until_its_message_was_tried_once(lab):
    lab.has_post = False
    idle = lab.add(REST, idle=None, owner="ada@example.com")
    own = lab.add(REST, owner="bob@example.com")
    with lab.units() as unit:
        unit.idle_policies.save(Policy("team:vision", Rule(1_800, 300, Action.DELETE)))
    lab.minute(ENOUGH + 30)
    assert lab.ended() == [own.name], "that was asked for with the node"
    lab.post()
    lab.minute()
    assert lab.ended() == [own.name, idle.name]


@pytest.mark.deep
def test_an_inherited_policy_deletes_what_its_owner_was_told_of_by_mail(lab):
    idle = lab.add(REST, idle=None, owner="ada@example.com")
    with lab.units() as unit:
        unit.idle_policies.save(Policy("team:vision", Rule(1_800, 300, Action.DELETE)))
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "absent"


def test_messages_carry_links_that_can_be_used_where_people_can_reach_them(lab):
    lab.controller._acts, lab.has_post = DaemonActs("https://steward.example.com/"), False
    idle = lab.add(REST, owner="ada@example.com")
    lab.minute(IDLE_MINUTES + 1)
    ((_, waiting),) = messages(lab)
    assert waiting["links"] == {}, "the links are made when the message is sent"
    sent: list[str] = []
    mail = SimpleNamespace(send=lambda one, *_: sent.append(one.body))
    NotificationController(lab.units, {Channel.MAIL: mail}, lab.clock).tick(lab.lease)
    body = json.loads(*sent)
    for verb in Verb:
        address = body["links"][verb]
        assert address.startswith("https://steward.example.com/links/")
        assert len(urlsafe_b64decode(address.rpartition("/")[2] + "=")) == 32, "256 random bits"
        with lab.units.reading() as unit:
            link = unit.links.find_by_hash(hash_of(address.rpartition("/")[2]))
        assert (link.verb, link.node_id, link.incarnation) == (verb, idle.id, 1)
        assert link.notified_at == lab.course(idle).course.notified_at


def goes_missing(lab, count, **changes):
    """Nodes that the cloud's lists lack, and that nobody asked to delete unless `changes` say
    so."""
    for _ in range(count):
        missed = lab.add(WORK, missed_at=lab.clock(), misses=1)
        lab.doing[missed.id] = None
        lab.change(missed, **{"state": NodeState.CREATING, **changes})


@pytest.mark.deep
@pytest.mark.parametrize(
    ("count", "changes", "is_held"),
    [
        (2, {}, False),
        (3, {}, True),
        (4, {"asked": Asked.ABSENT}, False),
        (4, {"state": NodeState.DELETED, "ended_at": NOON}, False),
    ],
)
def test_three_nodes_that_are_missing_without_a_request_hold_the_cleanup(
    lab, count, changes, is_held
):
    idle = lab.add(REST)
    goes_missing(lab, count, **changes)
    lab.minute(ENOUGH)
    assert rails_of(lab) == ([Rail.INVENTORY] if is_held else [])
    assert lab.node(idle).asked == ("present" if is_held else "absent")


@pytest.mark.deep
def test_three_missing_nodes_of_many_hold_while_the_project_has_shrunk_by_half(lab):
    is_stable: list[bool] = []
    lab.is_shrunk = lambda lease: lease == lab.lease and not is_stable
    lab.start_daemon("two")
    idle = lab.add(REST)
    for _ in range(40):
        lab.change(lab.add(None), state=NodeState.CREATING)
    goes_missing(lab, 3)
    lab.minute(ENOUGH)
    assert rails_of(lab) == [Rail.INVENTORY]
    assert lab.node(idle).asked == "present"
    is_stable.append(True)
    lab.minute()
    assert lab.node(idle).asked == "absent"
