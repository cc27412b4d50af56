"""The status page shows what there is, and nothing that a client wrote can become part of it."""

from __future__ import annotations

import urllib.request

import pytest

from service.emulator.surfaces import control
from service.emulator.surfaces.page import format_duration, status_page
from tests.emulator.factories import PARENT, Cloud, name_of


def page(cloud: Cloud) -> str:
    return status_page(cloud.world, "127.0.0.1:9470", "http://127.0.0.1:9471/")


def test_an_empty_world_says_how_to_begin(cloud):
    shown = page(cloud)
    assert "Nodes <small>none</small>" in shown
    assert "http://127.0.0.1:9471/v2/projects/lab/locations/us-west4-a/nodes?nodeId=first" in shown


def test_it_shows_nodes_queued_resources_faults_and_what_is_due(cloud):
    cloud.ready("solid")
    cloud.create("fresh", scheduling_config={"spot": True})
    node = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"}
    spec = {"parent": PARENT, "node_id": "sweep-a", "node": node}
    cloud.ask(
        "CreateQueuedResource",
        parent=PARENT,
        queued_resource_id="sweep",
        queued_resource={"spot": {}, "tpu": {"node_spec": [spec]}},
    )
    control.add_fault(cloud.world, {"rpc": "GetNode", "action": "error", "times": 3})
    shown = page(cloud)
    for part in ("solid", "1 CREATING, 1 READY", "sweep", "spot", "GetNode", ">3<", "create"):
        assert part in shown


def test_what_a_client_wrote_is_text(cloud):
    cloud.ready()
    health = {"name": name_of("a"), "health": "TIMEOUT", "description": "<script>alert(1)</script>"}
    control.set_health(cloud.world, health)
    assert "&lt;script&gt;" in page(cloud)
    assert "<script>" not in page(cloud)


def test_a_big_world_shows_its_first_rows_and_says_so(cloud):
    for number in range(205):
        cloud.create(f"n-{number:03d}")
    shown = page(cloud)
    assert "n-199" in shown
    assert "n-200" not in shown.partition("Due to happen")[0]
    assert "The first 200 of 205." in shown


def test_a_browser_gets_it_from_the_rest_port(emulator):
    with urllib.request.urlopen(emulator.rest_url) as answer:
        assert answer.headers["content-type"].startswith("text/html")
        assert emulator.grpc_address in answer.read().decode()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3_660, "1 h 1 min"), (90_000, "1 d 1 h")],
)
def test_a_span_is_said_in_its_two_largest_units(seconds, words):
    assert format_duration(seconds) == words
