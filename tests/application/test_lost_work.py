"""What a preemption cost in work: real attempts, through the ledger, the API and the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.domain.jobs.job import Job
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.dashboard.jobs import JobHouse
from tests.dashboard.reading import cells_of
from tests.databases import fresh_database
from tests.hands import HandClock

MINUTE = 60


@pytest.fixture
def house(tmp_path: Path, clock: HandClock) -> Iterator[JobHouse]:
    """Real controllers of jobs, with workers in hand."""
    with fresh_database("sqlite", tmp_path) as address:
        engine = make_engine(address)
        yield JobHouse(Units(engine), engine, clock)
        engine.dispose()


@pytest.fixture
def client(house: JobHouse) -> Iterator[TestClient]:
    """A caller of the API and the dashboard."""
    with TestClient(house.lab.whole(), base_url="http://localhost") as made:
        yield made


def submit(house: JobHouse, **changes: Any) -> Job:
    wanted = factories.request(name="spotty", provisioning_model="spot")
    return house.jobs.submit(node_request=wanted, **changes)


def lost_attempt(house: JobHouse, job: Job, *said: dict[str, int]) -> tuple[int, int]:
    """One attempt that is preempted; each report comes after a minute, with one minute more after
    the last. Answers when the container started and when the charge for its node ended."""
    worker = house.run(job)
    node = house.jobs.node_of(job)
    for attempt in said:
        house.pass_(MINUTE)
        house.say(worker, **stamped(house, attempt))
    house.pass_(MINUTE)
    started_at = worker.times["started_at"]
    house.preempt(job, worker)
    with house.jobs.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    assert usage.end is not None
    return started_at, usage.end


def stamped(house: JobHouse, said: dict[str, int]) -> dict[str, int]:
    """The same report with the present time for each value."""
    return said | {f"{name}_at": house.jobs.clock() for name in said}


def seconds(attempt: Any) -> dict[str, int]:
    return {phase["phase"]: phase["seconds"] for phase in attempt["phases"]}


def attempts_of(client: TestClient, job: Job) -> list[Any]:
    """The attempts by the API; their phases come to the cost of the job."""
    found: list[Any] = client.get(f"/v1/jobs/{job.id}/attempts").json()["attempts"]
    nanos = [int(p["cost"].replace(".", "")) for attempt in found for p in attempt["phases"]]
    cost = client.get(f"/v1/jobs/{job.id}").json()["cost"]
    assert sum(nanos) == int(cost.replace(".", "")) > 0
    return found


def shown_as_lost(client: TestClient, job: Job) -> list[str]:
    """The column Lost of the dashboard."""
    page = client.get(f"/jobs/{job.id}").text
    _, *rows = cells_of(page[page.index('id="attempts-heading"') :])
    return [row[5] for row in rows]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, [{"step": 10}, {"step": 20}]),
        ({"checkpoint_dir": "gs://lab/run"}, []),
        ({"checkpoint_dir": "gs://lab/run"}, [{"devices": 8}]),
    ],
    ids=["steps", "directory", "directory-and-devices"],
)
def test_without_a_checkpoint_all_that_ran_is_lost(house, client, asked, said):
    job = submit(house, **asked)
    started_at, ended_at = lost_attempt(house, job, *said)
    first = attempts_of(client, job)[0]
    assert first["reason"] == "PREEMPTED"
    assert first["work_lost_seconds"] == ended_at - started_at >= MINUTE * (1 + len(said))
    assert seconds(first)["lost"] == first["work_lost_seconds"]
    assert "running" not in seconds(first)
    assert "min" in shown_as_lost(client, job)[0]


@pytest.mark.deep
def test_with_a_checkpoint_what_ran_after_it_is_lost(house, client):
    job = submit(house)
    started_at, ended_at = lost_attempt(house, job, {"step": 10}, {"checkpoint": 10})
    (report,) = house.jobs.jobs.list_attempts(job.id)[0].attempt.own_reports
    checkpoint_at = report.checkpoint_at
    first = attempts_of(client, job)[0]
    assert first["work_lost_seconds"] == ended_at - checkpoint_at >= MINUTE
    assert seconds(first)["running"] == checkpoint_at - started_at >= 2 * MINUTE


@pytest.mark.deep
def test_what_a_program_lost_that_reports_nothing_is_not_known(house, client):
    job = submit(house)
    started_at, ended_at = lost_attempt(house, job)
    first = attempts_of(client, job)[0]
    assert first["work_lost_seconds"] is None
    assert seconds(first)["running"] == ended_at - started_at
    assert "lost" not in seconds(first)
    assert shown_as_lost(client, job)[0] == "not known"


@pytest.mark.deep
def test_a_program_that_completes_has_lost_nothing(house, client):
    job = submit(house)
    worker = house.run(job)
    house.say(worker, **stamped(house, {"step": 10}))
    house.pass_(MINUTE)
    house.succeed(worker)
    (only,) = attempts_of(client, job)
    assert (only["reason"], only["work_lost_seconds"]) == ("COMPLETED", 0)
    assert seconds(only)["running"] >= MINUTE


@pytest.mark.deep
def test_an_attempt_that_never_ran_has_lost_nothing(house, client):
    job = submit(house)
    house.pass_(MINUTE)
    house.jobs.cloud.come_up(house.jobs.node_of(job).place.path)
    house.pass_(20)
    house.jobs.jobs.cancel(job.id)
    house.pass_(5 * MINUTE)
    (only,) = attempts_of(client, job)
    assert (only["reason"], only["work_lost_seconds"]) == ("CANCELLED", 0)


@pytest.mark.deep
def test_what_runs_again_after_a_loss_is_recovery_until_the_same_step(house, client):
    job = submit(house)
    lost_attempt(house, job, {"step": 10, "checkpoint": 10}, {"step": 20})
    worker = house.run(job)
    house.pass_(MINUTE)
    house.say(worker, **stamped(house, {"step": 15}))
    house.pass_(MINUTE)
    again = stamped(house, {"step": 20})
    house.say(worker, **again)
    house.pass_(2 * MINUTE)
    house.say(worker, **stamped(house, {"step": 30}))
    house.pass_(MINUTE)
    started_at = worker.times["started_at"]
    house.succeed(worker)
    _, second = attempts_of(client, job)
    assert seconds(second)["recovery"] == again["step_at"] - started_at >= 2 * MINUTE
    assert seconds(second)["running"] >= 3 * MINUTE, "whatever steps follow"
    assert second["work_lost_seconds"] == 0


@pytest.mark.deep
def test_a_recovery_that_is_lost_itself_is_lost(house, client):
    job = submit(house)
    lost_attempt(house, job, {"step": 10, "checkpoint": 10}, {"step": 20})
    started_at, ended_at = lost_attempt(house, job, {"step": 15}, {"step": 20})
    second = attempts_of(client, job)[1]
    assert second["work_lost_seconds"] == ended_at - started_at
    assert "recovery" not in seconds(second)
