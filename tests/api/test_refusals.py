"""Whatever is wrong with a request is said in words that help, and nothing is made of it."""

from __future__ import annotations

import json

import pytest

from tests.api.conftest import NODE_REQUEST

JSON = {"content-type": "application/json"}
DEEP = "[" * 100_000
HUGE = "x" * 500_000
NUL = "a\0b"


def refused(client, answer, status=422):
    """The problem that was answered; nothing was created, and nothing huge was repeated."""
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 8_000
    assert client.get("/v1/nodes").json()["nodes"] == []
    problem = answer.json()
    assert problem["status"] == status
    assert {"type", "title", "detail", "instance"} <= set(problem)
    return problem


@pytest.mark.parametrize(
    ("changes", "slug", "fact", "holds"),
    [
        (
            {"accelerator_type": "v5e-8"},
            "unknown-accelerator-type",
            "closest",
            "v5litepod-8",
        ),
        ({"accelerator_type": HUGE[:80]}, "unknown-accelerator-type", "closest", None),
        ({"zone": "us-central2-b"}, "not-offered", "offered_in", "us-west4-a"),
        ({"runtime_version": "v2-alpha-tpuv4"}, "runtime-mismatch", "compatible", None),
        (
            {"framework": {"name": "tensorflow", "version": "1.15"}},
            "runtime-mismatch",
            "compatible",
            None,
        ),
        ({"project": "theirs"}, "rejected", "projects", "lab"),
    ],
)
def test_a_request_that_cannot_be_granted_is_answered_with_what_can(
    client, changes, slug, fact, holds
):
    problem = refused(client, client.post("/v1/nodes", json=NODE_REQUEST | changes))
    assert problem["type"].endswith(f":{slug}")
    assert isinstance(problem[fact], list)
    assert holds is None or holds in problem[fact]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "Not-A-Name"}, "lower-case letter"),
        ({"labels": {"steward-id": "mine"}}, "belongs to the service"),
        ({"labels": {"a": "B!"}}, "63 lower-case"),
        ({"labels": {f"k{n}": "" for n in range(61)}}, "at most 60"),
        ({"zones": ["us-west4-b"]}, "at most one of zone, zones and regions"),
        ({"generation": "v5e"}, "either accelerator_type, or generation"),
        ({"accelerator_types": ["v6e-8"]}, "accelerator_type or accelerator_types, not both"),
        ({"queued": True, "provisioning_model": "preemptible"}, "use spot"),
        ({"queued": False, "provisioning_model": "reserved"}, "leave out queued"),
        ({"queued": False, "slices": 2}, "leave out queued"),
        ({"reservation": "ours"}, "needs provisioning_model reserved"),
        ({"valid_until": "2020-01-01T00:00:00Z"}, "has passed"),
        ({"valid_until": "2099-01-01T00:00:00Z", "max_wait_seconds": 60}, "not both"),
        ({"architecture": "node"}, "use architecture vm"),
        ({"startup_script": NUL}, "NUL"),
        ({"metadata": {"a": NUL}}, "NUL"),
        ({"metadata": {NUL: "a"}}, "NUL"),
        ({"startup_script": "x" * 300_000}, "256 KiB"),
    ],
)
def test_a_rule_of_the_service_is_told_when_it_is_broken(client, changes, said):
    assert said in refused(client, client.post("/v1/nodes", json=NODE_REQUEST | changes))["detail"]


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"ttl_seconds": -1}, "ttl_seconds", "greater than 0"),
        ({"ttl_seconds": 0}, "ttl_seconds", "greater than 0"),
        ({"ttl_seconds": 31_536_001}, "ttl_seconds", "less than or equal to 31536000"),
        ({"ttl_seconds": 1.5}, "ttl_seconds", "integer"),
        ({"ttl_seconds": True}, "ttl_seconds", "integer"),
        ({"ttl_seconds": "3600"}, "ttl_seconds", "integer"),
        ({"external_ip": 1}, "external_ip", "boolean"),
        ({"chips": 0}, "chips", "greater than or equal to 1"),
        ({"chips": 10**30}, "chips", "less than or equal"),
        ({"provisioning_model": "free"}, "provisioning_model", "'spot'"),
        ({"idle": {"after_seconds": 0}}, "idle.after_seconds", "greater than or equal to 1"),
        ({"idle": {"action": "explode"}}, "idle.action", "'notify'"),
        ({"framework": {"name": "mxnet"}}, "framework.name", "'jax'"),
        ({"framework": "jax"}, "framework", "object"),
        ({"labels": ["a"]}, "labels", "object"),
        ({"labels": {"a": 1}}, "labels.a", "string"),
        ({"owner": NUL}, "owner", "not allowed"),
        ({"owner": "a\nb"}, "owner", "not allowed"),
        ({"team": HUGE}, "team", "at most 200"),
        ({"zone": HUGE}, "zone", "at most 80"),
        ({"accelerator_types": "v6e-8"}, "accelerator_types", "array"),
        ({"accelerator_types": ["v6e-8"] * 21}, "accelerator_types", "at most 20"),
        ({"accelerator_types": [HUGE]}, "accelerator_types.0", "at most 80"),
        ({"network": "\x1b[31m"}, "network", "not allowed"),
        ({"owner": "  "}, "owner", "blanks alone"),
        ({"team": " "}, "team", "blanks alone"),
        ({"acelerator_type": "x"}, "acelerator_type", "did you mean accelerator_type?"),
        ({"colour": "red"}, "colour", "known fields are accelerator_type, accelerator_types,"),
        ({"framework": {"name": "jax", "vresion": "1"}}, "framework.vresion", "mean version?"),
        ({"idle": {"x": 1}}, "idle.x", "known fields are action, after_seconds"),
        ({"state": "READY"}, "state", "unknown field"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_what_would_do(client, changes, field, said):
    problem = refused(client, client.post("/v1/nodes", json=NODE_REQUEST | changes))
    assert problem["type"].endswith(":invalid-request")
    (complaint,) = problem["errors"]
    assert complaint["field"] == field
    assert said in complaint["message"]
    assert problem["detail"] == f"{field}: {complaint['message']}"


HALF = "half a character: \ud800"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"team": HALF, "labels": {HALF: "1"}}, "team"),
        ({"startup_script": HALF}, "startup_script"),
        ({"metadata": {"motd": HALF}}, "metadata.motd"),
        ({"metadata": {HALF: "a"}}, "metadata.half a character: \ufffd\ufffd\ufffd.[key]"),
        ({"labels": {"run": HALF}}, "labels.run"),
    ],
)
def test_text_that_is_no_unicode_is_refused(client, changes, field):
    body = json.dumps(NODE_REQUEST | changes)
    problem = refused(client, client.post("/v1/nodes", content=body, headers=JSON))
    assert problem["errors"][0] == {"field": field, "message": "should be valid Unicode"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/estimates", NODE_REQUEST | {"labels": {"run": HALF}}),
        ("PATCH", "/v1/nodes/x", {"labels": {"run": HALF}}),
        ("PATCH", "/v1/nodes/x", {"labels": {HALF: None}}),
    ],
)
def test_no_route_takes_text_that_is_no_unicode(client, method, path, body):
    answer = client.request(method, path, content=json.dumps(body), headers=JSON)
    assert "should be valid Unicode" in refused(client, answer)["detail"]


def test_a_hundred_thousand_mistakes_are_not_all_told(client):
    body = {f"{'k' * 200}{n}": 1 for n in range(4_000)}
    problem = refused(client, client.post("/v1/nodes", json=body), 422)
    assert len(problem["errors"]) == 10
    assert "(and 3999 more)" in problem["detail"]


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        ("{nope", 400, "Expecting property name enclosed in double quotes at character 1"),
        (DEEP, 400, "nested too deeply"),
        (f'{{"a": {"[" * 900}{"]" * 900}}}', 422, "unknown field 'a'"),
        (f'{{"chips": {"9" * 5_000}}}', 400, "is not JSON"),
        (b'{"name": "\xff"}', 400, "UTF-8"),
        ("[]", 422, "JSON object"),
        ("null", 422, "JSON object"),
        ('"text"', 422, "JSON object"),
        ("", 422, "required"),
        ('{"chips": NaN}', 422, "integer"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(client, content, status, said):
    answer = client.post("/v1/nodes", content=content, headers=JSON)
    assert said in refused(client, answer, status)["detail"]


@pytest.mark.parametrize(
    "media_type", [None, "text/plain", "application/x-www-form-urlencoded", "garbage", ""]
)
def test_a_body_that_does_not_say_that_it_is_json_is_refused(client, media_type):
    headers = {} if media_type is None else {"content-type": media_type}
    answer = client.post("/v1/nodes", content=json.dumps(NODE_REQUEST), headers=headers)
    assert "Content-Type: application/json" in refused(client, answer, 415)["detail"]


@pytest.mark.parametrize("told", [True, False])
def test_a_body_of_five_megabytes_is_refused_with_the_limit(client, told):
    content = b"x" * 5_000_000 if told else (b"x" * 500_000 for _ in range(10))
    answer = client.post("/v1/nodes", content=content, headers=JSON)
    problem = refused(client, answer, 413)
    assert problem["limit_bytes"] == 1_048_576
    assert "1 MiB" in problem["detail"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "should not be empty"),
        ("x" * 256, "at most 255"),
        ("a b", "pattern"),
        ("\u00e4", "pattern"),
    ],
)
def test_a_key_that_is_no_key_is_refused(client, key, said):
    headers = [("Idempotency-Key", key.encode("latin-1"))]
    problem = refused(client, client.post("/v1/nodes", json=NODE_REQUEST, headers=headers))
    assert problem["errors"][0]["field"] == "Idempotency-Key"
    assert said in problem["errors"][0]["message"]


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("page_token=x", None, "not one that this service issued"),
        ("page_size=0", "page_size", "from 1 to 1000"),
        ("page_size=1001", "page_size", "from 1 to 1000"),
        ("page_size=ten", "page_size", "from 1 to 1000"),
        (f"page_size={'9' * 199}", "page_size", "from 1 to 1000"),
        ("page_size=1&page_size=2", "page_size", "given twice"),
        ("state=redy", "state", "known states are CREATING"),
        ("state=READ", "state", "did you mean READY?"),
        ("zon=x", "zon", "did you mean zone?"),
        ("live=true", "live", "known query parameters are generation, label"),
        (f"{'q' * 5_000}=1", "q" * 80, "unknown query parameter"),
        ("label=run", "label", "key:value"),
        ("label=:1", "label", "key:value"),
        ("label=a:1&label=a:2", "label", "given twice"),
        (f"team={'x' * 300}", "team", "at most 200"),
        ("&".join(["team=x"] * 200), "team", "at most 100"),
    ],
)
def test_a_query_that_means_nothing_is_refused(client, query, field, said):
    problem = refused(client, client.get(f"/v1/nodes?{query}"))
    assert said in problem["detail"]
    assert field is None or problem["errors"][0]["field"] == field


@pytest.mark.deep
@pytest.mark.parametrize("path", ["/v1/nodes/%00", "/v1/nodes?team=%00", "/v1/costs?tz=%00"])
def test_an_address_with_a_nul_is_refused(client, path):
    assert "NUL" in refused(client, client.get(path), 400)["detail"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/nodes/x/events?page_token=abc", "pattern"),
        ("/v1/nodes/x/ledger?page_size=0", "greater than or equal to 1"),
        ("/v1/nodes/x/events?after=1", "known query parameters are page_size, page_token"),
        ("/v1/catalog/zones?gen=v5e", "did you mean generation?"),
        ("/v1/catalog/capacity?days=7", "known query parameters are accelerator_type, generation"),
        ("/v1/catalog/capacity?window=soon", "is not a window"),
        ("/v1/catalog/capacity?generation=v9", "there is no generation"),
        ("/v1/catalog/capacity?accelerator_type=v6e-7", "did you mean v6e-8"),
        ("/v1/catalog/capacity?provisioning_model=free", "'spot'"),
        ("/v1/prices?when=now", "known query parameters are at, generation"),
        ("/v1/costs?windw=7d", "did you mean window?"),
    ],
)
def test_every_list_says_which_parameters_it_knows(client, path, said):
    assert said in refused(client, client.get(path))["detail"]
