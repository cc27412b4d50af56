"""The OpenAPI document says what the service does."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.auth import PUBLIC


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


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
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def test_every_operation_has_an_id_of_its_own_a_summary_and_a_description(document):
    found = operations(document)
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", one) for one in ids)
    assert all(operation["summary"] and operation["description"] for _, _, operation in found)


def test_every_operation_says_how_it_can_fail_and_fails_with_a_problem(document):
    for path, method, operation in operations(document):
        failures = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert len(failures) > 1, (method, path)
        for response in failures.values():
            assert list(response["content"]) == ["application/problem+json"]
            assert response["description"]


def test_every_operation_says_what_it_answers(document):
    for path, method, operation in operations(document):
        answers = {s: r for s, r in operation["responses"].items() if s < "400"}
        written_before = {"200", "201"}  # the one where it was there already, the other where not
        assert len(answers) == 1 or answers.keys() == written_before, (method, path)
        assert all(answer["content"] for answer in answers.values())


def test_what_is_referred_to_is_there(document):
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    assert "HTTPValidationError" not in schemas


def test_parameters_of_a_path_are_declared(document):
    for path, _, operation in operations(document):
        declared = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path))


def test_the_list_of_nodes_declares_what_it_reads_by_hand(client, document):
    declared = [one["name"] for one in document["paths"]["/v1/nodes"]["get"]["parameters"]]
    refusal = client.get("/v1/nodes?x=1").json()["detail"]
    assert refusal.endswith(", ".join(sorted(declared)))


def test_the_bodies_of_the_contract_are_described(document):
    properties = document["components"]["schemas"]["NodeRequest"]["properties"]
    assert len(properties) == 34
    assert all("description" in one or "examples" in one for one in properties.values())


def test_the_document_is_the_same_each_time_it_is_asked_for(client, document):
    assert client.get("/openapi.json").json() == document


def test_a_guarded_service_says_that_it_needs_a_token(services):
    client = TestClient(create_app(services, "t0ken"))
    answer = client.get("/openapi.json", headers={"Authorization": "Bearer t0ken"})
    for path, _, operation in operations(answer.json()):
        assert ("security" in operation) == (path not in PUBLIC)
        assert ("401" in operation["responses"]) == (path not in PUBLIC)


def test_there_are_no_pages_that_load_scripts_from_elsewhere(client):
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
