"""Null in the body of a PATCH: it has a meaning that the document tells, or it is refused. What is
left out stays in either case."""

from __future__ import annotations

import pytest

from tests.api.conftest import NODE_REQUEST

NODE = NODE_REQUEST | {
    "owner": "ada",
    "labels": {"run": "17"},
    "idle": {"after_seconds": 600, "grace_seconds": 60, "action": "delete"},
    "ttl_seconds": 3_600,
}
BUDGET = {
    "name": "vision",
    "amount": "100",
    "period": "month",
    "currency": "USD",
    "scope": {"team": "vision"},
    "tz": "Europe/Berlin",
    "start": "2026-11-01T00:00:00Z",
    "end": "2027-11-01T00:00:00Z",
    "thresholds": [80],
    "on_exceeded": "refuse",
    "burn_rate": 4,
    "grace_seconds": 60,
    "webhook": "https://hooks.example.com/budgets",
    "webhook_secret": "a long random text",
    "emails": ["ada@example.com"],
}
BEFORE = {"/v1/nodes": NODE, "/v1/budgets": BUDGET}
SCHEMAS = {"/v1/nodes": "UpdateRequest", "/v1/budgets": "BudgetChange"}
MEANT: dict[tuple[str, str], object] = {
    ("/v1/nodes", "idle"): None,
    ("/v1/nodes", "ttl_seconds"): None,
    ("/v1/budgets", "scope"): dict.fromkeys(("project", "team", "owner", "job", "label")),
    ("/v1/budgets", "tz"): "UTC",
    ("/v1/budgets", "start"): None,
    ("/v1/budgets", "end"): None,
    ("/v1/budgets", "thresholds"): [],
    ("/v1/budgets", "on_exceeded"): "notify",
    ("/v1/budgets", "burn_rate"): None,
    ("/v1/budgets", "grace_seconds"): 900,
    ("/v1/budgets", "webhook"): "",
    ("/v1/budgets", "emails"): [],
}
"""What a field is after null, where null has a meaning and the field is shown."""

NEVER_SHOWN = {("/v1/budgets", "webhook_secret")}
FIELDS = [(path, field) for path, body in BEFORE.items() for field in body]
REFUSED = sorted({*FIELDS} - {*MEANT, *NEVER_SHOWN} - {("/v1/nodes", "accelerator_type")})
REFUSED.remove(("/v1/nodes", "zone"))


@pytest.fixture
def stored(client):
    """Make one with every field set. Returns its path and its document."""

    def make(path):
        made = client.post(path, json=BEFORE[path])
        assert made.status_code == 201, made.text
        address = f"{path}/{made.json()['id']}"
        return address, client.get(address).json()

    return make


def nullable(schema):
    return {"type": "null"} in schema.get("anyOf", ())


def test_the_document_allows_null_where_it_has_a_meaning_and_says_which(document):
    patched = {
        path.rpartition("/")[0] for path, methods in document["paths"].items() if "patch" in methods
    }
    assert patched == set(BEFORE)
    allowed = set()
    for path, name in SCHEMAS.items():
        for field, schema in document["components"]["schemas"][name]["properties"].items():
            assert (path, field) in FIELDS
            assert not nullable(schema) or "Null" in schema["description"], field
            assert "default" not in schema or field == "currency", f"{field} stays if left out"
            allowed |= {(path, field)} if nullable(schema) else set()
    assert allowed == set(MEANT) | NEVER_SHOWN


@pytest.mark.parametrize(("path", "field"), MEANT)
def test_null_sets_a_field_to_its_meaning_and_no_other_field(client, stored, path, field):
    address, before = stored(path)
    assert before[field] != MEANT[path, field]
    answer = client.patch(address, json={field: None})
    assert answer.status_code == 200, answer.text
    after = client.get(address).json()
    assert after[field] == MEANT[path, field]
    own = set(BEFORE[path]) & set(before) - {field}
    assert {name: after[name] for name in own} == {name: before[name] for name in own}


@pytest.mark.parametrize(("path", "field"), REFUSED)
def test_null_without_a_meaning_is_refused_by_name_and_changes_nothing(client, stored, path, field):
    address, before = stored(path)
    answer = client.patch(address, json={field: None})
    assert answer.status_code == 422
    said = {"field": field, "message": "cannot be null; leave it out, or give a value"}
    assert answer.json()["errors"] == [said]
    assert client.get(address).json() == before


def test_null_as_the_value_of_a_label_removes_the_label(client, stored):
    address, _ = stored("/v1/nodes")
    labels = {"run": None, "draft": "yes"}
    assert client.patch(address, json={"labels": labels}).json()["labels"] == {"draft": "yes"}


def test_null_as_the_secret_goes_with_null_as_the_webhook_alone(client, stored):
    address, before = stored("/v1/budgets")
    refused = client.patch(address, json={"webhook_secret": None})
    assert (refused.status_code, refused.json()["field"]) == (422, "webhook_secret")
    assert client.get(address).json() == before
    answer = client.patch(address, json={"webhook_secret": None, "webhook": None})
    assert (answer.status_code, answer.json()["webhook"]) == (200, "")


def test_an_empty_body_changes_nothing(client, stored):
    for path in BEFORE:
        address, before = stored(path)
        assert client.patch(address, json={}).status_code == 200
        assert client.get(address).json() == before
