"""A daemon that begins: until its first reads have come, the nodes are as they were seen last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from sqlalchemy import update

from service.controllers.idle.idle import UNREAD_PERIODS
from service.domain.clock import HOUR
from service.domain.idle.assess import AssessedNode, IdleSubject, keep_last_verdict
from service.domain.idle.course import CourseChange, State
from service.domain.idle.policy import Action, AppliedRule, Rule
from service.domain.idle.proof import IdleVerdict
from service.domain.idle.rollup import slots_of
from service.domain.idle.signals.signal import Level
from service.domain.lease import Lease
from service.domain.nodes.node import Node
from service.store.tables import leases
from tests.controllers.idle.conftest import REST, TIMES, WORK, IdleLab, Later
from tests.hands import NOON

DOWN_SECONDS = 900


@pytest.fixture
def fleet(lab, engine) -> dict[str, Node]:
    """Six nodes that a daemon has seen for long enough, before it was down for a while."""
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    nodes = {f"n-{number}": lab.add(REST if number else WORK) for number in range(6)}
    lab.minute((TIMES.warmup + TIMES.telemetry) // 60 + 10)
    assert levels(lab, nodes) == {Level.QUIET, Level.ACTIVE}
    for _ in range(DOWN_SECONDS // 60):
        let_a_minute_pass_unseen(lab)
    return nodes


def let_a_minute_pass_unseen(lab: IdleLab) -> None:
    """The nodes go on, and no daemon looks."""
    tick = lab.controller.tick

    def rest(lease: Lease) -> None:
        assert lease == lab.lease

    lab.controller.tick = rest  # type: ignore[method-assign]
    try:
        lab.minute()
    finally:
        lab.controller.tick = tick  # type: ignore[method-assign]


def levels(lab: IdleLab, nodes: Mapping[str, Node]) -> set[Level]:
    return {verdict.level for node in nodes.values() if (verdict := lab.course(node).verdict)}


def breaker_is_open(lab: IdleLab) -> bool:
    with lab.units.reading() as unit:
        return unit.cleanups.get("lab").breaker.is_open


def test_nothing_is_lost_before_the_first_read_has_come(lab, fleet):
    before = {name: lab.course(node).course for name, node in fleet.items()}
    later = Later()
    lab.start_daemon("two", later)
    lab.controller.tick(lab.lease)
    assert levels(lab, fleet) == {Level.QUIET, Level.ACTIVE}
    assert {name: lab.course(node).course for name, node in fleet.items()} == before
    assert not breaker_is_open(lab)
    assert lab.ended() == []
    later.go_on()
    lab.minute()
    later.go_on()
    lab.minute()
    assert levels(lab, fleet) == {Level.QUIET, Level.ACTIVE}
    assert not breaker_is_open(lab)


def test_a_first_read_that_never_comes_is_a_loss_after_its_time(lab, fleet):
    lab.start_daemon("two", Later())
    lab.controller.tick(lab.lease)
    lab.minute(UNREAD_PERIODS - 1)
    assert (levels(lab, fleet), breaker_is_open(lab)) == ({Level.QUIET, Level.ACTIVE}, False)
    lab.minute()
    assert (levels(lab, fleet), breaker_is_open(lab)) == ({Level.UNKNOWN}, True)
    assert lab.ended() == []


def test_a_loss_that_the_first_read_shows_opens_the_breaker(lab, fleet):
    """Half of the nodes have no signals any more: they count as lost although a daemon began."""
    for node in list(fleet.values())[:4]:
        lab.doing[node.id] = None
    for _ in range(15):
        let_a_minute_pass_unseen(lab)
    later = Later()
    lab.start_daemon("two", later)
    lab.controller.tick(lab.lease)
    assert not breaker_is_open(lab)
    for _ in range(3):
        later.go_on()
        lab.minute()
    assert levels(lab, dict(list(fleet.items())[:4])) == {Level.UNKNOWN}
    assert breaker_is_open(lab)
    assert lab.ended() == []


def test_a_node_that_was_created_again_meanwhile_is_not_as_it_was(lab, fleet):
    node = fleet["n-1"]
    lab.change(node, attempt=2, state_since=lab.clock(), up_since=lab.clock())
    lab.start_daemon("two", Later())
    lab.controller.tick(lab.lease)
    assert lab.course(node).course.incarnation == 2


def test_what_was_not_seen_is_not_counted_as_work(lab, fleet):
    """The node worked when it was seen last. Nothing has been seen since: its time is unknown."""
    node = fleet["n-0"]
    lab.doing[node.id] = None
    lab.clock.pass_(HOUR)
    lab.start_daemon("two", Later())
    began = lab.clock()
    lab.controller.tick(lab.lease)
    assert lab.course(node).verdict.level is Level.ACTIVE
    lab.minute(7)
    with lab.units.reading() as unit:
        hours = unit.idle_rollups.list_hours([node.id], began - HOUR, began + HOUR)
    activities = {slot.start: slot.is_busy for slot in slots_of(hours.get(node.id, ()))}
    assert not any(is_busy for start, is_busy in activities.items() if start >= began - 300)


def test_what_a_report_shows_is_no_missing_read(lab):
    """Every worker reports, and a process holds the device: that is known of the node now."""
    node = lab.add(REST)
    lab.minute((TIMES.warmup + TIMES.telemetry) // 60 + 10)
    before = lab.course(node)
    assert before.verdict is not None
    applied = AppliedRule(Rule(), "default", 0, Action.OBSERVE, (), (), "")
    subject = IdleSubject(lab.node(node), applied, before)
    for is_seen in (False, True):
        verdict = IdleVerdict(Level.UNKNOWN, "process 7 holds the device", is_seen=is_seen)
        after = replace(before, verdict=verdict, course=replace(before.course, state=State.UNKNOWN))
        assessed = AssessedNode(subject, after, verdict, CourseChange(after.course))
        kept = keep_last_verdict(assessed)
        assert (kept.verdict, kept.moved.course) == (
            (verdict, after.course) if is_seen else (before.verdict, before.course)
        )
        assert not kept.is_due
