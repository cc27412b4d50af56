"""What probes and Prometheus are told."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service.api.app import create_app
from service.api.system.readiness import Readiness
from service.application.health import ReadinessService
from service.domain.errors import StoreUnavailable
from service.domain.nodes.node import NodeState
from service.store.engine import CONNECTIONS
from service.store.probe import DatabaseProbe
from tests import factories
from tests.hands import NOON, HandClock


def gauges(client):
    """Every sample by its name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_service_is_alive_and_ready(client, units):
    with units() as unit:
        unit.leases.take("lab", "one", 30)
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_a_service_without_a_daemon_is_ready_and_names_the_projects(client):
    answer = client.get("/readyz")
    assert answer.status_code == 200
    (said,) = answer.json()["warnings"]
    assert said.startswith(
        "no daemon holds the lease of lab: nothing is created, deleted or metered"
    )


def test_a_database_that_can_only_be_read_is_not_ready(services, engine):
    with closing(DatabaseProbe(f"sqlite:///file:{engine.url.database}?mode=ro&uri=true")) as probe:
        services = replace(services, readiness=ReadinessService(probe, ["lab"]))
        answer = TestClient(create_app(services, None), base_url="http://localhost").get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:tpu-steward:problem:store-unavailable"
    assert answer.json()["detail"].startswith("the database is read-only")


def test_probes_are_answered_while_every_thread_and_connection_is_taken(app, client, engine):
    """24 requests that hang: 16 have the threads, and the others wait for one."""
    go_on, begun = threading.Event(), threading.Semaphore(0)

    @app.get("/stuck")
    def hang() -> None:
        begun.release()
        go_on.wait()

    connections = [engine.connect() for _ in range(CONNECTIONS)]
    with ThreadPoolExecutor(24) as callers:
        stuck = [callers.submit(client.get, "/stuck") for _ in range(24)]
        try:
            for _ in range(16):
                begun.acquire()
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 200
        finally:
            go_on.set()
    assert {answer.result().status_code for answer in stuck} == {200}
    for connection in connections:
        connection.close()


class Slow:
    """A look that takes until a test says so."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.trouble = ""
        self.looks = 0

    def check_ready(self):
        self.looks += 1
        self.begun.set()
        self.go_on.wait()
        if self.trouble:
            raise StoreUnavailable(self.trouble)
        return [f"look {self.looks}"]


def test_probes_at_the_same_time_share_one_check_which_is_kept_for_a_second():
    slow: Any = Slow()
    clock = HandClock(0)
    readiness = Readiness(slow, clock)

    async def ask():
        asked = [asyncio.create_task(readiness.read_warnings()) for _ in range(5)]
        await asyncio.to_thread(slow.begun.wait)
        slow.go_on.set()
        assert await asyncio.gather(*asked) == [["look 1"]] * 5
        assert await readiness.read_warnings() == ["look 1"]
        clock.pass_(2)
        assert await readiness.read_warnings() == ["look 2"]

    asyncio.run(ask())


def test_a_check_that_takes_too_long_goes_on_and_the_next_probe_gets_its_result():
    slow: Any = Slow()
    readiness = Readiness(slow, HandClock(0), patience=0.01)

    async def ask():
        with pytest.raises(StoreUnavailable, match="has not answered"):
            await readiness.read_warnings()
        slow.trouble = "the disk is full"
        slow.go_on.set()
        while "full" not in await said():
            pass

    async def said():
        with pytest.raises(StoreUnavailable) as refused:
            await readiness.read_warnings()
        return str(refused.value)

    asyncio.run(ask())
    assert slow.looks == 1


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
        unit.usage.save_posted(unit.usage.get(usage.id), NOON, 0)
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
