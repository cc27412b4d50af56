"""Heartbeats over HTTP, with a token that opens nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.http.auth import PUBLIC
from service.application.cleanup.heartbeats import MOST_A_MINUTE

ADMIN = {"Authorization": "Bearer s3cret-t0ken"}
HEARTBEAT = "/v1/nodes/{node_id}/heartbeat"


@pytest.fixture
def guarded(services):
    with TestClient(create_app(services, "s3cret-t0ken")) as client:
        yield client


@pytest.fixture
def node(ask, units):
    """A node that was placed."""
    made = ask()
    with units() as unit:
        unit.nodes.save(replace(unit.nodes.get(made["id"]), attempt=1))
    return made


@pytest.fixture
def path(node):
    return HEARTBEAT.format(node_id=node["id"])


@pytest.fixture
def token(guarded, path):
    """A new heartbeat token of the node."""
    made = guarded.post(f"{path}-token", headers=ADMIN)
    assert made.status_code == 201
    return made.json()["token"]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_heartbeat_says_until_when_it_holds(client, node, path):
    assert client.post(path).json() == {
        "node_id": node["id"],
        "at": "2026-11-05T12:00:00Z",
        "expires_at": "2026-11-05T12:15:00Z",
        "note": "",
    }
    sent = {"at": "2026-11-05T11:59:00Z", "expires_seconds": 3_600, "note": "epoch\n7"}
    shown = client.post(path, json=sent).json()
    assert (shown["expires_at"], shown["note"]) == ("2026-11-05T12:59:00Z", "epoch 7")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"at": "2026-11-05T12:01:01Z"}, "set the clock of the machine"),
        ({"at": "noon"}, "at"),
        ({"expires_seconds": 0}, "expires_seconds"),
        ({"expires_seconds": 86_401}, "expires_seconds"),
        ({"expires_seconds": "15m"}, "expires_seconds"),
        ({"note": "x" * 201}, "note"),
        ({"until": "2026-11-05T13:00:00Z"}, "until"),
    ],
)
def test_a_heartbeat_that_cannot_be_is_refused(client, path, units, node, body, said):
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert said in answer.text
    with units.reading() as unit:
        assert unit.heartbeats.find_by_node(node["id"]) is None


def test_a_flood_is_told_when_to_come_back(client, path):
    answers = {client.post(path).status_code for _ in range(MOST_A_MINUTE)}
    assert answers == {200}
    late = client.post(path)
    assert (late.status_code, late.headers["retry-after"]) == (429, "60")
    assert late.headers["content-type"] == "application/problem+json"


def test_a_heartbeat_needs_a_token_and_a_heartbeat_token_will_do(guarded, path, token):
    assert guarded.post(path).status_code == 401
    assert guarded.post(path, headers=bearer("wrong")).status_code == 401
    assert guarded.post(path, headers=ADMIN).status_code == 200
    assert guarded.post(path, headers=bearer(token)).status_code == 200
    assert guarded.post(path, headers={"Authorization": f"bearer {token}"}).status_code == 200


@pytest.mark.parametrize("wrong", ["hb_", "hb_guessed", "hb_\u00e9"])
def test_a_heartbeat_token_that_nobody_was_given_is_refused(guarded, path, units, node, wrong):
    headers = [("Authorization", f"Bearer {wrong}".encode("latin-1"))]
    answer = guarded.post(path, headers=headers)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (403, "token-refused")
    with units.reading() as unit:
        assert unit.heartbeats.find_by_node(node["id"]) is None


def test_a_heartbeat_token_is_looked_at_where_nobody_needs_a_token(client, path):
    assert client.post(path, headers=bearer("hb_guessed")).status_code == 403


def test_a_heartbeat_token_opens_nothing_else_where_nobody_needs_a_token(client, node, path):
    token = client.post(f"{path}-token").json()["token"]
    assert client.post(path, headers=bearer(token)).status_code == 200
    for method, where in (
        ("GET", "/v1/nodes"),
        ("DELETE", f"/v1/nodes/{node['id']}"),
        ("POST", f"{path}-token"),
        ("GET", "/"),
    ):
        assert client.request(method, where, headers=bearer(token)).status_code == 401, where
    assert client.get("/v1/nodes").status_code == 200


def test_a_heartbeat_token_is_good_for_its_own_node_alone(guarded, ask, units, token):
    other = ask(name="other")
    with units() as unit:
        unit.nodes.save(replace(unit.nodes.get(other["id"]), attempt=1))
    path = HEARTBEAT.format(node_id=other["id"])
    assert guarded.post(path, headers=bearer(token)).status_code == 403
    assert guarded.post(path, headers=ADMIN).status_code == 200


def test_a_heartbeat_token_opens_no_other_route(guarded, node, token):
    walked, before = set(), guarded.get(f"/v1/nodes/{node['id']}", headers=ADMIN).json()
    for route in iter_route_contexts(guarded.app.routes):
        for method in route.methods or {"GET"}:
            if route.path in PUBLIC or (route.path, method) == (HEARTBEAT, "POST"):
                continue
            assert route.path is not None
            address = route.path.replace("{node_id}", node["id"])
            for told in (bearer(token), {"Authorization": f"Bearer\t{token}"}):
                answer = guarded.request(method, address, headers=told)
                assert answer.status_code == 401, (method, route.path)
            walked.add((method, route.path))
    assert walked >= {
        ("GET", "/v1/nodes"),
        ("POST", f"{HEARTBEAT}-token"),
        ("POST", "/v1/nodes/{node_id}:keep"),
        ("DELETE", "/v1/nodes/{node_id}"),
        ("POST", "/v1/cleanup:apply"),
        ("PUT", "/v1/cleanup/policies/{scope:path}"),
    }, sorted(walked)
    after = guarded.get(f"/v1/nodes/{node['id']}", headers=ADMIN).json()
    assert after == before


@pytest.mark.parametrize(
    ("method", "end"),
    [
        ("GET", "/heartbeat"),
        ("DELETE", "/heartbeat"),
        ("POST", "/heartbeat/"),
        ("POST", "/heartbeat-token"),
        ("POST", "/x/heartbeat"),
        ("POST", ":stop/heartbeat/../.."),
        ("DELETE", "?x=/heartbeat"),
    ],
)
def test_a_heartbeat_token_opens_nothing_that_looks_like_its_route(
    guarded, node, token, method, end
):
    answer = guarded.request(method, f"/v1/nodes/{node['id']}{end}", headers=bearer(token))
    assert answer.status_code == 401


def test_a_heartbeat_token_is_no_password(guarded, path, token):
    answer = guarded.get("/v1/nodes", auth=("anyone", token))
    assert answer.status_code == 401
    assert guarded.post(path, auth=("anyone", token)).status_code == 401


def test_a_token_is_shown_once_with_its_end(client, node, path):
    made = client.post(f"{path}-token").json()
    assert made["token"].startswith("hb_")
    assert (made["node_id"], made["incarnation"]) == (node["id"], 1)
    assert made["expires_at"] == "2026-12-05T12:00:00Z"
    story = client.get(f"/v1/nodes/{node['id']}/events").text
    assert made["token"] not in story
    assert "heartbeat token made" in story
