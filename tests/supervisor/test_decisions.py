"""The decisions of the supervisor, as tables."""

from __future__ import annotations

import json

import pytest

from service.domain.jobs.task import PULL_FAILURES
from tests.supervisor.conftest import make_task

NOW = 1_000_000.0
FORMS = {"auto": ["device", "privileged"], "device": ["device"], "privileged": ["privileged"]}


def make_record(supervisor, **changes):
    return {**supervisor.ATTEMPT, "warnings": [], **changes}


def step(supervisor, container, *, ready=True, preempted=None, task=None, **record):
    task, record = make_task(**(task or {})), make_record(supervisor, **record)
    reason = supervisor.find_stop_reason(task, record, preempted, NOW)
    found = supervisor.next_step(task, record, container, "boot-2", reason, ready)
    return f"{found} {reason}" if found == "STOP" else found


STOP = {"action": "stop"}
RELEASE = {"action": "release"}
HERE = {"_boot": "boot-2", "pulled_at": 1}
RAN = {**HERE, "state": "RUNNING", "started_at": NOW - 100}


@pytest.mark.parametrize(
    ("container", "facts", "expected"),
    [
        ("missing", {}, "PULL"),
        ("missing", {"ready": False}, "REST"),
        ("missing", {"task": STOP}, "STOPPED"),
        ("missing", {"preempted": 5}, "PREEMPTION_NOTICE"),
        ("missing", {"task": {"action": "pull"}}, "PULL"),
        ("missing", {"task": {"action": "pull"}, "pulled_at": 1}, "REST"),
        ("missing", {"pulled_at": 1}, "START"),
        ("missing", {**HERE, "state": "STARTING"}, "START"),
        ("missing", {**HERE, "state": "STARTING", "_boot": "boot-1"}, "REBOOTED"),
        ("missing", {"pulled_at": 1, "state": "PULLED"}, "START"),
        ("running", {}, "WATCH"),
        ("running", RAN, "WATCH"),
        ("running", {**RAN, "task": STOP}, "STOP STOPPED"),
        ("running", {**RAN, "preempted": 5}, "STOP PREEMPTION_NOTICE"),
        ("running", {**RAN, "task": {"max_duration_seconds": 100}}, "STOP TIMED_OUT"),
        ("running", {**RAN, "task": {"max_duration_seconds": 101}}, "WATCH"),
        ("running", {**RAN, "task": {"max_duration_seconds": 0}}, "WATCH"),
        ("running", {**RAN, "_stop": "TIMED_OUT", "task": STOP}, "STOP TIMED_OUT"),
        ("running", {**RAN, "_boot": "boot-1"}, "REBOOTED"),
        ("exited", RAN, "COLLECT"),
        ("exited", {**HERE, "state": "STARTING"}, "COLLECT"),
        ("exited", {**RAN, "_boot": "boot-1"}, "REBOOTED"),
        ("missing", RAN, "LOST"),
        ("unknown", RAN, "REST"),
        ("unknown", {"task": STOP}, "REST"),
        ("unknown", {}, "PULL"),
        ("exited", {**RAN, "state": "EXITED"}, "REST"),
        ("missing", {"state": "EXITED", "_boot": "boot-1"}, "REST"),
        ("running", {**RAN, "task": RELEASE}, "RELEASE"),
        ("missing", {"task": RELEASE, "_released": True, "state": "EXITED"}, "REST"),
    ],
)
def test_the_next_step_follows_from_task_record_container_and_boot(
    supervisor, container, facts, expected
):
    assert step(supervisor, container, **facts) == expected


@pytest.mark.parametrize(
    ("record", "offered", "expected"),
    [
        ({"_boot": "b", "state": "RUNNING"}, "job-1", ("job-1", "run")),
        ({"_boot": "b", "state": "RUNNING"}, "job-2", ("job-1", "stop")),
        ({"_boot": "b", "state": "EXITED"}, "job-2", ("job-2", "run")),
        ({"state": "PULLING"}, "job-2", ("job-2", "run")),
    ],
)
def test_a_container_ends_before_another_attempt_begins(supervisor, record, offered, expected):
    record = make_record(supervisor, **record)
    task = supervisor.choose_task(make_task(), record, make_task(attempt=offered))
    assert (task["attempt"], task["action"]) == expected


@pytest.mark.parametrize(
    ("puts", "weight", "may"),
    [
        ([], 0, True),
        ([NOW - 59], 0, False),
        ([NOW - 5], 1, False),
        ([NOW - 15], 1, True),
        ([NOW - 50, NOW - 20], 1, False),
        ([NOW - 50, NOW - 20], 2, True),
        ([NOW - 50, NOW - 20, NOW - 1], 2, False),
        ([NOW - 50, NOW - 20, NOW - 1], 3, True),
        ([NOW - 50, NOW - 20, NOW - 2, NOW - 1], 3, False),
        ([NOW - 60, NOW - 20, NOW - 2, NOW - 1], 3, True),
        ([NOW + 900] * 4, 3, True),
    ],
)
def test_an_end_is_reported_at_once_while_details_wait(supervisor, puts, weight, may):
    assert supervisor.may_put(puts, NOW, weight, 15) is may


@pytest.mark.parametrize(
    ("changes", "weight"),
    [
        ({}, 0),
        ({"step": 4}, 1),
        ({"state": "PULLING"}, 1),
        ({"state": "RUNNING"}, 2),
        ({"generation": 2}, 2),
        ({"state": "EXITED"}, 3),
        ({"preempted_at": 4}, 3),
    ],
)
def test_a_change_is_weighed(supervisor, changes, weight):
    sent = {"state": "IDLE", "attempt": "a", "generation": 1, "preempted_at": None, "step": 3}
    assert supervisor.weigh_change(sent, {**sent, **changes}) == weight


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Error response from daemon: manifest for a/b:c not found: manifest unknown", "NO"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "NO"),
        ('name unknown: Repository "r" not found', "NO"),
        ("failed to resolve reference docker.io/a/b:c: docker.io/a/b:c: not found", "NO"),
        ("invalid reference format", "NO"),
        ("denied: Permission 'artifactregistry.repositories.downloadArtifacts' denied", "DENIED"),
        ("pull access denied for a/b, repository does not exist or may require", "DENIED"),
        ("unauthorized: authentication failed", "DENIED"),
        ("unexpected status code 403 Forbidden", "DENIED"),
        ("write /var/lib/docker/tmp/x: no space left on device", "FULL"),
        ('error getting credentials - err: exec: "docker-credential-gcloud": not found', ""),
        ("dial tcp: lookup us-docker.pkg.dev: no such host", ""),
        ("net/http: TLS handshake timeout", ""),
        ("toomanyrequests: rate exceeded", ""),
        ("received unexpected HTTP status: 503 Service Unavailable", ""),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock", ""),
    ],
)
def test_a_failed_pull_is_told_apart(supervisor, output, reason):
    reasons = {"NO": "IMAGE_NOT_FOUND", "DENIED": "PULL_DENIED", "FULL": "DISK_FULL", "": ""}
    assert supervisor.classify_pull(PULL_FAILURES, output) == reasons[reason]


def test_the_device_form_names_every_device(supervisor):
    container = {
        "command": ["python"],
        "args": ["-u", "--privileged"],
        "env": {"A": "b", "HOME": "/h"},
        "options": ["--shm-size", "16g"],
    }
    task = make_task(container=container)
    args = supervisor.build_run(task, "device", ["/dev/vfio/0", "/dev/accel0"], 1)
    assert args == [
        *("run", "--shm-size", "16g", "--device=/dev/vfio/0", "--device=/dev/accel0"),
        *("--env=STEWARD_WORKER=5", "--env=A=b", "--env=HOME=/h", "--entrypoint=python"),
        *("us-docker.pkg.dev/p/r/i:1", "-u", "--privileged"),
    ]


def test_the_privileged_form_names_no_device(supervisor):
    args = supervisor.build_run(make_task(), "privileged", ["/dev/vfio/0"], 0)
    assert "--privileged" in args
    assert not any(word.startswith("--device") for word in args)


@pytest.mark.parametrize(
    "container",
    [
        {"image": "--privileged"},
        {"image": "a b"},
        {"image": ""},
        {"env": {"A": 1}},
        {"args": [["nested"]]},
        {"options": [["--privileged"]]},
        {"options": None},
    ],
)
def test_a_container_that_docker_could_misread_is_refused(supervisor, container):
    with pytest.raises(ValueError, match=r"."):
        supervisor.parse_task(json.dumps(make_task(container=container)), 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"attempt": "A"},
        {"attempt": "a" * 64},
        {"attempt": None},
        {"action": "start"},
        {"generation": "5"},
        {"pull_seconds": -1},
        {"pull_seconds": float("nan")},
        {"container": None},
    ],
)
def test_a_malformed_task_is_refused(supervisor, changes):
    task = {**make_task(), **changes}
    with pytest.raises(ValueError, match=r"."):
        supervisor.parse_task(json.dumps(task), 0)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"STEWARD_STEP 5", {"step": 5, "step_at": 1767225600}),
        (b"STEWARD_CHECKPOINT 7\r", {"checkpoint": 7, "checkpoint_at": 1767225600}),
        (b"STEWARD_DEVICES 4", {"devices": 4, "devices_at": 1767225600}),
        (b"STEWARD_DONE", {"done": 1, "done_at": 1767225600}),
        (b"STEWARD_DONE 5", {}),
        (b"STEWARD_STEP five", {}),
        (b"say STEWARD_STEP 5", {}),
        (b"STEWARD_STEP " + b"9" * 40, {}),
    ],
)
def test_markers_are_whole_lines(supervisor, output, expected):
    assert supervisor.parse_marker("2026-01-01T00:00:00.123456789Z", output) == expected


def test_the_pieces_of_a_long_line_are_joined(supervisor):
    stamp = b"2026-01-01T00:00:00.123456789Z "
    raw = stamp + b"x" * 16384 + stamp + b"y" * 5 + b"\n"
    assert supervisor.split_line(raw) == (stamp.decode().strip(), b"x" * 16384 + b"y" * 5)
    assert supervisor.split_line(b"odd") == ("", b"odd")


@pytest.mark.parametrize(
    ("record", "state", "preempted_at", "reason"),
    [
        ({}, {"ExitCode": 1}, None, "COMPLETED"),
        ({}, {"ExitCode": 137, "OOMKilled": True}, None, "OOM_KILLED"),
        ({}, {"ExitCode": 0, "OOMKilled": True}, None, "COMPLETED"),
        ({}, {"ExitCode": 0}, 5, "PREEMPTION_NOTICE"),
        ({"_stop": "STOPPED"}, {"ExitCode": 137}, 5, "STOPPED"),
    ],
)
def test_an_end_has_one_reason(supervisor, record, state, preempted_at, reason):
    record = make_record(supervisor, **record)
    assert supervisor.find_end_reason(record, state, preempted_at) == reason


@pytest.mark.parametrize(
    ("wanted", "access", "code", "seconds", "output", "expected"),
    [
        ("auto", "device", 1, 3, "open(/dev/vfio/0): Operation not permitted", True),
        ("auto", "device", 1, 3, "/dev/accel0: Permission denied", True),
        ("auto", "device", 1, 3, "RuntimeError: No TPU devices were found.", True),
        ("auto", "device", 1, 3, "open(/dev/vfio/0): Device or resource busy", False),
        ("auto", "device", 1, 3, "ImportError: no module", False),
        ("auto", "device", 1, 31, "/dev/vfio/0: Operation not permitted", False),
        ("auto", "device", 0, 3, "/dev/vfio/0: Operation not permitted", False),
        ("auto", "privileged", 1, 3, "/dev/vfio/0: Operation not permitted", False),
        ("device", "device", 1, 3, "/dev/vfio/0: Operation not permitted", False),
    ],
)
def test_privileges_are_for_programs_that_could_not_open_the_device(
    supervisor, wanted, access, code, seconds, output, expected
):
    task = make_task(container={"forms": FORMS[wanted]})
    assert supervisor.needs_privileges(task, access, code, seconds, output) is expected


def test_the_tail_gives_way_where_a_report_is_too_long(supervisor):
    body = supervisor.encode_report({"tail": "\x01" * 65536, "v": 1})
    assert len(body) <= 100_000
    assert json.loads(body)["tail"]


def test_a_line_keeps_its_insert_id(supervisor):
    place = ["2026-01-01T00:00:00.1Z", 3]
    body = supervisor.build_entries(make_task(), 1, [("stdout", place, b"\xff")])
    (entry,) = body["entries"]
    assert entry["insertId"] == "job-1-5-2026-01-01T00:00:00.1Z-stdout-000003"
    assert entry["timestamp"] == "2026-01-01T00:00:00.1Z"
    assert entry["textPayload"] == "\N{REPLACEMENT CHARACTER}"
    assert body["resource"] == {"type": "global", "labels": {"project_id": "p"}}
