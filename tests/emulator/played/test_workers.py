"""Played workers keep the supervisor's side of the contract."""

from __future__ import annotations

import json

import pytest

from service.emulator.errors import ApiError
from service.emulator.nodes import guest_attributes
from service.emulator.surfaces import control
from tests.emulator.factories import START, ClientCloud, configured, name_of
from tests.emulator.played.given import POD, Jobs, task

SPOT = {"scheduling_config": {"spot": True}}


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def test_a_job_lives_from_its_pull_to_its_release(jobs):
    jobs.ready()
    assert jobs.until("IDLE")["task_error"] == "there is no steward-task"
    jobs.say(task("pull"))
    pulled = jobs.until("PULLED")
    assert pulled["image_digest"] == "sha256:" + "0" * 64
    jobs.cloud.wait(100)
    assert jobs.report()["state"] == "PULLED"
    jobs.say(task("run", 2))
    running = jobs.until("RUNNING")
    assert (running["generation"], running["attempt"]) == (2, "j-1")
    ended = jobs.until("EXITED")
    assert (ended["reason"], ended["exit_code"], ended["access"]) == ("COMPLETED", 0, "device")
    assert ended["pull_started_at"] <= ended["pulled_at"] <= ended["started_at"]
    assert ended["ended_at"] - ended["started_at"] == 60
    jobs.say(task("release", 3))
    jobs.cloud.wait(60)
    released = jobs.report()
    assert (released["state"], released["generation"], released["exit_code"]) == ("IDLE", 3, None)
    [run] = jobs.runs
    assert (run.attempt, run.job, run.worker, run.exit_code, run.how) == ("j-1", "j", 0, 0, "ended")
    assert run.end - run.start == 60


def test_a_run_without_a_pull_before_it_pulls_first(jobs):
    jobs.ready(task(command=["true"]))
    assert jobs.until("EXITED")["pulled_at"] is not None


@pytest.mark.parametrize(
    ("env", "command", "reason", "code"),
    [
        ({"EMULATOR_EXIT_CODE": "7"}, [], "COMPLETED", 7),
        ({}, ["bash", "-c", "exit 7"], "COMPLETED", 7),
        ({"EMULATOR_PULL_FAILS": "IMAGE_NOT_FOUND"}, [], "IMAGE_NOT_FOUND", None),
        ({"EMULATOR_PULL_SECONDS": "1801"}, [], "PULL_FAILED", None),
        ({"EMULATOR_OUT_OF_MEMORY": "1"}, [], "OOM_KILLED", 137),
        ({"EMULATOR_START_FAILS": "DEVICE_BUSY"}, [], "DEVICE_BUSY", None),
    ],
)
def test_an_end_is_reported_with_its_reason(jobs, env, command, reason, code):
    jobs.ready(task(env=env, command=command))
    ended = jobs.until("EXITED")
    assert (ended["reason"], ended["exit_code"]) == (reason, code)
    assert len(jobs.runs) == (code is not None)


def test_each_worker_ends_with_its_own_code(jobs):
    jobs.ready(task(env={"EMULATOR_EXIT_CODES": "0,7,0,9"}, first_worker=0), **POD)
    ended = [jobs.until("EXITED", worker) for worker in range(4)]
    assert [each["exit_code"] for each in ended] == [0, 7, 0, 9]
    assert sorted(run.worker for run in jobs.runs) == [0, 1, 2, 3]
    assert len({each["boot"] for each in ended}) == len({each["instance"] for each in ended}) == 4


def test_workers_that_take_no_part_stay_idle(jobs):
    jobs.ready(task(workers=[1, 2], first_worker=4), **POD)
    jobs.until("RUNNING", 1)
    assert [jobs.report(worker)["state"] for worker in (0, 3)] == ["IDLE", "IDLE"]
    assert sorted(run.worker for run in jobs.runs) == [5, 6]


@pytest.mark.parametrize(
    ("env", "code", "seconds"),
    [
        ({}, 143, 1),
        ({"EMULATOR_STOP_SECONDS": "20"}, 143, 20),
        ({"EMULATOR_STOP_SECONDS": "60"}, 137, 25),
        ({"EMULATOR_STOP_CODE": "0"}, 0, 1),
        ({"EMULATOR_IGNORE_SIGTERM": "1"}, 137, 25),
    ],
)
def test_a_stop_ends_the_container_within_its_grace(jobs, env, code, seconds):
    jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "9999", **env}))
    jobs.until("RUNNING")
    jobs.cloud.wait(120)
    before = jobs.cloud.now
    jobs.say(task("stop", 2))
    ended = jobs.until("EXITED")
    assert (ended["reason"], ended["exit_code"]) == ("STOPPED", code)
    assert jobs.runs[0].end - before == pytest.approx(3 + seconds, abs=0.1)


@pytest.mark.parametrize("state", ["PULLING", "PULLED"])
def test_a_stop_before_the_start_starts_nothing(jobs, state):
    jobs.ready(task("pull", env={"EMULATOR_PULL_SECONDS": "90"}))
    jobs.until(state)
    jobs.say(task("stop", 2))
    ended = jobs.until("EXITED")
    assert (ended["reason"], ended["exit_code"]) == ("STOPPED", None)
    jobs.say(task("run", 3))
    jobs.cloud.wait(600)
    assert (jobs.report()["state"], jobs.runs) == ("EXITED", [])


def test_a_container_that_lasts_too_long_is_ended(jobs):
    jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "9999"}, max_duration_seconds=300))
    ended = jobs.until("EXITED")
    assert (ended["reason"], ended["exit_code"]) == ("TIMED_OUT", 143)
    assert ended["ended_at"] - ended["started_at"] == pytest.approx(301, abs=1)


def test_another_attempt_ends_the_one_that_runs_first(jobs):
    jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "9999"}))
    jobs.until("RUNNING")
    jobs.cloud.wait(100)
    jobs.say(task(generation=2, attempt="j-2"))
    jobs.until("RUNNING")
    jobs.cloud.wait(100)
    first, second = jobs.runs
    assert (first.attempt, first.exit_code, second.attempt) == ("j-1", 143, "j-2")
    assert first.end <= second.start


def test_an_attempt_that_ended_is_never_started_again(jobs):
    jobs.ready(task(command=["true"]))
    jobs.until("EXITED")
    jobs.say(task("release", 2))
    jobs.say(task("run", 3))
    jobs.cloud.wait(600)
    assert len(jobs.runs) == 1


def test_a_task_of_an_older_generation_changes_nothing(jobs):
    jobs.ready(task("pull", generation=5))
    jobs.until("PULLED")
    jobs.say(task("run", generation=4))
    jobs.cloud.wait(120)
    told = jobs.report()
    assert (told["state"], told["task_error"]) == ("PULLED", "its generation is older than 5")


def test_a_task_that_cannot_be_read_is_reported(jobs):
    jobs.ready("{")
    assert "JSONDecodeError" in jobs.until("IDLE")["task_error"]
    jobs.say(task(command=["true"]))
    jobs.until("EXITED")
    assert jobs.report()["task_error"] == ""


def puts_of(jobs: Jobs, monkeypatch) -> list[float]:
    """The times at which worker 0 publishes from now on."""
    times: list[float] = []
    publish = guest_attributes.publish_value

    def noted(record, worker, *rest):
        if worker == 0:
            times.append(jobs.cloud.world.timeline.moment or jobs.cloud.now)
        publish(record, worker, *rest)

    monkeypatch.setattr(guest_attributes, "publish_value", noted)
    return times


def test_a_report_is_repeated_each_minute(jobs, monkeypatch):
    jobs.ready(task(command=["true"]))
    first = jobs.until("EXITED")
    times = puts_of(jobs, monkeypatch)
    jobs.cloud.wait(600)
    assert 9 <= len(times) <= 10
    again = jobs.report()
    assert again["seq"] > first["seq"]
    same = {"seq": 0, "at": 0, "detail": ""}
    assert {**again, **same} == {**first, **same}
    jobs.say(task("release", 2))
    jobs.cloud.wait(60)
    times.clear()
    jobs.cloud.wait(600)
    assert 9 <= len(times) <= 10  # a supervisor without work is heard of as well


def test_no_minute_has_five_puts_however_much_happens(jobs, monkeypatch):
    times = puts_of(jobs, monkeypatch)
    env = {"EMULATOR_STEPS": "500", "EMULATOR_CHECKPOINT_EVERY": "3"}
    jobs.ready(task(env=env))
    jobs.cloud.wait(60)
    for generation in range(2, 40):
        jobs.say(task("run", generation, attempt=f"j-{generation // 3}", env=env))
        jobs.cloud.wait(7)
    assert len(times) > 20
    assert all(sum(at <= other < at + 60 for other in times) < 5 for at in times)


def test_checkpoints_are_reported_and_the_next_attempt_goes_on_from_there(jobs):
    env = {"EMULATOR_STEPS": "100", "EMULATOR_CHECKPOINT_EVERY": "10"}
    jobs.ready(task(env=env))
    jobs.until("RUNNING")
    jobs.cloud.wait(45)
    jobs.say(task("stop", 2))
    stopped = jobs.until("EXITED")
    assert stopped["checkpoint"] == 40
    assert stopped["checkpoint_at"] <= stopped["ended_at"]
    jobs.say(task("run", 3, attempt="j-2", env=env))
    jobs.cloud.wait(150)
    assert jobs.runs[1].end - jobs.runs[1].start == 60


def test_a_program_may_say_that_it_is_done_and_fail_after_that(jobs):
    jobs.ready(task(env={"EMULATOR_DONE_SECONDS": "50", "EMULATOR_EXIT_CODE": "134"}))
    ended = jobs.until("EXITED")
    assert (ended["exit_code"], ended["done_at"] - ended["started_at"]) == (134, 50)
    assert "STEWARD_DONE" in [line.text_payload for line in jobs.lines()]


def test_output_is_in_the_log_with_the_labels_of_the_task(jobs):
    jobs.ready(task(workers=[1], first_worker=4), **POD)
    jobs.until("EXITED", 1)
    lines = jobs.lines()
    assert [line.text_payload for line in lines][:2] == ["worker 5 of j-1 starts", "line 1"]
    assert dict(lines[0].labels) == {
        "job": "j",
        "attempt": "1",
        "worker": "5",
        "stream": "stdout",
    }
    assert len({line.insert_id for line in lines}) == len(lines) == jobs.runs[0].lines
    assert lines[0].resource.type == "global"
    assert [line.insert_id for line in lines] == sorted(line.insert_id for line in lines)


# ---- reboots


@pytest.mark.parametrize("how", ["stop and start", "maintenance", "host error"])
def test_a_reboot_ends_an_attempt_and_does_not_start_it_again(jobs, how):
    name = jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "9999"}))
    before = jobs.until("RUNNING")
    jobs.cloud.wait(30)
    if how == "stop and start":
        jobs.cloud.ask("StopNode", name=name)
        jobs.cloud.wait(60)
        jobs.cloud.ask("StartNode", name=name)
    elif how == "maintenance":
        control.maintain_node(jobs.cloud.world, {"name": name})
    else:
        control.break_host(jobs.cloud.world, {"name": name})
    after = jobs.until("EXITED")
    assert (after["reason"], after["exit_code"]) == ("REBOOTED", None)
    assert after["boot"] != before["boot"]
    assert after["boot_at"] > before["boot_at"]
    assert after["seq"] > before["seq"]
    jobs.cloud.wait(600)
    [run] = jobs.runs
    assert (run.how, run.exit_code, run.boot) == ("power", None, 1)
    jobs.say(task("run", 2, attempt="j-2", command=["true"]))
    jobs.cloud.wait(60)
    assert jobs.report()["attempt"] == "j-2"
    assert jobs.runs[1].boot == 2


def test_a_reboot_during_the_pull_pulls_again(jobs):
    name = jobs.ready(task(env={"EMULATOR_PULL_SECONDS": "120"}, command=["true"]))
    jobs.until("PULLING")
    control.maintain_node(jobs.cloud.world, {"name": name})
    assert jobs.until("EXITED")["reason"] == "COMPLETED"


def test_an_end_before_a_reboot_is_reported_as_it_was(jobs):
    name = jobs.ready(task(command=["false"]))
    jobs.until("EXITED")
    control.maintain_node(jobs.cloud.world, {"name": name})
    jobs.cloud.wait(300)
    told = jobs.report()
    assert (told["reason"], told["exit_code"]) == ("COMPLETED", 1)


# ---- preemption


def preempted(jobs: Jobs, worker: int) -> str:
    record = jobs.cloud.world.nodes[name_of("a")]
    return "TRUE" if record.state == "PREEMPTED" or worker in record.notices else "FALSE"


def test_a_preemption_with_notice_tells_the_workers_first(jobs):
    name = jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "9999"}), **POD, **SPOT)
    jobs.until("RUNNING", 3)
    jobs.cloud.wait(100)
    control.preempt_node(jobs.cloud.world, {"name": name, "notice_seconds": 30})
    noticed = int(jobs.cloud.now)
    assert [preempted(jobs, worker) for worker in range(4)] == ["TRUE"] * 4
    jobs.cloud.wait(29)
    assert jobs.cloud.state() == "READY"
    for worker in range(4):
        told = jobs.report(worker)
        assert (told["state"], told["reason"]) == ("EXITED", "PREEMPTION_NOTICE")
        assert told["preempted_at"] == noticed
    jobs.cloud.wait(1)
    assert jobs.cloud.state() == "PREEMPTED"
    assert all(run.end < START + 1e9 and run.exit_code == 143 for run in jobs.runs)


def test_a_preemption_that_one_worker_is_told_of_kills_its_siblings(jobs):
    name = jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "9999"}), **POD, **SPOT)
    jobs.until("RUNNING", 3)
    order = {"name": name, "notice_seconds": 30, "workers": [2]}
    control.preempt_node(jobs.cloud.world, order)
    assert [preempted(jobs, worker) for worker in range(4)] == ["FALSE", "FALSE", "TRUE", "FALSE"]
    jobs.cloud.wait(30)
    assert jobs.cloud.state() == "PREEMPTED"
    codes = {run.worker: run.exit_code for run in jobs.runs}
    assert codes.pop(2) == 143
    assert set(codes.values()) <= {1, 139, 134}


@pytest.mark.parametrize("workers", [[4], [-1], [True], 0, ["0"]])
def test_only_workers_of_the_node_are_told(jobs, workers):
    name = jobs.ready(task(), **POD, **SPOT)
    with pytest.raises(ApiError, match="workers must be"):
        control.preempt_node(
            jobs.cloud.world, {"name": name, "notice_seconds": 30, "workers": workers}
        )


def test_a_preemption_without_notice_cuts_the_power(jobs):
    name = jobs.ready(task(), **SPOT)
    jobs.until("RUNNING")
    control.preempt_node(jobs.cloud.world, {"name": name})
    assert jobs.cloud.state() == "PREEMPTED"
    assert [(run.how, run.exit_code) for run in jobs.runs] == [("power", None)]


def test_a_node_that_is_not_spot_is_given_notice_only_by_force(jobs):
    name = jobs.ready()
    with pytest.raises(ApiError, match="unless forced"):
        control.preempt_node(jobs.cloud.world, {"name": name, "notice_seconds": 30})
    control.preempt_node(jobs.cloud.world, {"name": name, "notice_seconds": 30, "force": True})
    jobs.cloud.wait(30)
    assert jobs.cloud.state() == "PREEMPTED"


def test_a_node_that_is_deleted_under_notice_is_not_preempted(jobs):
    name = jobs.ready(**SPOT)
    control.preempt_node(jobs.cloud.world, {"name": name, "notice_seconds": 30})
    jobs.cloud.ask("DeleteNode", name=name)
    jobs.cloud.wait(60)
    assert jobs.cloud.state() == "GONE"


def lost(seed: int) -> Jobs:
    """A job of two slices, the first of which is lost by chance."""
    odds = {"preemptions_per_hour": {"*": 1}, "sibling_death_seconds": 30}
    cloud = configured(played_workers="all", odds=odds)
    cloud = type(cloud)(config=cloud.config, seed=seed)
    jobs = Jobs(cloud)
    long = {"EMULATOR_DURATION_SECONDS": "999999"}
    jobs.ready(task(env=long, slices=2), "b", **POD)
    jobs.ready(task(env=long, slices=2), "a", **POD, **SPOT)
    for _ in range(20_000):
        cloud.wait(1)
        if cloud.state("a") == "PREEMPTED":
            return jobs
    raise AssertionError("nothing happened")


@pytest.mark.deep
def test_siblings_of_a_lost_node_die_before_its_state_shows_it():
    codes, noticed = set(), 0
    for seed in range(12):
        jobs = lost(seed)
        at = jobs.cloud.now
        mine = [run for run in jobs.runs if run.node == name_of("a")]
        assert len(jobs.runs) == 8
        ends = [run.end for run in jobs.runs]
        assert all(end is not None and at - 32 <= end <= at for end in ends)
        told = [run for run in mine if run.exit_code == 143]
        assert len(told) <= 1
        noticed += len(told)
        codes |= {run.exit_code for run in jobs.runs if run not in told}
        for run in jobs.runs:
            report = jobs.report(run.number, run.node.rpartition("/")[2])
            expected = "PREEMPTION_NOTICE" if run in told else "COMPLETED"
            assert (report["reason"], report["exit_code"]) == (expected, run.exit_code)
    assert codes == {1, 139, 134}
    assert 0 < noticed < 12


# ---- which nodes are played


def test_no_node_is_played_unless_it_is_asked_for():
    jobs = Jobs(configured())
    name = jobs.ready(task())
    jobs.cloud.wait(600)
    assert jobs.runs == []
    assert not jobs.cloud.world.nodes[name].is_played
    control.change_config(jobs.cloud.world, {"played_workers": "all"})
    jobs.until("EXITED")
    assert len(jobs.runs) == 1


def test_only_what_does_not_run_for_real_is_played_with_overflow():
    jobs = Jobs(configured(played_workers="overflow"))
    jobs.cloud.world.has_real_workers = True
    control.change_config(jobs.cloud.world, {"real_workers": 5})
    names = [jobs.ready(node_id=each, **POD) for each in "abc"]
    small = jobs.ready(node_id="d")
    records = jobs.cloud.world.nodes
    assert [records[name].is_played for name in (*names, small)] == [False, True, True, False]
    jobs.cloud.ask("DeleteNode", name=names[0])
    jobs.cloud.wait(60)
    assert not records[jobs.ready(node_id="e", **POD)].is_played


def test_a_node_without_a_supervisor_does_nothing(jobs):
    jobs.cloud.ready(metadata={"steward-task": task()})
    jobs.cloud.wait(600)
    with pytest.raises(ApiError, match="not found"):
        jobs.report()


def test_a_node_whose_guest_attributes_are_off_says_nothing(jobs):
    off = {"steward-supervisor": "x", "steward-task": task(), "enable-guest-attributes": "FALSE"}
    jobs.cloud.ready(metadata=off)
    jobs.cloud.wait(600)
    assert len(jobs.runs) == 1
    with pytest.raises(ApiError, match="not found"):
        jobs.report()


def test_a_reset_forgets_all_workers_and_runs(jobs):
    jobs.ready(task())
    jobs.until("RUNNING")
    control.reset_world(jobs.cloud.world)
    jobs.cloud.wait(600)
    assert control.list_runs(jobs.cloud.world) == {"runs": []}


def test_a_reset_makes_room_for_real_workers_again():
    jobs = Jobs(configured(played_workers="overflow", real_workers=4))
    jobs.cloud.world.has_real_workers = True
    for is_played in (False, True):
        name = jobs.ready(node_id=f"played-{is_played}".lower(), **POD)
        assert jobs.cloud.world.nodes[name].is_played is is_played
    control.reset_world(jobs.cloud.world)
    assert not jobs.cloud.world.nodes[jobs.ready(node_id="c", **POD)].is_played


@pytest.mark.parametrize("which", ["some", 1, None])
def test_a_switch_that_makes_no_sense_is_refused(jobs, which):
    with pytest.raises(ApiError, match="played_workers must be one of"):
        control.change_config(jobs.cloud.world, {"played_workers": which})


def test_the_same_seed_gives_the_same_day():
    def day(seed: int) -> str:
        jobs = lost(seed)
        return json.dumps([control.list_runs(jobs.cloud.world), jobs.report(0)])

    assert day(3) == day(3) != day(4)


@pytest.mark.deep
def test_a_whole_life_through_googles_client_and_a_virtual_clock():
    jobs = Jobs(ClientCloud(config=configured(played_workers="all").config))
    jobs.ready(task("pull"), **POD)
    for worker in range(4):
        jobs.until("PULLED", worker)
    jobs.say(task("run", 2, env={"EMULATOR_DURATION_SECONDS": "86000"}))
    jobs.cloud.wait(86_400)
    ended = [jobs.report(worker) for worker in range(4)]
    assert {(each["state"], each["exit_code"]) for each in ended} == {("EXITED", 0)}
    jobs.say(task("release", 3))
    assert len(jobs.lines()) > 1_000
    record = jobs.cloud.world.nodes[name_of("a")]
    told = control.list_runs(jobs.cloud.world)["runs"]
    assert [(run["worker"], run["end"] - run["start"]) for run in told] == [
        (worker, 86_000) for worker in range(4)
    ]
    jobs.cloud.ask("DeleteNode", name=name_of("a"))
    jobs.cloud.wait(60)
    assert jobs.cloud.played.workers_of(record) == []
