"""Keeping nodes, heartbeats and policies on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from service.cli.app import app
from service.cli.nodes import jobs_of_node
from tests.cli.given import ID, node, page, steward

PATH = f"/v1/nodes/{ID}"
KEPT = {"until": "2026-11-05T16:00:00Z", "reason": "a demo"}


def policy(**changes):
    return {
        "scope": "team:vision",
        "idle_after_seconds": 3_600,
        "grace_seconds": 900,
        "action": "delete",
        "also": [],
        "recipients": [],
        "version": 3,
        "updated_at": "2026-11-05T11:00:00Z",
        **changes,
    }


def applied(**changes):
    rule = {name: value for name, value in policy().items() if name.endswith("seconds")}
    return {
        "node_id": ID,
        "source": "team:vision",
        "version": 3,
        **rule,
        "action": "delete",
        "also": ["crash_loop"],
        "applied_action": "notify",
        "limits": ["STEWARD_IDLE_MODE is notify"],
        "recipients": [
            {"webhook": "https://hooks.example.com/...", "format": "steward", "emails": []},
            {"webhook": "", "format": "steward", "emails": ["ada@example.com"]},
        ],
        "told_by": "team:vision",
        "ends": [],
        **changes,
    }


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--for", "4h"], {"for_seconds": 14_400}),
        (["--for", "1d12h"], {"for_seconds": 129_600}),
        (["--until", "2026-11-06"], {"until": "2026-11-06"}),
        (["--until", "2026-11-06T12:00:00Z"], {"until": "2026-11-06T12:00:00Z"}),
    ],
)
def test_keep_says_for_how_long_and_why(api, typed, said):
    api.when("POST", f"{PATH}:keep", node(keep=KEPT, warnings=[]))
    shown = steward("nodes", "keep", ID, *typed, "--reason", "a demo")
    assert shown.stdout == "trainer is kept until 2026-11-05 16:00:00 UTC: a demo\n"
    assert api.calls[0].body == {**said, "reason": "a demo"}


@pytest.mark.parametrize(
    "typed",
    [
        ["--reason", "a demo"],
        ["--for", "4h"],
        ["--for", "4h", "--until", "2026-11-06", "--reason", "a demo"],
        ["--for", "soon", "--reason", "a demo"],
        ["--until", "4h", "--reason", "a demo"],
    ],
)
def test_keep_asks_nothing_where_it_is_not_clear_what(api, typed):
    assert steward("nodes", "keep", ID, *typed).exit_code == 2
    assert api.calls == []


def test_keep_finds_a_node_by_its_name_and_notes_a_longer_keep(api):
    api.when("GET", "/v1/nodes", page(node()))
    api.when("POST", f"{PATH}:keep", node(keep=KEPT, warnings=["it is kept until then already"]))
    shown = steward("nodes", "keep", "trainer", "--for", "1h", "--reason", "a demo")
    assert shown.stdout.splitlines()[-1] == "note: it is kept until then already"


def test_unkeep_ends_the_keep_and_says_what_follows(api):
    api.when("DELETE", f"{PATH}/keep", node(keep=None, warnings=["the node goes"]))
    shown = steward("nodes", "unkeep", ID).stdout
    assert shown == "trainer is no longer kept\nnote: the node goes\n"


def test_delete_and_stop_say_that_a_keep_ended(api):
    ends = node(asked="absent", keep=None, warnings=["the keep until then ends with that"])
    api.when("DELETE", PATH, ends)
    api.when("POST", f"{PATH}:stop", ends)
    for verb in ("delete", "stop"):
        shown = steward("nodes", verb, ID).stdout.splitlines()
        assert shown[0] == "note: the keep until then ends with that"


def test_show_says_until_when_a_node_is_kept_and_its_own_policy(api):
    idle = {"after_seconds": 600, "grace_seconds": 60, "action": "delete", "also": ["no_progress"]}
    later = {"until": "2100-01-01T00:00:00Z", "reason": "a demo"}
    api.when("GET", PATH, node(keep=later, ends_after_keep="job 7 is SUCCEEDED", idle=idle))
    shown = steward("nodes", "show", ID).stdout
    assert "2100-01-01 00:00:00 UTC (a demo)" in shown
    assert "Goes after that  job 7 is SUCCEEDED" in shown
    assert "delete after 10m00s with 1m00s of grace, also no_progress" in shown


@pytest.mark.parametrize(
    ("keep", "said"),
    [
        (None, False),
        ({"until": "2026-01-01T00:00:00Z", "reason": "a demo"}, False),
        ({"until": None, "reason": "label keep-until=soon"}, True),
    ],
)
def test_show_is_silent_of_a_keep_that_is_over(api, keep, said):
    api.when("GET", PATH, node(keep=keep, ends_after_keep="", idle=None))
    shown = steward("nodes", "show", ID).stdout
    assert ("Kept until" in shown) == said
    assert ("an invalid date (label keep-until=soon)" in shown) == said


def test_a_heartbeat_holds_for_fifteen_minutes_unless_told_otherwise(api):
    beat = {"node_id": ID, "at": "", "expires_at": "2026-11-05T12:15:00Z", "note": ""}
    api.when("POST", f"{PATH}/heartbeat", beat)
    assert steward("nodes", "heartbeat", ID).stdout == "active until 2026-11-05 12:15:00 UTC\n"
    steward("nodes", "heartbeat", ID, "--expires", "2h", "--note", "epoch 7")
    assert [call.body for call in api.calls] == [
        {"expires_seconds": 900},
        {"expires_seconds": 7_200, "note": "epoch 7"},
    ]


def test_a_heartbeat_token_stands_alone_on_its_line(api):
    made = {"token": "hb_x", "node_id": ID, "incarnation": 1, "expires_at": "2026-12-05T12:00:00Z"}
    api.when("POST", f"{PATH}/heartbeat-token", made, status=201)
    shown = steward("nodes", "heartbeat-token", ID)
    assert shown.stdout == "hb_x\n"
    assert "not shown again; valid until 2026-12-05 12:00:00 UTC" in shown.stderr


def test_the_policy_of_a_node_says_whence_it_comes_and_why_less_is_done(api):
    api.when("GET", f"{PATH}/policy", applied())
    lines = steward("nodes", "policy", ID).stdout.splitlines()
    assert [line.split("  ", 1)[0] for line in lines] == [
        "Policy of",
        "Rule",
        "Action taken",
        "Limited by",
        "Notifies",
        "Recipients from",
    ]
    assert lines[1].endswith("delete after 1h00m with 15m00s of grace, also crash_loop")
    assert lines[4].endswith("https://hooks.example.com/..., ada@example.com")
    assert max(map(len, lines)) <= 80
    api.when("GET", f"{PATH}/policy", applied(source="node", recipients=[], told_by=""))
    assert steward("nodes", "policy", ID).stdout.splitlines()[0].endswith("the node itself")


def test_the_policy_of_a_node_says_what_may_end_it_and_what_holds_that_back(api):
    ttl = {"rank": 5, "ender": "ttl", "reason": "its time to live of 3600 s"}
    idle = {"rank": 6, "ender": "idle", "reason": "its own policy deletes idle nodes"}
    ends = [
        ttl | {"at": "2026-11-05T13:00:00Z", "held_by": ["keep"]},
        idle | {"at": None, "held_by": []},
    ]
    api.when("GET", f"{PATH}/policy", applied(ends=ends))
    lines = steward("nodes", "policy", ID).stdout.splitlines()
    assert lines[-2].split() == [
        *("5", "ttl", "2026-11-05", "13:00:00", "keep", "its", "time", "to", "live", "of"),
        *("3600", "s"),
    ]
    assert lines[-1].split()[:4] == ["6", "idle", "-", "-"]


@pytest.mark.parametrize(
    ("typed", "idle"),
    [
        (
            ["--idle-after", "10m"],
            {
                "after_seconds": 600,
                "grace_seconds": 900,
                "action": "delete",
                "also": ["crash_loop"],
            },
        ),
        (
            ["--action", "stop", "--grace", "30s", "--also", "none"],
            {"after_seconds": 3_600, "grace_seconds": 30, "action": "stop", "also": []},
        ),
    ],
)
def test_what_is_not_said_of_the_idle_policy_stays_as_it_applies(api, typed, idle):
    api.when("GET", f"{PATH}/policy", applied())
    api.when("PATCH", PATH, node(idle=idle, policy=applied(source="node"), warnings=["less"]))
    shown = steward("nodes", "set", ID, *typed).stdout.splitlines()
    assert api.calls[1].body == {"idle": idle}
    assert shown[0].startswith("the idle policy of trainer is its own: delete after 1h00m")
    assert shown[1] == "note: less"


def test_a_node_inherits_again_and_lives_as_long_as_is_said(api):
    api.when("PATCH", PATH, node(ttl_seconds=7_200, policy=applied(), warnings=[]))
    shown = steward("nodes", "set", ID, "--inherit", "--ttl", "2h", "--team", "nlp").stdout
    assert api.calls[0].body == {"team": "nlp", "ttl_seconds": 7_200, "idle": None}
    assert "trainer lives 2h00m from READY: until 2026-11-05 13:58:00 UTC" in shown
    assert "the idle policy of trainer is that of team:vision" in shown
    api.when("PATCH", PATH, node(ttl_seconds=None, deletes_at=None, policy=applied(), warnings=[]))
    shown = steward("nodes", "set", ID, "--no-ttl").stdout
    assert shown == "trainer lives until it is deleted\n"
    assert api.calls[1].body == {"ttl_seconds": None}


@pytest.mark.parametrize(
    "typed", [[], ["--ttl", "1h", "--no-ttl"], ["--inherit", "--grace", "1m"], ["--ttl", "long"]]
)
def test_set_asks_nothing_where_it_is_not_clear_what(api, typed):
    assert steward("nodes", "set", ID, *typed).exit_code == 2
    assert api.calls == []


def test_create_says_when_the_node_is_idle(api):
    api.when("POST", "/v1/nodes", node(warnings=["idle.action is delete, and observe is done"]))
    typed = ["--idle-after", "10m", "--grace", "30s", "--action", "delete", "--also", "crash_loop"]
    shown = steward("nodes", "create", "--accelerator-type", "v5litepod-8", *typed).stdout
    assert api.calls[0].body["idle"] == {
        "after_seconds": 600,
        "grace_seconds": 30,
        "action": "delete",
        "also": ["crash_loop"],
    }
    assert "note: idle.action is delete, and observe is done" in shown
    steward("nodes", "create", "--accelerator-type", "v5litepod-8")
    assert "idle" not in api.calls[1].body


def test_policies_are_listed_and_shown(api):
    mail = {"webhook": "", "format": "steward", "emails": ["ada@example.com"]}
    found = [policy(scope="default", updated_at=None, version=0), policy(recipients=[mail])]
    api.when("GET", "/v1/cleanup/policies", {"policies": found, "next_page_token": ""})
    lines = steward("cleanup", "policies").stdout.splitlines()
    assert lines[1].split() == ["default", "1h00m", "15m00s", "delete", "-", "nobody"]
    assert lines[2].split()[-1] == "ada@example.com"
    assert max(map(len, lines)) <= 80
    api.when("GET", "/v1/cleanup/policies/team:vision", found[1])
    shown = steward("cleanup", "policies", "show", "team:vision").stdout
    assert "delete after 1h00m with 15m00s of grace" in shown
    assert json.loads(steward("cleanup", "policies", "--json").stdout)["policies"] == found


def test_a_policy_is_set_over_what_was_read_and_keeps_what_is_not_said(api):
    known = {"policies": [policy(also=["no_progress"])], "next_page_token": ""}
    api.when("GET", "/v1/cleanup/policies", known)
    api.when("PUT", "/v1/cleanup/policies/team:vision", policy())
    steward("cleanup", "policies", "set", "team:vision", "--action", "stop")
    call = api.calls[1]
    assert call.headers["If-Match"] == '"3"'
    assert call.body == {
        "idle_after_seconds": 3_600,
        "grace_seconds": 900,
        "action": "stop",
        "also": ["no_progress"],
    }


def test_a_new_policy_says_only_what_was_typed_and_makes_a_secret_up(api):
    api.when("GET", "/v1/cleanup/policies", {"policies": [], "next_page_token": ""})
    api.when("PUT", "/v1/cleanup/policies/team:a%2Fb", policy())
    hooks = ["--webhook", "https://hooks.example.com/x", "--slack", "https://hooks.slack.com/y"]
    shown = steward(
        *("cleanup", "policies", "set", "team:a/b", "--email", "ada@example.com"), *hooks
    )
    call = api.calls[1]
    assert "If-Match" not in call.headers
    webhook, slack, mail = call.body.pop("recipients")
    assert call.body == {}
    assert webhook["webhook"] == "https://hooks.example.com/x"
    assert len(webhook["secret"]) >= 16
    assert webhook["secret"] in shown.stderr
    assert webhook["secret"] not in shown.stdout
    assert slack == {"webhook": "https://hooks.slack.com/y", "format": "slack"}
    assert mail == {"emails": ["ada@example.com"]}


def test_recipients_are_removed_only_where_that_is_said(api):
    api.when("GET", "/v1/cleanup/policies", {"policies": [], "next_page_token": ""})
    api.when("PUT", "/v1/cleanup/policies/default", policy(scope="default"))
    steward("cleanup", "policies", "set", "default", "--tell-nobody")
    assert api.calls[1].body == {"recipients": []}
    assert steward("cleanup", "policies", "set", "default").exit_code == 2
    both = ["--tell-nobody", "--email", "ada@example.com"]
    assert steward("cleanup", "policies", "set", "default", *both).exit_code == 2
    assert len(api.calls) == 2


def test_a_policy_is_deleted(api):
    api.when("DELETE", "/v1/cleanup/policies/team:vision", policy())
    shown = steward("cleanup", "policies", "delete", "team:vision").stdout
    assert shown == "team:vision has no policy of its own now\n"


def jobs(*states, node_id=ID):
    found = [
        {"id": f"job-{number}", "node_id": node_id, "state": state}
        for number, state in enumerate(states)
    ]
    return {"jobs": found, "next_page_token": ""}


ENDS = {"delete": ("DELETE", PATH), "stop": ("POST", f"{PATH}:stop")}


@pytest.mark.parametrize("verb", ENDS)
def test_a_node_on_which_a_job_runs_is_not_ended_unasked(api, verb):
    api.when("GET", "/v1/jobs", jobs("SUCCEEDED", "RUNNING"))
    api.when(*ENDS[verb], node(asked="absent"), status=202)
    refused = steward("nodes", verb, ID)
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"job job-1 runs on node {ID}, and ends with it; cancel the job, or repeat with --force\n"
    )
    assert [(call.method, call.path) for call in api.calls] == [("GET", "/v1/jobs")]
    assert api.calls[0].query["node_id"] == [ID]


@pytest.mark.parametrize("verb", ENDS)
def test_force_ends_a_node_on_which_a_job_runs_without_a_question(api, verb):
    api.when(*ENDS[verb], node(asked="absent"), status=202)
    assert steward("nodes", verb, ID, "--force").exit_code == 0
    assert [(call.method, call.path, call.query) for call in api.calls] == [(*ENDS[verb], {})]


@pytest.mark.parametrize(
    "found", [jobs(), jobs("FAILED", "QUEUED", "PREEMPTED"), jobs("RUNNING", node_id="another")]
)
@pytest.mark.parametrize("verb", ENDS)
def test_a_node_on_which_no_job_runs_is_ended_without_a_question(api, verb, found):
    api.when("GET", "/v1/jobs", found)
    api.when(*ENDS[verb], node(asked="absent"), status=202)
    assert steward("nodes", verb, ID).exit_code == 0
    assert api.calls[-1].query == {}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_whoever_sits_at_a_terminal_is_asked(api, monkeypatch, answer, code):
    api.when("GET", "/v1/jobs", jobs("RUNNING"))
    api.when("POST", f"{PATH}:stop", node(asked="stopped"), status=202)
    monkeypatch.setattr(jobs_of_node, "can_ask", lambda: True)
    asked = CliRunner().invoke(app, ["nodes", "stop", ID], input=answer)
    assert asked.exit_code == code
    assert "Go on?" in asked.stderr
    assert (api.calls[-1].method == "POST") == (code == 0)
