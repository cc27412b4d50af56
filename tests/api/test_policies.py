"""Idle policies over HTTP: read, set, deleted, and never with a secret in the answer."""

from __future__ import annotations

import pytest

SECRET = "a secret of some length"
HOOK = {"webhook": "https://hooks.example.com/private/x", "secret": SECRET}
MAIL = {"emails": ["ada@example.com"]}
DELETES = {"idle_after_seconds": 7_200, "grace_seconds": 60, "action": "delete"}


def test_the_shipped_default_is_shown_before_anybody_wrote_it(client):
    answer = client.get("/v1/cleanup/policies/default")
    assert answer.json() == {
        "scope": "default",
        "idle_after_seconds": 3_600,
        "grace_seconds": 900,
        "action": "notify",
        "also": [],
        "recipients": [],
        "version": 0,
        "updated_at": None,
    }
    assert answer.headers["etag"] == '"0"'
    missing = client.get("/v1/cleanup/policies/team:vision")
    assert missing.status_code == 404
    assert client.delete("/v1/cleanup/policies/team:vision").status_code == 404


def test_a_policy_is_set_listed_and_deleted_without_its_secret(client):
    body = DELETES | {"also": ["crash_loop"], "recipients": [HOOK, MAIL]}
    answer = client.put("/v1/cleanup/policies/team:vision", json=body)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')
    shown = answer.json()
    assert shown["recipients"] == [
        {"webhook": "https://hooks.example.com/...", "format": "steward", "emails": []},
        {"webhook": "", "format": "steward", "emails": ["ada@example.com"]},
    ]
    assert (shown["also"], shown["updated_at"]) == (["crash_loop"], "2026-11-05T12:00:00Z")
    listed = client.get("/v1/cleanup/policies", params={"page_size": 1})
    assert [policy["scope"] for policy in listed.json()["policies"]] == ["default"]
    listed = client.get("/v1/cleanup/policies", params={"page_token": "1"})
    assert listed.json() == {"policies": [shown], "next_page_token": ""}
    gone = client.delete("/v1/cleanup/policies/team:vision", headers={"If-Match": '"1"'})
    assert gone.json() == shown
    assert client.get("/v1/cleanup/policies/team:vision").status_code == 404
    for told in (answer, listed, gone):
        assert SECRET not in told.text
        assert "private" not in told.text


def test_the_policy_of_a_team_whose_name_holds_a_slash_can_be_set(client):
    path = "/v1/cleanup/policies/team:vision%2Flarge%20models"
    assert client.put(path, json=DELETES).json()["scope"] == "team:vision/large models"
    assert client.get(path).json()["action"] == "delete"


def test_a_policy_that_changed_since_it_was_seen_is_not_written_over(client):
    client.put("/v1/cleanup/policies/default", json=DELETES)
    for method in ("PUT", "DELETE"):
        body = {} if method == "DELETE" else {"json": {"grace_seconds": 1}}
        answer = client.request(
            method, "/v1/cleanup/policies/default", headers={"If-Match": '"0"'}, **body
        )
        assert answer.status_code == 412
    assert client.get("/v1/cleanup/policies/default").json()["grace_seconds"] == 60


@pytest.mark.parametrize(
    ("scope", "body", "said"),
    [
        ("vision", {}, "not a scope"),
        ("project:nowhere", {}, "not a project of this service"),
        ("default", {"idle_after_seconds": 60}, "the least is 300 s"),
        ("default", {"idle_after_seconds": 2_592_001}, "idle_after_seconds"),
        ("default", {"grace_seconds": -1}, "grace_seconds"),
        ("default", {"grace_seconds": 1.5}, "grace_seconds"),
        ("default", {"action": "kill"}, "action"),
        ("default", {"also": ["crash_loop"]}, "leave out also"),
        ("default", {"recipients": [{}]}, "either a webhook or emails"),
        ("default", {"recipients": [HOOK | MAIL]}, "either a webhook or emails"),
        ("default", {"recipients": [{"webhook": "http://127.0.0.1/", "secret": SECRET}]}, "public"),
        ("default", {"recipients": [{"webhook": HOOK["webhook"]}]}, "needs a secret"),
        ("default", {"recipients": [HOOK | {"format": "teams"}]}, "format"),
        ("default", {"recipients": [MAIL] * 21}, "recipients"),
        ("default", {"idle_after": 3}, "idle_after"),
    ],
)
def test_what_cannot_be_set_is_refused_with_what_would_do(client, scope, body, said):
    answer = client.put(f"/v1/cleanup/policies/{scope}", json=body)
    assert answer.status_code == 422
    assert said in answer.text
    assert SECRET not in answer.text
    assert len(client.get("/v1/cleanup/policies").json()["policies"]) == 1
    assert client.get("/v1/cleanup/policies/default").json()["version"] == 0


def test_an_idle_time_that_is_too_short_is_answered_with_the_least(client):
    answer = client.put("/v1/cleanup/policies/default", json={"idle_after_seconds": 299})
    assert (answer.json()["field"], answer.json()["least"]) == ("idle_after_seconds", 300)


def test_a_node_says_which_policy_applies_and_what_is_really_done(client, ask):
    node = ask(owner="ada@example.com")
    path = f"/v1/nodes/{node['id']}/policy"
    client.put("/v1/cleanup/policies/team:vision", json=DELETES | {"recipients": [HOOK]})
    assert client.get(path).json() == {
        "node_id": node["id"],
        "source": "team:vision",
        "version": 1,
        "idle_after_seconds": 7_200,
        "grace_seconds": 60,
        "action": "delete",
        "also": [],
        "applied_action": "observe",
        "limits": ["STEWARD_IDLE_MODE is observe"],
        "recipients": [
            {"webhook": "https://hooks.example.com/...", "format": "steward", "emails": []},
            {"webhook": "", "format": "steward", "emails": ["ada@example.com"]},
        ],
        "told_by": "team:vision",
        "ends": [],
    }
    assert client.get("/v1/nodes/nobody/policy").status_code == 404
