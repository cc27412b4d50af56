"""What probes and Prometheus are told."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service.api.app import create_app
from service.api.health import get_health
from service.domain.node import NodeState
from tests import factories
from tests.hands import NOON


def gauges(client):
    """Every sample by its name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_service_is_alive_and_ready(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


@pytest.fixture
def without_database(services, engine):
    """The tables are gone under a running service."""
    with engine.begin() as connection:
        connection.exec_driver_sql("drop table prices")
    return TestClient(create_app(services, None), base_url="http://localhost")


@pytest.mark.parametrize("path", ["/readyz", "/metrics", "/v1/nodes"])
def test_a_database_that_cannot_be_used_is_said_in_one_line(without_database, path):
    answer = without_database.get(path)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "tpu-steward migrate" in answer.json()["detail"]
    assert without_database.get("/healthz").status_code == 200


def test_the_fleet_is_shown_in_aggregated_gauges(client, ask, units, clock):
    for _ in range(2):
        ask()
    node = factories.node(state=NodeState.READY)
    with units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id))
    found = gauges(client)
    where = ("on_demand", "us-west4-a", "v5e", "vision")
    assert found["steward_nodes", "REQUESTED", *where] == 2
    assert found["steward_nodes", "READY", *where] == 1
    assert found["steward_chips", "REQUESTED", *where] == 16
    assert found["steward_burn_dollars_per_hour",] == 9.6
    assert found["steward_unpriced_nodes",] == 0
    assert node.id not in client.get("/metrics").text


def test_deletions_that_do_not_end_are_counted(client, ask, units):
    assert gauges(client)["steward_deletions_overdue",] == 0
    for node in (ask(), ask()):
        client.delete(f"/v1/nodes/{node['id']}")
    with units() as unit:
        unit.nodes.save(replace(unit.nodes.get(node["id"]), alarmed_at=NOON))
    assert gauges(client)["steward_deletions_overdue",] == 1
    document = client.get(f"/v1/nodes/{node['id']}").json()
    assert document["delete_requested_at"] == document["overdue_since"] == "2026-11-05T12:00:00Z"


def test_what_cannot_be_posted_is_counted_until_it_is(client, units):
    assert gauges(client)["steward_usage_set_aside",] == 0
    node = factories.node(state=NodeState.READY)
    with units() as unit:
        unit.nodes.add(node)
        usage = unit.usage.save(factories.usage(node_id=node.id))
    with units() as unit:
        unit.usage.set_aside(usage, NOON + 900)
    assert gauges(client)["steward_usage_set_aside",] == 1
    with units() as unit:
        unit.usage.posted(unit.usage.get(usage.id), NOON, 0)
    assert gauges(client)["steward_usage_set_aside",] == 0


def test_a_deletion_that_makes_room_and_does_not_end_is_counted_too(client, ask, units):
    node = ask()
    making = {"replacing": True, "replacing_since": NOON - 1_800, "alarmed_at": NOON}
    with units() as unit:
        unit.nodes.save(replace(unit.nodes.get(node["id"]), **making))
    assert gauges(client)["steward_deletions_overdue",] == 1
    document = client.get(f"/v1/nodes/{node['id']}").json()
    assert document["replacing_since"] == "2026-11-05T11:30:00Z"
    assert document["overdue_since"] == "2026-11-05T12:00:00Z"
    assert document["delete_requested_at"] is None


def test_the_age_of_the_inventory_is_infinite_until_there_is_one(client, units, clock):
    assert gauges(client)["steward_inventory_age_seconds", "lab"] == float("inf")
    with units() as unit:
        unit.leases.take("lab", "one", 30)
        unit.leases.take("lab", "one", 30, looked_at=clock())
    clock.pass_(90)
    assert gauges(client)["steward_inventory_age_seconds", "lab"] == 90


def test_requests_are_counted_by_the_template_of_their_route(client, ask):
    for _ in range(3):
        client.get(f"/v1/nodes/{ask()['id']}")
    client.get("/v1/nodes/nothing")
    client.get("/nope")
    client.request("BREW", "/nope")
    found = gauges(client)
    count = "steward_http_requests_total"
    assert found[count, *sorted(("GET", "/v1/nodes/{node_id}", "200"))] == 3
    assert found[count, *sorted(("GET", "/v1/nodes/{node_id}", "404"))] == 1
    assert found[count, *sorted(("POST", "/v1/nodes", "201"))] == 3
    assert found[count, *sorted(("GET", "none", "404"))] == 1
    assert found[count, *sorted(("other", "none", "404"))] == 1
    seconds = "steward_http_request_seconds_count"
    assert found[seconds, *sorted(("GET", "/v1/nodes/{node_id}"))] == 4


def test_each_app_counts_for_itself(services):
    first, second = (
        TestClient(create_app(services, None), base_url="http://localhost") for _ in range(2)
    )
    first.get("/healthz")
    assert ("steward_http_requests_total", "/healthz", "200", "GET") not in gauges(second)


def test_the_process_answers_while_all_of_its_threads_are_waiting():
    """A probe that waits for a thread has a busy service killed; a coroutine needs none."""
    assert inspect.iscoroutinefunction(get_health)
