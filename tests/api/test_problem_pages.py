"""Each problem document leads to the entry of the manual that says what to do next."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

import service.api
from service.api.http.problem_kinds import EVERY_KIND
from service.api.http.problems import OTHER, ProblemKind
from service.dashboard.pages.manual import get_manual_page
from service.dashboard.routes import add_dashboard

SLUGS = sorted({kind.slug for kind in EVERY_KIND})
SECTIONS = {
    section.anchor: section
    for section in get_manual_page("problems").page.sections
    if section.level == 3
}


@pytest.fixture
def whole(app):
    """A caller of the API and the dashboard, who follows no redirect."""
    add_dashboard(app)
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as made:
        yield made


def kinds_of(value):
    """The kinds in a value of a module."""
    if isinstance(value, ProblemKind):
        yield value
    elif isinstance(value, dict):
        for value_ in value.values():
            yield from kinds_of(value_)


def test_every_kind_that_a_module_defines_is_listed():
    defined = set()
    for module in pkgutil.walk_packages(service.api.__path__, "service.api."):
        for value in vars(importlib.import_module(module.name)).values():
            defined.update(kinds_of(value))
    assert defined == set(EVERY_KIND)


def test_every_slug_has_an_entry_in_the_manual_and_no_entry_lacks_its_slug():
    assert sorted(SECTIONS) == sorted([*SLUGS, OTHER])


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: f"{kind.status}-{kind.slug}")
def test_an_entry_names_the_status_and_says_what_to_do_next(kind):
    status, _, said = SECTIONS[kind.slug].text.partition(". ")
    assert str(kind.status) in status.removeprefix("Status ").split(" or ")
    assert len(re.findall(r"[.;:]( |$)", said)) >= 2, "what happened, and what to do next"


@pytest.mark.parametrize("slug", [*SLUGS, OTHER])
def test_the_address_of_a_problem_leads_to_its_entry(whole, slug):
    answer = whole.get(f"/problems/{slug}")
    address, _, anchor = answer.headers["location"].partition("#")
    assert (answer.status_code, anchor) == (307, slug)
    assert f'<h3 id="{slug}">' in whole.get(address).text


@pytest.mark.parametrize("path", ["/v1/nodes/none", "/v1/nowhere", "/v1/nodes?page_size=0"])
def test_a_problem_document_names_the_address_of_its_entry(whole, path):
    problem = whole.get(path).json()
    assert problem["help"] == f"/problems/{problem['type'].rpartition(':')[2]}"
    assert whole.get(problem["help"]).status_code == 307


def test_a_status_without_a_kind_leads_to_the_entry_for_all_of_them(app, whole):
    @app.get("/teapot")
    def teapot():
        raise HTTPException(418)

    problem = whole.get("/teapot").json()
    assert problem["type"].endswith(":http-418")
    assert problem["help"] == f"/problems/{OTHER}"


@pytest.mark.parametrize("slug", ["none", "the-request", "NOT-FOUND", "%00x", "<b>"])
def test_an_unknown_problem_is_a_page_with_a_way_back(whole, slug):
    answer = whole.get(f"/problems/{slug}")
    assert answer.status_code in {400, 404}
    assert "location" not in answer.headers
    assert "<b>" not in answer.text
