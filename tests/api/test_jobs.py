"""Jobs over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import service
from service.api.app import create_app
from service.api.jobs import follow
from service.application.jobs.logs import JobLogService
from service.domain.errors import CloudUnavailable, NotAllowed, RateLimited
from service.domain.jobs.job import JobState, Reason
from service.domain.jobs.presets import LAUNCHERS
from tests.api.conftest import NODE_REQUEST, caller_of
from tests.fake_jobs import FakeLogs
from tests.hands import NOON

BODY = {
    "image": "us-docker.pkg.dev/lab/train/jax:7",
    "args": ["train.py"],
    "node_spec": NODE_REQUEST,
}


@pytest.fixture
def log():
    return FakeLogs()


@pytest.fixture
def client(services, units, clock, log):
    """A caller of a service whose log is in hand."""
    found = replace(services, job_logs=JobLogService(units, log, clock))
    with caller_of(create_app(found, None)) as made:
        yield made


@pytest.fixture
def submit(client):
    def submitted(status=201, headers=None, **changes):
        answer = client.post("/v1/jobs", json=BODY | changes, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    return submitted


def test_a_job_is_recorded_with_its_node_and_answered_at_once(client, submit):
    job = submit(team="vision", labels={"run": "17"})
    assert (job["state"], job["attempts"], job["cost"]) == ("QUEUED", 1, "0.000000000")
    assert (job["team"], job["labels"], job["exit_codes"]) == ("vision", {"run": "17"}, {})
    node = client.get(f"/v1/nodes/{job['node_id']}").json()
    assert (node["state"], node["ttl_seconds"]) == ("REQUESTED", 86_400 + 1_800)
    assert client.get(f"/v1/jobs/{job['id']}").json()["id"] == job["id"]
    (attempt,) = client.get(f"/v1/jobs/{job['id']}/attempts").json()["attempts"]
    assert (attempt["number"], attempt["node_id"]) == (1, job["node_id"])


def test_the_time_without_charges_is_shown_as_time(client, submit, clock):
    job = submit()
    assert job["waited_seconds"] == 0
    clock.pass_(42)
    shown = client.get(f"/v1/jobs/{job['id']}").json()
    assert (shown["waited_seconds"], shown["cost"]) == (42, "0.000000000")


def test_the_same_key_is_one_job_and_one_node(client, submit):
    headers = {"Idempotency-Key": "k1"}
    assert submit(headers=headers)["id"] == submit(headers=headers)["id"]
    assert len(client.get("/v1/nodes").json()["nodes"]) == 1


def test_the_same_key_for_a_node_and_for_a_job_leads_to_one_of_each(client, submit):
    headers = {"Idempotency-Key": "k1"}
    node = client.post("/v1/nodes", json=NODE_REQUEST, headers=headers)
    job = submit(headers=headers)
    assert node.status_code == 201
    assert job["node_id"] != node.json()["id"]
    assert submit(headers=headers)["id"] == job["id"]


def test_a_dry_run_says_what_would_be_and_leaves_nothing(client, submit):
    assert submit(200, dry_run=True)["dry_run"] is True
    assert client.get("/v1/jobs").json()["jobs"] == []
    assert client.get("/v1/nodes").json()["nodes"] == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"image": "--privileged"}, 422),
        ({"image": "a;b"}, 422),
        ({"env": {"1A": "x"}}, 422),
        ({"env": {"A": "ghp_" + "a" * 36}}, 422),
        ({"labels": {"steward-id": "x"}}, 422),
        ({"node": "nobody"}, 422),
        ({"node": "nobody", "node_spec": None}, 404),
        ({"node_spec": NODE_REQUEST | {"supervisor": False}}, 422),
        ({"node_spec": {"accelerator_type": "v3-8", "architecture": "node"}}, 409),
        (
            {
                "framework": {"name": "jax"},
                "node_spec": NODE_REQUEST | {"runtime_version": "tpu-vm-tf-2.17.0-pjrt"},
            },
            422,
        ),
        ({"unknown": 1}, 422),
    ],
)
def test_what_cannot_run_is_refused_and_leaves_nothing(client, submit, changes, status):
    problem = submit(status, **changes)
    assert problem["detail"]
    assert client.get("/v1/jobs").json()["jobs"] == []
    assert client.get("/v1/nodes").json()["nodes"] == []


def test_a_submission_warns_of_a_node_without_a_service_account(submit):
    account = {"service_account": "trainer@lab.iam.gserviceaccount.com"}
    (warning,) = submit()["warnings"]
    assert warning.startswith("the node has no service_account of its own")
    assert submit(node_spec=NODE_REQUEST | account)["warnings"] == []


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_submission_and_the_manual_say_what_to_mind_about_the_launcher(submit, launcher):
    framework, advice = LAUNCHERS[launcher]
    warnings = submit(framework={"name": framework, "launcher": launcher})["warnings"]
    assert f"{launcher}: {advice}" in warnings
    manual = (Path(service.__file__).parent / "manual" / "jobs.md").read_text()
    assert f"| `{launcher}` | {framework.value} | {advice} |" in manual


@pytest.mark.parametrize("on_own_node", [True, False])
def test_a_script_and_a_job_that_are_too_large_together_are_refused_with_their_sizes(
    client, submit, on_own_node
):
    spec = NODE_REQUEST | {"startup_script": "#" * 200_000}
    where: dict[str, Any]
    if on_own_node:
        where = {"node_spec": spec}
    else:
        where = {"node": client.post("/v1/nodes", json=spec).json()["id"], "node_spec": None}
    problem = submit(422, env={"A": "x" * 90_000}, **where)
    assert problem["startup_script_bytes"] > 200_000
    assert problem["job_bytes"] > 90_000
    assert problem["bytes"] > problem["max_bytes"] == 256 * 1024
    assert str(problem["bytes"]) in problem["detail"]
    assert submit(201, env={"A": "x" * 30_000}, **where)["state"] == "QUEUED"


def test_half_a_character_is_refused(client):
    body = json.dumps(BODY | {"env": {"A": "\ud800"}})
    answer = client.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_a_budget_without_room_for_the_worst_case_refuses_the_job(client, submit):
    budget = {"name": "b", "amount": "1", "period": "month", "on_exceeded": "refuse"}
    assert client.post("/v1/budgets", json=budget).status_code == 201
    assert submit(403)["type"].endswith("budget-exceeded")
    assert client.get("/v1/jobs").json()["jobs"] == []


def test_jobs_are_listed_page_by_page_the_newest_first(client, submit):
    ids = [submit(team=team)["id"] for team in ("a", "b", "b")]
    page = client.get("/v1/jobs?page_size=2").json()
    assert [job["id"] for job in page["jobs"]] == ids[:0:-1]
    rest = client.get(f"/v1/jobs?page_size=2&page_token={page['next_page_token']}").json()
    assert ([job["id"] for job in rest["jobs"]], rest["next_page_token"]) == (ids[:1], "")
    assert len(client.get("/v1/jobs?team=b").json()["jobs"]) == 2
    assert client.get("/v1/jobs?state=RUNNING").json()["jobs"] == []


def test_cancelling_twice_is_cancelling_once(client, submit):
    job = submit()
    answers = [client.post(f"/v1/jobs/{job['id']}:cancel") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[-1].json()["cancel_requested_at"]
    assert client.post("/v1/jobs/nobody:cancel").status_code == 404


def test_the_output_is_answered_as_json_lines(client, submit, log):
    job = submit()
    log.write(NOON + 1, "one")
    log.write(NOON + 2, "two", worker=1)
    answer = client.get(f"/v1/jobs/{job['id']}/logs")
    assert answer.headers["content-type"].startswith("application/jsonl")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(line["worker"], line["text"], line["attempt"]) for line in lines] == [
        (0, "one", 1),
        (1, "two", 1),
    ]
    only = client.get(f"/v1/jobs/{job['id']}/logs?worker=1").text
    assert [json.loads(line)["text"] for line in only.splitlines()] == ["two"]
    assert client.get("/v1/jobs/nobody/logs").status_code == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [(NotAllowed("no"), 502), (CloudUnavailable("silence"), 503), (RateLimited("slowly"), 429)],
)
def test_a_log_that_cannot_be_read_is_a_problem_that_the_document_declares(
    client, submit, log, error, status
):
    log.error = error
    assert client.get(f"/v1/jobs/{submit()['id']}/logs").status_code == status


def test_a_quiet_job_is_followed_with_beats(log, services, units, clock, submit, monkeypatch):
    monkeypatch.setattr(follow, "BEAT_SECONDS", 0.05)
    job, service = submit(), JobLogService(units, log, clock)

    async def first() -> bytes:
        followers = follow.LogFollowers(service)
        events = followers.follow_job(job["id"], service.start_cursor(job["id"]), None)
        found = await asyncio.wait_for(anext(events), 10)
        await events.aclose()
        return found

    assert asyncio.run(first()) == b": still here\n\n"


def test_the_output_is_followed_until_the_job_has_ended(client, submit, log, units, clock):
    job = submit()
    log.write(NOON + 1, "one")
    with units() as unit:
        found = unit.jobs.get(job["id"])
        unit.jobs.save(found.with_end(JobState.SUCCEEDED, Reason.COMPLETED, "", clock()))
    clock.pass_(60)
    answer = client.get(f"/v1/jobs/{job['id']}/logs?follow=true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert '"text":"one"' in answer.text
    assert answer.text.endswith("event: end\ndata: {}\n\n")
