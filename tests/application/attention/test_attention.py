"""Waste and the agenda, as the stored fleet shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from service.application.attention.attention import AttentionService, BudgetEnd
from service.application.health import HealthService
from service.domain.attention.agenda import AgendaKind
from service.domain.attention.waste import WasteKind, WasteSum
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.idle.cleanup import ALARMING, RailHold
from service.domain.idle.policy import Action, Waste
from service.domain.idle.rails import Rail, Waiting
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import start_usage
from service.domain.nodes.node import Asked, Place
from service.domain.pricing.driver_vm import UserVm
from service.store.tables import idle_courses, leases
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES, WORK, IdleLab
from tests.garbage import orphan, shown
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


def idle_node(lab):
    """A node that is idle, and when it is due."""
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    due_at = lab.course(node).due_at
    assert due_at is not None
    return node, due_at


def hold_cleanup(lab, **changes):
    """Have something delay the cleanup of the project."""
    with lab.units() as unit:
        unit.cleanups.save(replace(unit.cleanups.get("lab"), **changes))


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
    assert entry.text == "The node is idle, and will be deleted"
    assert agenda.needs_person == ()
    assert busy.id not in {entry.subject_id for entry in agenda.next}


def test_the_end_of_an_idle_node_waits_while_the_cleanup_is_paused(lab, attention):
    billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    with lab.units() as unit:
        cleanup = unit.cleanups.get("lab")
        unit.cleanups.save(cleanup.with_pause(lab.clock(), "mira", "a demo"))
    lab.minute(60)
    (entry,) = attention.read_agenda().next
    assert (entry.kind, entry.at) == (AgendaKind.IDLE_END, None)
    assert entry.text == (
        "The node is idle, and will be deleted later, because the cleanup waits: mira: a demo"
    )


@pytest.mark.parametrize(
    ("ends", "at"), [((), 500), ((400,), 500), ((900, 700), 900), ((900, None), None)]
)
def test_holds_of_the_cleanup_delay_the_end_of_an_idle_node(lab, attention, ends, at):
    _, due_at = idle_node(lab)
    holds = tuple(
        RailHold(Rail.START, "it began just now", 0, due_at - 500 + end)
        if end is not None
        else RailHold(Rail.INVENTORY, "too many nodes are missing", 0)
        for end in ends
    )
    hold_cleanup(lab, holds=holds)
    (entry,) = attention.read_agenda().next
    assert entry.at == (None if at is None else due_at - 500 + at)


@pytest.mark.parametrize("is_due", [False, True])
def test_a_daemon_that_has_just_begun_delays_only_what_is_due_already(lab, attention, is_due):
    _, due_at = idle_node(lab)
    holds = (RailHold(Rail.START, "it has not read every metric yet", 0),)
    hold_cleanup(lab, holds=holds)
    lab.clock.now = due_at if is_due else due_at - 1
    (entry,) = attention.read_agenda().next
    assert entry.at == (None if is_due else due_at)
    waits = "later, because the cleanup waits" if is_due else "unless the cleanup still waits then"
    assert entry.text.endswith(f"{waits}: it has not read every metric yet")


@pytest.mark.parametrize("is_held", [False, True])
def test_an_idle_node_ends_when_its_turn_comes(lab, attention, is_held):
    node, due_at = idle_node(lab)
    turn = Waiting(node.id, Rail.HOUR, 1, due_at + 900)
    holds = (RailHold(Rail.START, "it began just now", 0, due_at + 60),) if is_held else ()
    hold_cleanup(lab, waiting=(turn,), holds=holds)
    (entry,) = attention.read_agenda().next
    assert entry.at == due_at + (60 if is_held else 900)
    waits = " when its turn comes, as the cleanup ends few nodes at a time"
    assert entry.text.endswith(waits) is not is_held


def test_what_holds_another_project_is_no_matter(lab):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    both = AttentionService(lab.units, lab.prices, lab.clock, ["lab", "another"])
    with lab.units() as unit:
        held = RailHold(Rail.BREAKER, "3 of 9 nodes became unknown within 10 min", NOON)
        unit.cleanups.save(replace(unit.cleanups.get("another"), holds=(held,)))
    (entry,) = both.read_agenda().next
    assert (entry.text, entry.at) == (
        "The node is idle, and will be deleted",
        lab.course(node).due_at,
    )


def test_a_kept_idle_node_is_waste_that_nothing_ends(lab, attention):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES - 1)
    until = lab.clock() + 7_200
    lab.change(node, kept_until=until, kept_because="a demo")
    lab.minute(2)
    (source,) = attention.read_waste().sources
    assert source.kept_until == until
    assert attention.read_agenda().next == ()


@pytest.mark.parametrize(
    ("label", "until"), [("2026-11-08", NOON + 5 * 43_200), ("next-week", None)]
)
def test_a_node_that_its_label_keeps_is_waste_that_needs_nobody(lab, attention, label, until):
    node = billed(lab, lab.add(REST, labels={"keep-until": label}))
    lab.minute(IDLE_MINUTES)
    watched = lab.course(node)
    assert watched.verdict is not None
    with lab.units() as unit:
        verdict = replace(watched.verdict, waste=Waste.CRASH_LOOP)
        unit.idle_courses.save([replace(watched, verdict=verdict)])
    (source,) = attention.read_waste().sources
    assert (source.kind, source.kept_until) == (WasteKind.CRASH_LOOP, until)
    agenda = attention.read_agenda()
    assert (agenda.needs_person, agenda.next) == ((), ())


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
    assert entry.text.startswith("It is unknown whether the node is active: ")


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


@pytest.mark.parametrize(("priced", "hourly"), [(True, HOURLY + 379_998_000), (False, None)])
def test_waste_costs_with_its_own_machine_what_the_alarm_says(lab, attention, priced, hourly):
    node = billed(lab, lab.add(WORK, architecture=Architecture.NODE, vm=UserVm("n1-standard-8")))
    with lab.units() as unit:
        if priced:
            machine = factories.price(379_998_000, generation="n1-standard-8", unit="vm_hour")
            unit.prices.add(machine)
    lab.change(node, asked=Asked.ABSENT, delete_requested_at=NOON, tries=1, alarmed_at=NOON)
    (source,) = attention.read_waste().sources
    _, (late,) = HealthService(lab.units, lab.prices, lab.clock, ["lab"]).list_overdue(1)
    assert source.hourly == late.hourly == hourly


def test_an_overdue_deletion_without_a_failed_attempt_is_not_said_to_have_failed(lab, attention):
    node = billed(lab, lab.add(WORK))
    lab.change(
        node,
        asked=Asked.ABSENT,
        delete_requested_at=NOON,
        alarmed_at=NOON,
        last_error="it was busy before",
    )
    (entry,) = attention.read_agenda().needs_person
    expected = (AgendaKind.FAILING_DELETION, "Its deletion is overdue")
    assert (entry.kind, entry.text) == expected


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


def test_a_keep_that_no_check_has_seen_yet_takes_the_end_from_the_agenda(lab, attention):
    node = billed(lab, lab.add(REST))
    lab.minute(IDLE_MINUTES)
    assert lab.course(node).due_at is not None
    lab.change(node, kept_until=lab.clock() + 7_200, kept_because="a demo")
    assert attention.read_agenda().next == ()


def test_a_node_that_is_looked_at_soon_and_lives_for_days_is_not_on_the_agenda(lab, attention):
    lab.add(WORK, ttl_seconds=300_000, next_try_at=lab.clock() + 60)
    lab.add(WORK, next_try_at=lab.clock() + 60)
    assert attention.read_agenda().next == ()


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        (
            {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 3_600},
            AgendaKind.GOOGLE_END,
            "Google ends the flex-start node",
        ),
        (
            {"ends_after_keep": "its job has ended", "kept_until": NOON + 3_600},
            AgendaKind.JOB_END,
            "The job has ended, and the node will be deleted",
        ),
    ],
)
def test_each_end_at_a_known_time_is_named(lab, attention, changes, kind, text):
    lab.add(WORK, next_try_at=lab.clock() + 3_600, **changes)
    (entry,) = attention.read_agenda().next
    assert (entry.kind, entry.text, entry.at) == (kind, text, NOON + 3_600)


@pytest.mark.parametrize(
    ("rail", "is_shown"), [(rail, rail in ALARMING) for rail in (Rail.MASS, Rail.START)]
)
def test_a_rail_with_an_alarm_needs_a_person(lab, attention, rail, is_shown):
    held = RailHold(rail, "most nodes are idle at once", NOON - 60, NOON + 3_540)
    with lab.units() as unit:
        unit.cleanups.save(replace(unit.cleanups.get("lab"), holds=(held,)))
    found = [
        (entry.kind, entry.subject, entry.text, entry.since, entry.at)
        for entry in attention.read_agenda().needs_person
    ]
    text = "No idle node is deleted: most nodes are idle at once"
    shown = (AgendaKind.CLEANUP_HOLDS, "lab", text, NOON - 60, NOON + 3_540)
    assert found == ([shown] if is_shown else [])


@pytest.mark.parametrize(("zone", "hourly"), [("us-west4-a", HOURLY), ("nowhere1-a", None)])
def test_orphans_without_a_known_price_have_an_unknown_cost(lab, attention, zone, hourly):
    with lab.units() as unit:
        unit.orphans.add(orphan(shown=shown(place=Place("lab", zone, "n-1"))))
    (entry,) = attention.read_agenda().needs_person
    assert (entry.kind, entry.hourly) == (AgendaKind.ORPHANS, hourly)
    (source,) = attention.read_waste().sources
    assert (source.kind, source.hourly) == (WasteKind.ORPHAN, hourly)


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


def test_a_budget_whose_grace_is_over_is_exceeded_without_an_instant(lab, attention):
    budget = factories.budget(id="b-1", on_exceeded=OnExceeded.DELETE, grace_seconds=600)
    window = budget.window_at(lab.clock())
    assert window is not None
    with lab.units() as unit:
        unit.budgets.add(budget)
        unit.alerts.save("b-1", Alert(EXCEEDED, window.start, fired_at=lab.clock() - 600))
    (entry,) = attention.read_agenda().needs_person
    assert (entry.kind, entry.at) == (AgendaKind.BUDGET_EXCEEDED, None)
    assert entry.text == "The budget is exceeded, and no node is left to delete"


def test_the_nodes_that_a_budget_will_delete_are_counted_with_their_cost(lab, attention):
    node = billed(lab, lab.add(WORK))
    billed(lab, lab.add(WORK, team="others"))
    billed(lab, lab.add(WORK, asked=Asked.ABSENT))
    delete = {"on_exceeded": OnExceeded.DELETE, "scope": Scope(team=node.team)}
    soon = factories.budget(id="b-1", name="soon", grace_seconds=600, **delete)
    late = factories.budget(id="b-2", name="late", grace_seconds=900, **delete)
    told = factories.budget(id="b-3", name="told", on_exceeded=OnExceeded.NOTIFY)
    window = soon.window_at(lab.clock())
    assert window is not None
    assert attention.find_budget_ends() == {}
    with lab.units() as unit:
        for budget in (late, soon, told):
            unit.budgets.add(budget)
            unit.alerts.save(budget.id, Alert(EXCEEDED, window.start, fired_at=NOON))
    assert attention.find_budget_ends() == {node.id: BudgetEnd(NOON + 600, "soon")}
    found = {item.subject: item for item in attention.read_agenda().needs_person}
    assert found["soon"].text == "The budget is exceeded, and 1 node will be deleted"
    assert found["told"].text == "The budget is exceeded"
    # A node is billed while its deletion goes on.
    assert (found["soon"].hourly, found["told"].hourly) == (HOURLY, 2 * HOURLY)


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


def test_an_idle_node_of_whom_nobody_can_be_told_needs_a_person(lab, attention):
    node = billed(lab, lab.add(REST, idle=None, owner="ada"))
    lab.minute((TIMES.warmup + 3_600 + TIMES.telemetry) // 60)
    agenda = attention.read_agenda()
    (entry,) = agenda.needs_person
    assert (entry.kind, entry.subject_id, entry.hourly) == (AgendaKind.UNTOLD, node.id, HOURLY)
    assert agenda.next == ()


def test_a_pause_holds_a_time_to_live_back_on_the_agenda(lab, attention):
    lab.add(WORK, ttl_seconds=7_200, next_try_at=lab.clock() + 7_200)
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").with_pause(NOON, "ada", "a demo"))
    (entry,) = attention.read_agenda().next
    assert (entry.kind, entry.at) == (AgendaKind.TTL_END, None)
    assert entry.text.endswith("once the pause of the cleanup ends")
