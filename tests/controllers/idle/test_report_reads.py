"""Nodes that Monitoring does not know, and what their workers say of themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import update

from service.application.cleanup.coverage import coverage_of
from service.cloud.ports import Sample
from service.controllers.idle.readings import at_once
from service.controllers.idle.report_reads import ReportReader
from service.domain.catalog.provisioning import Architecture
from service.domain.idle.assess import IdleSubject
from service.domain.idle.policy import Action, AppliedRule, Rule
from service.domain.idle.proof import Blocker
from service.domain.idle.signals.signal import Kind
from service.domain.nodes.node import IdlePolicy, NodeState, Place
from service.domain.orphans.adoption import Adopter, adopt_orphan
from service.domain.orphans.orphan import Orphan, OrphanKind, ShownResource
from service.store.idle_fleet import read_fleet
from service.store.tables import leases
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES, WORK, FakeWorkers, IdleLab, Later
from tests.hands import NOON

IDLE_MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60
GRACE_MINUTES = 5
LATE_MINUTES = 2
"""Two periods: a report is four minutes old at most, which the delay of telemetry allows for."""
ENOUGH = IDLE_MINUTES + GRACE_MINUTES + LATE_MINUTES
HOLDER = "process 7 (python3 train.py) holds /dev/vfio/0"


@pytest.fixture
def lab(units, engine, clock):
    """A laboratory without any metric, whose nodes have a supervisor and a meter."""
    made = IdleLab(units, clock)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    made.workers = FakeWorkers(clock)
    made.start_daemon("two")
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    return made


def add(lab, doing=None, hosts=1, **changes):
    """A node with its machines."""
    spec = {"supervisor": True, **changes}
    if hosts > 1:
        spec |= {"accelerator_type": "v5litepod-16", "hosts": hosts, "chips": 4 * hosts}
    node = lab.add(doing, **spec)
    lab.workers.add(node.cloud_id, hosts)
    return node


def machine(lab, node, worker=0):
    return lab.workers.machines[node.cloud_id][worker]


@pytest.mark.deep
def test_an_idle_node_goes_by_its_reports_alone(lab):
    idle, busy = add(lab), add(lab)
    machine(lab, busy).do(NOON, holder=HOLDER, device_free_since=None)
    lab.minute(IDLE_MINUTES - 1)
    assert lab.course(idle).course.state == "QUIET"
    lab.minute(LATE_MINUTES + 1)
    assert lab.course(idle).course.state == "NOTIFIED"
    lab.minute(GRACE_MINUTES)
    assert lab.ended() == [idle.name]
    assert lab.node(busy).asked == "present"
    with lab.units.reading() as unit:
        (ended,) = unit.cleanups.list_by_node(idle.id)
    assert {signal["signal"] for signal in ended.evidence["signals"]} == {
        *("device", "reported_cpu", "reported_network")
    }
    (report,) = ended.evidence["reports"]
    assert (report["worker"], report["holder"], report["sessions"]) == (0, "", 0)


@pytest.mark.deep
def test_every_worker_of_a_slice_has_to_be_at_rest(lab):
    idle, busy = add(lab, hosts=4), add(lab, hosts=4)
    machine(lab, busy, 2).do(NOON, holder=HOLDER, device_free_since=None)
    lab.minute(ENOUGH + 60)
    assert lab.ended() == [idle.name]
    assert HOLDER in lab.course(busy).verdict.reason
    assert "worker 2" in lab.course(busy).verdict.reason


@pytest.mark.deep
def test_a_worker_that_never_reported_is_unknown(lab):
    dark = add(lab, hosts=4)
    machine(lab, dark, 1).is_silent = True
    lab.minute(ENOUGH + 60)
    assert lab.ended() == []
    assert lab.course(dark).course.state == "UNKNOWN"


@pytest.mark.deep
def test_a_node_is_read_no_more_than_every_five_minutes_until_its_end_is_near(lab):
    node = add(lab)
    lab.minute(IDLE_MINUTES - 1)
    times = lab.workers.times(node.cloud_id)
    assert {later - earlier for earlier, later in pairwise(times)} == {300}
    lab.minute(LATE_MINUTES + GRACE_MINUTES + 1)
    times = lab.workers.times(node.cloud_id)
    assert min(later - earlier for earlier, later in pairwise(times)) >= 30


@pytest.mark.deep
def test_a_node_that_monitoring_covers_is_read_for_its_ids_and_before_its_end_only(lab):
    idle = add(lab, REST)
    worker = machine(lab, idle)
    worker.instance = "0-0"  # no number: its name is never known
    lab.minute(IDLE_MINUTES - 2)
    early = lab.workers.times(idle.cloud_id)
    assert len(early) <= 4, "until it is covered, and then each half hour for its ids"
    lab.minute(GRACE_MINUTES + 5)
    assert lab.ended() == [idle.name]
    ended_at = lab.clock() - 60 * 2
    late = [at for at in lab.workers.times(idle.cloud_id) if at > early[-1]]
    assert late
    assert late[-1] >= ended_at - 120


@pytest.mark.deep
def test_the_report_is_read_freshly_before_the_end(lab):
    idle = add(lab, REST)
    lab.minute(IDLE_MINUTES + GRACE_MINUTES - 3)
    assert lab.course(idle).course.state == "NOTIFIED"
    lab.workers.broken.add(idle.cloud_id)
    lab.minute(30)
    assert lab.node(idle).asked == "present", "nothing ends without a fresh report"
    looked = lab.course(idle)
    assert looked.course.state == "UNKNOWN", "though Monitoring still shows it quiet"
    assert "cannot be read" in looked.verdict.reason
    lab.workers.broken.clear()
    lab.minute(2)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_what_was_never_read_of_a_node_does_not_end_it_by_monitoring_alone(lab):
    idle = add(lab, REST)
    lab.workers.broken.add(idle.cloud_id)
    lab.minute(ENOUGH + 120)
    assert lab.course(idle).course.state == "UNKNOWN"
    assert lab.course(idle).course.blind_told_at, "its owner is told what it costs meanwhile"
    assert lab.node(idle).asked == "present"
    lab.workers.broken.clear()
    lab.minute(5)
    assert lab.course(idle).course.state == "NOTIFIED"
    lab.minute(GRACE_MINUTES)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_worker_whose_reports_are_dated_in_the_future_ends_no_node(lab):
    idle = add(lab, REST)
    lab.minute(IDLE_MINUTES)
    worker = machine(lab, idle)
    document = json.loads(worker.values["activity"]) | {"at": lab.clock() + 86_400}
    worker.is_silent = True
    worker.values["activity"] = json.dumps(document)
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "present"


@pytest.mark.deep
def test_reports_that_stop_freeze_a_node_that_monitoring_shows_until_there_is_a_new_one(lab):
    idle = add(lab, REST)
    lab.minute(20)
    machine(lab, idle).is_silent = True
    states = []
    for _ in range(3 * ENOUGH):
        lab.minute()
        states.append(lab.course(idle).course.state)
    blind = states.index("UNKNOWN")
    assert set(states[blind:]) == {"UNKNOWN"}, "it does not come and go with the reads"
    machine(lab, idle).is_silent = False
    lab.minute(GRACE_MINUTES + 8)
    assert lab.node(idle).asked == "absent"


@pytest.mark.deep
def test_a_session_in_the_last_minute_saves_a_node_that_is_due(lab):
    idle = add(lab)
    lab.minute(IDLE_MINUTES + LATE_MINUTES)
    assert lab.course(idle).course.state == "NOTIFIED"
    machine(lab, idle).do(lab.clock(), sessions=1)
    lab.minute(30)
    assert lab.node(idle).asked == "present"


@pytest.mark.deep
def test_a_session_blocks_the_end_and_the_time_at_rest_goes_on(lab):
    idle = add(lab)
    machine(lab, idle).do(NOON, sessions=1)
    lab.minute(ENOUGH)
    found = lab.course(idle)
    assert (found.course.state, found.verdict.blockers) == ("QUIET", (Blocker.SESSION,))
    assert found.verdict.since == NOON + TIMES.warmup
    with lab.units.reading() as unit:
        (hour,) = unit.idle_rollups.list_hours([idle.id], NOON, NOON + 3_600)[idle.id]
    assert "B" not in hour.levels
    assert hour.levels.count("I") >= 5
    machine(lab, idle).do(lab.clock(), sessions=0)
    lab.minute(7 + GRACE_MINUTES + LATE_MINUTES)
    assert lab.node(idle).asked == "absent", "the whole time quiet counts"


@pytest.mark.deep
def test_a_device_that_was_held_between_two_reports_was_not_at_rest(lab):
    burst = add(lab)
    for _ in range(12):
        lab.minute(9)
        machine(lab, burst).do(lab.clock() - 30, device_free_since=lab.clock() - 30)
        lab.minute(1)
    assert lab.ended() == []


@pytest.mark.deep
def test_reports_that_stop_freeze_the_course(lab):
    idle = add(lab)
    lab.minute(20)
    machine(lab, idle).is_silent = True
    lab.minute(ENOUGH)
    assert lab.course(idle).course.state == "UNKNOWN"
    assert lab.node(idle).asked == "present"


@pytest.mark.deep
def test_a_cloud_that_does_not_answer_freezes_those_that_need_it_only(lab):
    needs, seen = add(lab), lab.add(REST, owner="b", supervisor=False)
    lab.minute(10)
    lab.workers.broken.add(needs.cloud_id)
    lab.minute(ENOUGH)
    assert lab.ended() == [seen.name]
    assert lab.course(needs).course.state == "UNKNOWN"
    lab.workers.broken.clear()
    lab.minute(GRACE_MINUTES + 8)
    assert lab.node(needs).asked == "absent", "one report covers the whole time"


@pytest.mark.deep
def test_a_report_of_the_boot_before_counts_for_nothing(lab):
    idle = add(lab)
    lab.minute(30)
    worker = machine(lab, idle)
    worker.report(lab.clock())
    old = worker.values["activity"]
    worker.start_boot, worker.since = "boot-2", lab.clock()
    worker.report = lambda _now: None
    worker.values = {
        "activity": json.dumps({**json.loads(old), "at": lab.clock() + 86_400}),
        "report": json.dumps({"boot": "boot-2", "instance": worker.instance}),
    }
    lab.minute(60)
    assert lab.node(idle).asked == "present"
    assert lab.course(idle).course.state == "UNKNOWN"


@pytest.mark.deep
def test_a_report_of_an_earlier_incarnation_counts_for_nothing(lab):
    idle = add(lab)
    lab.minute(IDLE_MINUTES)
    lab.change(idle, attempt=2, state_since=lab.clock(), up_since=lab.clock())
    made_again = lab.clock()
    lab.minute(ENOUGH - LATE_MINUTES - GRACE_MINUTES - 2)
    assert lab.node(idle).asked == "present"
    hosts = lab.course(idle).signals.tracks[0, Kind.DEVICE]
    assert hosts.at_rest[0][0] >= made_again
    lab.minute(ENOUGH)
    assert lab.node(idle).asked == "absent"


FORGED = [
    "[]",
    "nothing",
    "[" * 5_000,
    json.dumps({"v": 1, "boot": "boot-1", "from": -5, "at": 10**30}),
    json.dumps({"v": 1, "boot": "boot-1", "from": 0, "at": "9", "holder": {"a": 1}}),
    json.dumps({"v": 1, "boot": "boot-1", "from": True, "at": NOON, "sessions": -1}),
    json.dumps({"v": 1, "boot": "boot-1", "from": 0, "at": 1, "holder": "x" * 50_000}),
]


@pytest.mark.deep
@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_a_forged_report_ends_nothing_and_harms_no_other_node(lab, text):
    forger, other = add(lab), add(lab)
    machine(lab, forger).report = lambda _now: None
    report = json.dumps({"boot": "boot-1", "instance": machine(lab, other).instance})
    machine(lab, forger).values = {"activity": text, "report": report}
    lab.minute(ENOUGH + 1)
    assert lab.ended() == [other.name]


@pytest.mark.deep
def test_a_forged_report_from_before_the_node_proves_nothing_of_that_time(lab):
    forger = add(lab)
    machine(lab, forger).doing = {
        **dict.fromkeys(["from", "device_free_since", "cpu_quiet_since", "network_quiet_since"], 0)
    }
    lab.minute(IDLE_MINUTES - 1)
    assert lab.course(forger).course.state == "QUIET"
    assert lab.course(forger).verdict.since >= NOON + TIMES.warmup


@pytest.mark.deep
def test_ids_of_instances_come_with_the_report_and_find_their_metrics(lab):
    node = add(lab, hosts=2)
    lab.minute(2)
    named = lab.course(node).signals.instances
    assert named == {worker: machine(lab, node, worker).instance for worker in (0, 1)}


def adopted_spec():
    """The spec of a node of a stranger that was adopted."""
    shown = ShownResource(
        Place("lab", "us-west4-a", "theirs"),
        queued=False,
        state=NodeState.READY,
        uid="7",
        accelerator_type="v5litepod-8",
        provisioning_model="on_demand",
        runtime_version="v2-alpha-tpuv5-lite",
    )
    orphan = Orphan(
        OrphanKind.STRANGER, certain=False, shown=shown, first_seen=NOON, since=NOON, last_seen=NOON
    )
    return adopt_orphan(orphan, Adopter(), NOON)[0].spec


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {"spec": adopted_spec()},
        {"architecture": Architecture.NODE, "accelerator_type": "v2-8", "generation": "v2"},
        {"supervisor": False},
    ],
    ids=["adopted", "legacy", "without supervisor"],
)
def test_a_node_that_nothing_shows_is_unknown_for_days_and_coverage_has_its_price(lab, changes):
    mine, dark = add(lab), lab.add(None, owner="b")
    spec = replace(dark.spec, **changes) if "spec" not in changes else changes["spec"]
    lab.change(dark, spec=replace(spec, project="lab", idle=dark.spec.idle))
    with lab.units() as unit:
        unit.usage.save(factories.usage(node_id=dark.id, project="lab", start=NOON))
    lab.minute(ENOUGH + 1)
    for _ in range(48):
        lab.clock.pass_(3_600)
        lab.minute()
    assert lab.ended() == [mine.name]
    assert (lab.course(dark).course.state, lab.node(dark).asked) == ("UNKNOWN", "present")
    with lab.units.reading() as unit:
        fleet = read_fleet(unit, "lab", lab.prices, Action.DELETE, lab.clock())
    found = coverage_of(fleet, lab.clock(), TIMES)
    assert (found.unseen, found.nodes) == (1, 1)
    assert found.unseen_hourly == fleet.subjects[0].hourly == 9_600_000_000


@pytest.mark.deep
def test_nodes_without_a_supervisor_are_never_read_and_coverage_says_what_they_cost(lab):
    adopted, mine = lab.add(None, supervisor=False), add(lab)
    lab.minute(ENOUGH + 1)
    assert lab.workers.times(adopted.cloud_id) == []
    assert lab.ended() == [mine.name]
    assert lab.course(adopted).course.state == "UNKNOWN"
    with lab.units.reading() as unit:
        fleet = read_fleet(unit, "lab", lab.prices, Action.DELETE, lab.clock())
    found = coverage_of(fleet, lab.clock(), TIMES)
    assert (found.unseen, found.nodes) == (1, 1)
    priced = replace(
        fleet, subjects=tuple(replace(subject, hourly=1_200_000_000) for subject in fleet.subjects)
    )
    assert coverage_of(priced, lab.clock(), TIMES).unseen_hourly == 1_200_000_000


@pytest.mark.deep
def test_coverage_counts_the_nodes_that_only_reports_show_and_those_that_are_silent(lab):
    seen, talks, silent = add(lab, REST), add(lab), add(lab, hosts=2)
    machine(lab, seen).instance = "1"
    machine(lab, silent, 1).is_silent = True
    lab.minute(10)
    with lab.units.reading() as unit:
        fleet = read_fleet(unit, "lab", lab.prices, Action.DELETE, lab.clock())
    found = coverage_of(fleet, lab.clock(), TIMES).reports
    assert (found.nodes, found.reported, found.needed, found.silent) == (3, 2, 2, 1)
    assert found.newest_at is not None
    assert NOON < found.newest_at <= lab.clock()
    machine(lab, talks).is_silent = True
    lab.minute(20)
    with lab.units.reading() as unit:
        fleet = read_fleet(unit, "lab", lab.prices, Action.DELETE, lab.clock())
    assert coverage_of(fleet, lab.clock(), TIMES).reports.silent == 2


@pytest.fixture
def subjects():
    nodes = [
        factories.node(
            id=f"n-{number}", cloud_id=f"n-{number}", attempt=1, supervisor=True, project="lab"
        )
        for number in range(20)
    ]
    applied = AppliedRule(Rule(action=Action.DELETE), "node", 0, Action.DELETE, (), (), "")
    return [IdleSubject(node, applied) for node in nodes]


def test_a_project_whose_cloud_is_slow_holds_up_no_other(clock, subjects):
    later = Later()
    workers: Any = FakeWorkers(clock)
    reader = ReportReader(workers, clock, TIMES, later)
    reader.take_reports("slow", subjects[:10], NOON)
    begun = len(later.work)
    assert 1 < begun <= 10, "several at the same time, and nobody waits for them"
    clock.pass_(900)
    reader.take_reports("slow", subjects[:10], clock())
    assert len(later.work) == begun, "no more before those are over"
    reader.take_reports("other", subjects[10:], clock())
    assert len(later.work) > begun
    later.go_on()
    assert len(workers.reads) == 20
    clock.pass_(900)
    reader.take_reports("slow", subjects[:10], clock())
    assert len(later.work) == begun


def test_what_breaks_a_read_breaks_no_other(clock, subjects):
    workers: Any = FakeWorkers(clock)
    read = workers.guest_attributes

    def guest_attributes(place, namespace):
        if place.cloud_id == "n-0":
            raise ZeroDivisionError
        return read(place, namespace)

    workers.guest_attributes = guest_attributes
    reader = ReportReader(workers, clock, TIMES, at_once)
    found = reader.take_reports("lab", subjects, NOON).subjects
    asked = {assessed.node.id: assessed.signals.asked_at for assessed in found}
    assert asked.pop("n-0") is None
    assert set(asked.values()) == {NOON}
    assert reader.take_reports("lab", subjects, NOON).readings == {}, (
        "nothing is read twice at once"
    )
    clock.pass_(300)
    assert reader.take_reports("lab", subjects, clock()).subjects[1].signals.asked_at == clock()


def test_each_slice_is_read_and_its_workers_are_counted_over_all(clock):
    node = factories.node(
        id="n", cloud_id="qr", attempt=1, supervisor=True, slices=2, hosts=4, chips=16
    )
    applied = AppliedRule(Rule(action=Action.DELETE), "node", 0, Action.DELETE, (), (), "")
    workers: Any = FakeWorkers(clock)
    workers.add("qr-0", 2)
    workers.add("qr-1", 2)
    clock.pass_(300)
    workers.report()
    reader = ReportReader(workers, clock, TIMES, at_once)
    (found,) = reader.take_reports("lab", [IdleSubject(node, applied)], clock()).subjects
    assert sorted(found.signals.hosts) == [0, 1, 2, 3]
    assert found.signals.instances[2] == workers.machines["qr-1"][0].instance
    workers.broken.add("qr-1")
    clock.pass_(300)
    (again,) = reader.take_reports("lab", [found], clock()).subjects
    assert again.signals.asked_at == found.signals.asked_at, "one slice did not answer"


def names_itself_late(lab, node, minute, is_gap):
    """A busy node of which only CPU and network are quiet, whose meter is dead, and whose duty
    cycle goes by an id that its supervisor tells in that minute; `is_gap` says when it is lost."""
    lab.add(WORK)
    mute = lab.workers.machines[node.cloud_id][0]
    mute.is_silent = True
    for now in range(minute + 40):
        start = lab.clock()
        if not is_gap(now):
            points = lab.telemetry.points.setdefault(Kind.DUTY_CYCLE, [])
            points.append(Sample("", 0, mute.instance, start, start + 60, 90.0))
        if now == minute:
            mute.values = {"report": json.dumps({"boot": "b", "instance": mute.instance})}
        lab.minute()
        yield lab.course(node)


@pytest.mark.deep
@pytest.mark.parametrize("gap", [0, 2, 3, 8])
@pytest.mark.parametrize("grace", [0, 60, 300])
def test_a_busy_node_stays_when_the_id_of_its_instance_becomes_known(lab, gap, grace):
    policy = IdlePolicy(after_seconds=1_800, grace_seconds=grace, action="delete")
    busy = add(lab, {Kind.CPU: 2.0, Kind.NETWORK: 100.0}, idle=policy)
    minute, lab.telemetry.late = ENOUGH + 20, 120
    looks = names_itself_late(lab, busy, minute, lambda now: 0 <= now - minute + 2 < gap)
    assert {look.course.state for look in looks} <= {"WARMING", "UNKNOWN", "ACTIVE"}
    assert lab.ended() == []


@pytest.mark.deep
def test_points_that_came_before_their_instance_was_known_are_not_lost(lab):
    busy = add(lab, {Kind.CPU: 2.0, Kind.NETWORK: 100.0})

    def is_named(now):
        return now > 0 and 0 in lab.course(busy).signals.instances

    looks = list(names_itself_late(lab, busy, ENOUGH, is_named))
    assert looks[-1].signals.tracks[0, Kind.DUTY_CYCLE].value == 90.0
    assert lab.ended() == []


@pytest.mark.deep
def test_a_crash_loop_on_a_busy_host_is_told_and_no_end_of_it_is_announced(lab):
    node = add(lab, {**REST, Kind.CPU: 60.0}, owner="ada@example.com")
    machine(lab, node).do(NOON, restarts=9, containers=1)
    lab.minute(ENOUGH + 60)
    watched = lab.course(node)
    assert (watched.course.state, watched.due_at) == ("NOTIFIED", None)
    assert lab.ended() == []
    with lab.units.reading() as unit:
        (told,) = [
            json.loads(notification.body)
            for notification in unit.notifications.list_due(lab.clock() + 86_400, 9)
        ]
    assert (told["action"], told["acts_at"]) == ("notify", None)
    assert "also: crash_loop" in told["limits"][0]


def crash(lab, node, minutes):
    """Let a container of a node crash three times in ten minutes; each start holds the device for a
    part of the time."""
    for number in range(minutes):
        is_held = number % 3 < 2
        machine(lab, node).doing = {
            "restarts": 3,
            "containers": 1,
            "holder": f"process {number} (python3 serve.py) holds /dev/vfio/0" if is_held else "",
            "device_free_since": None if is_held else lab.clock(),
            "cpu_quiet_since": NOON,
            "network_quiet_since": NOON,
        }
        lab.minute()


@pytest.mark.deep
def test_a_crash_loop_that_only_reports_show_is_told_and_ends_where_the_policy_means_it(lab):
    told = add(lab, owner="ada@example.com")
    crash(lab, told, ENOUGH + 60)
    watched = lab.course(told)
    assert (watched.verdict.level, watched.verdict.waste) == ("QUIET", "crash_loop")
    assert (watched.course.state, watched.due_at) == ("NOTIFIED", None)
    assert lab.ended() == []
    also = IdlePolicy(1_800, 300, "delete", ("crash_loop",))
    lab.change(told, spec=replace(told.spec, idle=also))
    crash(lab, told, GRACE_MINUTES + LATE_MINUTES)
    assert lab.ended() == [told.name]
    with lab.units.reading() as unit:
        (ended,) = unit.cleanups.list_by_node(told.id)
    (report,) = ended.evidence["reports"]
    assert (report["held_since"] is None) == (report["holder"] == "")


@pytest.mark.deep
def test_a_training_beside_a_container_that_crashes_is_never_ended(lab):
    also = IdlePolicy(1_800, 300, "delete", ("crash_loop",))
    node = add(lab, idle=also)
    machine(lab, node).do(NOON, holder=HOLDER, device_free_since=None, restarts=9, containers=2)
    lab.minute(2 * ENOUGH)
    assert lab.ended() == []
    assert lab.course(node).verdict.level == "UNKNOWN"


@pytest.mark.deep
def test_a_crash_loop_that_the_policy_means_is_ended(lab):
    also = IdlePolicy(1_800, 300, "delete", ("crash_loop",))
    node = add(lab, {**REST, Kind.CPU: 60.0}, owner="ada@example.com", idle=also)
    machine(lab, node).do(NOON, restarts=9, containers=1)
    lab.minute(ENOUGH + 60)
    assert lab.ended() == [node.name]
