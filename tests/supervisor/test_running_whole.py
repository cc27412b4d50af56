"""The supervisor as a process: a container from its task to its release."""

from __future__ import annotations

import json


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
    (login,) = map(json.loads, (worker.docker / "logins").read_text().splitlines())
    assert login[-2:] == ["us-docker.pkg.dev", "secret"]
