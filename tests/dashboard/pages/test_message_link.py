"""The page of a link in a message: GET shows, POST acts once, and no token is asked for but its
own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from service.api.app import create_app
from service.application.cleanup.links import MAX_MISSES, MOST_OF_A_LINK, MOST_OF_AN_ADDRESS
from service.dashboard.pages.message_link import build_failure_page
from service.dashboard.routes import add_dashboard
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.errors import (
    BudgetExceeded,
    Conflict,
    RateLimited,
    Rejected,
    StaleVersion,
    StoreUnavailable,
)
from service.domain.idle.links import LIFE_SECONDS, Verb
from service.domain.jobs.job import Job
from service.domain.nodes.node import Asked, Node, NodeState
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON, HandClock
from tests.linking import TOLD, notified, tokens_of, told_of
from tests.store.test_jobs import a_job, an_attempt

TOKEN = "s3cret-t0ken"


@pytest.fixture
def outside(lab: Lab) -> Iterator[TestClient]:
    """Whoever got the message: the service asks for a token, and they have none."""
    app = create_app(lab.services, TOKEN)
    add_dashboard(app)
    with TestClient(app, base_url="https://steward.example.com") as client:
        yield client


def node_of(lab: Lab, node: Node) -> Node:
    return lab.services.nodes.get(node.id)


def paths_of(lab: Lab, node: Node) -> dict[Verb, str]:
    return {verb: f"/links/{token}" for verb, token in tokens_of(lab.units, node).items()}


def test_to_look_changes_nothing_and_shows_what_would_be_done(
    lab: Lab, outside: TestClient
) -> None:
    node = told_of(lab.units)
    paths = paths_of(lab, node)
    before = node_of(lab, node)
    for method in ("GET", "HEAD", "GET"):
        for path in paths.values():
            assert outside.request(method, path).status_code == 200
    said = text_of(outside.get(paths[Verb.DELETE]))
    assert "Delete node train now?" in said
    assert "Cost per hour $9.60" in said
    assert "Cost so far $9.60" in said
    assert "This link works once." in said
    assert "Link expires 2026-11-07 11:50:00 UTC" in said
    assert "The node is kept until 2026-11-05 16:00:00 UTC" in text_of(
        outside.get(paths[Verb.KEEP])
    )
    assert '<form method="post">' in outside.get(paths[Verb.KEEP]).text
    assert outside.head(paths[Verb.KEEP]).text == ""
    assert node_of(lab, node) == before
    assert lab.services.nodes.list_events(node.id, 0, 9) == []


def test_every_answer_is_kept_out_of_caches_referrers_and_search(
    lab: Lab, outside: TestClient
) -> None:
    path = paths_of(lab, told_of(lab.units))[Verb.KEEP]
    for answer in (outside.get(path), outside.get("/links/nope"), outside.post(path)):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "noindex" in answer.headers["x-robots-tag"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "<script" not in answer.text


def test_the_second_post_is_gone(lab: Lab, outside: TestClient) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[Verb.KEEP]
    first = outside.post(path)
    assert first.status_code == 200
    assert "Node train: kept until 2026-11-05T16:00:00Z." in text_of(first)
    assert node_of(lab, node).kept_until == NOON + 4 * HOUR
    for answer in (outside.post(path), outside.get(path)):
        assert answer.status_code == 410
        assert "this link was used before" in text_of(answer)
        assert "<form" not in answer.text


def test_a_delete_link_deletes(lab: Lab, outside: TestClient) -> None:
    node = told_of(lab.units)
    answer = outside.post(paths_of(lab, node)[Verb.DELETE])
    assert answer.status_code == 200
    assert "Node train: deletion requested." in text_of(answer)
    assert node_of(lab, node).asked is Asked.ABSENT


def run_job(lab: Lab, node: Node) -> Job:
    """A job that ran on the node before the message was written."""
    job = a_job(node_id=node.id)
    with lab.units() as unit:
        unit.jobs.add(job, None)
        unit.jobs.add_attempt(an_attempt(job, node, claimed_at=TOLD - 60))
    return job


def test_the_page_asks_whether_a_node_is_deleted_although_a_job_runs_on_it(
    lab: Lab, outside: TestClient
) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[Verb.DELETE]
    idle = outside.get(path)
    assert "Delete the node all the same" not in idle.text
    job = run_job(lab, node)
    asked = outside.get(path)
    assert "Delete node train although a job runs on it?" in text_of(asked)
    assert f"Job {job.id} runs on the node, and ends with it." in text_of(asked)
    assert '<button type="submit">Delete the node all the same</button>' in asked.text
    assert node_of(lab, node).asked is Asked.PRESENT
    other = told_of(lab.units, name="other")
    assert "all the same" not in outside.get(paths_of(lab, other)[Verb.KEEP]).text
    assert "Node train: deletion requested." in text_of(outside.post(path))
    assert node_of(lab, node).asked is Asked.ABSENT


def test_a_link_about_a_node_that_worked_since_is_gone_with_the_reason(
    lab: Lab, outside: TestClient
) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[Verb.DELETE]
    notified(lab.units, node, None)
    answer = outside.post(path)
    assert answer.status_code == 410
    assert "the node was active since this message was written" in text_of(answer)
    assert node_of(lab, node).asked is Asked.PRESENT


@pytest.mark.parametrize("verb", list(Verb))
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"attempt": 3}, "the node was created again since, and this link is for the earlier one"),
        ({"asked": Asked.ABSENT}, "the node is already being deleted"),
        ({"state": NodeState.DELETED, "ended_at": NOON}, "the node no longer exists"),
    ],
)
def test_a_link_to_a_node_that_is_another_by_now_is_gone_with_the_reason(
    lab: Lab, outside: TestClient, verb: Verb, changed: dict[str, Any], why: str
) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[verb]
    with lab.units() as unit:
        before = unit.nodes.save(replace(unit.nodes.get(node.id), **changed))
    for answer in (outside.get(path), outside.post(path), outside.post(path)):
        assert answer.status_code == 410
        assert f"Nothing was changed: {why}." in text_of(answer)
        assert "<form" not in answer.text
    assert node_of(lab, node) == before
    assert lab.services.nodes.list_events(node.id, 0, 9) == []


def test_an_expired_link_is_gone_with_the_reason(
    lab: Lab, outside: TestClient, clock: HandClock
) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[Verb.DELETE]
    clock.pass_(LIFE_SECONDS)
    answer = outside.post(path)
    assert answer.status_code == 410
    assert "Nothing was changed: this link has expired." in text_of(answer)
    assert node_of(lab, node).asked is Asked.PRESENT


def test_wrong_tokens_are_not_found_and_then_too_many(lab: Lab, outside: TestClient) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[Verb.KEEP]
    for number in range(MAX_MISSES):
        method = "POST" if number % 2 else "GET"
        assert outside.request(method, f"/links/guess-{number}").status_code == 404
    answer = outside.get("/links/guess")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "60"
    assert "more than 30 requests for unknown links came within a minute" in text_of(answer)
    assert outside.post(path).status_code == 200


def test_a_link_that_is_requested_too_often_is_refused_for_a_while(
    lab: Lab, outside: TestClient, clock: HandClock
) -> None:
    node = told_of(lab.units)
    paths = paths_of(lab, node)
    for number in range(MOST_OF_A_LINK):
        method = "HEAD" if number % 2 else "GET"
        assert outside.request(method, paths[Verb.DELETE]).status_code == 200
    for method in ("GET", "HEAD", "POST"):
        answer = outside.request(method, paths[Verb.DELETE])
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "60"
        assert answer.headers["cache-control"] == "no-store"
    said = text_of(outside.get(paths[Verb.DELETE]))
    assert "more than 120 requests for this link came within a minute. Try again in 60 s." in said
    assert node_of(lab, node).asked is Asked.PRESENT
    assert outside.get(paths[Verb.KEEP]).status_code == 200, "another link is not affected"
    clock.pass_(60)
    assert outside.post(paths[Verb.DELETE]).status_code == 200


def test_an_address_that_requests_too_many_links_is_refused_and_no_other_address(
    lab: Lab, outside: TestClient
) -> None:
    node = told_of(lab.units)
    path = paths_of(lab, node)[Verb.KEEP]
    near = TestClient(outside.app, "https://steward.example.com", client=("192.0.2.1", 9))
    for _ in range(MOST_OF_AN_ADDRESS):
        with suppress(RateLimited):
            lab.services.links.read_offer("guess", "192.0.2.1")
    answer = near.post(path)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert "came from this address within a minute" in text_of(answer)
    assert node_of(lab, node).kept_until is None
    far = TestClient(outside.app, "https://steward.example.com", client=("192.0.2.2", 9))
    assert far.post(path).status_code == 200


def test_what_cannot_be_kept_is_refused_with_the_reason(lab: Lab, outside: TestClient) -> None:
    flex = {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 2 * HOUR}
    path = paths_of(lab, told_of(lab.units, **flex))[Verb.KEEP]
    answer = outside.post(path)
    assert answer.status_code == 422
    assert "Google ends this node at 2026-11-05T13:00:00Z" in text_of(answer)


def test_a_database_that_is_away_is_said(
    lab: Lab, outside: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(token: str, address: str) -> None:
        raise StoreUnavailable("the database is locked")

    monkeypatch.setattr(lab.services.links, "use_link", fail)
    answer = outside.post("/links/x")
    assert answer.status_code == 503
    assert "Nothing was changed the database is locked." in text_of(answer)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://steward.example.com", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "null"}, 200),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
    ],
)
def test_a_form_of_another_site_does_nothing(
    lab: Lab, outside: TestClient, headers: dict[str, str], status: int
) -> None:
    """A browser sends `Origin: null` with the page's own form, as the page sends no referrer."""
    node = told_of(lab.units)
    answer = outside.post(paths_of(lab, node)[Verb.DELETE], headers=headers)
    assert answer.status_code == status
    assert (node_of(lab, node).asked is Asked.ABSENT) is (status == 200)


def test_only_the_link_itself_and_the_styles_are_open_to_everyone(
    lab: Lab, outside: TestClient
) -> None:
    path = paths_of(lab, told_of(lab.units))[Verb.KEEP]
    assert outside.get("/static/steward.css").status_code == 200
    for closed in ("/", "/links", "/links/", f"{path}/x", "/v1/nodes", "/static", "/statements"):
        assert outside.get(closed).status_code == 401, closed


def test_nothing_of_a_name_becomes_markup(lab: Lab, outside: TestClient) -> None:
    node = told_of(lab.units, name=HOSTILE, owner=HOSTILE, team=HOSTILE, kept_until=NOON + 9)
    for path in paths_of(lab, node).values():
        for answer in (outside.get(path), outside.post(path), outside.get(path)):
            assert HOSTILE not in answer.text


def test_a_failure_writes_no_token_to_the_log(
    lab: Lab, outside: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(token: str, address: str) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(lab.services.links, "read_offer", fail)
    with capture_logs() as written:
        assert outside.get("/links/a-token-of-somebody").status_code == 500
    assert [(message["event"], message["path"]) for message in written] == [
        ("request failed", "/links/...")
    ]
    assert "a-token-of-somebody" not in str(written)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BudgetExceeded("the budget has no room for it", budget_id="b"), 403),
        (Conflict("it is being changed"), 409),
        (StaleVersion("it was changed just now"), 409),
        (Rejected("Google ends this node before that"), 422),
        (StoreUnavailable("the database is locked"), 503),
    ],
)
def test_a_page_says_why_nothing_was_done(error, status):
    page = build_failure_page(error)
    assert (page.status, page.sentence, page.button) == (status, f"{error}.", "")
