"""The API reference shows all that the OpenAPI document says, to people."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.dashboard.kit.sample_values import Sampler
from service.dashboard.pages.reference import Reference, describe_limits, render_markdown
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of

GROUPS = ("nodes", "jobs", "cleanup", "orphans", "costs", "catalog", "health")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The OpenAPI document, which takes seconds to make and needs no service."""

    class Unused:
        def __getattr__(self, name: str) -> Any:
            return self

        max_bytes = 1

    found: dict[str, Any] = create_app(Unused(), None).openapi()  # type: ignore[arg-type]
    return found


@pytest.fixture
def reader(lab: Lab, document: dict[str, Any]) -> Iterator[TestClient]:
    """Reads the pages as they are served."""
    app = lab.whole()
    app.openapi = lambda: document  # type: ignore[method-assign]
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def operations_of(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def section_of(html: str, anchor: str) -> str:
    found = re.search(rf'<section [^>]*labelledby="{anchor}">.*?</section>', html, re.DOTALL)
    assert found is not None, anchor
    return unescape(re.sub(r"<[^>]*>", " ", found[0]))


def section_after(html: str, anchor: str) -> str:
    """The text below a heading, up to the end of the page."""
    return unescape(re.sub(r"<[^>]*>", " ", html[html.index(f'id="{anchor}"') :]))


def test_every_operation_is_shown_with_all_that_the_document_says(
    reader: TestClient, document: dict[str, Any]
) -> None:
    pages = {name: reader.get(f"/docs/{name}").text for name in GROUPS}
    common = set.intersection(*(problems_of(one) for _, _, one in operations_of(document)))
    shown_once = section_after(reader.get("/docs").text, "common-problems")
    assert all(key.replace("-", " ", 1) in shown_once for key in common)
    for path, method, operation in operations_of(document):
        said = section_of(pages[operation["tags"][0]], operation["operationId"])
        assert operation["summary"] in said
        assert re.search(rf"{method}\s+{re.escape(path)}\s", said)
        for parameter in operation.get("parameters", ()):
            assert f" {parameter['name']} " in said
        assert all(status in said for status in operation["responses"] if status < "400")
        for key in problems_of(operation) - common:
            assert key.replace("-", " ", 1) in said, (path, key)
        for name in body_fields(document, operation):
            assert f" {name} " in said, (path, name)


def problems_of(operation: dict[str, Any]) -> set[str]:
    """The keys of the problems that the operation can answer."""
    answers = [answer["content"] for answer in operation["responses"].values()]
    return {
        key for answer in answers for kind in answer.values() for key in kind.get("examples", ())
    }


def body_fields(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {})
    named = re.findall(r"schemas/(\w+)", json.dumps(content))
    return [
        name
        for operation in named
        for name in document["components"]["schemas"][operation]["properties"]
    ]


def test_the_contents_name_every_operation_and_lead_to_it(
    reader: TestClient, document: dict[str, Any]
) -> None:
    contents = reader.get("/docs").text
    for path, method, operation in operations_of(document):
        address = f"/docs/{operation['tags'][0]}#{operation['operationId']}"
        assert f'<a href="{address}">{operation["summary"]}</a>' in contents
        assert f"{method}</span> <code>{path}</code>" in contents


@pytest.mark.parametrize("path", ["/docs", *(f"/docs/{name}" for name in GROUPS), "/docs?q=zone"])
def test_every_link_leads_to_a_page_and_an_entry_that_are_there(
    reader: TestClient, path: str
) -> None:
    html = reader.get(path).text
    main = html[html.index("<main") :]
    for link in {unescape(link) for link in re.findall(r'href="([^"]*)"', main)}:
        page, _, anchor = link.partition("#")
        assert page.startswith("/") or not page, "the reference needs no other host"
        target = reader.get(page) if page else None
        assert target is None or target.status_code == 200, link
        ids = re.findall(r'\sid="([^"]*)"', html if target is None else target.text)
        assert not anchor or anchor in ids, link


@pytest.mark.parametrize("name", GROUPS)
def test_every_anchor_is_one_and_the_page_obeys_the_policy(reader: TestClient, name: str) -> None:
    answer = reader.get(f"/docs/{name}")
    ids = re.findall(r'\sid="([^"]*)"', answer.text)
    assert len(ids) == len(set(ids))
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r"\sstyle=|\son\w+=|javascript:|<img", answer.text)
    assert len(re.findall("<script", answer.text)) == 1, "that of every page"


def test_all_problems_are_listed_with_what_to_do(
    reader: TestClient, document: dict[str, Any]
) -> None:
    html = reader.get("/docs").text
    for example in document["components"]["examples"].values():
        slug = example["value"]["type"].rpartition(":")[2]
        assert f'<a href="/problems/{slug}">{slug}</a>' in html


def test_a_search_finds_operations_by_path_parameter_and_field(reader: TestClient) -> None:
    for query, anchor in (
        ("DELETE /v1/budgets", "costs#delete_budget"),
        ("idempotency create node", "nodes#request_node"),
        ("page_token orphans", "orphans#list_orphans"),
        ("retries preemption", "jobs#RetriesRequest"),
    ):
        assert f'<li><a href="/docs/{anchor}">' in reader.get("/docs", params={"q": query}).text


def test_a_search_without_a_match_says_what_to_do(reader: TestClient) -> None:
    assert "No entry has all of these words" in text_of(reader.get("/docs?q=xyzzy"))


@pytest.mark.parametrize("query", [HOSTILE, "a" * 5_000, "(", "\x00"])
def test_a_search_for_anything_is_answered_and_stays_text(reader: TestClient, query: str) -> None:
    answer = reader.get("/docs", params={"q": query})
    assert answer.status_code in {200, 400}
    assert HOSTILE not in answer.text


@pytest.mark.parametrize("name", ["none", "NODES", "..%2fnodes", "<b>"])
def test_an_unknown_group_is_a_page_with_a_way_back(reader: TestClient, name: str) -> None:
    answer = reader.get(f"/docs/{name}")
    assert answer.status_code == 404
    assert "<b>" not in answer.text


def commands_of(document: dict[str, Any]) -> dict[str, list[str]]:
    """The arguments of each sample with curl, by operation."""
    operations = [
        operation for group in Reference(document).groups for operation in group.operations
    ]
    return {
        operation.id: shlex.split(operation.curl.replace("\\\n", "")) for operation in operations
    }


def test_each_curl_command_is_the_request_that_it_shows(document: dict[str, Any]) -> None:
    commands = commands_of(document)
    for path, method, operation in operations_of(document):
        program, *arguments = commands[operation["operationId"]]
        (address,) = [
            argument for argument in arguments if argument.startswith("http://127.0.0.1:8080/")
        ]
        assert program == "curl"
        assert urlsplit(address).path == re.sub(r"{(\w+)}", lambda one: one[1].upper(), path)
        has_body = "-d" in arguments or "--data-binary" in arguments
        named = arguments[arguments.index("-X") + 1] if "-X" in arguments else None
        assert (named or ("POST" if has_body else "GET")) == method
        assert has_body == ("requestBody" in operation)
        if "-d" in arguments:
            body = json.loads(arguments[arguments.index("-d") + 1])
            assert body == operation["requestBody"]["content"]["application/json"]["example"]


def test_the_commands_that_read_are_answered(caller: TestClient, document: dict[str, Any]) -> None:
    commands = commands_of(document)
    for path, method, operation in operations_of(document):
        if method == "GET" and path != "/readyz":  # the lab has no database to be ready with
            address = urlsplit(commands[operation["operationId"]][-1])
            answer = caller.get(unquote(address.path), params=parse_qs(address.query))
            is_placeholder = re.search(r"/[A-Z_]+(/|$)", address.path) is not None
            expected = {404, 422} if is_placeholder else {200}
            assert answer.status_code in expected, (path, answer.text)


def test_examples_of_answers_have_every_field_of_their_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    sampler = Sampler(schemas)
    for name, schema in schemas.items():
        found = sampler.make_value(schema)
        if "properties" in schema:
            assert found.keys() == schema["properties"].keys(), name
        else:
            assert found in schema["enum"], name


def test_an_example_takes_values_from_fields_of_the_same_name() -> None:
    zone = {"type": "string", "examples": ["us-west4-a"]}
    plain = {"type": "string"}
    sampler = Sampler({"A": {"type": "object", "properties": {"zone": zone}}})
    assert sampler.make_value(
        {"type": "object", "properties": {"zone": plain, "other": plain}}
    ) == {
        "zone": "us-west4-a",
        "other": "string",
    }


def test_an_example_of_an_object_within_itself_ends() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#/components/schemas/Tree"}}}
    assert len(json.dumps(Sampler({"Tree": tree}).make_value(tree))) < 200


@pytest.mark.parametrize(
    ("schema", "limits"),
    [
        ({"type": "string", "maxLength": 80}, ["at most 80 characters"]),
        ({"type": "string", "minLength": 16, "maxLength": 200}, ["16 to 200 characters"]),
        ({"type": "integer", "minimum": 1.0}, ["at least 1"]),
        ({"type": "integer", "exclusiveMinimum": 0.0, "maximum": 9}, ["at most 9", "more than 0"]),
        ({"type": "array", "maxItems": 20}, ["at most 20 items"]),
        ({"type": "string", "format": "date-time"}, ["date-time"]),
        ({"type": "string", "pattern": "^a$"}, ["matches ^a$"]),
        ({"type": "string", "pattern": "^" + "a" * 99}, []),
        ({"type": "boolean"}, []),
    ],
)
def test_bounds_are_said_in_words(schema: dict[str, Any], limits: list[str]) -> None:
    assert list(describe_limits(schema)) == limits


def test_html_in_a_description_stays_text() -> None:
    assert "<b" not in render_markdown("<b onclick=x>bold</b> `code`")
    assert "<code>code</code>" in render_markdown("`code`")


def test_a_document_without_operations_is_a_page_too() -> None:
    assert Reference({"openapi": "3.1.0"}).groups == ()
