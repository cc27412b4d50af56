"""The REST surface: what Google's front end does with paths, bodies and parameters."""

from __future__ import annotations

import urllib.request

import pytest

from tests.emulator.factories import PARENT, name_of

NODES = f"/v2/{PARENT}/nodes"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


def create(web, node_id="a", query="", **body):
    return web.ask("POST", f"{NODES}?nodeId={node_id}{query}", {**BODY, **body})


def test_an_open_operation_says_that_it_is_not_done(web):
    web.ask("PATCH", "/_emulator/config", {"speed": 1})
    status, operation = create(web)
    assert status == 200
    assert operation["done"] is False
    assert operation["metadata"]["@type"].endswith("google.cloud.tpu.v2.OperationMetadata")
    assert operation["metadata"]["apiVersion"] == "v2"
    _, listed = web.ask("GET", f"/v2/{PARENT}/operations")
    assert listed["operations"] == [operation]


def test_a_done_operation_carries_its_response(web):
    _, operation = create(web)
    web.ask("POST", "/_emulator/settle")
    _, done = web.ask("GET", f"/v2/{operation['name']}")
    assert done["done"] is True
    assert done["response"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.Node"
    assert done["response"]["labels"] == {}
    _, operation = web.ask("DELETE", f"{NODES}/a")
    web.ask("POST", "/_emulator/settle")
    _, done = web.ask("GET", f"/v2/{operation['name']}")
    assert done["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}


def test_a_node_has_the_fields_that_clients_count_on(web):
    create(web, networkConfig={"enableExternalIps": True})
    web.ask("POST", "/_emulator/settle")
    _, listed = web.ask("GET", NODES)
    _, node = web.ask("GET", f"{NODES}/a")
    assert listed == {"nodes": [node]}
    assert node["labels"] == {}
    assert node["metadata"] == {}
    assert node["schedulingConfig"] == {"preemptible": False, "reserved": False, "spot": False}
    assert (node["state"], node["health"], node["apiVersion"]) == ("READY", "HEALTHY", "V2")
    assert node["acceleratorConfig"] == {"type": "V4", "topology": "2x2x1"}
    assert node["id"].isdecimal()
    assert node["networkEndpoints"][0]["accessConfig"]["externalIp"]


@pytest.mark.parametrize("query", ["$alt=json;enum-encoding=int", "alt=json;enum-encoding%3Dint"])
def test_enums_are_numbers_when_asked_for(web, query):
    create(web)
    web.ask("POST", "/_emulator/settle")
    _, node = web.ask("GET", f"{NODES}/a?{query}")
    assert (node["state"], node["acceleratorConfig"]["type"]) == (2, 7)


@pytest.mark.parametrize(
    "body",
    [
        {"acceleratorConfig": {"type": "V4", "topology": "2x2x1"}},
        {"acceleratorConfig": {"type": 7, "topology": "2x2x1"}},
        {"accelerator_config": {"type": 7, "topology": "2x2x1"}},
        {"accelerator_type": "v4-8"},
    ],
)
def test_keys_may_be_spelled_in_either_case_and_enums_as_numbers(web, body):
    body = {"runtime_version": "tpu-ubuntu2204-base", **body}
    assert web.ask("POST", f"{NODES}?node_id=a", body)[0] == 200
    assert web.ask("GET", f"{NODES}/a")[1]["acceleratorType"] == "v4-8"


@pytest.mark.parametrize(
    "mask",
    ["labels,networkConfig.enableExternalIps", "labels,network_config.enable_external_ips"],
)
def test_a_mask_is_spelled_in_either_case(web, mask):
    create(web)
    web.ask("POST", "/_emulator/settle")
    body = {"labels": {"a": "b"}, "networkConfig": {"enableExternalIps": True}}
    status, operation = web.ask("PATCH", f"{NODES}/a?updateMask={mask}", body)
    assert (status, operation["metadata"]["verb"]) == (200, "update")
    web.ask("POST", "/_emulator/settle")
    _, node = web.ask("GET", f"{NODES}/a")
    assert node["labels"] == {"a": "b"}
    assert node["networkConfig"]["enableExternalIps"] is True


@pytest.mark.parametrize("body", [b"", {}])
def test_a_custom_verb_takes_an_empty_body(web, body):
    create(web)
    web.ask("POST", "/_emulator/settle")
    status, operation = web.ask("POST", f"{NODES}/a:stop", body)
    assert (status, operation["metadata"]["verb"]) == (200, "stop")


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (
            f"{NODES}?nodeId=a",
            {"colour": "red"},
            "Invalid JSON payload received. Unknown name \"colour\" at 'node': Cannot find field.",
        ),
        (
            f"{NODES}?nodeId=a",
            {"networkConfig": {"colour": "red"}},
            "Unknown name \"colour\" at 'node.network_config': Cannot find field.",
        ),
        (f"{NODES}?nodeId=a&colour=red", BODY, 'Unknown name "colour": Cannot find field.'),
        (f"{NODES}/a:stop", {"colour": "red"}, 'Unknown name "colour": Cannot find field.'),
        (f"{NODES}?nodeId=a", b"{", "Invalid JSON payload received."),
        (f"{NODES}?nodeId=a", b"\xff\xfe", "Invalid JSON payload received."),
        (f"{NODES}?nodeId=a", b"[" * 100_000, "Invalid JSON payload received."),
        (f"{NODES}?nodeId=a", [BODY], "Root element must be a message"),
        (f"{NODES}?nodeId=a", "text", "Root element must be a message"),
        (f"{NODES}?nodeId=a", {"labels": {"a": 5}}, "Invalid JSON payload received."),
        (f"{NODES}?nodeId=a", {"networkConfig": 5}, "Invalid JSON payload received."),
        (f"{NODES}?nodeId=a", {"tags": "x"}, "Invalid JSON payload received."),
        (f"{NODES}?nodeId=a", {"schedulingConfig": {"spot": "yes"}}, "Invalid JSON payload"),
        (f"{NODES}?nodeId=a", {"acceleratorConfig": {"type": "V99"}}, "Invalid JSON payload"),
        (f"{NODES}?nodeId=a", {"id": 2**70}, "Invalid JSON payload"),
        (f"{NODES}?nodeId=a", {"description": "\ud800"}, "Invalid JSON payload"),
        (f"{NODES}?nodeId=a", {"\ud800": 1}, "Invalid JSON payload"),
    ],
)
def test_what_cannot_be_read_is_a_bad_request_in_googles_envelope(web, path, body, text):
    status, answer = web.ask("POST", path, body)
    assert status == 400
    assert answer["error"]["code"] == 400
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert text in answer["error"]["message"]


@pytest.mark.parametrize(
    "query", ["pageSize=x", "pageSize=99999999999", "pageToken=x", "pageSize=-1", "updateMask=a"]
)
def test_a_parameter_that_cannot_be_read_is_a_bad_request(web, query):
    assert web.ask("GET", f"{NODES}?{query}")[0] == 400


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/v2"),
        ("GET", "/v3/projects/lab/locations"),
        ("GET", f"/v2/{PARENT}/reservations"),
        ("GET", f"/v1/{PARENT}/queuedResources"),
        ("PUT", NODES),
        ("POST", f"{NODES}/a:fly"),
        ("GET", "/_emulator/nothing"),
        ("DELETE", "/_emulator/state"),
        ("GET", "/$discovery/rest?version=v9"),
        ("GET", "/v2/%ff%fe"),
    ],
)
def test_what_is_not_there_is_not_found_in_googles_envelope(web, verb, path):
    status, answer = web.ask(verb, path)
    assert (status, answer["error"]["status"]) == (404, "NOT_FOUND")


def test_an_error_carries_its_details(web):
    web.ask("POST", "/_emulator/faults", {"rpc": "CreateNode", "action": "quota"})
    status, answer = create(web)
    assert (status, answer["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    detail = answer["error"]["details"][0]
    assert detail["@type"] == "type.googleapis.com/google.rpc.QuotaFailure"
    assert detail["violations"][0]["subject"] == "project:lab"


def test_a_lost_response_is_unavailable(web):
    web.ask("POST", "/_emulator/faults", {"rpc": "CreateNode", "action": "lose_response"})
    assert create(web)[0] == 503
    assert web.ask("GET", f"{NODES}/a")[0] == 200


def test_a_delayed_answer_still_comes(web):
    order = {"rpc": "ListNodes", "action": "delay", "delay_seconds": 0.05}
    web.ask("POST", "/_emulator/faults", order)
    assert web.ask("GET", NODES) == (200, {})


def test_locations_answer_under_v1_too(web):
    _, found = web.ask("GET", "/v1/projects/lab/locations")
    assert len(found["locations"]) == 40


def test_the_discovery_document_has_our_address(web):
    status, document = web.ask("GET", "/$discovery/rest")
    assert status == 200
    assert (document["rootUrl"], document["version"]) == (f"{web.url}/", "v2")
    assert web.ask("GET", "/$discovery/rest?version=v2")[1] == document


def test_the_control_routes_answer_over_http(web):
    assert web.ask("PATCH", "/_emulator/config", {"speed": 1})[0] == 200  # nothing ends by itself
    create(web, schedulingConfig={"spot": True})
    assert web.ask("POST", "/_emulator/settle") == (200, {"settled": 1})
    assert web.ask("GET", f"/v2/{name_of('a')}")[1]["state"] == "READY"
    assert web.ask("PATCH", "/_emulator/config", {"speed": 2000})[0] == 200
    name = {"name": name_of("a")}
    for action in ("activity", "maintenance"):
        assert web.ask("POST", f"/_emulator/nodes/{action}", name)[0] == 200
    web.ask("POST", "/_emulator/settle")
    assert web.ask("POST", "/_emulator/nodes/preempt", name)[0] == 200
    status, state = web.ask("GET", "/_emulator/state")
    assert (status, state["nodes"][0]["node"]["state"]) == (200, "PREEMPTED")
    assert len(web.ask("GET", "/_emulator/bill")[1]["entries"]) == 2
    assert web.ask("GET", "/_emulator/bill?start=x")[0] == 400
    assert web.ask("GET", "/_emulator/config")[1]["speed"] == 2000
    web.ask("POST", "/_emulator/faults", {"rpc": "GetNode", "action": "error"})
    assert len(web.ask("GET", "/_emulator/faults")[1]["faults"]) == 1
    assert web.ask("DELETE", "/_emulator/faults") == (200, {"faults": []})
    assert web.ask("POST", "/_emulator/reset") == (200, {})
    assert web.ask("GET", NODES) == (200, {})


@pytest.mark.parametrize("path", ["faults", "nodes/preempt", "nodes/activity"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"\\ud800": 1}'])
def test_a_control_body_that_cannot_be_read_is_a_bad_request(web, path, body):
    assert web.ask("POST", f"/_emulator/{path}", body)[0] == 400


def test_a_page_tells_a_human_what_is_here(web):
    create(web)
    with urllib.request.urlopen(web.url) as page:
        text = page.read().decode()
    assert "Cloud TPU emulator" in text
    assert "1 " in text
