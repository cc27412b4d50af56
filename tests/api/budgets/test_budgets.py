"""Budgets over HTTP: set, seen, changed, kept to, and taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.application.budgets.budgets import BudgetService, MessageReach
from service.application.costs.costs import CostService
from service.domain.budgets.admission import OVERRUN_SECONDS
from service.domain.budgets.budget import Payer
from service.domain.clock import HOUR
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.hands import NOON

BODY = {
    "name": "vision monthly",
    "scope": {"team": "vision"},
    "amount": "100",
    "period": "month",
    "thresholds": [50, {"percent": 100, "of": "forecast"}],
    "on_exceeded": "refuse",
}
HOOK = {
    "webhook": "https://hooks.example.com/private-path",
    "webhook_secret": "geheim-geheim-geheim",
}


@pytest.fixture
def put(client):
    """Set a budget; answers its document."""

    def request(**changes):
        body = {key: one for key, one in (BODY | changes).items() if one is not ...}
        answer = client.post("/v1/budgets", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    return request


def test_a_budget_is_answered_with_how_it_stands(client, put):
    made = put()
    assert made["scope"] == {
        "project": None,
        "team": "vision",
        "owner": None,
        "job": None,
        "label": None,
    }
    assert (made["amount"], made["currency"]) == ("100.000000000", "USD")
    assert made["thresholds"] == [
        {"percent": 50, "of": "actual"},
        {"percent": 100, "of": "forecast"},
    ]
    assert (made["starts_at"], made["ends_at"]) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
    assert (made["spent"], made["held"], made["left"]) == (
        "0.000000000",
        "0.000000000",
        "100.000000000",
    )
    assert (made["percent"], made["forecast"], made["version"]) == (0, None, 1)
    detail = client.get(f"/v1/budgets/{made['id']}").json()
    assert detail == made | {"refusals": [], "notifications": []}
    assert client.get("/v1/budgets").json() == {"budgets": [made], "next_page_token": ""}


def test_a_node_over_the_cap_is_refused_with_what_would_fit(client, put, ask):
    made = put()
    ask(ttl_seconds=10 * HOUR)
    answer = client.post(
        "/v1/nodes",
        json={
            "accelerator_type": "v5litepod-8",
            "zone": "us-west4-a",
            "team": "vision",
            "ttl_seconds": HOUR,
        },
    )
    assert answer.status_code == 403
    problem = answer.json()
    assert problem["type"].endswith(":budget-exceeded")
    assert problem["budget_id"] == made["id"]
    assert (problem["asked"], problem["held"], problem["left"]) == (
        "9.760000000",
        "96.160000000",
        "3.840000000",
    )
    assert problem["longest_ttl_seconds"] == 1_440 - OVERRUN_SECONDS
    detail = client.get(f"/v1/budgets/{made['id']}").json()
    assert detail["held"] == "96.160000000"
    assert [refusal["message"] for refusal in detail["refusals"]] == [problem["detail"]]
    ask(ttl_seconds=problem["longest_ttl_seconds"])


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"amount": "0"}, "amount", "more than 0"),
        ({"amount": "-5"}, "amount", "more than 0"),
        ({"amount": "much"}, "amount", "not an amount"),
        ({"amount": "1.0000000001"}, "amount", "more than nine"),
        ({"amount": "99999999999"}, "amount", "more than an amount can hold"),
        ({"amount": 5}, "amount", "string"),
        ({"currency": "EUR"}, "currency", "use USD"),
        ({"period": "fortnight"}, "period", "should be"),
        ({"period": "custom"}, "end", "needs an end"),
        ({"start": "2026-11-05", "end": "2026-11-04"}, "end", "before it starts"),
        ({"end": "soon"}, "end", "not a timestamp"),
        ({"end": "9999-12-31"}, "end", "between 1970 and 2100"),
        ({"start": "0001-01-01T00:00:00+14:00"}, "start", "between 1970 and 2100"),
        ({"period": "custom", "end": "2041-01-01"}, "end", "5 years long at most"),
        ({"amount": "1_000"}, "amount", "not an amount"),
        ({"amount": "\uff11\uff12"}, "amount", "not an amount"),
        ({"tz": "Mars/Olympus"}, "tz", "not a time zone"),
        ({"scope": {"planet": "mars"}}, "scope.planet", "known fields are"),
        ({"scope": {"label": "run"}}, "scope.label", "key:value"),
        ({"scope": {"label": "RUN:17"}}, "labels", "not allowed"),
        ({"scope": {"team": ""}}, "scope.team", "should not be empty"),
        ({"thresholds": [0]}, "thresholds", "out of range"),
        ({"thresholds": [1_001]}, "thresholds", "out of range"),
        ({"thresholds": [80, 80]}, "thresholds", "twice"),
        ({"on_exceeded": "panic"}, "on_exceeded", "should be"),
        ({"burn_rate": 1}, "burn_rate", "between 2 and 100"),
        ({"grace_seconds": -1}, "grace_seconds", "between 0 and"),
        ({"webhook": "https://hooks.example.com"}, "webhook_secret", "16 characters"),
        ({**HOOK, "webhook": "ftp://x"}, "webhook", "http"),
        ({**HOOK, "webhook": "http://127.0.0.1/x"}, "webhook", "STEWARD_WEBHOOK_ALLOW_PRIVATE"),
        ({**HOOK, "webhook_secret": "short"}, "webhook_secret", "at least 16"),
        ({**HOOK, "webhook_secret": "geheim-geheim\0geheim"}, "webhook_secret", "NUL"),
        ({**HOOK, "webhook_secret": "geheim-geheim\ngeheim"}, "webhook_secret", "line breaks"),
        ({**HOOK, "webhook_secret": " " * 16}, "webhook_secret", "blanks alone"),
        ({"emails": ["ada"]}, "emails", "not an e-mail address"),
        ({"name": ""}, "name", "should not be empty"),
        ({"color": "red"}, "color", "unknown field"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_with_its_field(client, changes, field, said):
    answer = client.post("/v1/budgets", json=BODY | changes)
    assert answer.status_code == 422
    problem = answer.json()
    named = problem.get("field") or problem["errors"][0]["field"]
    assert named.startswith(field)
    assert said in problem["detail"]
    assert client.get("/v1/budgets").json()["budgets"] == []


def test_a_name_is_taken_once(client, put):
    made = put()
    answer = client.post("/v1/budgets", json=BODY)
    assert answer.status_code == 409
    assert (answer.json()["field"], answer.json()["budget_id"]) == ("name", made["id"])


def test_the_same_request_with_the_same_key_is_one_budget(client):
    key = {"Idempotency-Key": "k-1"}
    first = client.post("/v1/budgets", json=BODY, headers=key)
    again = client.post("/v1/budgets", json=BODY, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["Idempotency-Hit"] == "true"
    assert first.headers["Location"] == f"/v1/budgets/{first.json()['id']}"
    other = client.post("/v1/budgets", json=BODY | {"amount": "7"}, headers=key)
    assert other.status_code == 422


def test_a_request_that_is_repeated_after_the_deletion_makes_no_second_budget(client):
    key = {"Idempotency-Key": "k-1"}
    made = client.post("/v1/budgets", json=BODY, headers=key).json()
    client.delete(f"/v1/budgets/{made['id']}")
    late = client.post("/v1/budgets", json=BODY, headers=key)
    assert late.status_code == 409
    assert late.json()["detail"] == "the budget of this request was deleted; use another key"
    assert client.get("/v1/budgets").json()["budgets"] == []
    assert client.post("/v1/budgets", json=BODY, headers={"Idempotency-Key": "k-2"}).is_success


def test_there_are_no_more_budgets_than_can_be_looked_at(client, put, monkeypatch):
    monkeypatch.setattr("service.application.budgets.budgets.MAX_BUDGETS", 1)
    made = put()
    answer = client.post("/v1/budgets", json=BODY | {"name": "one more"})
    assert answer.status_code == 409
    assert "delete one first" in answer.json()["detail"]
    client.delete(f"/v1/budgets/{made['id']}")
    put(name="one more")


def test_secrets_are_never_shown_again(client, put):
    made = put(**HOOK)
    for answer in (
        client.get("/v1/budgets"),
        client.get(f"/v1/budgets/{made['id']}"),
        client.patch(f"/v1/budgets/{made['id']}", json={"amount": "7"}),
        client.delete(f"/v1/budgets/{made['id']}"),
    ):
        assert "geheim" not in answer.text
        assert "private-path" not in answer.text
        assert "https://hooks.example.com/..." in answer.text


def test_only_what_is_said_is_changed(client, put):
    made = put(**HOOK)
    path = f"/v1/budgets/{made['id']}"
    answer = client.patch(path, json={"amount": "250.5", "thresholds": [90], "tz": "Asia/Tokyo"})
    assert answer.status_code == 200
    after = answer.json()
    assert (after["amount"], after["version"]) == ("250.500000000", 2)
    assert after["thresholds"] == [{"percent": 90, "of": "actual"}]
    assert after["starts_at"] == "2026-10-31T15:00:00Z"
    assert (after["name"], after["scope"], after["webhook"]) == (
        made["name"],
        made["scope"],
        made["webhook"],
    )
    cleared = client.patch(path, json={"scope": None, "webhook": None, "thresholds": None}).json()
    assert cleared["scope"]["team"] is None
    assert (cleared["webhook"], cleared["thresholds"]) == ("", [])
    same = client.patch(path, json={})
    assert same.json()["version"] == cleared["version"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"amount": "0"}, 422),
        ({"amount": None}, 422),
        ({"name": "other"}, 409),
        ({"period": "custom"}, 422),
        ({"nonsense": 1}, 422),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(client, put, changes, status):
    put(name="other")
    made = put()
    path = f"/v1/budgets/{made['id']}"
    assert client.patch(path, json=changes).status_code == status
    assert client.get(path).json()["version"] == 1


def test_a_private_webhook_that_was_allowed_once_is_in_no_other_changes_way(client, units, clock):
    shared = units, PriceBookCache(), clock
    allowing = BudgetService(
        *shared, CostService(*shared), reach=MessageReach(private_webhooks=True)
    )
    private = "http://127.0.0.1:8000/x"
    made = allowing.create(factories.budget(webhook=private, secret="geheim-geheim-geheim"))
    path = f"/v1/budgets/{made.shown.budget.id}"
    assert client.patch(path, json={"amount": "7"}).status_code == 200
    assert client.patch(path, json={"webhook": private}).status_code == 200
    assert client.patch(path, json={"webhook": f"{private}/y"}).json()["field"] == "webhook"


def test_a_version_that_is_not_the_present_one_is_not_changed(client, put):
    path = f"/v1/budgets/{put()['id']}"
    tag = {"If-Match": client.get(path).headers["ETag"]}
    assert client.patch(path, json={"amount": "7"}, headers=tag).headers["ETag"] == '"2"'
    assert client.patch(path, json={"amount": "8"}, headers=tag).status_code == 412
    assert client.delete(path, headers=tag).status_code == 412
    assert client.delete(path, headers={"If-Match": '"2"'}).status_code == 200


def test_a_budget_that_deletes_and_tells_nobody_is_taken_and_says_so(client, put):
    made = put(on_exceeded="delete", grace_seconds=0)
    (said,) = made["warnings"]
    assert said.startswith("no recipient is notified before its nodes are deleted")
    assert client.get(f"/v1/budgets/{made['id']}").json()["warnings"] == [said]
    mailed = put(name="mailed", on_exceeded="delete", emails=["ada@example.com"])
    assert "STEWARD_SMTP_URL is not set" in mailed["warnings"][0]
    assert put(name="hooked", on_exceeded="delete", **HOOK)["warnings"] == []
    assert put(name="refusing")["warnings"] == []


def test_what_is_taken_away_refuses_nobody(client, put, ask):
    made = put(amount="1")
    gone = client.delete(f"/v1/budgets/{made['id']}")
    assert gone.json()["name"] == made["name"]
    ask()
    for method in ("get", "delete"):
        assert getattr(client, method)(f"/v1/budgets/{made['id']}").status_code == 404
    assert client.patch(f"/v1/budgets/{made['id']}", json={}).status_code == 404


def test_a_budget_of_another_time_says_so(client, put):
    made = put(start="2027-01-01")
    for name in ("starts_at", "ends_at", "spent", "held", "left", "percent", "as_of"):
        assert made[name] is None
    assert made["start"] == "2027-01-01T00:00:00Z"


def test_the_list_is_cut_into_pages(client, put):
    for name in "cab":
        put(name=name)
    first = client.get("/v1/budgets?page_size=2").json()
    second = client.get(f"/v1/budgets?page_size=2&page_token={first['next_page_token']}").json()
    assert [budget["name"] for budget in (*first["budgets"], *second["budgets"])] == ["a", "b", "c"]


def test_what_is_left_for_somebody_is_said_of_each_of_his_budgets(services, put, ask):
    put(name="wide", scope=..., amount="1000", on_exceeded="notify")
    put()
    ask(ttl_seconds=5 * HOUR)
    ada = Payer(factories.PROJECT, "vision", "ada", "", {})
    mine, wide = services.budgets.list_shares(ada)
    assert (mine.budget.name, mine.left) == ("vision monthly", 51_840_000_000)
    assert mine.window.start < NOON < mine.window.end
    assert wide.budget.name == "wide"
    (theirs,) = services.budgets.list_shares(replace(ada, team="speech"))
    assert theirs == wide


def test_where_no_budget_covers_somebody_there_is_no_share(services, put):
    put()
    assert services.budgets.list_shares(Payer(factories.PROJECT, "speech", "ada", "", {})) == []
