"""The REST surface: what Google's front end does with paths, bodies and parameters."""

from __future__ import annotations

import urllib.request

import pytest

from tests.emulator.factories import PARENT, name_of

PAYLOAD = "Invalid JSON payload received."
ROOT = "Unknown name \"\" at 'node': Root element must be a message."
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
        (
            f"{NODES}?nodeId=a",
            [BODY],
            "Unknown name \"\" at 'node': Root element must be a message.",
        ),
        (
            f"{NODES}?nodeId=a",
            "text",
            "Unknown name \"\" at 'node': Root element must be a message.",
        ),
        (f"{NODES}?nodeId=a", {"\ud800": 1}, f"{PAYLOAD} Encountered non UTF-8"),
        (f"{NODES}?nodeId=a", {"description": "\ud800"}, f"{PAYLOAD} Encountered non UTF-8"),
    ],
)
def test_what_cannot_be_read_is_a_bad_request_in_googles_envelope(web, path, body, text):
    status, answer = web.ask("POST", path, body)
    assert status == 400
    assert answer["error"]["code"] == 400
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert text in answer["error"]["message"]


TIMESTAMP = "type.googleapis.com/google.protobuf.Timestamp"
PORTS = {"networkEndpoints": [{}, {"port": "x"}]}
NODE = "type.googleapis.com/google.cloud.tpu.v2.Node"


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        ({"labels": 5}, "labels", f"({NODE}.LabelsEntry), 5"),
        ({"labels": {"a": 5}}, "labels[0].value", "(TYPE_STRING), 5"),
        ({"networkConfig": 5}, "network_config", f"({NODE[:-5]}.NetworkConfig), 5"),
        ({"tags": "x"}, "tags", '(TYPE_STRING), "x"'),
        ({"tags": ["x", 1]}, "tags[1]", "(TYPE_STRING), 1"),
        ({"schedulingConfig": {"spot": "yes"}}, "scheduling_config.spot", '(TYPE_BOOL), "yes"'),
        ({"id": 2**70}, "id", f"(TYPE_INT64), {2**70}"),
        ({"id": "two"}, "id", '(TYPE_INT64), "two"'),
        ({"health": "FINE"}, "health", f'({NODE}.Health), "FINE"'),
        (
            {"createTime": "x"},
            "create_time",
            '(type.googleapis.com/google.protobuf.Timestamp), "x"',
        ),
        (
            {"networkEndpoints": [{}, {"port": "x"}]},
            "network_endpoints[1].port",
            '(TYPE_INT32), "x"',
        ),
        ({"description": {}}, "description", "(TYPE_STRING), Starting an object on a scalar field"),
    ],
)
def test_a_value_that_fits_no_field_is_named_as_google_does(web, body, field, text):
    status, answer = web.ask("POST", f"{NODES}?nodeId=a", {**BODY, **body})
    error = answer["error"]
    said = f"Invalid value at 'node.{field}' {text}"
    assert (status, error["status"], error["message"]) == (400, "INVALID_ARGUMENT", said)
    (details,) = error["details"]
    assert details["fieldViolations"] == [{"field": f"node.{field}", "description": said}]


def test_a_list_where_there_is_one_value_is_refused(web):
    _, answer = web.ask("POST", f"{NODES}?nodeId=a", {"description": ["x"]})
    said = (
        "Unknown name \"description\" at 'node': Proto field is not repeating, cannot start list."
    )
    assert answer["error"]["message"] == f"{PAYLOAD} {said}"


def test_two_tiers_of_a_queued_resource_are_refused_by_their_names(web):
    path = f"/v2/{PARENT}/queuedResources?queuedResourceId=q"
    _, answer = web.ask("POST", path, {"spot": {}, "guaranteed": {}})
    assert answer["error"]["message"] == (
        "Invalid value at 'queued_resource' (oneof), oneof field 'tier' is already set."
        " Cannot set 'guaranteed'"
    )


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "Unexpected end of string. Expected an object key or }.\n{\n ^"),
        (b"{nope", "Expected an object key or }.\n{nope\n ^"),
        (b'{"a" 1}', 'Expected : between key:value pair.\n{"a" 1}\n     ^'),
        (b'{"a": 1 2}', 'Expected , or } after key:value pair.\n{"a": 1 2}\n        ^'),
        (b'{"a": b}', 'Unexpected token.\n{"a": b}\n      ^'),
        (b'{"a": "b', 'Closing quote expected in string.\n{"a": "b\n      ^'),
        (b"{} {}", "Parsing terminated before end of input.\n{} {}\n   ^"),
        (b'{"a": NaN}', "Unexpected token."),
        (b"\xff\xfe", "Encountered non UTF-8 code points."),
        (b"[" * 100_000, "Message too deep. Max recursion depth reached."),
    ],
)
def test_broken_json_is_refused_in_the_words_of_googles_parser(web, raw, said):
    status, answer = web.ask("POST", f"{NODES}?nodeId=a", raw)
    assert (status, answer["error"]["message"]) == (400, f"{PAYLOAD} {said}")


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ("pageSize=two", "page_size", '(TYPE_INT32), "two"'),
        ("page_size=1.5", "page_size", '(TYPE_INT32), "1.5"'),
        ("pageSize=99999999999", "page_size", '(TYPE_INT32), "99999999999"'),
    ],
)
def test_a_parameter_of_another_type_is_named_as_google_does(web, query, field, text):
    status, answer = web.ask("GET", f"{NODES}?{query}")
    said = f"Invalid value at '{field}' {text}"
    assert (status, answer["error"]["message"]) == (400, said)
    violations = answer["error"]["details"][0]["fieldViolations"]
    assert violations == [{"field": field, "description": said}]


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
