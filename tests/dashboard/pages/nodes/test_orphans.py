"""What is in no record of ours: said on the first page, shown on its own, touched on neither."""

from __future__ import annotations

import re
import shlex
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.dashboard.pages.nodes import orphans as orphans_page
from service.dashboard.pages.nodes.orphans import list_commands
from service.domain.orphans.orphan import STEWARD, Orphan, OrphanKind, OrphanVerdict, orphan_id
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, main_of, text_of
from tests.garbage import orphan, shown

PATH = "projects/lab/locations/us-west4-a/nodes/somebodys"


def _stranger(cloud_id: str = "somebodys", **changes: Any) -> Orphan:
    labels = {"owner": "grace", "run": "17"}
    return orphan(
        kind=OrphanKind.STRANGER,
        certain=False,
        verdict=OrphanVerdict.LEAVE,
        reason="it is not ours",
        shown=shown(cloud_id, labels=labels, **changes),
    )


def test_nothing_is_said_of_orphans_where_there_are_none(lab: Lab, browser: TestClient) -> None:
    assert "orphan" not in text_of(browser.get("/")).replace("Orphans", "")
    assert "None. Every resource in the cloud has a record." in text_of(browser.get("/orphans"))


def test_the_first_page_says_how_many_there_are_and_what_they_cost(
    lab: Lab, browser: TestClient
) -> None:
    lab.found(_stranger("a"), _stranger("b", accelerator_type="v99-8"), orphan())
    page = browser.get("/")
    said = text_of(page)
    assert "Waste now $19.20 /h 3 orphans $19.20/h and 1 without a price" in said
    assert "Orphans $19.20/h · Adopt or delete 3 resources are in the cloud and in no" in said
    assert '<a href="/orphans">Orphans</a>' in page.text
    burn = '<a href="/orphans">3 orphans: $19.20/h more, 1 at an unknown price</a>'
    assert page.text.index("Burning now") < page.text.index(burn)
    assert page.text.index(burn) < page.text.index("Month to date")


def test_what_costs_nothing_is_not_said_to_burn(lab: Lab, browser: TestClient) -> None:
    lab.found(orphan(kind=OrphanKind.ZOMBIE, shown=shown("queue", queued=True, state="SUSPENDED")))
    assert "Waste now $0.00 /h 1 orphan $0.00/h" in text_of(browser.get("/"))
    said = text_of(browser.get("/orphans"))
    assert "$0.00 /h part of “Waste now” on the overview, not of “Burning now”" in said
    assert "queue stale queued resource v5litepod-8 queued resource" in said


def test_a_stranger_is_marked_as_never_touched(lab: Lab, browser: TestClient) -> None:
    lab.found(_stranger())
    said = text_of(browser.get("/orphans"))
    assert "somebodys unmanaged, never touched v5litepod-8 us-west4-a project lab READY" in said
    assert "$9.60/h" in said
    assert "Its labels say owner=grace." in said
    assert "Seen for 1 h: first 2026-11-05 11:00:00 UTC, last 2026-11-05 12:00:00 UTC" in said


def test_the_page_only_shows(lab: Lab, browser: TestClient) -> None:
    lab.found(_stranger(), orphan())
    page = browser.get("/orphans")
    assert not re.search(r"<(form|button|input)", main_of(page))
    assert browser.post("/orphans").status_code == 405


def test_what_can_be_typed_is_told_and_nothing_more() -> None:
    mine, theirs, queue = orphan(), _stranger(), orphan(shown=shown("q", queued=True))
    assert list_commands(mine) == [
        f"tpu-steward orphans adopt {mine.id}",
        f"tpu-steward orphans delete {mine.id}",
    ]
    assert list_commands(theirs)[1] == f"tpu-steward orphans delete {theirs.id} --confirm {PATH}"
    assert list_commands(queue) == [f"tpu-steward orphans delete {queue.id}"]
    assert list_commands(orphan(wanted="delete", asked_by="caller")) == []
    (again,) = list_commands(orphan(wanted="delete", asked_by=STEWARD))
    assert again.startswith("tpu-steward orphans delete ")


def test_the_node_of_a_queued_resource_is_deleted_with_that_and_not_adopted() -> None:
    ticket = PATH.replace("nodes/somebodys", "queuedResources/sq1")
    theirs, mine = _stranger(queued_resource="sq1"), orphan(shown=shown(queued_resource="sq1"))
    assert list_commands(theirs) == [
        f"tpu-steward orphans delete {theirs.id} --confirm {PATH}",
        f"tpu-steward orphans delete {orphan_id(ticket)} --confirm {ticket}",
    ]
    assert list_commands(mine)[1] == f"tpu-steward orphans delete {orphan_id(ticket)}"


def test_a_name_from_the_cloud_is_no_command(lab: Lab, browser: TestClient) -> None:
    evil = _stranger("x$(reboot);'`id`")
    (_, delete) = list_commands(evil)
    assert shlex.split(delete)[-1] == evil.shown.path
    lab.found(evil, _stranger(HOSTILE))
    page = browser.get("/orphans")
    assert "<img" not in page.text
    assert delete in unescape(page.text)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": OrphanVerdict.LEAVE, "reason": "why"}, "Kept. Why."),
        (
            {"verdict": OrphanVerdict.OBSERVE, "reason": "why"},
            "To be deleted automatically, not yet. Why.",
        ),
        ({"verdict": OrphanVerdict.COLLECT, "reason": "why"}, "Deleted automatically now. Why."),
        (
            {"wanted": "delete", "asked_by": "ada", "last_error": "no right"},
            "To be deleted, requested by ada. No right.",
        ),
        ({"wanted": "delete", "asked_by": STEWARD}, "To be deleted."),
    ],
)
def test_what_becomes_of_it_is_said_with_the_reason(
    lab: Lab, browser: TestClient, changes: dict[str, Any], said: str
) -> None:
    lab.found(orphan(**changes))
    assert said in text_of(browser.get("/orphans"))


def test_of_very_many_only_the_dearest_are_shown(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans_page, "SHOWN", 2)
    dear = _stranger("dear", accelerator_type="v5litepod-64")
    lab.found(*(_stranger(f"cheap-{number}") for number in range(3)), dear)
    page = browser.get("/orphans")
    assert re.findall(r"<h2>(.*?)</h2>", page.text) == ["dear", "cheap-0"]
    assert "and 2 more: tpu-steward orphans list shows all." in text_of(page)


def test_a_picture_that_is_too_old_is_called_so_here_too(lab: Lab, browser: TestClient) -> None:
    lab.clock.pass_(600)
    assert "the cloud was last polled 10 min ago" in text_of(browser.get("/orphans"))
