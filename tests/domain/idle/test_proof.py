"""Tests of the rule of proof, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.idle.policy import Waste
from service.domain.idle.proof import (
    REPORT_AGE,
    ActivityEvidence,
    Blocker,
    Host,
    JobActivity,
    MetricFamily,
    judge_evidence,
    shown_at_work,
)
from service.domain.idle.signals.signal import (
    MONITORED,
    Kind,
    Level,
    Reading,
    SignalTrack,
    name_signal,
    with_reading,
)

NOW, DELAY, AFTER = 100_000, 240, 3_600
UNTIL = NOW - DELAY
LONG_AGO = NOW - 4 * AFTER
REST = {
    Kind.DUTY_CYCLE: 0.0,
    Kind.TENSORCORE: 0.1,
    Kind.TENSORCORE_IDLE: 1e6,
    Kind.ACTIVE_CHIPS: 0.0,
    Kind.UTILIZED_CHIPS: 0.0,
    Kind.CPU: 2.0,
    Kind.NETWORK: 900.0,
}
WORK = {
    Kind.DUTY_CYCLE: 60.0,
    Kind.TENSORCORE: 20.0,
    Kind.TENSORCORE_IDLE: 0.0,
    Kind.ACTIVE_CHIPS: 4.0,
    Kind.UTILIZED_CHIPS: 1.0,
    Kind.CPU: 80.0,
    Kind.NETWORK: 5e6,
    Kind.DEVICE: 1.0,
}
PRESENT = dict.fromkeys(MONITORED, MetricFamily.PRESENT)


def track(kind, *spans, value=None):
    """A track with a reading for each span, quiet unless a value is given with it."""
    found = None
    for start, end, *given in spans:
        level = given[0] if given else REST.get(kind, 0.0)
        found = with_reading(found, Reading(0, kind, start, end, level), 0)
    return found


def at_rest(workers=1, kinds=tuple(REST), **changes):
    """A node that was quiet for four times as long as it takes, seen by all metrics."""
    tracks = {(w, kind): track(kind, (LONG_AGO, NOW)) for w in range(workers) for kind in kinds}
    tracks.update(changes.pop("tracks", {}))
    missing = changes.pop("without", ())
    tracks = {key: found for key, found in tracks.items() if key not in missing}
    named = dict.fromkeys(range(workers), LONG_AGO)
    return replace(ActivityEvidence(workers, LONG_AGO, tracks, PRESENT, named=named), **changes)


def verdict(evidence):
    return judge_evidence(evidence, AFTER, NOW, DELAY)


def is_idle(evidence):
    found = verdict(evidence)
    since = found.proved_since
    return since is not None and UNTIL - since >= AFTER and not found.blockers


FREE = track(Kind.DEVICE, (NOW - 60, NOW))
"""A device that nobody holds now; who held it before, nobody says."""


def never_started(workers=1, **changes):
    """A node whose accelerators no metric has ever shown, though those of others are."""
    free = {(worker, Kind.DEVICE): FREE for worker in range(workers)}
    tracks = free | changes.pop("tracks", {})
    return at_rest(workers, (Kind.CPU, Kind.NETWORK), tracks=tracks, **changes)


def reported(worker=0, since=LONG_AGO, until=NOW):
    kinds = (Kind.DEVICE, Kind.REPORTED_CPU, Kind.REPORTED_NETWORK)
    return {(worker, kind): track(kind, (since, until)) for kind in kinds}


def test_a_node_at_rest_by_every_metric_is_idle():
    found = verdict(at_rest(workers=4))
    assert (found.level, found.coverage, found.blockers) == (Level.QUIET, 100, ())
    assert is_idle(at_rest(workers=4))


@pytest.mark.parametrize("chips", [0.0, 4.0])
@pytest.mark.parametrize("seen_until", [UNTIL - 301, NOW])
@pytest.mark.parametrize("family", list(MetricFamily))
def test_scheduled_chips_count_neither_way(chips, seen_until, family):
    scheduled = track(Kind.SCHEDULED_CHIPS, (LONG_AGO, seen_until, chips))
    tracks = {(0, Kind.SCHEDULED_CHIPS): scheduled}
    families = {**PRESENT, Kind.SCHEDULED_CHIPS: family}
    assert verdict(at_rest(tracks=tracks, families=families)) == verdict(at_rest())
    alone = ActivityEvidence(1, LONG_AGO, tracks, families)
    assert verdict(alone).level is Level.UNKNOWN, "they prove no rest"


@pytest.mark.parametrize("worked_until", [UNTIL - 60, UNTIL, UNTIL + 60])
@pytest.mark.parametrize("kind", WORK)
def test_work_that_tracks_show_is_told_in_short_as_the_whole_rule_tells_it(kind, worked_until):
    works = track(kind, (worked_until - 60, worked_until, WORK[kind]))
    for tracks in ({(0, kind): works}, {(1, kind): works, (0, Kind.DUTY_CYCLE): works}):
        evidence = at_rest(workers=2, tracks=tracks)
        short, whole = shown_at_work(evidence.tracks, UNTIL), verdict(evidence)
        assert short == (whole if whole.level is Level.ACTIVE else None)
        shows = kind in WORK.keys() - {Kind.CPU, Kind.NETWORK, Kind.DEVICE} or len(tracks) == 2
        assert (short is not None) == (shows and worked_until > UNTIL)


def test_without_any_reading_nothing_is_known():
    nothing = ActivityEvidence(1, LONG_AGO, {}, PRESENT)
    assert verdict(nothing).level is Level.UNKNOWN
    assert verdict(ActivityEvidence(0, LONG_AGO, {}, PRESENT)).level is Level.UNKNOWN
    assert not is_idle(nothing)


@pytest.mark.parametrize(
    "kind", [k for k in WORK if k not in (Kind.CPU, Kind.NETWORK, Kind.DEVICE)]
)
@pytest.mark.parametrize("worker", [0, 3])
def test_one_worker_at_work_is_a_node_at_work(kind, worker):
    busy = track(kind, (LONG_AGO, NOW - 60), (NOW - 60, NOW, WORK[kind]))
    found = verdict(at_rest(workers=4, tracks={(worker, kind): busy}))
    assert found.level is Level.ACTIVE
    assert f"worker {worker}" in found.reason


def test_work_counts_at_once_and_rest_only_when_the_newest_seconds_are_over():
    then = track(Kind.DUTY_CYCLE, (LONG_AGO, UNTIL, 0.0), (UNTIL, UNTIL + 60, 50.0))
    assert verdict(at_rest(tracks={(0, Kind.DUTY_CYCLE): then})).level is Level.ACTIVE
    ended = UNTIL - AFTER
    for at, expected in ((ended, True), (ended + 1, False)):
        one = track(Kind.DUTY_CYCLE, (at - 60, at, 50.0), (at, NOW, 0.0))
        assert is_idle(at_rest(tracks={(0, Kind.DUTY_CYCLE): one})) is expected


def test_nothing_is_idle_before_it_was_warm():
    assert is_idle(at_rest(counts_from=UNTIL - AFTER))
    assert not is_idle(at_rest(counts_from=UNTIL - AFTER + 1))


@pytest.mark.parametrize("kind", list(REST))
def test_a_metric_that_had_data_for_this_node_and_stopped_is_unknown(kind):
    stopped = track(kind, (LONG_AGO, UNTIL - 301))
    found = verdict(at_rest(workers=2, tracks={(1, kind): stopped}))
    assert found.level is Level.UNKNOWN
    assert found.lacking[0] == f"{name_signal(kind)} of worker 1 has stopped"
    fine = track(kind, (LONG_AGO, UNTIL - 300))
    assert is_idle(at_rest(workers=2, tracks={(1, kind): fine}))


@pytest.mark.parametrize("kind", list(REST))
def test_a_metric_that_cannot_be_read_is_unknown(kind):
    found = verdict(at_rest(families={**PRESENT, kind: MetricFamily.FAILED}))
    assert found.level is Level.UNKNOWN
    assert "cannot be read" in found.lacking[0]


@pytest.mark.parametrize("kind", [Kind.DUTY_CYCLE, Kind.TENSORCORE, Kind.TENSORCORE_IDLE])
def test_a_metric_that_a_project_does_not_have_counts_neither_way(kind):
    without = at_rest(families={**PRESENT, kind: MetricFamily.ABSENT}, without=[(0, kind)])
    assert is_idle(without)


def test_one_device_metric_proves_rest_and_none_does_not():
    device = (Kind.DUTY_CYCLE, Kind.TENSORCORE, Kind.TENSORCORE_IDLE)
    for kind in device:
        others = [(0, other) for other in device if other != kind]
        families = {**PRESENT, **{other: MetricFamily.ABSENT for _, other in others}}
        assert is_idle(at_rest(without=others, families=families))
    none = {**PRESENT, **dict.fromkeys(device, MetricFamily.ABSENT)}
    found = verdict(at_rest(without=[(0, kind) for kind in device], families=none))
    assert found.level is Level.UNKNOWN
    assert "device of worker 0" in found.lacking[0]


def test_chips_alone_prove_no_rest():
    kinds = (Kind.ACTIVE_CHIPS, Kind.UTILIZED_CHIPS, Kind.CPU, Kind.NETWORK)
    device = (Kind.DUTY_CYCLE, Kind.TENSORCORE, Kind.TENSORCORE_IDLE)
    families = {**PRESENT, **dict.fromkeys(device, MetricFamily.ABSENT)}
    assert verdict(at_rest(kinds=kinds, families=families)).level is Level.UNKNOWN


def test_an_accelerator_that_never_started_is_at_rest_while_its_host_is_seen():
    never = never_started()
    assert is_idle(never)
    assert verdict(never_started(without=[(0, Kind.CPU)])).level is Level.UNKNOWN
    assert verdict(replace(never, tracks={})).level is Level.UNKNOWN
    absent = replace(never, families={**PRESENT, Kind.DUTY_CYCLE: MetricFamily.ABSENT})
    assert verdict(absent).level is Level.UNKNOWN


def test_a_device_that_a_process_holds_was_started_though_it_has_no_duty_cycle():
    held = {(0, Kind.DEVICE): track(Kind.DEVICE, (NOW - 60, NOW, 1.0))}
    found = verdict(never_started(tracks=held))
    assert found.level is Level.UNKNOWN
    assert "device of worker 0" in found.lacking[0]


def test_a_worker_of_which_monitoring_shows_nothing_may_have_started():
    """Its duty cycle is missing as everything else is, which says nothing."""
    hosts = {key: one for key, one in reported().items() if key[1] is not Kind.DEVICE}
    assert verdict(at_rest(kinds=(), tracks=hosts)).level is Level.UNKNOWN


def test_a_duty_cycle_that_cannot_be_found_proves_nothing():
    """It goes by the id of the instance, which the supervisor reports."""
    assert verdict(never_started(named={})).level is Level.UNKNOWN
    of_four = never_started(4, named=dict.fromkeys((0, 1, 3), LONG_AGO))
    assert "worker 2" in verdict(of_four).lacking[0]


def test_a_duty_cycle_is_missing_only_since_its_instance_is_known():
    for at, expected in ((UNTIL - AFTER * 9 // 10, True), (UNTIL - AFTER // 2, False)):
        assert is_idle(never_started(named={0: at})) is expected
    assert verdict(never_started(named={0: NOW})).level is Level.UNKNOWN


def test_a_missing_duty_cycle_counts_only_where_the_worker_tells_who_holds_its_device():
    assert verdict(at_rest(kinds=(Kind.CPU, Kind.NETWORK))).level is Level.UNKNOWN


@pytest.mark.parametrize("kind", [Kind.CPU, Kind.NETWORK])
def test_the_host_has_to_be_seen_as_well(kind):
    found = verdict(at_rest(without=[(0, kind)]))
    assert found.level is Level.UNKNOWN
    assert f"the {name_signal(kind)} of worker 0 is" in found.lacking[0]


def test_a_missing_worker_is_unknown():
    without = at_rest(workers=4, without=[(2, kind) for kind in REST])
    assert verdict(without).level is Level.UNKNOWN
    assert "worker 2" in verdict(without).lacking[0]


@pytest.mark.parametrize("kind", [Kind.CPU, Kind.NETWORK])
def test_nine_tenths_of_the_time_have_to_be_covered(kind):
    def with_gap(seconds):
        start = UNTIL - AFTER
        spans = ((LONG_AGO, start + 600), (start + 600 + seconds, NOW))
        return at_rest(tracks={(0, kind): track(kind, *spans)})

    assert is_idle(with_gap(360))
    assert verdict(with_gap(396 + 1)).level is Level.UNKNOWN


@pytest.mark.parametrize("kind", [Kind.CPU, Kind.NETWORK])
def test_a_busy_host_blocks_and_does_not_reset_the_time_at_rest(kind):
    busy = track(kind, (LONG_AGO, NOW - 60), (NOW - 60, NOW, WORK[kind]))
    found = verdict(at_rest(tracks={(0, kind): busy}))
    assert (found.level, found.since) == (Level.QUIET, LONG_AGO)
    assert found.blockers == (Blocker.HOST_BUSY,)
    assert found.proved_since == NOW


def test_reports_that_are_asked_for_in_vain_prove_no_rest():
    assert verdict(at_rest(unread_since=NOW - 299)).level is Level.QUIET
    found = verdict(at_rest(unread_since=NOW - 300))
    assert found.level is Level.UNKNOWN
    assert "cannot be read" in found.reason
    assert not found.is_seen


def test_after_a_busy_host_the_whole_time_has_to_pass():
    for at, expected in ((UNTIL - AFTER, True), (UNTIL - AFTER + 1, False)):
        busy = track(Kind.CPU, (LONG_AGO, at - 60), (at - 60, at, 80.0), (at, NOW))
        assert is_idle(at_rest(tracks={(0, Kind.CPU): busy})) is expected


def test_an_open_session_blocks():
    found = verdict(at_rest(hosts={0: Host(NOW, sessions=1)}))
    assert (found.level, found.blockers) == (Level.QUIET, (Blocker.SESSION,))


def test_a_heartbeat_is_activity_until_it_expires():
    assert verdict(at_rest(heartbeat_until=NOW + 600)).level is Level.ACTIVE
    assert is_idle(at_rest(heartbeat_until=UNTIL - AFTER))
    assert not is_idle(at_rest(heartbeat_until=UNTIL - AFTER + 1))


def test_a_job_is_activity_while_it_prepares_or_makes_progress():
    preparing = JobActivity("j", is_preparing=True, progress_at=LONG_AGO)
    assert verdict(at_rest(job=preparing)).level is Level.ACTIVE
    moving = JobActivity("j", is_preparing=False, progress_at=NOW - 100)
    assert verdict(at_rest(job=moving)).level is Level.ACTIVE


STEPS = JobActivity("j", is_preparing=False, progress_at=NOW - 100, started_at=UNTIL - AFTER)


@pytest.mark.parametrize(
    ("devices", "changes", "level"),
    [
        # The reports of both workers cover the step, and show a free device.
        ([(LONG_AGO, NOW)] * 2, {}, Level.QUIET),
        # The reports end before the step, and are young.
        ([(LONG_AGO, NOW - 400)] * 2, {"report_seconds": 400}, Level.QUIET),
        ([(LONG_AGO, NOW - 401)] * 2, {"report_seconds": 400}, Level.ACTIVE),
        # One worker does not report, or holds its device.
        ([(LONG_AGO, NOW), None], {}, Level.ACTIVE),
        ([(LONG_AGO, NOW), (NOW - 1, NOW, 1.0)], {}, Level.ACTIVE),
        # Reports begin after the step.
        ([(NOW - 99, NOW)] * 2, {}, Level.ACTIVE),
    ],
)
def test_steps_are_no_work_where_all_workers_report_a_free_device(devices, changes, level):
    tracks = {
        (worker, Kind.DEVICE): track(Kind.DEVICE, span)
        for worker, span in enumerate(devices)
        if span is not None
    }
    found = verdict(at_rest(2, tracks=tracks, job=STEPS, **changes))
    assert found.level is level
    if level is Level.QUIET:
        assert (found.waste, found.since) == (Waste.NO_PROGRESS, STEPS.started_at)


@pytest.mark.parametrize(("started", "level"), [(300, Level.QUIET), (299, Level.ACTIVE)])
def test_a_job_has_time_to_open_the_device_after_its_start(started, level):
    job = replace(STEPS, started_at=NOW - started, progress_at=NOW - 99)
    tracks = {(0, Kind.DEVICE): track(Kind.DEVICE, (LONG_AGO, NOW))}
    at_start = at_rest(tracks=tracks, job=job)
    assert judge_evidence(at_start, AFTER, NOW, 100).level is level


def test_a_job_that_prepares_is_at_work_though_its_device_is_free():
    tracks = {(0, Kind.DEVICE): track(Kind.DEVICE, (LONG_AGO, NOW))}
    preparing = replace(STEPS, is_preparing=True)
    assert verdict(at_rest(tracks=tracks, job=preparing)).level is Level.ACTIVE


def test_a_crash_loop_that_only_reports_show_is_waste_and_a_duty_cycle_at_work_is_work():
    absent = dict.fromkeys(MONITORED, MetricFamily.ABSENT)
    holder = "process 7 (python) holds /dev/vfio/0"
    hosts = {0: Host(NOW, holder, restarts=3, containers=1)}
    loop = ActivityEvidence(1, LONG_AGO, reported(), absent, hosts, NOW)
    found = verdict(loop)
    assert (found.level, found.waste) == (Level.QUIET, Waste.CRASH_LOOP)
    works = {**reported(), (0, Kind.DUTY_CYCLE): track(Kind.DUTY_CYCLE, (NOW - 60, NOW, 60.0))}
    assert verdict(replace(loop, tracks=works, families=PRESENT)).level is Level.ACTIVE


def test_the_attempts_of_a_crash_loop_of_a_job_hold_the_device_now_and_then():
    absent = dict.fromkeys(MONITORED, MetricFamily.ABSENT)
    device = track(Kind.DEVICE, (NOW - 600, NOW - 599, 1.0), (NOW - 600, NOW))
    tracks = {**reported(), (0, Kind.DEVICE): device}
    job = JobActivity("j", is_preparing=False, progress_at=LONG_AGO, failures=3)
    loop = ActivityEvidence(1, LONG_AGO, tracks, absent, {0: Host(NOW)}, NOW, job=job)
    found = verdict(loop)
    assert (found.level, found.waste) == (Level.QUIET, Waste.CRASH_LOOP)
    assert verdict(replace(loop, job=replace(job, failures=2))).level is Level.UNKNOWN
    assert verdict(replace(loop, hosts={})).level is Level.UNKNOWN


def test_a_job_without_progress_and_a_crash_loop_are_waste():
    stuck = JobActivity("j", is_preparing=False, progress_at=UNTIL - AFTER)
    assert verdict(at_rest(job=stuck)).waste is Waste.NO_PROGRESS
    assert is_idle(at_rest(job=stuck))
    assert verdict(at_rest(job=replace(stuck, failures=3))).waste is Waste.CRASH_LOOP
    loop = Host(NOW, restarts=3, containers=1)
    assert verdict(at_rest(hosts={0: loop})).waste is Waste.CRASH_LOOP
    holds = Host(NOW, holder="process 7 (python) holds /dev/vfio/0", containers=1)
    assert verdict(at_rest(hosts={0: holds})).waste is Waste.NO_PROGRESS
    assert verdict(at_rest(hosts={0: replace(holds, containers=0)})).waste is None


def test_the_report_of_the_supervisor_is_enough_without_monitoring():
    absent = dict.fromkeys(MONITORED, MetricFamily.ABSENT)
    tracks = {key: found for worker in (0, 1) for key, found in reported(worker).items()}
    alone = ActivityEvidence(2, LONG_AGO, tracks, absent, asked_at=NOW)
    assert is_idle(alone)
    one = ActivityEvidence(2, LONG_AGO, reported(0), absent, asked_at=NOW)
    assert verdict(one).level is Level.UNKNOWN


def test_a_device_that_is_held_is_told_by_another_metric_or_not_at_all():
    absent = dict.fromkeys(MONITORED, MetricFamily.ABSENT)
    held = track(Kind.DEVICE, (LONG_AGO, NOW - 900), (NOW - 900, NOW, 1.0))
    hosts = {0: Host(NOW, holder="process 7 (jupyter) holds /dev/vfio/0")}
    alone = ActivityEvidence(
        1, LONG_AGO, {**reported(), (0, Kind.DEVICE): held}, absent, hosts, NOW
    )
    found = verdict(alone)
    assert found.level is Level.UNKNOWN
    assert "process 7 (jupyter) holds /dev/vfio/0" in found.lacking[0]
    assert is_idle(at_rest(tracks={(0, Kind.DEVICE): held}, hosts=hosts, asked_at=NOW))


def test_a_report_that_the_newest_read_found_too_old_has_stopped_until_a_newer_one_is_read():
    old = reported(until=NOW - 2_000)
    read_at = NOW - 2_000 + REPORT_AGE
    assert is_idle(at_rest(tracks=old))
    assert is_idle(at_rest(tracks=old, asked_at=read_at)), "nobody has asked for another since"
    found = verdict(at_rest(tracks=old, asked_at=read_at + 1))
    assert found.level is Level.UNKNOWN
    assert found.reason == "device of worker 0 has stopped"
    assert is_idle(at_rest(tracks=reported(until=read_at), asked_at=read_at + 1))


def test_a_stale_reading_is_none():
    old = {(0, kind): track(kind, (LONG_AGO, UNTIL - 2_000)) for kind in REST}
    day = judge_evidence(at_rest(tracks=old, counts_from=NOW - 10 * 86_400), 86_400, NOW, DELAY)
    assert day.level is Level.UNKNOWN


def test_a_track_is_what_the_builder_of_these_tests_makes():
    assert track(Kind.CPU, (0, 60)) == SignalTrack(60, 2.0, Level.QUIET, ((0, 60),))


ABSENT = dict.fromkeys(MONITORED, MetricFamily.ABSENT)
SHORT = 1_200
"""So short that the time between two reports is more than a tenth of it."""
REPORTED = (Kind.DEVICE, Kind.REPORTED_CPU, Kind.REPORTED_NETWORK)


def seen_by_reports(end, workers=1, **changes):
    """A node that Monitoring does not know, quiet by reports that reach to `end`."""
    tracks = {(w, kind): track(kind, (LONG_AGO, end)) for w in range(workers) for kind in REPORTED}
    hosts = {worker: Host(end) for worker in range(workers)}
    made = ActivityEvidence(workers, LONG_AGO, tracks, ABSENT, hosts, end, report_seconds=780)
    return replace(made, **changes)


def short_verdict(evidence):
    return judge_evidence(evidence, SHORT, NOW, DELAY)


@pytest.mark.parametrize("age", [0, 240, 500, 780])
def test_reports_that_are_read_every_five_minutes_prove_rest_as_far_as_they_reach(age):
    found = short_verdict(seen_by_reports(NOW - age))
    assert found.level is Level.QUIET
    assert found.until == min(UNTIL, NOW - age)


@pytest.mark.parametrize("age", [0, 240, 500, 780])
def test_a_metric_that_has_stopped_has_stopped_however_far_reports_reach(age):
    shown = seen_by_reports(NOW - age)
    stopped = {(0, Kind.CPU): track(Kind.CPU, (LONG_AGO, UNTIL - 301))}
    evidence = replace(shown, tracks={**shown.tracks, **stopped}, families=PRESENT)
    found = short_verdict(evidence)
    assert (found.level, found.lacking[0]) == (Level.UNKNOWN, "CPU of worker 0 has stopped")
    fine = {(0, Kind.CPU): track(Kind.CPU, (LONG_AGO, UNTIL - 300))}
    evidence = replace(evidence, tracks={**shown.tracks, **fine})
    assert short_verdict(evidence).level is Level.QUIET


def test_reports_that_are_too_old_or_missing_prove_nothing():
    assert short_verdict(seen_by_reports(NOW - 781)).level is Level.UNKNOWN
    two = seen_by_reports(NOW - 500, workers=2)
    assert short_verdict(two).level is Level.QUIET
    assert short_verdict(replace(two, hosts={0: Host(NOW - 500)})).level is Level.UNKNOWN
    late = {0: Host(NOW - 300), 1: Host(NOW - 900)}
    assert short_verdict(replace(two, hosts=late)).level is Level.UNKNOWN


def test_the_report_of_the_worker_that_is_furthest_behind_decides_how_far_the_proof_reaches():
    behind = seen_by_reports(NOW - 600, workers=2)
    tracks = {**behind.tracks, **seen_by_reports(NOW - 300).tracks}
    hosts = {0: Host(NOW - 300), 1: Host(NOW - 600)}
    found = short_verdict(replace(behind, tracks=tracks, hosts=hosts))
    assert (found.level, found.until) == (Level.QUIET, NOW - 600)


def test_a_device_that_is_held_is_not_at_rest_however_long_the_host_is():
    held = track(Kind.DEVICE, (LONG_AGO, NOW), (NOW - 300, NOW - 299, 1.0))
    holds = Host(NOW, "process 7 (python) holds /dev/vfio/0")
    evidence = seen_by_reports(NOW, hosts={0: holds})
    evidence = replace(evidence, tracks={**evidence.tracks, (0, Kind.DEVICE): held})
    assert short_verdict(evidence).level is Level.UNKNOWN
    assert "process 7" in short_verdict(evidence).reason
    assert short_verdict(evidence).is_seen, "it says so itself: nothing has gone dark"


@pytest.mark.parametrize(
    "changes",
    [
        {"hosts": {}},
        {"hosts": {0: Host(NOW - 5_000, "process 7 (python) holds /dev/vfio/0")}},
        {"families": dict.fromkeys(MONITORED, MetricFamily.FAILED)},
    ],
)
def test_a_node_whose_signals_do_not_come_is_not_seen(changes):
    held = track(Kind.DEVICE, (LONG_AGO, NOW), (NOW - 300, NOW - 299, 1.0))
    holds = Host(NOW, "process 7 (python) holds /dev/vfio/0")
    evidence = seen_by_reports(NOW, hosts={0: holds})
    evidence = replace(evidence, tracks={**evidence.tracks, (0, Kind.DEVICE): held})
    found = short_verdict(replace(evidence, **changes))
    assert (found.level, found.is_seen) == (Level.UNKNOWN, False)


def test_a_device_that_a_job_holds_is_judged_by_the_progress_of_the_job():
    held = track(Kind.DEVICE, (NOW - 1, NOW, 1.0))
    evidence = seen_by_reports(NOW, hosts={0: Host(NOW, "process 7 (python) holds /dev/vfio/0")})
    evidence = replace(evidence, tracks={**evidence.tracks, (0, Kind.DEVICE): held})
    stuck = replace(
        evidence, job=JobActivity("j-1", is_preparing=False, progress_at=NOW - 2 * SHORT)
    )
    found = short_verdict(stuck)
    assert (found.level, found.waste) == (Level.QUIET, Waste.NO_PROGRESS)
    assert found.since == NOW - 2 * SHORT
    moves = replace(evidence, job=JobActivity("j-1", is_preparing=False, progress_at=NOW - 60))
    assert short_verdict(moves).level is Level.ACTIVE
    busy = {**evidence.tracks, (0, Kind.REPORTED_CPU): track(Kind.REPORTED_CPU, (0, NOW, 90.0))}
    assert Blocker.HOST_BUSY in short_verdict(replace(stuck, tracks=busy)).blockers
