"""HTTP as Google's front end speaks it: verbs, encodings, sizes, and answers cut to order."""

from __future__ import annotations

import gzip
import json
import socket
import urllib.error
import urllib.request
from urllib.parse import urlencode

import pytest

from service.emulator.api.calls.field_masks import chosen_of
from service.emulator.errors import ApiError
from service.emulator.surfaces.partial_response import select_keys
from service.emulator.surfaces.request_body import MAX_BYTES
from tests.emulator.factories import PARENT, name_of

NODES = f"/v2/{PARENT}/nodes"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
FORM = "application/x-www-form-urlencoded"
LIMIT = f"Request payload size exceeds the limit: {MAX_BYTES} bytes."


def send(web, verb, path, body=None, **headers):
    """Send bytes with headers; answers the status, the headers and the body."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    request = urllib.request.Request(web.url + path, body, named, method=verb)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def create(web, node_id="a", **body):
    answer = web.ask("POST", f"{NODES}?nodeId={node_id}", {**BODY, **body})
    web.ask("POST", "/_emulator/settle")
    return answer


def test_a_long_get_may_come_as_a_post(web):
    create(web)
    create(web, "b")
    status, _, raw = send(
        web,
        "POST",
        NODES,
        urlencode({"pageSize": 1, "alt": "json"}).encode(),
        X_HTTP_Method_Override="GET",
        Content_Type=FORM,
    )
    assert status == 200
    assert [each["name"] for each in json.loads(raw)["nodes"]] == [name_of("a")]


@pytest.mark.parametrize("verb", ["DELETE", "delete"])
def test_a_post_may_stand_for_another_verb(web, verb):
    create(web)
    status, _, raw = send(web, "POST", f"{NODES}/a", b"", X_HTTP_Method_Override=verb)
    assert (status, json.loads(raw)["metadata"]["verb"]) == (200, "delete")


def test_head_is_get_without_the_body(web):
    create(web)
    status, headers, raw = send(web, "HEAD", f"{NODES}/a")
    _, _, whole = send(web, "GET", f"{NODES}/a")
    assert (status, raw) == (200, b"")
    assert int(headers["content-length"]) == len(whole)
    assert send(web, "HEAD", f"{NODES}/none")[0] == 404


def test_options_names_the_verbs(web):
    status, headers, raw = send(web, "OPTIONS", NODES)
    assert (status, headers["allow"], raw) == (200, "GET, POST, OPTIONS", b"")
    assert send(web, "OPTIONS", "/v2/nothing")[0] == 404


def test_a_body_may_come_compressed(web):
    packed = gzip.compress(json.dumps(BODY).encode())
    status, _, _ = send(web, "POST", f"{NODES}?nodeId=a", packed, Content_Encoding="gzip")
    assert status == 200


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"no gzip", "cannot be unpacked"),
        (gzip.compress(json.dumps(BODY).encode(), mtime=0)[:-9], "is cut short"),
        (gzip.compress(b" " * (MAX_BYTES + 1), mtime=0), LIMIT),
    ],
)
def test_a_compressed_body_that_cannot_be_is_refused(web, body, text):
    status, _, raw = send(web, "POST", f"{NODES}?nodeId=a", body, Content_Encoding="gzip")
    assert status == 400
    assert text in json.loads(raw)["error"]["message"]


def test_a_huge_body_is_refused_without_a_broken_connection(web):
    status, answer = web.ask("POST", f"{NODES}?nodeId=a", b" " * (MAX_BYTES + 1))
    assert (status, answer["error"]["message"]) == (400, LIMIT)
    assert web.ask("POST", f"{NODES}?nodeId=a", b" " * 1000 + json.dumps(BODY).encode())[0] == 200


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_no_json(web, number):
    body = b'{"description": "x", "id": %s}' % number.encode()
    assert web.ask("POST", f"{NODES}?nodeId=a", body)[0] == 400


def test_an_unknown_field_is_named_in_the_details(web):
    status, answer = web.ask("POST", f"{NODES}?nodeId=a", {**BODY, "networkConfig": {"x": 1}})
    text = "Unknown name \"x\" at 'node.network_config': Cannot find field."
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    (detail,) = answer["error"]["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    (violation,) = detail["fieldViolations"]
    assert violation["field"] == "node.network_config"
    assert text in violation["description"]


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_a_bare_object_stands_for_a_list_of_one(web, version):
    spec = {"parent": PARENT, "node_id": "n", "node": {**BODY, "dataDisks": {"sourceDisk": "d"}}}
    path = f"/{version}/{PARENT}/queuedResources"
    status, _ = web.ask("POST", f"{path}?queuedResourceId=q", {"tpu": {"node_spec": spec}})
    assert status == 200
    _, shown = web.ask("GET", f"{path}/q")
    (shown_spec,) = shown["tpu"]["nodeSpec"]
    assert shown_spec["node"]["dataDisks"] == [{"sourceDisk": "d"}]
    assert shown_spec["node"]["schedulingConfig"]["spot"] is False


@pytest.mark.parametrize("force", ["true", "True", "TRUE"])
def test_a_flag_may_be_spelled_as_python_does(web, force):
    spec = {"parent": PARENT, "nodeId": "n", "node": BODY}
    path = f"/v2/{PARENT}/queuedResources"
    web.ask("POST", f"{path}?queuedResourceId=q", {"tpu": {"nodeSpec": [spec]}})
    web.ask("POST", "/_emulator/settle")
    assert web.ask("DELETE", f"{path}/q")[0] == 400
    assert web.ask("DELETE", f"{path}/q?force={force}")[0] == 200
    web.ask("POST", "/_emulator/settle")
    assert web.ask("GET", f"{path}/q")[0] == 404


def test_the_front_ends_own_parameters_are_not_the_requests(web):
    create(web)
    query = "$.xgafv=2&prettyPrint=false&quotaUser=me&key=k&$unique=rq&alt=json&uploadType="
    assert web.ask("GET", f"{NODES}/a?{query}")[0] == 200


SPELLINGS = [
    "nodes.name,nodes.state,nextPageToken",
    "nodes/name,nodes/state,nextPageToken",
    "nodes(name,state),nextPageToken",
    "nodes(name),nodes.state,next_page_token",
]


@pytest.mark.parametrize("mask", SPELLINGS)
@pytest.mark.parametrize("where", ["fields", "$fields", "header"])
def test_every_spelling_of_a_selection_chooses_the_same(web, mask, where):
    create(web)
    create(web, "b")
    page = f"{NODES}?pageSize=1"
    _, whole = web.ask("GET", page)
    if where == "header":
        status, _, raw = send(web, "GET", page, **{"X-Goog-FieldMask": mask})
    else:
        status, _, raw = send(web, "GET", f"{page}&{where}={mask}")
    assert (status, json.loads(raw)) == (
        200,
        {
            "nodes": [{"name": name_of("a"), "state": "READY"}],
            "nextPageToken": whole["nextPageToken"],
        },
    )


@pytest.mark.parametrize(
    ("path", "mask", "stray"),
    [
        (NODES, "nodes.nmae,nextPageToken", "nodes.nmae"),
        (NODES, "name", "name"),
        (NODES, "nodes(name,metadata/key)", "nodes.metadata.key"),
        (NODES, "nodes//name", "nodes//name"),
        (f"{NODES}/a", "name.x", "name.x"),
        (f"/v1/{PARENT}/nodes", "nodes.metadata", "nodes.metadata"),
        (f"/v2alpha1/{PARENT}/queuedResources", "queuedResources.nope", "queuedResources.nope"),
        (f"/v2/{PARENT}/operations", "operations.nodes", "operations.nodes"),
        ("/v2/projects/lab/locations", "zones", "zones"),
        ("/v3/projects/lab/metricDescriptors", "metricDescriptors.x", "metricDescriptors.x"),
        ("/v2/projects/lab/logs", "logs", "logs"),
        ("/v1/services", "services(nope)", "services.nope"),
    ],
)
@pytest.mark.parametrize("where", ["fields", "$fields", "header"])
def test_an_unknown_field_is_refused_and_named_in_the_details(web, path, mask, stray, where):
    if where == "header":
        status, _, raw = send(web, "GET", path, **{"X-Goog-FieldMask": mask})
    else:
        status, _, raw = send(web, "GET", f"{path}?{where}={mask}")
    text = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{stray}'."
    assert (status, json.loads(raw)["error"]) == (
        400,
        {
            "code": 400,
            "message": "Request contains an invalid argument.",
            "status": "INVALID_ARGUMENT",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.BadRequest",
                    "fieldViolations": [{"field": mask, "description": text}],
                }
            ],
        },
    )


def test_what_an_operation_has_packed_may_be_chosen_from(web):
    _, operation = create(web)
    path = f"/v2/{operation['name']}"
    assert web.ask("GET", f"{path}?fields=done,metadata.verb,response(name)") == (
        200,
        {"done": True, "metadata": {"verb": "create"}, "response": {"name": name_of("a")}},
    )


@pytest.mark.parametrize("parameter", ["fields", "$fields"])
def test_only_what_is_asked_for_is_answered(web, parameter):
    create(web, labels={"a": "b"})
    query = f"{parameter}=nodes(name,labels),nextPageToken"
    assert web.ask("GET", f"{NODES}?{query}") == (
        200,
        {"nodes": [{"name": name_of("a"), "labels": {"a": "b"}}]},
    )
    _, node = web.ask("GET", f"{NODES}/a?{parameter}=schedulingConfig/spot,networkConfig/*")
    assert node["schedulingConfig"] == {"spot": False}
    assert set(node) == {"schedulingConfig", "networkConfig"}


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "a(",
        "a)",
        "a(b",
        "a,,b",
        ",",
        "a/",
        "a.",
        "a b",
        "a((b))",
        "a()",
        "a," * 600 + "a",
    ],
)
def test_a_selection_that_cannot_be_read_is_refused(text):
    with pytest.raises(ApiError, match="Request contains an invalid argument"):
        chosen_of(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a", {"a": {"b": 1, "c": [{"d": 2, "e": 3}]}}),
        ("a/b", {"a": {"b": 1}}),
        ("a(b)", {"a": {"b": 1}}),
        ("a/c/d", {"a": {"c": [{"d": 2}]}}),
        ("a(c(e),b)", {"a": {"b": 1, "c": [{"e": 3}]}}),
        ("*/b,f", {"a": {"b": 1}, "f": 4}),
        ("a.c.d", {"a": {"c": [{"d": 2}]}}),
        ("a,a/b", {"a": {"b": 1, "c": [{"d": 2, "e": 3}]}}),
        ("x", {}),
    ],
)
def test_a_selection_cuts_what_is_not_in_it(text, kept):
    whole = {"a": {"b": 1, "c": [{"d": 2, "e": 3}]}, "f": 4}
    assert select_keys(whole, chosen_of(text)) == kept


def test_a_selection_that_cannot_be_read_changes_nothing(web):
    assert web.ask("POST", f"{NODES}?nodeId=a&fields=((", BODY)[0] == 400
    assert web.ask("GET", f"{NODES}/a")[0] == 404


def test_a_path_with_odd_characters_is_taken_as_it_is(web):
    for odd in ("a%3Fb", "a%23b", "a%20b", "a:b", "%C3%A9"):
        status, answer = web.ask("GET", f"{NODES}/{odd}")
        assert (status, answer["error"]["status"]) == (404, "NOT_FOUND")


def test_too_many_parameters_are_refused(web):
    assert web.ask("GET", f"{NODES}?{'a=b&' * 1001}")[0] == 400


def test_a_client_that_hangs_up_in_the_middle_harms_nobody(web, caplog):
    host, port = web.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(
            f"POST {NODES}?nodeId=a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode()
        )
    assert web.ask("GET", NODES) == (200, {})
    assert "failed inside the emulator" not in caplog.text


@pytest.mark.parametrize("version", ["v1", "v2", "v2alpha1"])
def test_the_discovery_document_of_every_version_has_our_address(web, version):
    status, document = web.ask("GET", f"/$discovery/rest?version={version}")
    assert (status, document["version"], document["rootUrl"]) == (200, version, f"{web.url}/")
    assert web.ask("GET", f"/discovery/v1/apis/tpu/{version}/rest") == (200, document)


def test_a_version_that_there_is_not_has_no_document(web):
    assert web.ask("GET", "/discovery/v1/apis/tpu/v9/rest")[0] == 404


@pytest.mark.parametrize("version", ["v1", "v2", "v2alpha1"])
def test_an_operation_is_the_same_under_every_version(web, version):
    _, begun = web.ask("POST", f"/v2alpha1/{PARENT}/nodes?nodeId=a", BODY)
    web.ask("POST", "/_emulator/settle")
    _, done = web.ask("GET", f"/{version}/{begun['name']}")
    assert done["response"]["@type"].endswith("google.cloud.tpu.v2alpha1.Node")
    assert done["response"]["apiVersion"] == "V2_ALPHA1"
    assert done["metadata"]["apiVersion"] == "v2alpha1"
    _, locations = web.ask("GET", f"/{version}/projects/lab/locations?extraLocationTypes=x")
    assert len(locations["locations"]) == 40


def test_what_only_rest_can_say_in_v2_is_shown_again(web):
    disk = {"customerEncryptionKey": {"kmsKeyName": "k"}}
    said = {"bootDiskConfig": disk, "protectionTier": "STANDARD", "upcomingMaintenance": {}}
    _, operation = create(web, **said)
    _, node = web.ask("GET", f"{NODES}/a")
    assert node["bootDiskConfig"] == disk
    # These two only the cloud may set.
    assert not {"protectionTier", "upcomingMaintenance"} & set(node)
    _, done = web.ask("GET", f"/v2/{operation['name']}")
    assert done["response"]["bootDiskConfig"] == disk
    assert web.ask("POST", f"{NODES}?nodeId=b", {**BODY, "autocheckpointEnabled": True})[0] == 400
