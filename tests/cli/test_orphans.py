"""What is in the cloud and not in our books, on the command line."""

from __future__ import annotations

import json
import re

import pytest

from service.cli import orphans
from service.domain.orphans.orphan import orphan_id
from tests.cli.given import node, steward
from tests.hands import NOON

ID = "5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"
OTHER = "0" * 32
NAME = "projects/lab/locations/us-west4-a/nodes/somebodys"


@pytest.fixture(autouse=True)
def _noon(monkeypatch):
    monkeypatch.setattr(orphans, "wall_clock", lambda: NOON)


def orphan(**overrides):
    """An orphan as the API shows it."""
    return {
        "id": ID,
        "kind": "stranger",
        "name": NAME,
        "project": "lab",
        "zone": "us-west4-a",
        "cloud_id": "somebodys",
        "is_queued_resource": False,
        "state": "READY",
        "accelerator_type": "v5litepod-8",
        "chips": 8,
        "owner_hints": {"owner": "grace"},
        "queued_resource": "",
        "first_seen": "2026-11-05T11:00:00Z",
        "hourly_cost": "9.600000000",
        "hourly_cost_when_ready": None,
        "verdict": "leave",
        "to_be_deleted": False,
        "last_error": "",
        "gone_at": None,
        **overrides,
    }


def page(*some, total="9.600000000", unpriced=0):
    return {
        "orphans": list(some),
        "total_hourly_cost": total,
        "unpriced": unpriced,
        "next_page_token": "",
    }


def test_what_they_cost_an_hour_adds_up(api):
    some = [orphan(id=digit * 32, hourly_cost="1.204") for digit in "123"]
    stopped = orphan(id=OTHER, state="STOPPED", hourly_cost=None)
    api.when("GET", "/v1/orphans", page(*some, stopped, total="3.612"))
    _, *rows = steward("orphans", "list").stdout.splitlines()
    costs = [re.search(r"(\$\S+|-) +stays", row) for row in rows[:4]]
    assert [cost and cost[1] for cost in costs] == ["$1.21", "$1.20", "$1.20", "-"]
    assert rows[-2] == "4 orphans at $3.61 an hour"


def test_a_queue_that_waits_shows_what_it_will_cost(api):
    waits = orphan(
        id=OTHER,
        is_queued_resource=True,
        state="WAITING_FOR_RESOURCES",
        hourly_cost=None,
        hourly_cost_when_ready="9.600000000",
    )
    api.when("GET", "/v1/orphans", page(waits, total="0.000000000"))
    _, row, *_ = steward("orphans", "list").stdout.splitlines()
    assert "($9.60 once READY)" in row


def test_the_list_says_what_each_costs_and_that_strangers_are_never_touched(api):
    queue = orphan(
        id=OTHER,
        kind="zombie_queue",
        cloud_id="run-1",
        is_queued_resource=True,
        state="SUSPENDED",
        hourly_cost=None,
        verdict="observe",
        owner_hints={},
    )
    api.when("GET", "/v1/orphans", page(orphan(), queue))
    heading, stranger, zombie, *rest = steward("orphans", "list").stdout.splitlines()
    assert heading.split("  ")[0] == "NAME"
    assert [column.strip() for column in stranger.split("  ") if column.strip()] == [
        *("somebodys", "unmanaged", "READY", "v5litepod-8", "us-west4-a", "1h00m", "$9.60"),
        *("stays", "owner=grace", ID),
    ]
    assert [column.strip() for column in zombie.split("  ") if column.strip()] == [
        *("run-1 (queue)", "stale queued resource", "SUSPENDED", "v5litepod-8", "us-west4-a"),
        *("1h00m", "-", "deleted soon", "-", OTHER),
    ]
    assert rest == [
        "",
        "2 orphans at $9.60 an hour",
        (
            "Unmanaged resources are never touched, unless you adopt one or repeat its name to"
            " delete it."
        ),
    ]


def test_nothing_to_show_is_good_news(api):
    api.when("GET", "/v1/orphans", page(total="0.000000000"))
    said = steward("orphans", "list", "--project", "lab", "--kind", "leftover").stdout
    assert said.startswith("no orphans: every resource in the cloud has a record\n")
    assert api.calls[0].query["kind"] == ["leftover"]
    assert api.calls[0].query["project"] == ["lab"]


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("unmanaged", "stranger"),
        ("untracked", "ours_without_record"),
        ("stale queued resource", "zombie_queue"),
        ("preempted", "leftover"),
        ("stranger", "stranger"),
        ("other", "other"),
    ],
)
def test_a_kind_is_asked_for_by_the_word_that_the_list_shows(api, kind, asked):
    api.when("GET", "/v1/orphans", page(total="0.000000000"))
    assert steward("orphans", "list", "--kind", kind).exit_code == 0
    assert api.calls[0].query["kind"] == [asked]


def test_what_has_no_price_is_not_called_free(api):
    api.when("GET", "/v1/orphans", page(orphan(hourly_cost=None), total="0.000000000", unpriced=1))
    said = steward("orphans", "list").stdout
    assert "unpriced" in said
    assert "1 orphan at $0.00 an hour, and 1 node without a known price" in said


def test_what_holds_up_a_deletion_is_told(api):
    stuck = orphan(
        to_be_deleted=True, last_error="one of its nodes is READY; delete that node first"
    )
    api.when("GET", "/v1/orphans", page(stuck))
    said = steward("orphans", "list").stdout
    assert f"\n{NAME}: one of its nodes is READY; delete that node first\n" in said
    assert "to be deleted" in said


def test_json_is_the_answer_as_it_is(api):
    api.when("GET", "/v1/orphans", page(orphan()))
    assert json.loads(steward("orphans", "list", "--json").stdout) == page(orphan())


@pytest.mark.parametrize("said", [ID, NAME, "somebodys"])
def test_one_is_deleted_by_its_id_or_by_its_name(api, said):
    api.when("GET", "/v1/orphans", page(orphan()))
    api.when("POST", f"/v1/orphans/{ID}:delete", orphan(to_be_deleted=True))
    answer = steward("orphans", "delete", said, "--confirm", NAME)
    assert answer.stdout == f"{NAME} is READY and will be deleted\n"
    assert api.calls[-1].body == {"confirm": NAME}


def test_one_that_is_gone_is_said_to_be(api):
    api.when("POST", f"/v1/orphans/{ID}:delete", orphan(gone_at="2026-11-05T11:00:00Z"))
    assert steward("orphans", "delete", ID).stdout == f"{NAME} is gone\n"


def test_a_stranger_is_refused_in_a_line_with_what_to_do(api):
    problem = {
        "type": "urn:tpu-steward:problem:conflict",
        "title": "Conflict",
        "status": 409,
        "detail": f"{NAME} is unmanaged; to delete it anyway, repeat its full name in confirm",
        "instance": f"/v1/orphans/{ID}:delete",
        "confirm": NAME,
    }
    api.when("POST", f"/v1/orphans/{ID}:delete", problem, status=409)
    answer = steward("orphans", "delete", ID)
    assert answer.exit_code == 1
    assert "repeat its full name" in answer.stderr


def test_a_name_that_several_bear_has_to_be_said_in_full(api):
    twin = orphan(id=OTHER, name=NAME.replace("us-west4-a", "us-east1-c"))
    api.when("GET", "/v1/orphans", page(orphan(), twin))
    answer = steward("orphans", "delete", "somebodys")
    assert answer.exit_code == 1
    assert "give the full name" in answer.stderr
    assert "us-east1-c" in answer.stderr
    api.when("GET", "/v1/nodes", {"nodes": [], "next_page_token": ""})
    assert "no orphan is named 'x'" in steward("orphans", "adopt", "x").stderr


OURS = "projects/lab/locations/us-west4-a"


@pytest.mark.parametrize("verb", ["adopt", "delete"])
@pytest.mark.parametrize(
    "said",
    [
        "trainer-3d6c2a11",
        f"{OURS}/nodes/trainer-3d6c2a11",
        f"{OURS}/queuedResources/trainer-3d6c2a11",
    ],
)
def test_a_node_of_ours_is_said_to_be_that_with_its_id(api, verb, said):
    api.when("GET", "/v1/orphans", page(total="0.000000000"))
    api.when("GET", "/v1/nodes", {"nodes": [node()], "next_page_token": ""})
    answer = steward("orphans", verb, said)
    assert answer.exit_code == 1
    told = f"it is node {node()['id']}; see: tpu-steward nodes show {node()['id']}"
    assert told in " ".join(answer.stderr.split())


def test_a_node_of_ours_that_has_ended_is_no_answer(api):
    api.when("GET", "/v1/orphans", page(total="0.000000000"))
    api.when("GET", "/v1/nodes", {"nodes": [node(state="DELETED")], "next_page_token": ""})
    answer = steward("orphans", "adopt", "trainer-3d6c2a11")
    assert "no orphan is named 'trainer-3d6c2a11'" in answer.stderr


@pytest.mark.parametrize(
    ("kind", "sure"), [("stranger", f" --confirm {OURS}/queuedResources/sq1"), ("leftover", "")]
)
def test_the_queued_resource_that_a_deleted_node_leaves_is_told_with_what_to_type(api, kind, sure):
    ticket = f"{OURS}/queuedResources/sq1"
    left = orphan(to_be_deleted=True, queued_resource=ticket, kind=kind)
    api.when("POST", f"/v1/orphans/{ID}:delete", left)
    assert steward("orphans", "delete", ID).stdout.splitlines() == [
        f"{NAME} is READY and will be deleted",
        f"its queued resource {ticket} stays and holds quota; to delete it too:",
        f"  tpu-steward orphans delete {orphan_id(ticket)}{sure}",
    ]


def test_a_node_is_adopted_with_an_owner(api):
    api.when("POST", f"/v1/orphans/{ID}:adopt", node(), status=201)
    asked = ("--name", "trainer", "--owner", "ada", "--team", "vision")
    answer = steward("orphans", "adopt", ID, *asked)
    assert answer.stdout.splitlines() == [
        "trainer is adopted, $4.62 an hour from now on",
        f"id {node()['id']}",
    ]
    assert api.calls[-1].body == {"name": "trainer", "owner": "ada", "team": "vision"}
