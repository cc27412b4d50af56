"""The examples of the OpenAPI document are true: bodies are accepted, problems are as answered."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import replace

import anyio
import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.http import connections
from service.api.http.problem_kinds import EVERY_KIND
from service.api.http.problems import KINDS, STALE
from service.api.openapi.examples import BODIES, OCCASIONS, problem_example
from service.application.reconciliations import AT_ONCE
from service.domain.clock import HOUR
from service.domain.nodes.node import Endpoint, NodeState
from service.domain.orphans.orphan import OrphanKind, OrphanVerdict
from tests.api.catalog.test_quotas import LIMIT
from tests.api.conftest import NODE_REQUEST
from tests.api.http.test_middleware import Stalled, scope_of, talk
from tests.garbage import orphan, shown

FOREIGN = {"kind": OrphanKind.STRANGER, "certain": False, "verdict": OrphanVerdict.LEAVE}
NOT_HERE = {"apply_cleanup": 409}
"""Operations whose example names something that is not in the database, with their status."""


def operations_of(document):
    return {
        operation["operationId"]: (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


@pytest.fixture
def stage(client, units, ask):
    """What the examples are about. Returns the ids that the paths need."""
    legacy = ask(accelerator_type="v2-8", zone="us-central1-b", architecture="node", name="old")
    node = ask(name="running")
    foreign = orphan(shown=shown("unknown-node"), **FOREIGN)
    with units() as unit:
        unit.orphans.add(foreign)
        old = unit.nodes.get(legacy["id"])
        at = (Endpoint("10.240.1.2", 8470),)
        unit.nodes.save(replace(old, state=NodeState.READY, endpoints=at))
        running = unit.nodes.get(node["id"])
        at_work = {"state": NodeState.READY, "attempt": 1, "ready_at": running.created_at}
        unit.nodes.save(replace(running, **at_work))
    discount = client.post("/v1/prices/discounts", json={"percent": "5", "generation": "v4"})
    budget = {"name": "b", "amount": "9999999", "period": "month"}
    client.post("/v1/cleanup:pause", json={"project": "lab", "reason": "a demo"})
    return {
        "reimage_node": legacy["id"],
        "node_id": node["id"],
        "orphan_id": foreign.id,
        "discount_id": discount.json()["id"],
        "budget_id": client.post("/v1/budgets", json=budget).json()["id"],
        "scope": "team:vision",
    }


def test_every_json_body_has_an_example_and_no_example_lacks_its_body(document):
    found = {
        name: content["application/json"]["example"]
        for name, (_, _, operation) in operations_of(document).items()
        if "application/json" in (content := operation.get("requestBody", {}).get("content", {}))
    }
    assert found == BODIES


@pytest.mark.parametrize("name", BODIES)
def test_the_service_accepts_the_example_of_a_body(client, document, stage, name):
    method, path, _ = operations_of(document)[name]
    ids = stage | ({"node_id": stage[name]} if name in stage else {})
    address = re.sub(r"{(\w+)}", lambda found: ids[found[1]], path)
    answer = client.request(method, address, json=BODIES[name])
    assert answer.status_code == NOT_HERE.get(name, answer.status_code), answer.text
    assert name in NOT_HERE or answer.status_code in {200, 201, 202}, answer.text


def shape_of(value):
    """The names and types within a value, without the values."""
    if isinstance(value, dict):
        return {name: shape_of(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape_of(item) for item in value[:1]]
    return type(value).__name__


JSON = {"content-type": "application/json"}


def post_node(client, **changes):
    return client.post("/v1/nodes", json=NODE_REQUEST | changes)


def over_budget(client):
    cap = {"name": "b", "amount": "1", "period": "month", "on_exceeded": "refuse"}
    assert client.post("/v1/budgets", json=cap).status_code == 201
    return post_node(client, ttl_seconds=HOUR)


def twice(client):
    assert post_node(client, name="one").status_code == 201
    return post_node(client, name="one")


def guessed(client):
    node = post_node(client).json()["id"]
    wrong = {"Authorization": "Bearer hb_guessed"}
    return client.post(f"/v1/nodes/{node}/heartbeat", headers=wrong)


def overtaken(client):
    node = post_node(client).json()["id"]
    return client.delete(f"/v1/nodes/{node}", headers={"If-Match": '"99"'})


ANSWERED = {
    "malformed-body": lambda client: client.post("/v1/nodes", content="{", headers=JSON),
    "unreadable-address": lambda client: client.get("/v1/nodes?name=%00"),
    "cross-site-request": lambda client: client.post("/v1/nodes", headers={"Origin": "null"}),
    "budget-exceeded": over_budget,
    "token-refused": guessed,
    "not-found": lambda client: client.get("/v1/nodes/trainer"),
    "method-not-allowed": lambda client: client.get("/v1/runtimes:resolve"),
    "conflict": twice,
    "stale-version": overtaken,
    "body-too-large": lambda client: client.post(
        "/v1/nodes", content=b" " * 2_000_000, headers=JSON
    ),
    "unsupported-media-type": lambda client: client.post("/v1/nodes", content="{}"),
    "misdirected-request": lambda client: client.get("/v1/nodes", headers={"Host": "a.example"}),
    "invalid-request": lambda client: post_node(client, ttl_seconds=0),
    "rejected": lambda client: post_node(client, project="theirs"),
    "unknown-accelerator-type": lambda client: post_node(client, accelerator_type="v5e-8"),
    "not-offered": lambda client: post_node(client, zone="us-central2-b"),
    "runtime-mismatch": lambda client: post_node(client, runtime_version="v2-alpha-tpuv4"),
}
"""How each problem is met that a single request can meet."""

RAISED = {
    error: kind
    for error, kind in KINDS.items()
    if kind.slug.startswith("cloud-")
    or kind.slug in {"capacity-unavailable", "quota-exceeded", "store-unavailable", "lease-lost"}
    or kind.slug in {"image-not-found", "image-denied", "no-such-platform"}
}
"""What the cloud, the registry or another daemon has to cause."""


@pytest.mark.parametrize("slug", ANSWERED)
def test_the_example_of_a_problem_has_the_shape_of_the_answer(client, slug):
    answer = ANSWERED[slug](client)
    (kind,) = [
        item for item in EVERY_KIND if (item.slug, item.status) == (slug, answer.status_code)
    ]
    assert answer.json()["type"].endswith(f":{slug}")
    assert shape_of(problem_example(kind)) == shape_of(answer.json())


def example_of(slug):
    return problem_example(next(kind for kind in EVERY_KIND if kind.slug == slug))


def test_the_example_for_a_quota_has_the_shape_of_the_answer(client, learned):
    learned(LIMIT)
    answer = post_node(client)
    assert answer.json()["type"].endswith(":quota-too-small")
    assert shape_of(example_of("quota-too-small")) == shape_of(answer.json())


def test_the_example_for_a_missing_token_has_the_shape_of_the_answer(services):
    guarded = TestClient(create_app(services, "t0ken"))
    assert shape_of(example_of("unauthorized")) == shape_of(guarded.get("/v1/nodes").json())


def test_the_example_for_too_many_requests_has_the_shape_of_the_answer(client, services):
    with ExitStack() as busy:
        for _ in range(AT_ONCE):
            busy.enter_context(services.reconciliations.take_place())
        answer = client.post("/v1/reconciliations", content=b"")
    assert answer.status_code == 429
    assert shape_of(example_of("rate-limited")) == shape_of(answer.json())


def test_the_example_for_a_body_that_stalls_has_the_shape_of_the_answer(app):
    caller = Stalled(b"{")
    talk(app, scope_of("POST", "/v1/nodes"), caller.receive, caller.send)
    assert shape_of(example_of("body-stalled")) == shape_of(body_of(caller.told))


@pytest.mark.parametrize("kind", [connections.HEAD_TOO_LARGE, connections.BUSY])
def test_the_example_of_a_refused_connection_has_the_shape_of_the_answer(kind):
    caller = Stalled(b"")
    refusal = connections._refuse_all(kind, "no")
    anyio.run(refusal, scope_of("GET", "/v1/nodes"), caller.receive, caller.send)
    assert shape_of(problem_example(kind)) == shape_of(body_of(caller.told))


def body_of(messages):
    (body,) = [message["body"] for message in messages if "body" in message]
    return json.loads(body)


@pytest.fixture
def failing(app):
    """Have a route raise what a test gives it."""

    def fail(error):
        @app.get("/fail")
        def raises() -> None:
            raise error

        return TestClient(app, base_url="http://localhost").get("/fail").json()

    return fail


@pytest.mark.parametrize("error", RAISED, ids=lambda one: one.__name__)
def test_the_example_of_what_others_cause_has_the_shape_of_the_answer(failing, error):
    slug = RAISED[error].slug
    answer = failing(error("so it is", **OCCASIONS[slug].facts))
    assert shape_of(problem_example(RAISED[error])) == shape_of(answer)


def test_the_example_of_a_defect_has_the_shape_of_the_answer(failing):
    assert shape_of(example_of("internal-error")) == shape_of(failing(ValueError("secret")))


def test_every_problem_is_compared_with_its_answer():
    compared = {*ANSWERED, *(kind.slug for kind in RAISED.values())}
    compared |= {"quota-too-small", "unauthorized", "rate-limited", "body-stalled"}
    compared |= {"head-too-large", "too-many-connections", "internal-error"}
    assert (
        compared == {kind.slug for kind in EVERY_KIND} == OCCASIONS.keys() - {"412-stale-version"}
    )


def test_every_kind_has_an_example_and_each_operation_names_those_it_answers(document):
    examples = document["components"]["examples"]
    assert examples.keys() == {f"{kind.status}-{kind.slug}" for kind in EVERY_KIND}
    assert examples[f"412-{STALE.slug}"]["value"]["status"] == 412
    for name, (_, _, operation) in operations_of(document).items():
        for status, answer in operation["responses"].items():
            named = answer["content"].get("application/problem+json", {}).get("examples", {})
            assert named or not status.startswith(("4", "5")), (name, status)
            for key, one in named.items():
                assert one == {"$ref": f"#/components/examples/{key}"}
                assert examples[key]["value"]["status"] == int(status)
