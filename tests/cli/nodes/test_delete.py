"""`nodes delete`: several nodes, what is lost with them, and who is asked."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from service.cli.app import app
from service.cli.nodes import delete
from tests.cli.given import ID, OTHER, Api, node, page, steward

TRAINER = node(cost="120.334000000")
HELPER = node(
    id=OTHER,
    name="helper",
    hourly_cost=None,
    keep={"until": "2026-11-06T12:00:00Z", "reason": "a demo"},
)
REFUSED = {"detail": "helper is being reimaged", "title": "Conflict", "status": 409}


@pytest.fixture
def two(api: Api) -> Api:
    """An API with two nodes that can be deleted."""
    api.when("GET", "/v1/nodes", page(TRAINER), page(HELPER))
    for found in (TRAINER, HELPER):
        path = f"/v1/nodes/{found['id']}"
        api.when("GET", path, found)
        api.when("DELETE", path, {**found, "asked": "absent"}, status=202)
    return api


def deleted(api: Api) -> list[str]:
    return [call.path.rpartition("/")[2] for call in api.calls if call.method == "DELETE"]


def answer_with(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str):
    monkeypatch.setattr(delete, "can_ask", lambda: True)
    return CliRunner().invoke(app, ["nodes", "delete", *arguments], input=text)


def test_several_nodes_are_deleted_without_a_question_where_nobody_can_answer(two):
    result = steward("nodes", "delete", "trainer", "helper")
    assert result.stdout.splitlines() == [
        "trainer is READY and is to be deleted",
        "helper is READY and is to be deleted",
    ]
    assert (deleted(two), result.stderr) == ([ID, OTHER], "")


def test_a_name_that_nobody_has_deletes_none_of_them(api):
    api.when("GET", "/v1/nodes", page(TRAINER), page())
    result = steward("nodes", "delete", "trainer", "helper")
    assert (result.exit_code, deleted(api)) == (1, [])


@pytest.mark.parametrize(("text", "code", "gone"), [("y\n", 0, [ID, OTHER]), ("\n", 1, [])])
def test_a_person_is_told_what_is_lost_and_is_asked_once(two, monkeypatch, text, code, gone):
    two.when(
        "GET",
        "/v1/jobs",
        {"jobs": [{"id": "j1", "node_id": ID, "state": "RUNNING"}], "next_page_token": ""},
    )
    result = answer_with(monkeypatch, text, "trainer", "helper")
    assert (result.exit_code, deleted(two)) == (code, gone)
    said = result.stderr.splitlines()
    assert said[0] == (
        "trainer (READY): $4.62 an hour, $120.33 so far;"
        " lost: the data on its disks and job j1, which runs on it"
    )
    assert said[1] == (
        "helper (READY): an unknown amount an hour, $0.16 so far;"
        " lost: the data on its disks and its keep"
    )
    assert said[2] == "2 nodes cost at least $4.62 an hour now and $120.49 so far"
    assert said[3].startswith("Delete 2 nodes? [y/N]:")
    assert ("nothing was deleted" in said[3]) == (code == 1)


def test_an_unknown_price_is_not_shown_as_zero(two, monkeypatch):
    two.when("GET", "/v1/nodes", page(HELPER))
    known, question = answer_with(monkeypatch, "n\n", "helper").stderr.splitlines()[:2]
    assert known.startswith("helper (READY): an unknown amount an hour, $0.15 so far; lost: ")
    assert question.startswith("Delete helper? [y/N]:")


@pytest.mark.parametrize("option", ["--yes", "--force", "--json"])
def test_nobody_is_asked_who_said_so_before(two, monkeypatch, option):
    result = answer_with(monkeypatch, "", "trainer", option)
    assert (result.exit_code, result.stderr, deleted(two)) == (0, "", [ID])


def test_yes_does_not_end_a_job(two, monkeypatch):
    running = {"jobs": [{"id": "j1", "node_id": ID, "state": "RUNNING"}], "next_page_token": ""}
    two.when("GET", "/v1/jobs", running)
    result = answer_with(monkeypatch, "", "trainer", "--yes")
    assert (result.exit_code, deleted(two)) == (1, [])
    assert "repeat with --force" in result.stderr


def test_what_is_refused_of_several_does_not_keep_the_others(two):
    two.when("DELETE", f"/v1/nodes/{ID}", REFUSED, status=409)
    result = steward("nodes", "delete", "trainer", "helper", "--json")
    assert (result.exit_code, deleted(two)) == (1, [ID, OTHER])
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["helper"]
    assert result.stderr == "trainer: helper is being reimaged\n"
