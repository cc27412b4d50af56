"""The supervisor as a process where something is refused, missing, held or too much."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.conftest import SPEED

LOOP = "while :; do sleep 0.02; done"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("said", "reason", "pulls"),
    [
        ("manifest for x:1 not found: manifest unknown", "IMAGE_NOT_FOUND", 1),
        ("denied: Permission artifactregistry.repositories.downloadArtifacts", "PULL_DENIED", 3),
        ("write /var/lib: no space left on device", "DISK_FULL", 1),
    ],
)
def test_a_pull_that_cannot_succeed_ends_the_attempt(worker, said, reason, pulls):
    (worker.docker / "pull").write_text(said)
    worker.give()
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"], report["detail"]) == (reason, None, said)
    assert len((worker.docker / "pulls").read_text().splitlines()) == pulls


@pytest.mark.deep
def test_a_pull_is_tried_again_until_its_time_is_over(worker):
    (worker.docker / "pull").write_text("net/http: TLS handshake timeout")
    worker.give(pull_seconds=200)
    worker.start()
    assert worker.wait_state("EXITED")["reason"] == "PULL_FAILED"
    assert len((worker.docker / "pulls").read_text().splitlines()) > 1


@pytest.mark.deep
def test_a_pull_that_fails_once_is_no_failure(worker):
    (worker.docker / "pull").write_text("once 503 Service Unavailable")
    worker.give()
    worker.start()
    assert worker.wait_state("EXITED")["reason"] == "COMPLETED"


def test_a_stop_ends_the_pull(worker):
    (worker.docker / "pull").write_text("connection refused")
    worker.give(pull_seconds=100_000)
    worker.start()
    worker.wait_until((worker.docker / "pulls").exists)
    worker.give(action="stop", generation=2)
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["started_at"]) == ("STOPPED", None)


def test_a_worker_without_docker_says_so(worker):
    worker.give()
    worker.start(path="/nowhere")
    report = worker.wait_state("UNAVAILABLE")
    assert report["reason"] == "NO_DOCKER"


def test_a_held_device_is_named_with_its_holder(worker):
    with (worker.devices / "vfio/0").open() as device:
        holder = subprocess.Popen(["sleep", "60"], pass_fds=[device.fileno()])
    worker.give(device_wait_seconds=2)
    worker.start()
    report = worker.wait_state("EXITED")
    holder.kill()
    holder.wait()
    assert report["reason"] == "DEVICE_BUSY"
    assert f"process {holder.pid} (sleep 60)" in report["detail"]
    assert worker.runs() == []


@pytest.mark.deep
def test_a_device_that_becomes_free_is_used(worker):
    with (worker.devices / "vfio/0").open() as device:
        holder = subprocess.Popen(["sleep", "0.3"], pass_fds=[device.fileno()])
    worker.give(device_wait_seconds=500)
    worker.start()
    report = worker.wait_state("EXITED")
    holder.wait()
    assert report["reason"] == "COMPLETED"


@pytest.mark.parametrize(
    ("verb", "url"), [("read", "gs://mine/a"), ("read", "gs://mine"), ("write", "gs://mine")]
)
def test_storage_that_is_denied_ends_the_attempt_before_its_start(worker, verb, url):
    refused: tuple[int, Any] = (403, {}) if verb == "read" else (200, {})
    path = "o" if verb == "read" else "iam/testPermissions"
    worker.google.storage[f"/storage/v1/b/mine/{path}"] = refused
    worker.give(**({"data": [url]} if verb == "read" else {"written": url}))
    worker.start()
    report = worker.wait_state("EXITED")
    assert report["reason"] == "STORAGE_DENIED"
    assert url in report["detail"]
    assert worker.runs() == []


@pytest.mark.deep
@pytest.mark.parametrize("refused", [(200, {}), (403, {})])
def test_a_prefix_may_be_granted_though_its_bucket_is_not(worker, refused):
    worker.google.storage["/storage/v1/b/mine/iam/testPermissions"] = refused
    worker.give(written="gs://mine/a")
    worker.start()
    report = worker.wait_state("EXITED")
    assert report["reason"] == "COMPLETED"
    assert report["warnings"][0].startswith("gs://mine/a: storage answered")


@pytest.mark.deep
def test_storage_far_away_is_a_warning(worker):
    worker.google.storage["/storage/v1/b/mine"] = (200, {"location": "EUROPE-WEST4"})
    worker.give(data=["gs://mine"])
    worker.start()
    report = worker.wait_state("EXITED")
    assert report["reason"] == "COMPLETED"
    assert report["warnings"] == ["gs://mine is in another region: EUROPE-WEST4"]


@pytest.mark.deep
def test_a_refusal_of_the_logs_leaves_the_job_alone(worker):
    worker.google.logging_status = 403
    worker.give(shell="echo one; echo two; exit 0")
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["reason"], report["exit_code"]) == ("COMPLETED", 0)
    assert report["logs"] == {
        "shipped": 0,
        "lines": 0,
        "dropped": 6,
        "cut": 0,
        "error": '403 {"error": "no"}',
    }
    assert report["tail"] == "one\ntwo"


@pytest.mark.deep
def test_the_last_lines_are_sent_again_before_the_end_is_reported(worker):
    worker.google.failures = 2
    worker.give(shell="echo one; echo two >&2; printf last")
    worker.start()
    report = worker.wait_state("EXITED")
    assert report["logs"] == {"shipped": 10, "lines": 3, "dropped": 0, "cut": 0, "error": ""}
    assert sorted(worker.lines()) == ["last", "one", "two"]


@pytest.mark.deep
def test_the_budget_of_the_logs_is_kept(worker):
    worker.give(shell="for i in 1 2 3 4 5 6 7 8 9; do echo 01234567890123456789; done", budget=100)
    worker.start()
    assert worker.wait_state("EXITED")["logs"]["dropped"] == 80
    assert len(worker.lines()) == 5


@pytest.mark.deep
def test_a_flood_is_dropped_and_counted_in_bounded_memory(worker, tmp_path):
    worker.google.logging_status = 503
    is_over = tmp_path / "over"
    flood = "head -c 60000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo end"
    worker.give(shell=f"{flood}; touch {is_over}; {LOOP}")
    process = worker.start()
    # Millions of lines, which are counted one by one.
    worker.wait(
        lambda report: report["logs"]["dropped"] > 40_000_000 and is_over.exists(), seconds=60
    )
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0])
    assert peak < 150_000
    worker.give(action="stop", generation=2)
    assert worker.wait_state("EXITED")["tail"].endswith("end")


@pytest.mark.deep
def test_a_line_without_end_is_cut_and_bytes_that_are_no_text_replaced(worker):
    worker.give(shell="printf 'a\\377b\\n'; head -c 5000000 /dev/zero | tr '\\0' x")
    worker.start()
    report = worker.wait_state("EXITED")
    assert (report["logs"]["cut"], report["logs"]["error"]) == (1, "")
    assert [len(line) for line in worker.lines()] == [3, 200_000]
    assert worker.lines()[0] == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '{"v": 2}', '{"v": 1}', "[" * 100_000),
        json.dumps({"v": 1, "attempt": "a b", "action": "run"}),
    ],
    ids=["empty", "cut", "list", "null", "version", "bare", "deep", "attempt"],
)
def test_a_malformed_task_is_reported_and_nothing_is_done(worker, text):
    worker.google.set_attribute("steward-task", text)
    worker.start()
    report = worker.wait_state("IDLE")
    assert report["task_error"]
    assert worker.runs() == []


@pytest.mark.deep
def test_there_are_less_than_five_puts_in_a_minute(worker):
    worker.give(shell="for i in $(seq 20); do echo STEWARD_STEP $i; sleep 0.05; done")
    worker.start()
    worker.wait_state("EXITED")
    end = time.monotonic() + 1.3
    worker.wait_until(lambda: time.monotonic() > end)
    times = [at for at, _ in worker.google.reports]
    assert all(
        later - first > 0.9 * 60 / SPEED for first, later in zip(times, times[4:], strict=False)
    )
    repeats = [report for _, report in worker.google.reports if report["state"] == "EXITED"]
    assert len(repeats) > 1
    assert repeats[-1]["at"] > repeats[-2]["at"] >= repeats[-2]["ended_at"]
    assert (worker.home / "state.json").stat().st_size < 100_000


@pytest.mark.deep
def test_many_lines_are_sent_without_a_pause(worker):
    worker.give(shell="seq 20000")
    worker.start()
    report = worker.wait_state("EXITED")
    assert report["logs"]["dropped"] == 0
    assert worker.lines() == [str(number) for number in range(1, 20_001)]
