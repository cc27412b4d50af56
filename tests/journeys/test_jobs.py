"""Jobs on real workers: real supervisors, real processes, real output, and every cent."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.journeys.house import House
from tests.journeys.jobs import PATIENCE, ended, output, submit


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house in which supervisors run."""
    made = House(tmp_path_factory.mktemp("jobs"), speed=20, supervisors=True)
    yield made
    made.stop()


@pytest.mark.deep
@pytest.mark.long
def test_jobs_run_on_real_workers_with_their_output_exit_codes_and_cost(house: House) -> None:
    slice_ = submit(house, "echo worker $STEWARD_WORKER; sleep 1", "v5litepod-16")
    hostile = submit(
        house,
        'printf "%s\\n" "$QUOTED"; exit 0',
        "v5litepod-4",
        env={"QUOTED": "a'b\"c $(id) `id` \\ é"},
    )

    found = ended(house, hostile)
    assert (found["state"], found["exit_codes"]) == ("SUCCEEDED", {"0": 0})
    assert [line["text"] for line in output(house, hostile)] == ["a'b\"c $(id) `id` \\ é"]

    found = ended(house, slice_)
    assert (found["state"], found["exit_codes"]) == (
        "SUCCEEDED",
        {"0": 0, "1": 0, "2": 0, "3": 0},
    )
    told = {(line["worker"], line["text"]) for line in output(house, slice_)}
    assert told == {(number, f"worker {number}") for number in range(4)}

    for job in (slice_, hostile):
        node = house.until_state({"id": job["node_id"], "name": job["node_name"]}, "DELETED")
        shown = house.get(f"/v1/jobs/{job['id']}")
        cost = house.get(f"/v1/nodes/{node['id']}/cost")
        (attempt,) = house.get(f"/v1/jobs/{job['id']}/attempts")["attempts"]
        bill = house.get("/_emulator/bill", house.emulator)["entries"]
        mine = [line for line in bill if line["name"].endswith(f"/{node['cloud_id']}")]
        assert shown["cost"] == cost["cost"] == attempt["cost"]
        assert cost["chip_seconds"] == sum(line["seconds"] * line["chips"] for line in mine)
        assert float(shown["cost"]) > 0


@pytest.mark.deep
@pytest.mark.long
def test_a_preemption_in_the_middle_is_survived(house: House) -> None:
    job = submit(
        house,
        "echo attempt $STEWARD_ATTEMPT; [ $STEWARD_ATTEMPT = 2 ] || sleep 600",
        "v5litepod-8",
        node_spec={
            "accelerator_type": "v5litepod-8",
            "zone": "us-west4-a",
            "provisioning_model": "spot",
        },
    )
    path = f"/v1/jobs/{job['id']}"
    deadline = time.monotonic() + PATIENCE
    while not output(house, job):
        assert time.monotonic() < deadline, (house.get(path), house.logs("daemon")[-3000:])
        time.sleep(3)  # reads of the log are counted
    node = house.node({"id": job["node_id"]})
    name = f"projects/lab/locations/{node['zone']}/nodes/{node['cloud_id']}"
    house.post("/_emulator/nodes/preempt", {"name": name}, house.emulator)
    found = ended(house, job)
    assert (found["state"], found["attempts"], found["preemptions"]) == ("SUCCEEDED", 2, 1)
    assert [line["text"] for line in output(house, job)] == ["attempt 1", "attempt 2"]
    attempts = house.get(f"{path}/attempts")["attempts"]
    assert [attempt["reason"] for attempt in attempts] == ["PREEMPTED", "COMPLETED"]
    assert attempts[0]["evidence"]


@pytest.mark.deep
@pytest.mark.long
def test_a_line_is_visible_within_ten_seconds_of_being_written(house: House) -> None:
    """Each line is the time at which it was printed."""
    script = "for i in $(seq 20); do date +%s.%N; sleep 1; done"
    job = submit(house, script, "v5litepod-8")
    path = f"{house.api}/v1/jobs/{job['id']}/logs?follow=true"
    with urllib.request.urlopen(path, timeout=PATIENCE) as events:
        lines = (json.loads(event[6:]) for event in events if event.startswith(b"data: {"))
        delays = [time.time() - float(line["text"]) for line in lines if line]
    assert len(delays) == 20
    assert max(delays) <= 10
