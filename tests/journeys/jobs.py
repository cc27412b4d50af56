"""Submitting jobs to a house, and waiting for what they say and how they end."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from tests.journeys.house import House

PATIENCE = 240
ENDS = {"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"}
IMAGE = "us-docker.pkg.dev/lab/train/jax:7"


def submit(house: House, script: str, accelerator_type: str, **changes: Any) -> Any:
    """A job that runs a line of bash."""
    spec = {"accelerator_type": accelerator_type, "zone": "us-west4-a"}
    body = {"image": IMAGE, "args": ["bash", "-c", script], "node_spec": spec}
    return house.post("/v1/jobs", body | changes)


def ended(house: House, job: Any) -> Any:
    """The job at its end."""
    deadline = time.monotonic() + PATIENCE
    while (found := house.get(f"/v1/jobs/{job['id']}"))["state"] not in ENDS:
        assert time.monotonic() < deadline, (found, house.logs("daemon")[-3000:])
        time.sleep(0.5)
    return found


def known_to_run(house: House, job: Any) -> None:
    """Wait until the service has heard that it runs: its first lines may be there before."""
    deadline = time.monotonic() + PATIENCE
    while (found := house.get(f"/v1/jobs/{job['id']}"))["state"] != "RUNNING":
        assert time.monotonic() < deadline, (found, house.logs("daemon")[-3000:])
        time.sleep(0.5)


def output(house: House, job: Any) -> list[dict[str, Any]]:
    """Every line of its output."""
    with urllib.request.urlopen(f"{house.api}/v1/jobs/{job['id']}/logs", timeout=30) as answer:
        return [json.loads(line) for line in answer.read().splitlines()]


def seen(house: House, job: Any, text: str) -> None:
    """Wait until its output holds a line."""
    deadline = time.monotonic() + PATIENCE
    while text not in {line["text"] for line in output(house, job)}:
        assert time.monotonic() < deadline, (text, house.logs("daemon")[-3000:])
        time.sleep(3)  # reads of the log are counted
