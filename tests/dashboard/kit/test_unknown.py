"""An unknown address is a page for a browser, and a problem document for a program."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.dashboard.kit.unknown import prefers_html, shorten_path
from tests.dashboard.reading import HOSTILE, text_of

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
PROGRAMS = ["*/*", "", "application/json", "application/json, text/html;q=0.5", "text/html;q=x"]


@pytest.mark.parametrize("path", ["/nowhere", "/v1/nowhere", "/static/none.css", "/docs/x/y"])
def test_a_browser_gets_a_page_that_names_where_to_go(caller: TestClient, path: str) -> None:
    answer = caller.get(path, headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["vary"] == "Accept"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "Page not found" in text_of(answer)
    assert path in text_of(answer)
    for way in ("/", "/manual", "/docs"):
        assert f'<dt><a href="{way}">' in answer.text


@pytest.mark.parametrize("accept", PROGRAMS)
def test_a_program_gets_a_problem(caller: TestClient, accept: str) -> None:
    answer = caller.get("/nowhere", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["vary"]) == (404, "Accept")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:tpu-steward:problem:not-found"


def test_a_wrong_method_is_a_page_too_and_names_the_right_ones(caller: TestClient) -> None:
    page = caller.put("/v1/nodes", headers={"Accept": BROWSER})
    problem = caller.put("/v1/nodes")
    assert (page.status_code, problem.status_code) == (405, 405)
    assert page.headers["allow"] == problem.headers["allow"] == "GET, HEAD, POST"
    assert "Method not allowed" in text_of(page)
    assert problem.json()["status"] == 405


def test_what_the_api_does_not_find_stays_a_problem_for_a_browser(caller: TestClient) -> None:
    answer = caller.get("/v1/nodes/none", headers={"Accept": BROWSER})
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_address_stays_text(caller: TestClient) -> None:
    answer = caller.get(f"/{HOSTILE}", headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert HOSTILE not in answer.text


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML; Q=0.9, application/json;q=0.1", True),
        ("text/html, application/problem+json", False),
        *((program, False) for program in PROGRAMS),
    ],
)
def test_html_is_for_those_who_prefer_it_to_json(accept: str, is_html: bool) -> None:
    assert prefers_html(accept) is is_html


def test_a_long_address_is_cut_and_is_one_line() -> None:
    assert shorten_path("/a\nb") == "/a\ufffdb"
    assert len(shorten_path("/" + "a" * 5_000)) == 101
