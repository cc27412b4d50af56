"""A request for a node opens one transaction that reads and one that writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, event

from service import wiring
from service.domain.budgets.budget import OnExceeded
from service.domain.idle.policy import DEFAULT, Action, Rule
from service.domain.nodes.node import IdlePolicy
from service.settings import Settings
from tests import factories
from tests.api.conftest import NODE_REQUEST

KEY = {"Idempotency-Key": "once"}


@contextmanager
def counted() -> Iterator[list[Connection]]:
    """The transactions that begin within the block, on any engine."""
    begun: list[Connection] = []
    note = begun.append
    event.listen(Engine, "begin", note)
    try:
        yield begun
    finally:
        event.remove(Engine, "begin", note)


@pytest.mark.parametrize("headers", [{}, KEY])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"accelerator_type": None, "accelerator_types": ["v5litepod-8", "v6e-8"], "zone": None},
        {"idle": {"action": "delete"}},
    ],
)
def test_a_request_for_a_node_opens_two_transactions(client, headers, changes):
    with counted() as begun:
        answer = client.post("/v1/nodes", json=NODE_REQUEST | changes, headers=headers)
    assert answer.status_code == 201, answer.text
    assert len(begun) == 2


def test_a_request_under_a_budget_opens_two_transactions(client, units):
    with units() as unit:
        unit.budgets.add(factories.budget(id="b-1", on_exceeded=OnExceeded.REFUSE))
    with counted() as begun:
        answer = client.post("/v1/nodes", json=NODE_REQUEST | {"ttl_seconds": 60}, headers=KEY)
    assert answer.status_code == 201, answer.text
    assert len(begun) == 2


def test_a_repeated_request_opens_one_transaction_and_is_answered_alike(client):
    first = client.post("/v1/nodes", json=NODE_REQUEST, headers=KEY)
    with counted() as begun:
        again = client.post("/v1/nodes", json=NODE_REQUEST, headers=KEY)
    assert again.headers["idempotency-hit"] == "true"
    assert again.json() == first.json()
    assert len(begun) == 1


def test_the_answer_is_the_node_and_its_policy_as_they_are_stored(client, services):
    services.policies.save(DEFAULT, Rule(7_200, 900, Action.DELETE), None)
    answer = client.post("/v1/nodes", json=NODE_REQUEST).json()
    policy, warnings = answer.pop("policy"), answer.pop("warnings")
    assert answer == client.get(f"/v1/nodes/{answer['id']}").json()
    assert (policy["idle_after_seconds"], policy["action"], warnings) == (7_200, "delete", [])


def test_the_wired_services_agree_on_the_policy_of_a_new_node(engine):
    settings = Settings(
        database_url=engine.url.render_as_string(hide_password=False),
        projects=(factories.PROJECT,),
        idle_mode="delete",
    )
    services = wiring.build_services(wiring.open_foundation(settings))
    request = factories.request(idle=IdlePolicy(7_200, 900, Action.DELETE))
    found = services.nodes.request(request)
    assert found.policy.applied.action is Action.DELETE
    assert found.policy == services.policies.get_for_node(found.node.id)
