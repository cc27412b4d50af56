"""The supervisor as a process: killed, started again, started twice, on a rebooted machine."""

from __future__ import annotations

import os
from collections import Counter

import pytest

STEPS = "i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 3"
LOOP = "while :; do sleep 0.02; done"


@pytest.mark.deep
def test_a_killed_supervisor_finds_its_container_again(worker):
    worker.give(shell=STEPS)
    worker.start()
    worker.wait_until(lambda: len(worker.lines()) > 5)
    worker.crash()
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"]) == ("COMPLETED", 3)
    assert len(worker.runs()) == 1
    entries = {entry["insertId"]: entry for entry in worker.google.entries}
    ordered = [entries[key]["textPayload"] for key in sorted(entries)]
    assert ordered == [f"line {number}" for number in range(60)]
    numbers = [report["seq"] for _, report in worker.google.reports]
    assert numbers == sorted(set(numbers))


@pytest.mark.deep
def test_a_container_may_end_while_no_supervisor_runs(worker):
    worker.give(shell="sleep 0.9; echo last; exit 9")
    worker.start()
    worker.wait_state("RUNNING")
    worker.crash()
    worker.wait_until((worker.docker / "containers/steward-job-1/stdout").read_text)
    worker.start()
    assert worker.wait_state("EXITED")["exit_code"] == 9
    assert worker.lines() == ["last"]


@pytest.mark.deep
def test_a_stop_goes_on_after_a_crash(worker):
    worker.give(shell=f"trap '' TERM; {LOOP}")
    worker.start()
    worker.wait_state("RUNNING")
    worker.give(action="stop", generation=2, stop_grace_seconds=50)
    worker.wait_state("STOPPING")
    worker.crash()
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"]) == ("STOPPED", 137)


@pytest.mark.deep
def test_without_room_for_its_state_nothing_is_started(worker):
    """A supervisor that could not remember the start would start the container twice."""
    fill_disk(worker)
    worker.give()
    for _ in "twice":
        worker.start()
        report = worker.wait_state("EXITED")
        assert (report["reason"], report["exit_code"]) == ("DISK_FULL", None)
        assert "No space left on device" in report["detail"]
        worker.crash()
        worker.google.reports.clear()
    assert worker.runs() == []


@pytest.mark.deep
def test_a_disk_that_fills_while_the_container_runs_is_no_second_start(worker):
    worker.give(shell=STEPS)
    worker.start()
    worker.wait_state("RUNNING")
    fill_disk(worker)
    for _ in "twice":
        report = worker.wait_state("EXITED")
        assert (report["reason"], report["exit_code"]) == ("COMPLETED", 3)
        worker.crash()
        worker.google.reports.clear()
        worker.start()
    assert len(worker.runs()) == 1


def fill_disk(worker):
    """From now on there is no room for the supervisor's state."""
    (worker.home / "state.new").symlink_to("/dev/full")


@pytest.mark.deep
def test_a_reboot_is_no_second_start(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_state("RUNNING")
    worker.crash()
    worker.reboot("boot-2")
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["boot"]) == ("REBOOTED", "boot-2")
    assert report["exit_code"] is None
    assert len(worker.runs()) == 1


@pytest.mark.deep
def test_an_end_is_known_after_a_reboot(worker):
    worker.give(shell="exit 4")
    worker.start()
    worker.wait_state("EXITED")
    worker.crash()
    worker.reboot("boot-2")
    worker.start()
    report = worker.wait(lambda report: report["boot"] == "boot-2")
    assert (report["reason"], report["exit_code"]) == ("COMPLETED", 4)


def test_only_one_supervisor_lives(worker):
    worker.start()
    worker.wait_state("IDLE")
    second = worker.start()
    assert second.wait(5) == 1
    assert worker.processes[0].poll() is None


@pytest.mark.deep
def test_a_container_is_found_though_the_disk_forgot_it(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_state("RUNNING")
    worker.crash()
    (worker.home / "state.json").write_text("{")
    worker.start()
    worker.wait_until(lambda: worker.google.reports[-1][1]["state"] == "RUNNING")
    worker.give(action="stop", generation=2)
    assert worker.wait_state("EXITED")["reason"] == "STOPPED"
    assert len(worker.runs()) == 1


@pytest.mark.deep
def test_a_container_that_vanished_is_lost(worker):
    worker.give(shell=LOOP)
    worker.start()
    worker.wait_state("RUNNING")
    pid = int((worker.docker / "containers/steward-job-1/pid").read_text())
    (worker.docker / "containers/steward-job-1").rename(worker.docker / "gone")
    assert worker.wait_state("EXITED")["reason"] == "LOST"
    os.killpg(pid, 9)


@pytest.mark.deep
def test_docker_may_be_away_for_a_while(worker):
    worker.give(shell="echo a; sleep 0.6; echo b; exit 2")
    worker.start()
    worker.wait_state("RUNNING")
    (worker.docker / "down").touch()
    worker.crash()
    worker.start()
    seen = len(worker.google.reports)
    worker.wait_until(lambda: len(worker.google.reports) > seen)
    assert worker.google.reports[-1][1]["state"] == "RUNNING"
    (worker.docker / "down").unlink()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"], report["detail"]) == ("COMPLETED", 2, "")
    assert Counter(worker.lines()) == {"a": 1, "b": 1}


@pytest.mark.deep
def test_no_job_starts_before_the_startup_script_has_ended(worker):
    worker.note_startup("running")
    worker.give()
    worker.start()
    report = worker.wait(lambda report: report["generation"] == 1)
    assert report["startup_script"] == {"state": "running", "exit_code": None}
    worker.crash()
    worker.start()
    seen = len(worker.google.reports)
    worker.wait_until(lambda: len(worker.google.reports) > seen)
    assert not (worker.docker / "pulls").exists()
    worker.note_startup("exited", 6)
    report = worker.wait_state("EXITED")
    assert report["startup_script"] == {"state": "exited", "exit_code": 6}
