"""The cleanup on the command line: what goes, why, and what to type next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.cli.cleanup import cleanup
from service.cli.nodes import idle
from service.cli.terminal.formatting import format_time
from tests.cli.given import ID, node, steward
from tests.hands import NOON

SINCE = "2026-11-05T11:40:00Z"
PLAN = "5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"


@pytest.fixture(autouse=True)
def _noon(monkeypatch):
    monkeypatch.setattr(cleanup, "wall_clock", lambda: NOON)
    monkeypatch.setattr(idle, "wall_clock", lambda: NOON)
    monkeypatch.setattr(idle, "PAUSE", 0.0)


def entry(**changes):
    return {
        "node_id": ID,
        "name": "trainer",
        "action": "delete",
        "reason": "it has been idle since 2026-11-05T10:00:00Z",
        "due_at": "2026-11-05T12:05:00Z",
        "expected_at": "2026-11-05T12:05:00Z",
        "hourly_cost": "9.600000000",
        **changes,
    }


def plan(*entries, **changes):
    return {
        "plan_id": PLAN,
        "project": "lab",
        "as_of": "2026-11-05T12:00:00Z",
        "saves_hourly": "9.600000000",
        "held_by": [],
        "entries": list(entries),
        **changes,
    }


def project(**changes):
    return {
        "project": "lab",
        "ticked_at": "2026-11-05T11:59:30Z",
        "next_tick_at": "2026-11-05T12:00:30Z",
        "paused_at": None,
        "paused_by": "",
        "pause_reason": "",
        "breaker_open_since": None,
        "breaker_reason": "",
        "breaker_closed_at": None,
        "breaker_closed_by": "",
        "breaker_closed_reason": "",
        "rails": [],
        "waiting": [],
        **changes,
    }


def test_the_plan_says_what_goes_why_and_how_to_apply_it(api):
    api.when("POST", "/v1/cleanup:plan", plan(entry(), held_by=["mass"]))
    lines = steward("cleanup", "plan").stdout.splitlines()
    assert lines[1].split() == ["trainer", "delete", "in", "5m00s", "$9.60"]
    assert "trainer: it has been idle since 2026-11-05T10:00:00Z" in lines
    assert "1 node; ending all of them saves $9.60 an hour" in lines
    assert "the daemon is held back by: mass; you can still apply the plan" in lines
    assert lines[-1] == f"to do it now: tpu-steward cleanup apply {PLAN}"
    assert api.calls[0].body == {}


BEFORE, LATER = "2026-11-05T11:00:00Z", "2026-11-05T12:15:00Z"


@pytest.mark.parametrize(
    ("due_at", "expected_at", "said"),
    [
        (None, None, "never"),
        (BEFORE, BEFORE, "now"),
        (BEFORE, LATER, "in 15m00s"),
        (BEFORE, None, "held"),
    ],
)
def test_the_plan_says_when_the_daemon_does_it_by_itself(api, due_at, expected_at, said):
    api.when("POST", "/v1/cleanup:plan", plan(entry(due_at=due_at, expected_at=expected_at)))
    assert said in steward("cleanup", "plan", "--project", "lab").stdout.splitlines()[1]
    assert api.calls[0].body == {"project": "lab"}


def test_an_empty_plan_names_no_command(api):
    api.when("POST", "/v1/cleanup:plan", plan())
    assert steward("cleanup", "plan").stdout == (
        "no node of project lab would be stopped or deleted now\n"
    )


def test_apply_says_what_was_asked_for(api):
    api.when("POST", "/v1/cleanup:apply", plan(entry()))
    said = steward("cleanup", "apply", PLAN).stdout
    assert said == "trainer: delete requested\nthat saves $9.60 an hour\n"
    assert api.calls[0].body == {"plan_id": PLAN}


def test_a_pause_wants_a_reason(api):
    assert steward("cleanup", "pause").exit_code == 2
    paused = project(paused_at="2026-11-05T12:00:00Z", pause_reason="a demo")
    api.when("POST", "/v1/cleanup:pause", {"projects": [paused]})
    assert (
        "paused in project lab: a demo" in steward("cleanup", "pause", "--reason", "a demo").stdout
    )
    assert api.calls[0].body == {"reason": "a demo"}


def test_resume_ends_a_pause_and_closes_the_breaker_where_that_is_said(api):
    api.when("POST", "/v1/cleanup:resume", {"projects": [project()]})
    assert steward("cleanup", "resume").stdout == "the pause is over in project lab\n"
    steward("cleanup", "resume", "--breaker", "--reason", "it is fine", "--project", "lab")
    assert [call.body for call in api.calls] == [
        {},
        {"project": "lab", "breaker": True, "reason": "it is fine"},
    ]


def test_resume_names_the_rails_that_still_hold_and_takes_a_reason_for_the_breaker_only(api):
    held = project(rails=[{"rail": "mass"}, {"rail": "pause"}])
    api.when("POST", "/v1/cleanup:resume", {"projects": [held]})
    said = steward("cleanup", "resume", "--breaker", "--reason", "it is fine").stdout
    assert said == "the breaker is closed in project lab; still held by: mass, pause\n"
    said = steward("cleanup", "resume").stdout
    assert said == "the pause is over in project lab; still held by: mass\n"
    assert steward("cleanup", "resume", "--reason", "it is fine").exit_code == 2


def test_the_status_says_when_no_daemon_runs(api):
    gone = {"mode": "observe", "projects": [project(next_tick_at=None)]}
    api.when("GET", "/v1/cleanup", gone)
    assert "next check  no daemon is running" in steward("cleanup", "status").stdout.splitlines()


def test_the_status_says_what_holds_and_who_waits(api):
    rail = {
        "rail": "mass",
        "reason": "most nodes are idle",
        "since": "2026-11-05T11:30:00Z",
        "until": "2026-11-05T12:30:00Z",
        "waiting": ["trainer"],
    }
    waiting = {"node_id": ID, "name": "trainer", "rail": "mass", "place": 1, "until": None}
    waiting |= {"since": "2026-11-05T11:31:00Z"}
    held = project(rails=[rail], waiting=[waiting], ticked_at=None)
    api.when("GET", "/v1/cleanup", {"mode": "observe", "projects": [held]})
    lines = steward("cleanup", "status").stdout.splitlines()
    assert lines[0] == "mode observe: nodes are assessed, and no action follows"
    assert "last check  never" in lines
    assert (
        "held by mass since 2026-11-05 11:30:00, until 2026-11-05 12:30:00: most nodes are idle"
        in lines
    )
    assert "  these nodes wait for it: trainer" in lines
    assert lines[-1].split() == ["1", "trainer", "mass", "2026-11-05", "11:31:00", "-"]
    assert all(len(line) <= 80 for line in lines[-2:])


@pytest.mark.parametrize(
    ("closer", "said"),
    [
        ("ada", "breaker     closed by ada at 2026-11-05 11:40:00: Monitoring is back"),
        ("", "breaker     closed by itself at 2026-11-05 11:40:00: Monitoring is back"),
    ],
)
def test_the_status_says_who_closed_the_breaker_when_and_why(api, closer, said):
    closed = {
        "breaker_closed_at": "2026-11-05T11:40:00Z",
        "breaker_closed_by": closer,
        "breaker_closed_reason": "Monitoring is back",
    }
    for shown, is_said in ((project(**closed), True), (project(), False)):
        api.when("GET", "/v1/cleanup", {"mode": "delete", "projects": [shown]})
        assert (said in steward("cleanup", "status").stdout.splitlines()) is is_said


def test_the_status_names_no_more_nodes_of_a_rail_than_can_be_read(api):
    names = [f"n{number}" for number in range(22)]
    rail = {"rail": "pause", "reason": "x", "since": "2026-11-05T11:30:00Z", "until": None}
    held = project(rails=[{**rail, "waiting": names}, {**rail, "waiting": []}])
    api.when("GET", "/v1/cleanup", {"mode": "delete", "projects": [held]})
    lines = steward("cleanup", "status").stdout.splitlines()
    (said,) = [line for line in lines if "wait for it" in line]
    assert said.endswith("n18, n19, and 2 more")


COVERAGE: dict[str, Any] = {
    "project": "lab",
    "nodes": 2,
    "known": 1,
    "unknown": 1,
    "never_deleted": 1,
    "never_deleted_hourly_cost": "9.600000000",
    "reports": {"nodes": 3, "reported": 2, "needed": 2, "silent": 1, "newest_at": None},
    "families": [
        {
            "signal": "cpu",
            "state": "failed",
            "newest_at": "2026-11-05T11:00:00Z",
            "read_at": None,
            "error": "no answer",
            "nodes": 0,
        }
    ],
}


def test_the_coverage_names_what_nobody_sees(api):
    api.when("GET", "/v1/cleanup/coverage", {"projects": [COVERAGE]})
    lines = steward("cleanup", "coverage").stdout.splitlines()
    assert lines[0] == "project lab: 2 READY nodes, 1 unknown"
    assert lines[2].split() == ["cpu", "failed", "0", "1h00m", "no", "answer"]
    assert lines[3:5] == [
        "supervisor reports: 2 of 3 nodes",
        "nodes without metrics: 2, of these without a report: 1",
    ]
    assert lines[5].startswith("1 node without supervisor and metrics")
    assert lines[5].endswith("$9.60 an hour")
    found = {**COVERAGE, "reports": {**COVERAGE["reports"], "needed": 0, "silent": 0}}
    api.when("GET", "/v1/cleanup/coverage", {"projects": [found]})
    assert "nodes without metrics" not in steward("cleanup", "coverage").stdout


def test_the_history_is_a_table_and_says_where_the_evidence_is(api):
    ended = {
        "at": "2026-11-05T11:00:00Z",
        "name": "trainer",
        "action": "delete",
        "hourly_cost": None,
        "actor": "ada",
    }
    api.when("GET", "/v1/cleanup/history", {"history": [ended], "next_page_token": ""})
    lines = steward("cleanup", "history").stdout.splitlines()
    assert lines[1].split("  ")[0] == "2026-11-05 11:00:00"
    assert "unpriced" in lines[1]
    assert lines[-1] == "to see the evidence: tpu-steward nodes idle NAME"
    api.when("GET", "/v1/cleanup/history", {"history": [], "next_page_token": ""})
    assert steward("cleanup", "history").stdout == (
        "no node was stopped or deleted for idleness yet\n"
    )


REPORT = {
    "worker": 0,
    "at": "2026-11-05T11:59:48Z",
    "age_seconds": 12,
    "holder": "",
    "sessions": 1,
    "containers": 0,
    "restarts": 0,
}


VERDICT = {
    "level": "QUIET",
    "reason": "every device is quiet",
    "since": "2026-11-05T11:00:00Z",
    "coverage_percent": 98,
    "blockers": [],
    "waste": "",
    "lacking": [],
}


def shown(**changes):
    return {
        "node_id": ID,
        "node_state": "READY",
        "state": "NOTIFIED",
        "since": "2026-11-05T11:58:00Z",
        "judged_at": "2026-11-05T12:00:00Z",
        "notified_at": "2026-11-05T11:58:00Z",
        "idle_at": None,
        "due_at": "2026-11-05T12:04:10Z",
        "action": "delete",
        "policy": "team:vision",
        "idle_after_seconds": 3_600,
        "grace_seconds": 900,
        "limits": [],
        "held_by": [],
        "kept_until": None,
        "waiting": None,
        "verdict": VERDICT,
        "signals": [
            {
                "worker": 0,
                "signal": "cpu",
                "level": "QUIET",
                "reason": "quiet since 2026-11-05T11:00:00Z",
                "value": 2.5,
                "at": "2026-11-05T11:59:00Z",
                "age_seconds": 60,
                "coverage_percent": 98,
                "last_active_at": None,
            }
        ],
        "reports": [REPORT],
        "reports_read_at": "2026-11-05T11:59:30Z",
        "ended": [],
        **changes,
    }


@pytest.mark.parametrize(
    ("signal", "value", "said"),
    [
        ("cpu", 1.14869, "1.15 %"),
        ("duty_cycle", 0, "0 %"),
        ("tensorcore_idle_duration", 1_000_000, "1,000,000 s"),
        ("active_chips", 4.0, "4 chips"),
        ("scheduled_chips", 4.0, "4 chips"),
        ("network", 741.746, "0.742 kB/s"),
        ("reported_network", 12_345_678, "12.3 MB/s"),
        ("device", 0.0, "free"),
        ("device", 1.0, "held"),
    ],
)
def test_a_reading_is_shown_with_its_unit(api, signal, value, said):
    reading = {**shown()["signals"][0], "signal": signal, "value": value}
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(signals=[reading]))
    (line,) = [line for line in steward("nodes", "idle", ID).stdout.splitlines() if signal in line]
    assert f" {said} " in line


def wait(rail, **changes):
    times = {"since": "2026-11-05T11:30:00Z", "until": "2026-11-05T12:30:00Z"}
    return {"node_id": ID, "name": "trainer", "rail": rail, "place": 1, **times, **changes}


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        (wait("tick"), "2026-11-05 11:30:00, until 2026-11-05 12:30:00 at the earliest"),
        (wait("pause", until=None), "2026-11-05 11:30:00"),
        (wait("tick", since=None), ""),
        (None, ""),
    ],
)
def test_a_node_says_since_when_and_until_when_it_waits_for_a_rail(api, waiting, said):
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(waiting=waiting))
    lines = steward("nodes", "idle", ID).stdout.splitlines()
    found = [line.removeprefix("waits since").strip() for line in lines if "waits since" in line]
    assert found == ([said] if said else [])
    assert all(len(line) <= 80 for line in lines if "waits since" in line)


ENDED = {
    "at": "2026-11-05T12:00:00Z",
    "action": "delete",
    "actor": "the cleanup daemon",
    "reason": "it is idle",
}


EARLIER_STOP = {"at": "2026-11-05T11:00:00Z", "action": "stop"}
"""A stop after which the node was started and checked again."""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "NOTIFIED: deleted in 4m10s"),
        ({"action": "stop"}, "NOTIFIED: stopped in 4m10s"),
        ({"held_by": ["keep"]}, "NOTIFIED: held back by keep"),
        (
            {"due_at": "2026-11-05T11:59:00Z"},
            "NOTIFIED: deleted as soon as the newest signals are read",
        ),
        (
            {"due_at": "2026-11-05T11:59:00Z", "waiting": wait("mass", until=None)},
            "NOTIFIED: waits for the rail mass",
        ),
        (
            {"due_at": "2026-11-05T11:59:00Z", "waiting": wait("hour")},
            "NOTIFIED: waits for the rail hour, until 2026-11-05 12:30:00",
        ),
        (
            {"due_at": None, "state": "QUIET", "idle_at": "2026-11-05T12:01:10Z"},
            "QUIET: quiet for 1h00m, idle in 1m10s",
        ),
        (
            {"due_at": None, "state": "QUIET", "idle_at": "2026-11-05T11:59:50Z"},
            "QUIET: quiet for 1h00m, idle at one of the next checks",
        ),
        (
            {"state": "QUIET", "verdict": {**VERDICT, "blockers": ["session"]}},
            "QUIET: quiet for 1h00m, blocked by session",
        ),
        (
            {
                "state": "QUIET",
                "idle_at": "2026-11-05T12:01:10Z",
                "verdict": {**VERDICT, "blockers": ["host_busy"], "waste": "crash_loop"},
            },
            "QUIET: quiet for 1h00m, idle in 1m10s",
        ),
        (
            {"due_at": None, "state": "WARMING"},
            "WARMING: READY a short while ago, idleness does not count yet",
        ),
        (
            {"due_at": None, "action": "notify"},
            "NOTIFIED: idle, no action follows (policy action notify)",
        ),
        ({"verdict": None, "state": ""}, "READY: not checked yet"),
        (
            {"verdict": None, "state": "", "node_state": "CREATING"},
            "CREATING: idleness counts only while a node is READY",
        ),
        (
            {"state": "DELETING", "ended": [ENDED]},
            "DELETING: delete requested by the cleanup daemon",
        ),
        (
            {"state": "DELETING", "node_state": "DELETED", "ended": [ENDED]},
            "DELETED: delete requested by the cleanup daemon",
        ),
        (
            {"state": "WARMING", "node_state": "STOPPED", "ended": [{**ENDED, "action": "stop"}]},
            "STOPPED: stop requested by the cleanup daemon",
        ),
        ({"ended": [{**ENDED, "action": "stop"}]}, "NOTIFIED: deleted in 4m10s"),
        (
            {"node_state": "STARTING", "ended": [{**ENDED, "action": "stop"}]},
            "STARTING: idleness counts only while a node is READY",
        ),
        (
            {"node_state": "STOPPED", "ended": [{**ENDED, **EARLIER_STOP}]},
            "STOPPED: idleness counts only while a node is READY",
        ),
        (
            {"node_state": "DELETED", "ended": [{**ENDED, **EARLIER_STOP}]},
            "DELETED: idleness counts only while a node is READY",
        ),
    ],
)
def test_a_node_says_what_happens_to_it_next(api, changes, said):
    api.when("GET", "/v1/nodes", {"nodes": [node()], "next_page_token": ""})
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(**changes))
    lines = steward("nodes", "idle", ID).stdout.splitlines()
    assert lines[0].split("  ", 1)[1].strip() == said
    assert any(
        line.split() == ["0", "cpu", "QUIET", "2.5", "%", "1m00s", "98", "%", "-"] for line in lines
    )


def signal(name, **changes):
    return {**shown()["signals"][0], "signal": name, **changes}


def test_a_signal_of_which_nothing_is_known_says_why_once_for_all_workers(api):
    stopped = {"level": "UNKNOWN", "reason": "has stopped"}
    held = {"level": "UNKNOWN", "reason": "process 7 (python3) holds /dev/vfio/0"}
    never = {"level": "UNKNOWN", "reason": "cannot be read", "value": None, "at": None}
    claim = {"worker": None, "value": None, "level": "ACTIVE"}
    found = [
        *(signal("cpu", worker=worker, **stopped) for worker in range(10)),
        signal("device", **held),
        signal("network", worker=1, **{**never, "age_seconds": None}),
        signal("job", reason="job j prepares to run", **claim),
    ]
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(signals=found))
    lines = steward("nodes", "idle", ID).stdout.splitlines()
    assert "CPU of workers 0, 1, 2, 3, 4, 5, 6, 7 and 2 more: has stopped" in lines
    assert "device of worker 0: process 7 (python3) holds /dev/vfio/0" in lines
    assert "job: job j prepares to run" in lines
    assert any(
        line.split() == ["1", "network", "UNKNOWN", "-", "-", "98", "%", "-"] for line in lines
    )
    assert any(
        line.split() == ["-", "job", "ACTIVE", "-", "1m00s", "98", "%", "-"] for line in lines
    )


def test_the_table_of_signals_fits_into_eighty_columns(api):
    widest = {
        "worker": 1023,
        "level": "UNKNOWN",
        "value": 1_000_000,
        "coverage_percent": 100,
        "at": "2026-11-04T11:00:00Z",
        "last_active_at": "2026-09-05T12:00:00Z",
    }
    found = [signal("tensorcore_idle_duration", **widest)]
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(signals=found))
    lines = steward("nodes", "idle", ID).stdout.splitlines()
    table = [line for line in lines if "WORKER" in line or "tensorcore" in line.lower()]
    assert len(table) == 3
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "worker 0, 12s ago: 1 SSH session, the TPU is free"),
        ({"sessions": 0}, "worker 0, 12s ago: the TPU is free"),
        (
            {"sessions": 2, "containers": 1, "restarts": 4, "holder": "process 7 (x) holds y"},
            "worker 0, 12s ago: 2 SSH sessions, 1 container, 4 restarts, process 7 (x) holds y",
        ),
        (
            {"sessions": 0, "holder": "process 7 (x) holds y", "held_since": SINCE},
            f"worker 0, 12s ago: process 7 (x) holds y, since at least {format_time(SINCE)}",
        ),
    ],
)
def test_a_node_says_what_its_workers_report(api, changes, said):
    api.when("GET", "/v1/nodes", {"nodes": [node()], "next_page_token": ""})
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(reports=[{**REPORT, **changes}]))
    assert said in steward("nodes", "idle", ID).stdout.splitlines()


def test_watching_looks_again_until_the_node_goes(api):
    path = f"/v1/nodes/{ID}/idle"
    soon = shown(due_at="2026-11-05T12:00:05Z")
    api.when("GET", path, shown(), soon, shown(state="DELETING", ended=[ENDED]))
    lines = steward("nodes", "idle", ID, "--watch").stdout.splitlines()
    assert lines[-2:] == [
        "12:00:00 NOTIFIED: deleted in 5s",
        "12:00:00 DELETING: delete requested by the cleanup daemon",
    ]


def test_watching_goes_on_after_a_stop_and_ends_with_the_node(api):
    path = f"/v1/nodes/{ID}/idle"
    stopped = {**ENDED, "action": "stop"}
    gone = shown(node_state="DELETED", ended=[])
    api.when("GET", path, shown(ended=[stopped]), shown(ended=[stopped]), gone)
    lines = steward("nodes", "idle", ID, "--watch").stdout.splitlines()
    assert lines[-2:] == [
        "12:00:00 NOTIFIED: deleted in 4m10s",
        "12:00:00 DELETED: idleness counts only while a node is READY",
    ]


def test_a_line_of_watch_has_the_time_at_which_it_is_printed(api):
    earlier = shown(judged_at="2026-11-05T11:56:00Z")
    gone = shown(judged_at="2026-11-05T11:56:00Z", node_state="DELETED")
    api.when("GET", f"/v1/nodes/{ID}/idle", earlier, earlier, gone)
    lines = steward("nodes", "idle", ID, "--watch").stdout.splitlines()
    assert "signals of   2026-11-05 11:56:00, 4m00s ago" in lines
    assert lines[-2] == "12:00:00 NOTIFIED: deleted in 4m10s"


def test_the_evidence_of_an_end_does_not_grow_old(api):
    ended = {**ENDED, "at": "2026-11-05T11:59:58Z"}
    reading = signal("cpu", last_active_at="2026-11-05T11:58:58Z")
    over = shown(state="DELETING", node_state="DELETED", ended=[ended], signals=[reading])
    api.when("GET", f"/v1/nodes/{ID}/idle", over)
    lines = steward("nodes", "idle", ID).stdout.splitlines()
    assert "signals of   2026-11-05 12:00:00" in lines
    (cpu,) = [line.split() for line in lines if "cpu" in line]
    assert cpu == ["0", "cpu", "QUIET", "2.5", "%", "58s", "98", "%", "1m00s"]
    assert "worker 0, 10s before: 1 SSH session, the TPU is free" in lines


def test_a_kept_node_says_until_when(api):
    api.when("GET", f"/v1/nodes/{ID}/idle", shown(kept_until="2026-11-05T14:00:00Z"))
    lines = steward("nodes", "idle", ID).stdout.splitlines()
    assert "kept until   2026-11-05 14:00:00" in lines


def test_an_unknown_node_is_not_said_to_be_blocked_by_that(api):
    blind = shown(state="UNKNOWN", held_by=["unknown"])
    api.when("GET", f"/v1/nodes/{ID}/idle", blind)
    assert "blocked by" not in steward("nodes", "idle", ID).stdout


def test_the_whole_answer_is_there_as_json(api):
    api.when("GET", f"/v1/nodes/{ID}/idle", shown())
    assert json.loads(steward("nodes", "idle", ID, "--json").stdout)["state"] == "NOTIFIED"
