"""The OpenAPI document says what the service does."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.http.auth import PUBLIC
from service.api.openapi.documentation import SERVERS, SUMMARIES
from service.domain.idle.signals.heartbeat import PREFIX
from tests.api.schemas import schemas_of
from tests.architecture.wording import Text, faults_of


def operations(document):
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_operation_has_an_id_of_its_own_a_summary_and_a_description(document):
    found = operations(document)
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", id_) for id_ in ids)
    assert all(operation["summary"] and operation["description"] for _, _, operation in found)


def test_every_operation_says_how_it_can_fail_and_fails_with_a_problem(document):
    for path, method, operation in operations(document):
        failures = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert len(failures) > 1, (method, path)
        for response in failures.values():
            assert list(response["content"]) == ["application/problem+json"]
            assert response["description"]


def test_every_schema_has_a_name_and_a_title_of_its_own(document):
    named = document["components"]["schemas"]
    assert {name: schema["title"] for name, schema in named.items()} == {
        name: name for name in named
    }
    assert all(re.fullmatch(r"[A-Z][A-Za-z]+", name) for name in named), "no module, no -Input"
    titled = [place for place, schema in schemas_of(document) if "title" in schema]
    assert titled == [f"#/components/schemas/{name}" for name in named]


BEARER = {"Authorization": f"Bearer {PREFIX}no-such-token"}
BEFORE_THE_ROUTE = [
    (400, {"params": {"name": "\0"}}),
    (401, {"headers": BEARER}),
    (413, {"headers": {"Content-Length": "9" * 15}}),
    (421, {"headers": {"Host": "steward.example.com"}}),
]


@pytest.mark.parametrize(("status", "request_"), BEFORE_THE_ROUTE)
def test_answers_that_come_before_every_route_are_declared(client, document, status, request_):
    for path, method, operation in operations(document):
        if status == 401 and operation["operationId"] == "send_heartbeat":
            continue  # the one route that takes such a token
        answer = client.request(method, path, **request_)
        assert answer.status_code == status, (method, path)
        assert str(status) in operation["responses"], (method, path)


def test_a_page_of_another_site_is_declared_where_something_is_changed(client, document):
    for path, method, operation in operations(document):
        answer = client.request(method, path, headers={"Origin": "https://elsewhere.example.com"})
        assert (answer.status_code == 403) == (method != "get"), (method, path)
        assert method == "get" or "403" in operation["responses"], (method, path)


@pytest.mark.parametrize(
    ("status", "media_type", "body"),
    [
        (400, "application/json", b"{"),
        (415, "text/plain", b"{}"),
        (400, "application/json", b"\xff"),
    ],
)
def test_a_body_that_cannot_be_read_is_declared(client, document, status, media_type, body):
    for path, method, operation in operations(document):
        if "application/json" not in operation.get("requestBody", {}).get("content", ()):
            continue
        headers = {"Content-Type": media_type}
        filled = re.sub(r"{(?:orphan|quota)_id}", "0" * 32, path)
        filled = re.sub(r"{\w+}", "0" * 36, filled)
        answer = client.request(method, filled, content=body, headers=headers)
        assert answer.status_code == status, (method, path, answer.text)
        assert {"400", "408", "413", "415"} <= operation["responses"].keys(), (method, path)


def test_every_operation_says_what_it_answers(document):
    for path, method, operation in operations(document):
        answers = {s: r for s, r in operation["responses"].items() if s < "400"}
        written_before = {"200", "201"}  # the one where it was there already, the other where not
        assert len(answers) == 1 or answers.keys() == written_before, (method, path)
        assert all(answer["content"] for answer in answers.values())


def test_what_is_referred_to_is_there(document):
    for reference in references(document):
        _, components, kind, name = reference.split("/")
        assert name in document[components][kind]
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_parameters_of_a_path_are_declared(document):
    for path, _, operation in operations(document):
        declared = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path))


def test_the_list_of_nodes_declares_what_it_reads_by_hand(client, document):
    declared = [
        parameter["name"] for parameter in document["paths"]["/v1/nodes"]["get"]["parameters"]
    ]
    refusal = client.get("/v1/nodes?x=1").json()["detail"]
    assert refusal.endswith(", ".join(sorted(declared)))


def test_the_bodies_of_the_contract_are_described(document):
    properties = document["components"]["schemas"]["NodeRequest"]["properties"]
    assert len(properties) == 34
    assert all(
        "description" in property_ or "examples" in property_ for property_ in properties.values()
    )


def test_the_document_is_the_same_each_time_it_is_asked_for(client, document):
    assert client.get("/openapi.json").json() == document


def test_a_guarded_service_says_that_it_needs_a_token(services):
    client = TestClient(create_app(services, "t0ken"))
    answer = client.get("/openapi.json", headers={"Authorization": "Bearer t0ken"})
    for path, _, operation in operations(answer.json()):
        assert ("security" in operation) == (path not in PUBLIC)
        for accepted in operation.get("security", ()):
            assert accepted.keys() <= answer.json()["components"]["securitySchemes"].keys()
        assert ("401" in operation["responses"]) == (path not in PUBLIC)


def tokens_of(document, path, method):
    return [name for item in document["paths"][path][method]["security"] for name in item]


def test_each_operation_names_the_tokens_that_it_takes(services):
    document = create_app(services, "t0ken").openapi()
    assert tokens_of(document, "/v1/nodes", "get") == ["token", "password"]
    assert tokens_of(document, "/v1/nodes", "post") == ["token"]
    heartbeat = "/v1/nodes/{node_id}/heartbeat"
    assert tokens_of(document, heartbeat, "post") == ["token", "heartbeat"]


def test_the_password_of_a_browser_is_taken_where_the_document_says_so(services):
    app = create_app(services, "t0ken")
    client = TestClient(app, base_url="http://localhost")
    for path, method, operation in operations(app.openapi()):
        if path not in PUBLIC and "{" not in path:
            taken = client.request(method, path, auth=("", "t0ken")).status_code != 401
            assert taken == ({"password": []} in operation["security"]), (method, path)


def test_every_operation_has_one_tag_and_every_tag_a_description(document):
    declared = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = [operation["tags"] for _, _, operation in operations(document)]
    assert all(len(tags) == 1 for tags in used)
    assert {tag for (tag,) in used} == declared.keys()
    assert all(said.endswith(".") for said in declared.values())


def test_every_operation_has_a_title_of_its_own_that_begins_with_a_verb(document):
    named = {operation["operationId"] for _, _, operation in operations(document)}
    assert named == SUMMARIES.keys()
    titles = [operation["summary"] for _, _, operation in operations(document)]
    assert len(set(titles)) == len(titles)
    assert all(re.fullmatch(r"[A-Z][a-z]+ [^.]{3,50}", title) for title in titles), titles


def test_descriptions_are_in_plain_words_and_short_sentences(document):
    said = [document["info"]["description"], *(tag["description"] for tag in document["tags"])]
    texts = [Text("OpenAPI", text) for text in said] + [
        Text(operation["operationId"], operation["description"])
        for _, _, operation in operations(document)
    ]
    texts += [Text(name, said) for name, said in described(document["components"]["schemas"])]
    assert faults_of(texts) == []


def described(schemas):
    """The descriptions of schemas and of their fields, with where each stands."""
    for name, schema in schemas.items():
        fields = schema.get("properties", {})
        for where, part in [(name, schema), *((f"{name}.{key}", fields[key]) for key in fields)]:
            if "description" in part:
                yield where, part["description"]


def test_the_document_says_what_the_api_is_and_where_it_is(document):
    assert document["servers"] == [{"url": "/", "description": SERVERS[0]["description"]}]
    said = document["info"]["description"]
    for word in ("STEWARD_ADMIN_TOKEN", "Idempotency-Key", "If-Match", "next_page_token", "help"):
        assert word in said


def test_there_are_no_pages_that_load_scripts_from_elsewhere(client):
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
