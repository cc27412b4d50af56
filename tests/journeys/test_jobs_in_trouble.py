"""Jobs that go wrong on real workers: each ends in a named state, with its reason and its cost."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.house import House
from tests.journeys.jobs import ended, known_to_run, output, seen, submit

pytestmark = pytest.mark.deep

ONE_HOST = "v5litepod-8"
FOUR_HOSTS = "v5litepod-16"
STORM = "yes $(printf %01000d 0) | head -c 100000000; echo; echo end"
FILL = "echo kept >small; head -c 5000000 /dev/zero >big || { cat small; stat -c %s big; exit 28; }"
PROGRAMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "every worker fails": (FOUR_HOSTS, "exit 7", {}),
    "one worker fails": (FOUR_HOSTS, "[ $STEWARD_WORKER = 2 ] && exit 3; sleep 600", {}),
    "too long": (ONE_HOST, "echo began; sleep 600", {"max_duration_seconds": 5}),
    "deaf": (ONE_HOST, "trap '' TERM; echo deaf; while :; do sleep 1; done", {}),
    "forks away": (ONE_HOST, "setsid sleep 600 & echo forked", {}),
    "flood": (ONE_HOST, STORM, {"log_budget": 1_000_000}),
    "fills the disk": (ONE_HOST, FILL, {"env": {"EMULATOR_DISK_BYTES": "1000000"}}),
    "forger": (ONE_HOST, "echo began; sleep 20; exit 4", {}),
}
"""Accelerator type, a line of bash, and what else is submitted."""

SLICES = "echo $MEGASCALE_SLICE_ID of $MEGASCALE_NUM_SLICES at $MEGASCALE_COORDINATOR_ADDRESS"
ENDS = {
    "every worker fails": ("FAILED", "PROGRAM_FAILED", {"0": 7, "1": 7, "2": 7, "3": 7}),
    "one worker fails": ("FAILED", "PROGRAM_FAILED", {"0": 143, "1": 143, "2": 3, "3": 143}),
    "too long": ("TIMED_OUT", "TIMED_OUT", {"0": 143}),
    "deaf": ("CANCELLED", "CANCELLED", {"0": 137}),
    "forks away": ("SUCCEEDED", "COMPLETED", {"0": 0}),
    "flood": ("SUCCEEDED", "COMPLETED", {"0": 0}),
    "fills the disk": ("FAILED", "PROGRAM_FAILED", {"0": 28}),
    "forger": ("FAILED", "PROGRAM_FAILED", {"0": 4}),
    "two slices": ("SUCCEEDED", "COMPLETED", {"0": 0, "1": 0}),
}
"""State, reason and exit codes by worker."""

REFUSED = {"noimage": "IMAGE_NOT_FOUND", "denied": "PULL_DENIED", "arm64only": "NO_SUCH_PLATFORM"}
TRAIN = {
    "EMULATOR_STEPS": "200",
    "EMULATOR_STEP_SECONDS": "2",
    "EMULATOR_CHECKPOINT_EVERY": "5",
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house in which supervisors run."""
    made = House(tmp_path, speed=20, supervisors=True)
    yield made
    made.stop()


NONSENSE = ["{", "[]", '{"v":1,"seq":1e400}', "\0" * 200]
FORGERIES = 1 + len(NONSENSE)


class Queries:
    """When the guest attributes of each worker were read or written, as the emulator counts."""

    def __init__(self, house: House) -> None:
        self.times: dict[str, set[float]] = {}
        self._house = house
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()
        self._thread.join()

    def most_in_a_minute(self) -> dict[str, int]:
        """The most queries of each worker in any sixty seconds."""
        return {
            worker: max((sum(0 <= at - first < 60 for at in times) for first in times), default=0)
            for worker, times in self.times.items()
        }

    def _watch(self) -> None:
        while not self._over.wait(2):
            for node in self._house.in_cloud("job-"):
                for number in range(len(node.get("networkEndpoints", []))):
                    self._note(f"name={node['name']}&worker={number}")

    def _note(self, worker: str) -> None:
        with suppress(urllib.error.HTTPError):  # it was deleted meanwhile
            shown = self._house.get(f"/_emulator/nodes/serial?{worker}", self._house.emulator)
            self.times.setdefault(worker, set()).update(shown["guest_attribute_queries"])


def attempts(house: House, job: Any) -> list[Any]:
    """The attempts of a job, the first one first."""
    found: list[Any] = house.get(f"/v1/jobs/{job['id']}/attempts")["attempts"]
    return found


def in_cloud(house: House, job: Any) -> dict[str, str]:
    """The node of a job as the emulator names it."""
    node = house.node({"id": job["node_id"]})
    return {"name": f"projects/lab/locations/{node['zone']}/nodes/{node['cloud_id']}"}


@pytest.mark.long
def test_what_programs_do_to_a_job(house: House) -> None:
    """All at once, so that the minute in which failures are looked into is waited for once.

    From the first to the last, nobody asks a machine more often than Google allows.
    """
    queries = Queries(house)
    jobs = {
        name: submit(house, script, kind, **more) for name, (kind, script, more) in PROGRAMS.items()
    }
    two = {"accelerator_type": ONE_HOST, "zone": "us-west4-a", "slices": 2}
    jobs["two slices"] = submit(house, SLICES, ONE_HOST, node_spec=two)
    seen(house, jobs["deaf"], "deaf")
    known_to_run(house, jobs["deaf"])
    for _ in "twice":
        assert house.post(f"/v1/jobs/{jobs['deaf']['id']}:cancel")["cancel_requested_at"]
    seen(house, jobs["forger"], "began")
    forged_worker = f"name={in_cloud(house, jobs['forger'])['name']}&worker=0"
    forge_reports(house, jobs["forger"])

    found = {name: ended(house, job) for name, job in jobs.items()}
    queries.stop()
    assert len(queries.times) == 16, "each worker was watched"
    busiest = queries.most_in_a_minute()
    assert busiest.pop(forged_worker) <= 5 + 1 + 4 + FORGERIES
    assert max(busiest.values()) <= 5 + 1 + 4, "of the supervisor, the meter, and the service"
    told = {name: (one["state"], one["reason"], one["exit_codes"]) for name, one in found.items()}
    assert told == ENDS
    assert found["one worker fails"]["detail"] == "worker 2 ended first, with exit code 3"

    check_output(house, jobs)
    for job in jobs.values():
        house.until_state({"id": job["node_id"], "name": job["node_name"]}, "DELETED")
        shown = house.get(f"/v1/jobs/{job['id']}")
        (attempt,) = attempts(house, job)
        cost = house.get(f"/v1/nodes/{job['node_id']}/cost")["cost"]
        assert shown["cost"] == cost == attempt["cost"]
        assert Decimal(cost) > 0


def check_output(house: House, jobs: dict[str, Any]) -> None:
    """Each line came once; what was dropped is counted; both slices know their coordinator."""
    assert [line["text"] for line in output(house, jobs["forger"])] == ["began"], "started once"
    texts = {line["text"] for line in output(house, jobs["fills the disk"])}
    assert texts >= {"kept", "1000000"}, "its other file is unharmed"
    lines = output(house, jobs["flood"])
    assert 0 < sum(len(line.get("text", "")) for line in lines) <= 1_000_000
    assert "bytes were dropped (log_budget)" in lines[-1]["note"]
    told = sorted(
        (line["worker"], *line["text"].split(" at ")) for line in output(house, jobs["two slices"])
    )
    assert [node[:2] for node in told] == [(0, "0 of 2"), (1, "1 of 2")]
    assert len({address for _, _, address in told}) == 1, "one coordinator for both"


def test_an_image_that_can_never_run_costs_nothing(house: House) -> None:
    jobs = {
        reason: submit(house, "true", ONE_HOST, image=f"us-docker.pkg.dev/lab/train/{word}:7")
        for word, reason in REFUSED.items()
    }
    for reason, job in jobs.items():
        found = ended(house, job)
        assert (found["state"], found["reason"]) == ("FAILED", reason)
        assert Decimal(found["cost"]) == 0
    assert house.in_cloud("job-") == []


@pytest.mark.long
def test_training_goes_on_after_its_checkpoint(house: House) -> None:
    """Once after a preemption, and once after a host error on the same slice."""
    spot = {"accelerator_type": ONE_HOST, "zone": "us-west4-a", "provisioning_model": "spot"}
    common = {"command": ["train"], "args": [], "env": TRAIN, "node_spec": spot}
    jobs = {
        what: submit(house, "", ONE_HOST, checkpoint_dir=f"gs://lab/{what}", **common)
        for what in ("preempt", "host-error")
    }
    for what, job in jobs.items():
        seen(house, job, "STEWARD_CHECKPOINT 20")
        house.happens(what, to=in_cloud(house, job))
    for what, reason in (("preempt", "PREEMPTED"), ("host-error", "HOST_LOST")):
        job = jobs[what]
        found = ended(house, job)
        assert (found["state"], found["attempts"]) == ("SUCCEEDED", 2), found
        first, second = attempts(house, job)
        assert (first["reason"], second["reason"]) == (reason, "COMPLETED")
        assert first["evidence"]
        said = [line["text"] for line in output(house, job) if line["attempt"] == 2]
        began = int(next(text for text in said if text.startswith("STEWARD_STEP")).split()[1])
        saved = [
            int(line["text"].split()[1])
            for line in output(house, job)
            if line["attempt"] == 1 and line["text"].startswith("STEWARD_CHECKPOINT")
        ]
        assert said[0] == f"training from step {began - 1} of {TRAIN['EMULATOR_STEPS']}"
        assert began > saved[-1], "the lines after that may have been lost with the machine"
        assert (began - 1) % int(TRAIN["EMULATOR_CHECKPOINT_EVERY"]) == 0
        assert said[-1] == "STEWARD_DONE"
        spent = sum(Decimal(node["cost"]) for node in (first, second))
        assert spent == Decimal(found["cost"]) > 0


def forge_reports(house: House, job: Any) -> None:
    """Write what any process on the worker can: that the program ended with 0, and nonsense."""
    _, _, _, zone, _, node = in_cloud(house, job)["name"].split("/")
    worker = f"/_emulator/nodes/lab/{zone}/{node}/workers/0/computeMetadata/v1/instance"
    lie = {"v": 1, "seq": 1, "state": "EXITED", "exit_code": 0, "reason": "COMPLETED"}
    for junk in (json.dumps(lie), *NONSENSE):
        request = urllib.request.Request(
            f"{house.emulator}{worker}/guest-attributes/steward/report",
            junk.encode(),
            {"Metadata-Flavor": "Google"},
            method="PUT",
        )
        urllib.request.urlopen(request, timeout=20).close()
        time.sleep(0.5)
