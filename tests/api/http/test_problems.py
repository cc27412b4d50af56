"""Every error has its status, and no answer says more than the caller may know."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.api.http.problems import INTERNAL, KINDS, kind_of
from service.domain import errors


def tree(top):
    for kind in top.__subclasses__():
        yield kind
        yield from tree(kind)


OURS = [kind for kind in tree(errors.StewardError) if kind.__module__.startswith("service.")]


@pytest.mark.parametrize("error", OURS, ids=lambda one: one.__name__)
def test_every_error_has_a_status_of_its_own(error):
    assert error in KINDS, f"add {error.__name__} to service.api.http.problems.KINDS"


def test_no_two_errors_of_different_status_share_a_type():
    by_slug: dict[str, int] = {}
    for kind in KINDS.values():
        assert by_slug.setdefault(kind.slug, kind.status) == kind.status


def test_an_error_without_a_status_is_our_fault():
    assert kind_of(errors.StewardError("secret")) is INTERNAL


@pytest.fixture
def failing(app):
    """Have a route raise what a test gives it."""

    def build(error):
        @app.get("/fail")
        def fail() -> None:
            raise error

        return TestClient(app, base_url="http://localhost")

    return build


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound("gone"), 404),
        (errors.Conflict("taken"), 409),
        (errors.StaleVersion("changed"), 409),
        (errors.LeaseLost("lost"), 409),
        (errors.Rejected("never"), 422),
        (errors.BudgetExceeded("too much", budget="b-1"), 403),
        (errors.CapacityUnavailable("none"), 503),
        (errors.CloudUnavailable("silence"), 503),
        (errors.StoreUnavailable("locked"), 503),
        (errors.RateLimited("slowly"), 429),
        (errors.NotAllowed("no"), 502),
    ],
)
def test_an_error_becomes_a_problem_with_its_facts(failing, error, status):
    answer = failing(error).get("/fail")
    problem = answer.json()
    assert answer.status_code == problem["status"] == status
    assert problem["detail"] == str(error)
    assert problem["instance"] == "/fail"
    assert ("retry-after" in answer.headers) == (status in {429, 503})
    assert error.facts.items() <= problem.items()


def test_facts_do_not_hide_what_every_problem_has(failing):
    problem = failing(errors.Rejected("never", status=200, type="fine")).get("/fail").json()
    assert problem["status"] == 422
    assert problem["type"].endswith(":rejected")


@pytest.mark.parametrize("error", [ValueError("secret"), errors.StewardError("secret", a="secret")])
def test_a_failure_of_ours_tells_nothing_but_where_to_look(failing, error, caplog):
    answer = failing(error).get("/fail", headers={"X-Request-Id": "abc-1"})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "abc-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_what_is_nowhere_is_a_problem_too(client):
    answer = client.get("/v1/nope")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "openapi.json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/nodes", "GET, HEAD, POST"),
        ("/v1/nodes/x", "DELETE, GET, HEAD, PATCH"),
        ("/v1/prices", "GET, HEAD, POST"),
        ("/v1/costs", "GET, HEAD"),
        ("/v1/runtimes:resolve", "POST"),
    ],
)
def test_a_method_that_is_not_possible_is_answered_with_all_that_are(client, path, allowed):
    answer = client.put(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert allowed in answer.json()["detail"]


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_a_verb_is_a_path_of_its_own(client, verb):
    assert client.put(f"/v1/nodes/x:{verb}").headers["allow"] == "POST"
