"""Jobs on the command line: what is asked of the API, and what is said of its answers."""

from __future__ import annotations

import json
import re

import pytest

from service.api.jobs.request import JobRequest
from service.cli.jobs import jobs
from tests.cli.given import ID, steward

NODE = "job-3d6c2a11"
PATH = f"/v1/jobs/{ID}"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.001)


def job(**overrides):
    """A job as the API shows it."""
    return {
        "id": ID,
        "state": "SUCCEEDED",
        "reason": "COMPLETED",
        "detail": "every worker ended with exit code 0",
        "attempts": 1,
        "exit_codes": {"0": 0, "1": 0},
        "run_name": "resnet",
        "node_name": NODE,
        "cost": "1.250000000",
        "cost_estimated": False,
        "unpriced_seconds": 0,
        "waited_seconds": 95,
        "logs_cost_estimate": "0.020000000",
        "image": "a/b:c",
        "command": [],
        "args": ["python", "train.py"],
        "owner": "ada",
        "team": "vision",
        "created_at": "2026-11-05T12:00:00Z",
        "ended_at": "2026-11-05T12:30:00Z",
        "warnings": [],
        "dry_run": False,
        **overrides,
    }


ATTEMPT = {
    "number": 1,
    "node_name": NODE,
    "zone": "us-west4-a",
    "phase": "ended",
    "reason": "PREEMPTED",
    "detail": "taken",
    "evidence": ["the audit log", "a notice"],
    "exit_codes": {"0": 143},
    "workers": [
        {"worker": number, "startup_exit_code": code} for number, code in enumerate([0, 3, None])
    ],
    "work_lost_seconds": 60,
    "cost": "1.000000000",
    "phases": [{"phase": "running", "seconds": 60, "cost": "1.000000000"}],
}


def events(*lines):
    """The output of a job as server-sent events."""
    return "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "event: end\ndata: {}\n\n"


def submit(*words):
    return steward("jobs", "submit", "--image", "a/b:c", *words)


def test_everything_that_is_submitted_is_asked_for(api):
    api.when("POST", "/v1/jobs", job(state="QUEUED"), status=201)
    words = ["--accelerator-type", "v5litepod-16", "--zone", "us-west4-a", "--spot", "--detach"]
    words += ["--env", "A=b=c", "--checkpoint-dir", "gs://b/c", "--max-duration", "2h"]
    words += ["--retries", "3", "--team", "vision", "--label", "run=17", "--slices", "2"]
    done = submit(*words, "--", "python", "train.py", "--spot")
    assert done.exit_code == 0, done.output
    (call,) = api.calls
    assert call.body == {
        "image": "a/b:c",
        "args": ["python", "train.py", "--spot"],
        "env": {"A": "b=c"},
        "node_spec": {
            "accelerator_type": "v5litepod-16",
            "zone": "us-west4-a",
            "provisioning_model": "spot",
            "slices": 2,
        },
        "checkpoint_dir": "gs://b/c",
        "max_duration_seconds": 7_200,
        "retries": {"failure": 3},
        "team": "vision",
        "labels": {"run": "17"},
    }
    assert done.stderr == f"Job {ID} on node {NODE}\n"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("--workers first", {"workers": "first"}),
        ("--shm-size 16g", {"shm_size": "16g"}),
        ("--device-access privileged", {"device_access": "privileged"}),
        ("--data gs://a/b --data gs://c", {"data": ["gs://a/b", "gs://c"]}),
        ("--stop-grace 1m", {"stop_grace_seconds": 60}),
        ("--preemption-retries 0", {"retries": {"preemption": 0}}),
        (
            "--retries 2 --retry-exit-code 42 --retry-exit-code 7",
            {"retries": {"failure": 2, "exit_codes": [42, 7]}},
        ),
        (
            "--framework pytorch=2.5 --launcher accelerate",
            {"framework": {"name": "pytorch", "version": "2.5", "launcher": "accelerate"}},
        ),
        ("--run-name r17 --log-budget 0", {"run_name": "r17", "log_budget": 0}),
        (
            "--global-batch 1024 --examples 1281167 --steps-per-epoch 1252",
            {"global_batch": 1_024, "examples": 1_281_167, "steps_per_epoch": 1_252},
        ),
        ("--entrypoint bash --entrypoint -c", {"command": ["bash", "-c"]}),
    ],
)
def test_each_option_of_a_submission_is_a_field_of_the_api(api, words, asked):
    api.when("POST", "/v1/jobs", job(state="QUEUED"), status=201)
    done = submit("--node", "n", "--detach", *words.split())
    assert done.exit_code == 0, done.output
    (call,) = api.calls
    assert call.body == {"image": "a/b:c", "node": "n", **asked}
    JobRequest.model_validate_json(json.dumps(call.body))


def test_a_launcher_without_a_framework_is_refused_before_anything_is_asked(api):
    done = submit("--launcher", "accelerate")
    assert (done.exit_code, api.calls) == (2, [])
    assert "--framework" in done.stderr


def test_the_help_of_a_submission_fits_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = steward("jobs", "submit", "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "  --workers all|first         Which workers run it. Default all." in lines


def test_a_job_is_followed_from_its_states_to_its_output_and_its_cost(api):
    api.when("POST", "/v1/jobs", job(state="QUEUED", detail="", warnings=["mind the batch"]))
    waiting = [job(state=name, detail="") for name in ("QUEUED", "PULLING", "RUNNING")]
    api.when("GET", PATH, *waiting, job())
    api.media_types[f"{PATH}/logs"] = jobs.EVENT_STREAM
    api.when("GET", f"{PATH}/logs", events({"worker": 0, "text": "a\x1b[31m"}, {"note": "late"}))
    done = submit("--accelerator-type", "v5litepod-8")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("0: a")
    assert "\x1b" not in done.stdout
    assert done.stderr.splitlines() == [
        "warning: mind the batch",
        f"Job {ID} on node {NODE}",
        "QUEUED",
        "PULLING",
        "late",
        "SUCCEEDED: every worker ended with exit code 0",
        "Cost: $1.25",
    ]


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "TIMED_OUT"])
def test_a_job_that_did_not_succeed_ends_the_command_with_an_error(api, state):
    api.when("POST", "/v1/jobs", job(state="RUNNING"))
    api.when("GET", PATH, job(state=state, reason="PROGRAM_FAILED", cost_estimated=True))
    api.media_types[f"{PATH}/logs"] = jobs.EVENT_STREAM
    api.when("GET", f"{PATH}/logs", events())
    done = submit("--accelerator-type", "v5litepod-8")
    assert done.exit_code != 0
    assert f"is {state} (PROGRAM_FAILED)" in done.stderr
    assert "Cost: $1.25 so far\n" in done.stderr, "its node is not gone yet"


def test_a_submission_without_an_image_and_a_dry_run_submit_nothing(api):
    assert steward("jobs", "submit", "--", "true").exit_code == 2
    assert api.calls == []
    api.when("POST", "/v1/jobs", job(dry_run=True, warnings=["w"]))
    done = submit("--accelerator-type", "v5litepod-8", "--dry-run")
    assert (done.exit_code, done.stdout) == (
        0,
        "The job would be accepted; nothing was recorded.\n",
    )
    assert api.calls[0].body["dry_run"] is True


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        ({"0": 0, "1": 0}, "0 (every worker)"),
        ({"0": 143, "1": 7}, "0: 143, 1: 7"),
        ({"0": None}, "none (every worker)"),
    ],
)
def test_a_job_is_shown_with_its_exit_codes_and_its_cost(api, codes, shown):
    api.when("GET", PATH, job(exit_codes=codes, unpriced_seconds=90, cost_estimated=True))
    done = steward("jobs", "show", ID)
    found = {line[:12].strip(): line[12:].strip() for line in done.stdout.splitlines()}
    assert (found["Exit codes"], found["Cost"]) == (shown, "$1.25 so far")
    assert (found["Unpriced"], found["Command"]) == ("1m30s", "python train.py")
    assert found["Waited"] == "1m35s, not charged"
    assert found["Logs"] == "about $0.020 extra for Cloud Logging"


@pytest.mark.parametrize(
    ("lost", "words"),
    [(75, "1m15s"), (0, "0s"), (None, "not known (the program reported no steps)")],
)
def test_attempts_are_shown_with_their_evidence_and_what_they_lost(api, lost, words):
    api.when("GET", f"{PATH}/attempts", {"attempts": [ATTEMPT | {"work_lost_seconds": lost}]})
    said = steward("jobs", "attempts", ID).stdout
    assert f"Attempt 1 on {NODE} (us-west4-a)" in said
    assert re.search(rf"(?m)^Work lost +{re.escape(words)}$", said), said
    for text in ("the audit log; a notice", "143 (every worker)", "running"):
        assert text in said
    (script,) = [line for line in said.splitlines() if line.startswith("Startup script")]
    assert script.split(maxsplit=2)[2] == "worker 1: exit code 3"


def test_attempts_whose_startup_script_succeeded_say_nothing_of_it(api):
    attempt = {
        **dict.fromkeys(["number", "node_name", "zone", "phase", "reason", "detail"], "x"),
        "evidence": [],
        "exit_codes": {},
        "workers": [{"worker": 0, "startup_exit_code": 0}],
        "work_lost_seconds": 0,
        "cost": "0.000000000",
        "phases": [],
    }
    api.when("GET", f"{PATH}/attempts", {"attempts": [attempt]})
    assert "Startup script" not in steward("jobs", "attempts", ID).stdout


def test_a_list_is_one_line_a_job_or_says_how_to_submit_one(api):
    api.when("GET", "/v1/jobs", {"jobs": [job()], "next_page_token": ""})
    head, line = steward("jobs", "list", "--state", "succeeded").stdout.splitlines()
    assert head.split() == [
        "JOB",
        "NAME",
        "STATE",
        "AGE",
        "COST",
        "TEAM",
        "OWNER",
        "NODE",
        "ATTEMPTS",
    ]
    id_, name, state, _, *rest = line.split()
    assert (id_, name, state) == (ID, "resnet", "SUCCEEDED")
    assert rest == ["$1.25", "vision", "ada", NODE, "1"]
    assert api.calls[0].query["state"] == ["SUCCEEDED"]
    api.when("GET", "/v1/jobs", {"jobs": [], "next_page_token": ""})
    assert "tpu-steward jobs submit" in steward("jobs", "list").stdout


@pytest.mark.parametrize(
    ("ended_at", "words"),
    [(None, "is CANCELLING: it is asked to end"), ("2026-11-05T12:30:00Z", "it has ended before")],
)
def test_a_cancellation_says_what_becomes_of_the_job(api, ended_at, words):
    api.when("POST", f"{PATH}:cancel", job(state="CANCELLING", ended_at=ended_at))
    assert words in steward("jobs", "cancel", ID).stdout


def test_logs_of_one_worker_are_lines_of_json_on_demand(api):
    lines = [{"at": "x", "worker": 1, "attempt": 1, "text": "é"}]
    api.media_types[f"{PATH}/logs"] = jobs.JSON_LINES
    api.when("GET", f"{PATH}/logs", "".join(json.dumps(line) + "\n" for line in lines))
    done = steward("jobs", "logs", ID, "--worker", "1", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines
    assert api.calls[0].query["worker"] == ["1"]
