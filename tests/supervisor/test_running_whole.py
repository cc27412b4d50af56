"""The supervisor as a process: a container from its task to its release."""

from __future__ import annotations

import json

import pytest

from tests.supervisor.conftest import find_python

LOOP = "echo up; trap 'echo down; exit 5' TERM; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; while :; do sleep 0.02; done"


@pytest.mark.deep
def test_a_container_ends_with_its_exit_code(worker):
    worker.give(shell="echo out; echo err >&2; echo STEWARD_STEP 12; echo STEWARD_DONE; exit 7")
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"], report["step"]) == ("COMPLETED", 7, 12)
    assert (report["worker"], report["instance"], report["boot"]) == (1, "4711", "boot-1")
    assert report["access"] == "device"
    assert report["image_digest"] == "sha256:" + "ab" * 32
    assert report["done_at"] >= report["step_at"]
    assert sorted(worker.lines()) == ["STEWARD_DONE", "STEWARD_STEP 12", "err", "out"]
    labels = {entry["labels"]["stream"]: entry["labels"] for entry in worker.google.entries}
    assert labels["stderr"] == {"job": "j", "worker": "5", "stream": "stderr"}
    assert report["logs"]["shipped"] == sum(map(len, worker.lines()))
    assert report["logs"]["lines"] == len(worker.lines())
    (login,) = map(json.loads, (worker.docker / "logins").read_text().splitlines())
    assert login[-2:] == ["us-docker.pkg.dev", "secret"]


@pytest.mark.deep
def test_a_job_runs_on_python_3_8(worker):
    found = find_python("3.8")
    if found is None:
        pytest.skip("no Python 3.8 on this machine")
    worker.python = found
    worker.give(shell="echo STEWARD_DEVICES 4; exit 7", data=["gs://b"])
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["exit_code"], report["devices"]) == (7, 4)
    assert worker.lines() == ["STEWARD_DEVICES 4"]


@pytest.mark.deep
def test_a_pulled_image_waits_for_the_run(worker):
    worker.give(action="pull")
    worker.start()
    worker.wait_state("PULLED")
    assert worker.runs() == []
    worker.give(generation=2)
    assert worker.wait_state("EXITED")["generation"] == 2
    assert len((worker.docker / "pulls").read_text().splitlines()) == 1


@pytest.mark.deep
def test_a_stop_asks_first_and_a_release_removes_the_container(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_state("RUNNING")
    worker.wait_until(lambda: worker.lines() == ["up"])
    worker.give(shell=LOOP, action="stop", generation=2)
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"]) == ("STOPPED", 5)
    assert worker.lines() == ["up", "down"]
    assert list((worker.docker / "containers").iterdir())
    worker.give(action="release", generation=3)
    report = worker.wait_state("IDLE")
    assert (report["attempt"], report["generation"]) == ("job-1", 3)
    assert not list((worker.docker / "containers").iterdir())


@pytest.mark.deep
def test_an_ended_attempt_never_starts_again(worker):
    worker.give()
    worker.start()
    worker.wait_state("EXITED")
    worker.give(action="release", generation=2)
    worker.wait_state("IDLE")
    worker.give(generation=3)
    worker.wait(lambda report: report["generation"] == 3)
    assert len(worker.runs()) == 1


@pytest.mark.deep
def test_a_task_of_an_older_generation_is_a_stale_copy(worker):
    worker.give(generation=8, shell=LOOP)
    worker.start()
    worker.wait_state("RUNNING")
    worker.give(generation=7, attempt="job-0")
    report = worker.wait(lambda report: report["task_error"])
    assert (report["attempt"], report["state"]) == ("job-1", "RUNNING")


@pytest.mark.deep
def test_a_new_attempt_stops_the_container_of_the_old_one(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_until(lambda: worker.lines() == ["up"])
    worker.give(attempt="job-2", generation=2, shell="echo second")
    report = worker.wait(lambda report: (report["attempt"], report["state"]) == ("job-2", "EXITED"))
    assert report["exit_code"] == 0
    assert worker.lines() == ["up", "down", "second"]
    assert [path.name for path in (worker.docker / "containers").iterdir()] == ["steward-job-2"]


@pytest.mark.deep
def test_a_container_that_ignores_its_stop_is_killed_after_the_grace(worker):
    worker.give(shell=DEAF)
    worker.start()
    worker.wait_state("RUNNING")
    worker.give(shell=DEAF, action="stop", generation=2, stop_grace_seconds=5)
    assert worker.wait_state("EXITED")["exit_code"] == 137


@pytest.mark.deep
def test_a_container_that_is_stopped_has_its_grace_to_save(worker):
    save = "trap 'sleep 0.6; echo saved; exit 5' TERM; echo up; while :; do sleep 0.02; done"
    worker.give(shell=save)
    worker.start()
    worker.wait_until(lambda: worker.lines() == ["up"])
    worker.give(shell=save, action="stop", generation=2, stop_grace_seconds=500)
    assert worker.wait_state("EXITED")["exit_code"] == 5
    assert worker.lines() == ["up", "saved"]


@pytest.mark.deep
def test_the_longest_duration_ends_a_container(worker):
    worker.give(shell=LOOP, max_duration_seconds=20)
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"]) == ("TIMED_OUT", 5)


@pytest.mark.deep
def test_a_preemption_notice_reaches_the_container_and_the_service(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_until(lambda: worker.lines() == ["up"])
    worker.google.set(maintenance_event="TERMINATE_ON_HOST_MAINTENANCE")
    worker.google.set(preempted="TRUE")
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"]) == ("PREEMPTION_NOTICE", 5)
    assert report["preempted_at"] is not None
    assert report["maintenance"] == "TERMINATE_ON_HOST_MAINTENANCE"


def test_a_worker_that_takes_no_part_is_idle(worker):
    worker.give(workers=[0])
    worker.start()
    assert worker.wait(lambda report: report["generation"] == 1)["state"] == "IDLE"
    assert worker.runs() == []


@pytest.mark.deep
def test_values_reach_the_container_as_they_are(worker):
    env = {
        "LINES": "a\nb",
        "QUOTES": "'\"`$(touch pwned)`",
        "BYTES": "\udcff",
        "PATH": "/usr/bin:/bin",
        "DOCKER_HOST": "tcp://nowhere",
    }
    show = 'printf "%s|" "$LINES" "$QUOTES" "$PATH" "$DOCKER_HOST" "$STEWARD_WORKER" "$@"'
    args = ["-c", show, "sh", "--privileged", "$(id)"]
    worker.give(container={"env": env, "args": args})
    worker.start()
    assert worker.wait_state("EXITED")["exit_code"] == 0
    text = "\n".join(worker.lines())
    assert text == f"a\nb|{env['QUOTES']}|/usr/bin:/bin|tcp://nowhere|5|--privileged|$(id)|"
    (run,) = worker.runs()
    assert run["command"] == args
    assert run["flags"] == ["--detach"]


@pytest.mark.parametrize("value", ["\ud800", "a\0b"])
def test_a_value_that_no_process_can_have_fails_the_start(worker, value):
    worker.give(container={"env": {"A": value}})
    worker.start()
    assert worker.wait_state("EXITED")["reason"] == "START_FAILED"
    assert worker.runs() == []


@pytest.mark.deep
def test_a_refused_device_form_falls_back_to_privileges(worker):
    (worker.docker / "refuse-devices").touch()
    worker.give(shell="echo $ACCESS")
    worker.start()
    assert worker.wait_state("EXITED")["access"] == "privileged"
    assert worker.lines() == ["privileged"]


@pytest.mark.deep
def test_a_program_that_cannot_open_the_device_is_started_again_with_privileges(worker):
    refusal = "echo 'open(/dev/vfio/0): Operation not permitted' >&2; exit 1"
    worker.give(shell=f"test $ACCESS = privileged && exit 0; {refusal}")
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["access"], report["exit_code"]) == ("privileged", 0)
    assert "privileged" in report["warnings"][0]
    assert len(worker.runs()) == 2


@pytest.mark.deep
def test_the_task_of_a_running_container_may_become_unreadable(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_state("RUNNING")
    worker.google.set_attribute("steward-task", "{")
    assert worker.wait(lambda report: report["task_error"])["state"] == "RUNNING"
    worker.google.set_attribute("steward-task", None)
    worker.wait(lambda report: report["task_error"] == "there is no steward-task")
    worker.give(action="stop", generation=2)
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["task_error"]) == ("STOPPED", "")
