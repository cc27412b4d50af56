"""Keeping nodes over HTTP: for some time or until a date, with a reason, and no longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.clock import DAY
from tests.hands import NOON


def path_of(node):
    return f"/v1/nodes/{node['id']}"


def test_a_node_is_kept_and_let_go(client, ask):
    node = ask()
    assert (node["keep"], node["ends_after_keep"]) == (None, "")
    kept = client.post(f"{path_of(node)}:keep", json={"for_seconds": 3_600, "reason": "a demo"})
    assert kept.status_code == 200
    assert kept.json()["keep"] == {"until": "2026-11-05T13:00:00Z", "reason": "a demo"}
    assert kept.json()["warnings"] == []
    assert kept.headers["etag"] == f'"{kept.json()["version"]}"'
    assert client.get(path_of(node)).json()["keep"] == kept.json()["keep"]
    gone = client.delete(f"{path_of(node)}/keep", headers={"If-Match": kept.headers["etag"]})
    assert (gone.status_code, gone.json()["keep"]) == (200, None)
    again = client.delete(f"{path_of(node)}/keep")
    assert again.status_code == 409
    assert "is not kept" in again.json()["detail"]


def test_a_node_is_kept_until_a_date(client, ask):
    node = ask()
    until = {"until": "2026-11-06T13:00:00+01:00", "reason": "a demo"}
    kept = client.post(f"{path_of(node)}:keep", json=until).json()
    assert kept["keep"]["until"] == "2026-11-06T12:00:00Z"
    shorter = client.post(f"{path_of(node)}:keep", json={"for_seconds": 60, "reason": "x"})
    assert shorter.json()["keep"] == kept["keep"]
    assert "a shorter keep has no effect" in shorter.json()["warnings"][0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"for_seconds": 60}, "reason"),
        ({"for_seconds": 60, "reason": ""}, "reason: should not be empty"),
        ({"for_seconds": 60, "reason": " \n "}, "why is the node kept"),
        ({"for_seconds": 60, "reason": "x" * 501}, "reason: should have at most 500 characters"),
        ({"reason": "a demo"}, "exactly one"),
        ({"for_seconds": 60, "until": "2026-11-06T12:00:00Z", "reason": "a demo"}, "exactly one"),
        ({"for_seconds": 0, "reason": "a demo"}, "for_seconds"),
        ({"for_seconds": 30 * DAY + 1, "reason": "a demo"}, "for_seconds"),
        ({"for_seconds": "4h", "reason": "a demo"}, "for_seconds"),
        ({"until": "2026-12-06T12:00:00Z", "reason": "a demo"}, "30 days at most"),
        ({"until": "2026-11-05T12:00:00Z", "reason": "a demo"}, "is in the past"),
        ({"until": "soon", "reason": "a demo"}, "until"),
    ],
)
def test_a_keep_that_cannot_be_is_refused_with_what_would_do(client, ask, body, said):
    node = ask()
    answer = client.post(f"{path_of(node)}:keep", json=body)
    assert answer.status_code == 422
    assert said in answer.text
    assert client.get(path_of(node)).json()["keep"] is None


def test_a_node_that_changed_since_it_was_seen_is_not_kept(client, ask):
    node, body = ask(), {"for_seconds": 60, "reason": "a demo"}
    answer = client.post(f"{path_of(node)}:keep", json=body, headers={"If-Match": '"99"'})
    assert answer.status_code == 412
    assert client.post("/v1/nodes/nobody:keep", json=body).status_code == 404
    assert client.delete("/v1/nodes/nobody/keep").status_code == 404


def test_a_keep_that_changed_since_it_was_seen_is_not_ended(client, ask):
    node = ask()
    seen = client.post(f"{path_of(node)}:keep", json={"for_seconds": 60, "reason": "a demo"})
    longer = {"for_seconds": 3_600, "reason": "a longer demo"}
    kept = client.post(f"{path_of(node)}:keep", json=longer).json()["keep"]
    answer = client.delete(f"{path_of(node)}/keep", headers={"If-Match": seen.headers["etag"]})
    assert answer.status_code == 412
    assert client.get(path_of(node)).json()["keep"] == kept


def test_a_kept_node_that_a_person_deletes_goes_and_says_that_the_keep_ended(client, ask):
    node = ask()
    client.post(f"{path_of(node)}:keep", json={"for_seconds": 3_600, "reason": "a demo"})
    answer = client.delete(path_of(node))
    assert answer.status_code == 202
    assert answer.json()["asked"] == "absent"
    assert answer.json()["keep"] is None
    assert answer.json()["warnings"] == [
        "the keep until 2026-11-05T13:00:00Z ends with that (a demo)"
    ]
    after = client.post(f"{path_of(node)}:keep", json={"for_seconds": 3_600, "reason": "a demo"})
    assert after.status_code == 409


def test_a_node_says_when_it_goes_although_it_is_kept(client, ask, units):
    node = ask(ttl_seconds=60)
    with units() as unit:
        stored = unit.nodes.get(node["id"])
        unit.nodes.save(replace(stored, ready_at=NOON))
    assert client.get(path_of(node)).json()["deletes_at"] == "2026-11-05T12:01:00Z"
    client.post(f"{path_of(node)}:keep", json={"for_seconds": 3_600, "reason": "a demo"})
    assert client.get(path_of(node)).json()["deletes_at"] == "2026-11-05T13:00:00Z"
