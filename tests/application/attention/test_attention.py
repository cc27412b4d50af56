"""Waste and the agenda, as the stored fleet shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from service.application.attention.attention import AttentionService
from service.domain.attention.agenda import AgendaKind
from service.domain.attention.waste import WasteKind, WasteSum
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import OnExceeded
from service.domain.idle.cleanup import RailHold
from service.domain.idle.policy import Action, Waste
from service.domain.idle.rails import Rail
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import start_usage
from service.domain.nodes.node import Asked
from service.store.tables import idle_courses, leases
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES, WORK, IdleLab
from tests.hands import NOON

HOURLY = 9_600_000_000
"""Nano-dollars an hour of eight v5e chips on demand in us-west4."""
IDLE_MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60


@pytest.fixture
def lab(units, engine, clock):
    """Nodes that are looked at."""
    made = IdleLab(units, clock, Action.DELETE)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    return made


@pytest.fixture
def attention(lab):
    return AttentionService(lab.units, lab.prices, lab.clock, ["lab"])


def billed(lab, node):
    """Charge the node from now on."""
    with lab.units() as unit:
        unit.usage.save(start_usage(node, lab.clock(), lab.clock(), Evidence.OPERATION))
    return node


def test_an_idle_node_is_waste_and_its_end_is_next(lab, attention):
    node = billed(lab, lab.add(REST))
    busy = billed(lab, lab.add(WORK))
    lab.minute(IDLE_MINUTES)
    report = attention.read_waste()
    (source,) = report.sources
    assert (source.kind, source.node_id, source.hourly) == (WasteKind.IDLE, node.id, HOURLY)
    assert report.total == WasteSum(1, HOURLY)
    agenda = attention.read_agenda()
    (entry,) = agenda.next
    assert (entry.kind, entry.subject, entry.hourly) == (AgendaKind.IDLE_END, node.name, HOURLY)
    assert entry.at == lab.course(node).due_at
    assert entry.text == "The node is idle, and is deleted"
    assert agenda.needs_person == ()
    assert busy.id not in {entry.subject_id for entry in agenda.next}


@pytest.mark.parametrize("until", [None, NOON + 90_000])
def test_an_idle_node_ends_no_sooner_than_the_cleanup_is_held(lab, attention, until):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    due = lab.course(node).due_at
    assert due is not None
    with lab.units() as unit:
        held = RailHold(Rail.BREAKER, "3 of 9 nodes became unknown within 10 min", NOON, until)
        unit.cleanups.save(replace(unit.cleanups.get("lab"), holds=(held,)))
    (entry,) = attention.read_agenda().next
    assert entry.text == "The node is idle, and is deleted once nothing holds the cleanup"
    assert entry.at == (due if until is None else until)


def test_what_holds_another_project_is_no_matter(lab):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    both = AttentionService(lab.units, lab.prices, lab.clock, ["lab", "another"])
    with lab.units() as unit:
        held = RailHold(Rail.BREAKER, "3 of 9 nodes became unknown within 10 min", NOON)
        unit.cleanups.save(replace(unit.cleanups.get("another"), holds=(held,)))
    (entry,) = both.read_agenda().next
    assert (entry.text, entry.at) == ("The node is idle, and is deleted", lab.course(node).due_at)


def test_a_kept_idle_node_is_waste_that_nothing_ends(lab, attention):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES - 1)
    until = lab.clock() + 7_200
    lab.change(node, kept_until=until, kept_because="a demo")
    lab.minute(2)
    (source,) = attention.read_waste().sources
    assert source.kept_until == until
    assert attention.read_agenda().next == ()


def test_a_node_that_is_being_deleted_is_not_idle(lab, attention):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    lab.change(node, asked=Asked.ABSENT, delete_requested_at=lab.clock())
    assert attention.read_waste().sources == ()
    assert attention.read_agenda().next == ()


def test_an_unknown_node_is_apart_and_needs_a_person_after_two_hours(lab, attention):
    node = billed(lab, lab.add())
    lab.minute(IDLE_MINUTES)
    report = attention.read_waste()
    assert (report.total, report.unknown) == (WasteSum(), WasteSum(1, HOURLY))
    assert attention.read_agenda().needs_person == ()
    lab.minute(120)
    (entry,) = attention.read_agenda().needs_person
    assert (entry.kind, entry.subject_id) == (AgendaKind.UNKNOWN, node.id)
    assert entry.text.startswith("It is unknown whether the node works: ")


@pytest.mark.parametrize(
    ("waste", "kind", "line"),
    [
        (Waste.CRASH_LOOP, WasteKind.CRASH_LOOP, AgendaKind.CRASH_LOOP),
        (Waste.NO_PROGRESS, WasteKind.NO_PROGRESS, AgendaKind.NO_PROGRESS),
    ],
)
def test_a_node_without_progress_is_waste_of_its_own_kind(lab, attention, waste, kind, line):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    watched = lab.course(node)
    assert watched.verdict is not None
    with lab.units() as unit:  # as it is where the policy does not delete for this
        verdict = replace(watched.verdict, waste=waste)
        unit.idle_courses.save([replace(watched, verdict=verdict, due_at=None)])
    (source,) = attention.read_waste().sources
    assert source.kind is kind
    (entry,) = attention.read_agenda().needs_person
    assert (entry.kind, entry.hourly) == (line, HOURLY)


def test_the_course_of_an_earlier_incarnation_is_no_waste(lab, attention):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    lab.change(node, attempt=2)
    assert attention.read_waste().sources == ()
    assert attention.read_agenda().next == ()


def test_a_failing_deletion_is_waste_while_it_is_billed(lab, attention):
    node = billed(lab, lab.add(WORK))
    gone = lab.add(WORK)
    for some in (node, gone):
        lab.change(
            some,
            asked=Asked.ABSENT,
            delete_requested_at=NOON,
            tries=3,
            last_error="the cloud is unavailable",
        )
    (source,) = attention.read_waste().sources
    assert (source.kind, source.node_id) == (WasteKind.FAILING_DELETION, node.id)
    billed_entry, free_entry = attention.read_agenda().needs_person
    assert (billed_entry.subject_id, billed_entry.hourly) == (node.id, HOURLY)
    assert (free_entry.subject_id, free_entry.hourly) == (gone.id, 0)
    assert billed_entry.text == (
        "Its deletion does not end: 3 attempts in a row failed;"
        " the last error: the cloud is unavailable"
    )


def test_a_deletion_that_was_just_requested_is_not_failing(lab, attention):
    node = billed(lab, lab.add(WORK))
    lab.change(node, asked=Asked.ABSENT, delete_requested_at=NOON, last_error="it was busy before")
    assert attention.read_waste().sources == ()
    assert attention.read_agenda().needs_person == ()
    assert attention.count_failing_deletions() == 0


def test_the_end_of_a_time_to_live_is_on_the_agenda_a_day_before(lab, attention):
    soon = lab.add(WORK, ttl_seconds=7_200, next_try_at=lab.clock() + 7_200)
    lab.add(WORK, ttl_seconds=200_000, next_try_at=lab.clock() + 200_000)
    (entry,) = attention.read_agenda().next
    assert (entry.kind, entry.subject_id) == (AgendaKind.TTL_END, soon.id)
    assert entry.at == lab.clock() + 7_200


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (OnExceeded.DELETE, AgendaKind.BUDGET_DELETES),
        (OnExceeded.NOTIFY, AgendaKind.BUDGET_EXCEEDED),
    ],
)
def test_an_exceeded_budget_needs_a_person(lab, attention, action, kind):
    budget = factories.budget(id="b-1", on_exceeded=action, grace_seconds=600)
    window = budget.window_at(lab.clock())
    assert window is not None
    with lab.units() as unit:
        unit.budgets.add(budget)
        unit.alerts.save("b-1", Alert(EXCEEDED, window.start, fired_at=NOON))
    (entry,) = attention.read_agenda().needs_person
    assert (entry.kind, entry.subject, entry.subject_id) == (kind, budget.name, "b-1")
    assert entry.at == (NOON + 600 if action is OnExceeded.DELETE else None)


def test_the_alert_of_an_earlier_period_is_over(lab, attention):
    budget = factories.budget(id="b-1")
    with lab.units() as unit:
        unit.budgets.add(budget)
        unit.alerts.save("b-1", Alert(EXCEEDED, NOON - 90 * 86_400, fired_at=NOON - 80 * 86_400))
    assert attention.read_agenda().needs_person == ()


def test_courses_of_other_projects_are_not_shown(lab, attention, engine):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    with engine.begin() as connection:
        connection.execute(
            update(idle_courses).where(idle_courses.c.node_id == node.id).values(project="another")
        )
    assert attention.read_waste().sources == ()
