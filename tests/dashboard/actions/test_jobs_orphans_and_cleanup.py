"""Jobs are cancelled, orphans adopted and deleted, and a cleanup is applied and paused by forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.dashboard.actions.cleanup import list_cleanup_actions
from service.domain.idle.policy import Action
from service.domain.idle.rails import Breaker
from service.domain.nodes.node import Asked, NodeState
from service.domain.orphans.orphan import DELETE, OrphanKind
from tests.controllers.idle.conftest import REST, TIMES, IdleLab
from tests.dashboard.actions.sending import BROWSER, hidden_fields, send_form
from tests.dashboard.reading import HOSTILE, links_of, text_of
from tests.garbage import orphan, shown
from tests.hands import NOON

PATH = "projects/lab/locations/us-west4-a/nodes/somebodys"
MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 1


def test_a_job_is_cancelled_once(house):
    job = house.jobs.submit(run_name=HOSTILE, team="vision")
    path = f"/jobs/{job.id}"
    with TestClient(house.lab.whole(), base_url="http://localhost") as caller:
        page = caller.get(path)
        assert links_of(page.text)["Cancel the job"] == f"{path}/cancel"
        form = caller.get(f"{path}/cancel")
        assert HOSTILE not in form.text
        assert "The node of the job is deleted with it." in text_of(form)
        assert links_of(form.text)["Back"] == path
        answer = send_form(caller, f"{path}/cancel")
        assert answer.status_code == 303
        assert house.lab.services.jobs.get(job.id).job.cancel_requested_at is not None
        after = caller.get(answer.headers["location"])
        assert f"The cancellation of job {HOSTILE} is requested." in text_of(after)
        assert "Cancel the job" not in links_of(after.text)
        sent = caller.post(f"{path}/cancel", data=hidden_fields(form.text), headers=BROWSER)
        assert sent.status_code == 409


def test_the_form_of_a_cancellation_names_the_node_of_the_job(house):
    node, job, _ = house.in_line()
    with TestClient(house.lab.whole(), base_url="http://localhost") as caller:
        form = caller.get(f"/jobs/{job.id}/cancel")
    assert links_of(form.text)[node.name] == f"/nodes/{node.id}"


def test_an_orphan_is_adopted_with_its_owner_and_team(lab, caller):
    one = orphan()
    lab.found(one)
    assert links_of(caller.get("/orphans").text)["Adopt"] == f"/orphans/{one.id}/adopt"
    bad = send_form(caller, f"/orphans/{one.id}/adopt", name="Not A Name", owner="x\ny")
    assert bad.status_code == 422
    assert "line breaks are not allowed" in bad.text.partition('id="error-owner">')[2]
    answer = send_form(caller, f"/orphans/{one.id}/adopt", name="mine", owner="ada", team="nlp")
    node = lab.services.nodes.get(answer.headers["location"].split("?")[0].split("/")[-1])
    assert (node.name, node.owner, node.team) == ("mine", "ada", "nlp")


def test_an_unmanaged_resource_goes_only_by_its_full_name(lab, caller):
    labels = {"owner": "grace"}
    one = orphan(kind=OrphanKind.STRANGER, certain=False, shown=shown("somebodys", labels=labels))
    lab.found(one)
    path = f"/orphans/{one.id}/delete"
    assert send_form(caller, path, confirm="somebodys").status_code == 422
    assert not lab.services.orphans.get(one.id).orphan.to_be_deleted
    assert send_form(caller, path, confirm=PATH).status_code == 303
    found = lab.services.orphans.get(one.id).orphan
    assert (found.to_be_deleted, found.asked_by, found.confirmed) == (True, "caller", True)
    assert "Delete" not in links_of(caller.get("/orphans").text)
    assert caller.get(f"/orphans/{'0' * 32}/delete").status_code == 404


@pytest.mark.parametrize(
    ("changes", "adopt", "delete"),
    [
        ({}, "", ""),
        ({"gone_at": NOON}, "This resource is gone.", "This resource is gone."),
        ({"shown": shown(state=NodeState.CREATING)}, "Only a READY node", ""),
        ({"shown": shown(queued_resource="qr-1")}, "without a queued resource, can be adopted", ""),
        (
            {"wanted": DELETE, "asked_by": "caller"},
            "This resource is being deleted.",
            "The deletion of this resource is already requested.",
        ),
    ],
)
def test_a_page_of_an_orphan_has_a_button_only_for_what_is_possible(
    lab, caller, changes, adopt, delete
):
    one = orphan(**changes)
    lab.found(one)
    for verb, reason in (("adopt", adopt), ("delete", delete)):
        page = caller.get(f"/orphans/{one.id}/{verb}")
        assert ('class="act"' in page.text) == (not reason)
        assert reason in text_of(page)


def test_the_page_before_the_deletion_of_an_orphan_says_whose_it_is(lab, caller):
    labels = {"owner": HOSTILE[:60], "run": "17"}
    one = orphan(shown=shown(labels=labels, queued_resource="qr-1"))
    lab.found(one)
    page = caller.get(f"/orphans/{one.id}/delete")
    assert f"Label owner {HOSTILE[:60]}" in text_of(page)
    assert "Its queued resource is not deleted with it" in text_of(page)
    assert "Cost per hour $9.60 an hour" in text_of(page)
    assert HOSTILE[:60] not in page.text


def test_a_plan_is_applied_after_the_number_of_its_nodes_was_typed(lab, caller):
    lab.looked_at(held=False)
    idle = IdleLab(lab.units, lab.clock, Action.OBSERVE)
    mode = IdleMode(Action.OBSERVE, TIMES)
    made = CleanupService(lab.units, idle.prices, lab.clock, ["lab"], mode)
    object.__setattr__(lab.services, "cleanup", made)
    nodes = [idle.add(REST) for _ in range(2)]
    idle.minute(MINUTES)
    plan = send_form(caller, "/cleanup/apply", project="lab")
    assert plan.status_code == 200
    assert "n-0 delete" in text_of(plan)
    fields = hidden_fields(plan.text)

    def confirm(typed: str) -> int:
        sent = fields | {"confirm": typed}
        return caller.post("/cleanup/apply", data=sent, headers=BROWSER).status_code

    assert confirm("1") == 422
    assert [lab.services.nodes.get(node.id).asked for node in nodes] == [Asked.PRESENT] * 2
    answer = caller.post(
        "/cleanup/apply", data=fields | {"confirm": "2"}, headers=BROWSER, follow_redirects=False
    )
    assert answer.headers["location"].startswith("/cleanup?told=The+plan+is+applied%3A+2+nodes")
    assert [lab.services.nodes.get(node.id).asked for node in nodes] == [Asked.ABSENT] * 2
    assert confirm("2") == 409


def test_the_cleanup_pauses_with_a_reason_and_resumes(lab, caller):
    def names() -> list[str]:
        return [link.name for link in list_cleanup_actions(lab.services.cleanup.list_statuses())]

    assert names() == ["Plan and apply", "Pause cleanup"]
    assert send_form(caller, "/cleanup/pause", reason=" ").status_code == 422
    assert send_form(caller, "/cleanup/pause", reason="x" * 201).status_code == 422
    assert send_form(caller, "/cleanup/pause", reason="a <b>demo").status_code == 303
    (status,) = lab.services.cleanup.list_statuses()
    assert (status.cleanup.pause_reason, status.cleanup.paused_by) == ("a <b>demo", "caller")
    assert names() == ["Plan and apply", "Resume cleanup"]
    page = caller.get("/cleanup/resume")
    assert "a <b>demo" in text_of(page)
    assert "<b>demo" not in page.text
    assert send_form(caller, "/cleanup/resume").status_code == 303
    assert not lab.services.cleanup.list_statuses()[0].cleanup.is_paused


def test_only_an_open_breaker_is_closed_with_a_reason(lab, caller):
    projects = ["abacus", "lab"]
    made = CleanupService(lab.units, lab.prices, lab.clock, projects, IdleMode())
    object.__setattr__(lab.services, "cleanup", made)
    path, status = "/cleanup/breaker", made.list_statuses()[1]
    shut = caller.get(path)
    assert (shut.status_code, "No breaker is open." in text_of(shut)) == (200, True)
    opened = Breaker(opened_at=NOON, reason="4 of 10 <b>nodes</b> became unknown within 10 min")
    with lab.units() as unit:
        unit.cleanups.save(replace(status.cleanup, breaker=opened))
    assert links_of(caller.get("/cleanup").text)["Close the breaker"] == path
    page = caller.get(path)
    assert f"Project lab open: {opened.reason}" in text_of(page)
    assert "<b>nodes" not in page.text
    assert "abacus" not in page.text
    assert send_form(caller, path, project="lab", reason=" ").status_code == 422
    assert send_form(caller, path, project="lab", reason="x" * 201).status_code == 422
    assert made.list_statuses()[1].cleanup.breaker.is_open
    answer = send_form(caller, path, project="lab", reason="Monitoring is back")
    assert "The breaker of project lab is closed." in text_of(
        caller.get(answer.headers["location"])
    )
    after = made.list_statuses()[1].cleanup.breaker
    assert (after.is_open, after.closed_by) == (False, "caller")
    assert after.closed_reason == "Monitoring is back"
    assert "Close the breaker" not in links_of(caller.get("/cleanup").text)


def test_a_page_that_ends_a_node_names_its_job_however_many_wait(house):
    node, job, _ = house.in_line()
    for number in range(20):
        house.jobs.submit(node=node.id, run_name=f"later-{number}")
    with TestClient(house.lab.whole(), base_url="http://localhost") as caller:
        opened, several = f"/nodes/{node.id}/keep", "/nodes/several/delete"
        page = send_form(caller, several, opened=opened, node=node.id)
        assert text_of(page).count(" runs on it") == 1
        assert f"job {job.id} runs on it" in text_of(page)
        for verb in ("delete", "stop"):
            page = caller.get(f"/nodes/{node.id}/{verb}")
            assert f"Job {job.id} runs on the node, and ends with it." in text_of(page)
            assert links_of(page.text)[f"{job.id} runs on the node"] == f"/jobs/{job.id}"
