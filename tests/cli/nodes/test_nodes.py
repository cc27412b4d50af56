"""The commands for nodes, read as a person would."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.given import ID, OTHER, node, page, steward

PROBLEM = {"detail": "v2-alpha-tpuv6e is for v6e", "compatible": ["v2-alpha-tpuv5-lite"]}


def test_the_list_shows_the_living_and_what_they_cost_an_hour(api):
    gone = node(id=OTHER, name="old", state="DELETED", hourly_cost="0.000000000")
    api.when("GET", "/v1/nodes", page(node(), gone))
    shown = steward("nodes", "list").stdout.splitlines()
    assert shown == [
        "NAME     STATE  TYPE         MODEL  ZONE          AGE  PER HOUR   COST  TEAM",
        "trainer  READY  v5litepod-8  spot   us-west4-a  3m12s     $4.62  $0.15  vision",
        "",
        "1 node, 1 ready at $4.62 an hour; 1 more ended (--all shows them)",
    ]


def test_what_those_that_are_ready_cost_an_hour_adds_up(api):
    ready = [node(id=ID[:-1] + digit, hourly_cost="4.623200000") for digit in "345"]
    idle = node(id=OTHER, state="STOPPED", hourly_cost="1.999000000")
    api.when("GET", "/v1/nodes", page(*ready, idle))
    _, *rows, _, whole = steward("nodes", "list").stdout.splitlines()
    assert [row.split()[6] for row in rows] == ["$4.63", "$4.62", "$4.62", "-"], (
        "a stopped node costs nothing now"
    )
    assert whole == "4 nodes, 3 ready at $13.87 an hour"
    failing = node(asked="absent", deletion_failure={"tries": 2})
    api.when("GET", "/v1/nodes", page(node(id=OTHER), failing))
    *_, whole = steward("nodes", "list").stdout.splitlines()
    assert whole == "2 nodes, 2 ready at $9.25 an hour; the deletion of 1 of these fails"


def test_what_is_paid_for_reservations_that_nobody_uses_is_said_beside_the_nodes(api):
    api.when("GET", "/v1/nodes", page(node()))
    costs = {"hourly_cost": "95.343200000", "unused_reservations_hourly_cost": "90.720000000"}
    api.when("GET", "/v1/fleet", costs)
    *_, last = steward("nodes", "list").stdout.splitlines()
    assert last == "reserved chips that no node uses cost $90.72 an hour more: $95.34 in all"
    assert "reserved" not in steward("nodes", "list", "--team", "vision").stdout


def test_all_of_them_come_with_their_ids(api):
    api.when("GET", "/v1/nodes", page(node(), node(id=OTHER, name="old", state="DELETED")))
    shown = steward("nodes", "list", "--all").stdout
    assert ID in shown
    assert OTHER in shown


def test_no_nodes_are_no_table(api):
    api.when("GET", "/v1/nodes", page())
    assert steward("nodes", "list").stdout == "no nodes\n"


def test_a_node_on_its_way_out_and_one_without_a_price_say_so(api):
    api.when("GET", "/v1/nodes", page(node(asked="absent", hourly_cost=None, team="")))
    shown = steward("nodes", "list").stdout
    assert "READY (ends)" in shown
    assert "unpriced" in shown
    assert "1 node, 1 ready at $0.00 an hour, and 1 node without a known price" in shown


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"asked": "absent", "last_error": "unavailable"}, "DELETING (failing)"),
        ({"asked": "absent", "last_error": "unavailable", "state": "DELETED"}, "DELETED"),
        ({"last_error": "no room in us-east1-d"}, "READY"),
        ({"asked": "absent", "last_error": "x", "deletion_failure": None}, "READY (ends)"),
        ({"deletion_failure": {"tries": 2}}, "DELETING (failing)"),
    ],
)
def test_a_deletion_that_fails_is_a_state_of_its_own(api, fields, state):
    api.when("GET", "/v1/nodes", page(node(**fields)))
    row = steward("nodes", "list", "--all", "--no-headers").stdout
    assert re.split(" {2,}", row)[1] == state


def test_a_failing_deletion_is_shown_with_its_call_and_its_next_try(api):
    failure = {"call": "nodes.delete", "tries": 3, "next_try_at": "2026-11-05T12:04:10Z"}
    api.when("GET", f"/v1/nodes/{ID}", node(asked="absent", deletion_failure=failure))
    shown = steward("nodes", "show", ID).stdout.splitlines()
    said = "Deletion        nodes.delete failed 3 times in a row; next try in 4m10s"
    assert said in shown


def test_the_filters_are_passed_on(api):
    api.when("GET", "/v1/nodes", page())
    steward("nodes", "list", "--state", "ready", "--team", "a", "--team", "b", "--label", "run=17")
    query = api.calls[0].query
    assert query == {
        "state": ["READY"],
        "team": ["a", "b"],
        "label": ["run:17"],
        "page_size": ["1000"],
    }


def test_json_is_the_text_of_the_api(api):
    text = '{"nodes":[],  "next_page_token":""}'
    api.when("GET", "/v1/nodes", text)
    assert steward("nodes", "list", "--json").stdout == f"{text}\n"


def test_several_pages_are_one_list(api):
    api.when("GET", "/v1/nodes", page(node(), token=ID), page(node(id=OTHER)))
    shown = json.loads(steward("nodes", "list", "--json").stdout)
    assert [node["id"] for node in shown["nodes"]] == [ID, OTHER]
    assert shown["next_page_token"] == ""
    assert api.calls[1].query["page_token"] == [ID]


def test_a_node_is_shown_with_its_attempts(api):
    api.when("GET", "/v1/nodes", page(node()))
    api.when("GET", f"/v1/nodes/{ID}", node(last_error="no more capacity\x1b[31m\nthere"))
    shown = steward("nodes", "show", "trainer").stdout
    for line in (
        "State           READY, for 2m00s",
        "Last error      no more capacity [31m there",
        "Hardware        v5litepod-8: 8 chips of v5e, 1 host, topology 2x4",
        "Labels          run=17",
        "Deletes itself  2026-11-05 13:58:00 UTC, in 1h58m",
        "Per hour        $4.6232",
        "  1  us-west4-a  v5litepod-8  spot   2026-11-05 11:56:50  -            ready",
    ):
        assert line in shown.splitlines()


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ([], "no node is named 'trainer'; see: tpu-steward nodes list"),
        (
            [node(), node(id=OTHER, project="prod")],
            f"'trainer' exists in several projects; give its id: {ID} in lab, {OTHER} in prod",
        ),
    ],
)
def test_a_name_that_is_not_clear_is_one_clear_line(api, nodes, line):
    api.when("GET", "/v1/nodes", page(*nodes))
    result = steward("nodes", "show", "trainer")
    assert (result.exit_code, result.stderr) == (1, f"{line}\n")


def test_what_has_ended_is_not_changed_by_its_name(api):
    api.when("GET", "/v1/nodes", page(node(state="DELETED")))
    line = f"no live node is named 'trainer'; there was: {ID} (DELETED)\n"
    assert steward("nodes", "delete", "trainer").stderr == line


def test_a_deletion_that_does_not_end_is_said(api):
    late = {"asked": "absent", "overdue_since": "2026-11-05T11:30:00Z"}
    api.when(
        "GET",
        f"/v1/nodes/{ID}",
        node(**late, delete_requested_at="2026-11-05T11:00:00Z"),
    )
    said = "its deletion was requested 1h00m ago and has not ended; it is retried indefinitely"
    assert said in steward("nodes", "show", ID).stdout


def test_a_deletion_that_makes_room_and_does_not_end_is_said(api):
    late = {"overdue_since": "2026-11-05T11:30:00Z", "replacing_since": "2026-11-05T11:00:00Z"}
    api.when("GET", f"/v1/nodes/{ID}", node(**late))
    said = (
        "its deletion before the next attempt was requested 1h00m ago and has not ended; it"
        " is retried"
    )
    assert said in steward("nodes", "show", ID).stdout


def test_a_type_that_is_said_again_is_one_of_several(api):
    document = node(
        accelerator_type="v6e-16", accelerator_types=["v6e-16", "v5litepod-16"], warnings=[]
    )
    api.when("POST", "/v1/nodes", document, status=201)
    types = ("--accelerator-type", "v5litepod-16", "--accelerator-type", "v6e-16")
    shown = steward("nodes", "create", *types).stdout
    assert shown.startswith("trainer: v6e-16 or v5litepod-16 (spot), us-west4-a, ")
    assert api.calls[0].body == {"accelerator_types": ["v5litepod-16", "v6e-16"]}


def test_a_node_is_asked_for_as_it_was_typed(api, tmp_path):
    (tmp_path / "start.sh").write_text("echo hi\n")
    api.when("POST", "/v1/nodes", {**node(), "warnings": ["mind this"]}, status=201)
    result = steward(
        *("nodes", "create", "--accelerator-type", "v5litepod-8", "--zone", "us-west4-a"),
        *("--framework", "jax=0.4.30", "--spot", "--ttl", "2h", "--label", "run=17"),
        *("--startup-script", "start.sh", "--idempotency-key", "k1", "--name", "trainer"),
    )
    (call,) = api.calls
    assert call.body == {
        "accelerator_type": "v5litepod-8",
        "zone": "us-west4-a",
        "framework": {"name": "jax", "version": "0.4.30"},
        "provisioning_model": "spot",
        "ttl_seconds": 7_200,
        "labels": {"run": "17"},
        "startup_script": "echo hi\n",
        "name": "trainer",
    }
    assert call.headers["Idempotency-Key"] == "k1"
    assert result.stdout.splitlines() == [
        "trainer: v5litepod-8 (spot), us-west4-a, v2-alpha-tpuv5-lite, $4.6232 an hour",
        f"id {ID}",
        "note: mind this",
    ]


def test_a_request_that_cannot_be_granted_says_what_can(api):
    api.when("POST", "/v1/nodes", PROBLEM, status=422)
    result = steward("nodes", "create", "--accelerator-type", "v5litepod-8")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [PROBLEM["detail"], "  these fit: v2-alpha-tpuv5-lite"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["create"],
        ["create", "--accelerator-type", "v5litepod-8", "--ttl", "soon"],
        ["create", "--accelerator-type", "v5litepod-8", "--spot", "--preemptible"],
        ["create", "--accelerator-type", "v5litepod-8", "--label", "a"],
        ["create", "--accelerator-type", "v5litepod-8", "--startup-script", "nowhere.sh"],
        ["show"],
        ["list", "--colour"],
        ["dance"],
    ],
)
def test_a_command_that_makes_no_sense_is_a_usage_error(arguments):
    result = steward("nodes", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: tpu-steward nodes")
    assert result.stdout == ""


def test_waiting_tells_each_step_and_ends_when_it_is_ready(api):
    made = node(state="REQUESTED")
    api.when("POST", "/v1/nodes", {**made, "warnings": []}, status=201)
    api.when("GET", f"/v1/nodes/{ID}", made, made, node(state="CREATING"), node())
    result = steward("nodes", "create", "--accelerator-type", "v5litepod-8", "--wait", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["state"] == "READY"
    assert [line.split() for line in result.stderr.splitlines()] == [
        ["0s", state, "us-west4-a"] for state in ("REQUESTED", "CREATING", "READY")
    ]


def test_waiting_for_what_will_never_be_fails_with_the_reason(api):
    api.when("POST", "/v1/nodes", {**node(), "warnings": []}, status=201)
    api.when("GET", f"/v1/nodes/{ID}", node(state="FAILED", last_error="no quota"))
    result = steward("nodes", "create", "--accelerator-type", "v5litepod-8", "--wait")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "trainer is FAILED: no quota"


def test_waiting_has_an_end(api):
    api.when("DELETE", f"/v1/nodes/{ID}", node(asked="absent"), status=202)
    api.when("GET", f"/v1/nodes/{ID}", node(state="DELETING"))
    result = steward("nodes", "delete", ID, "--wait", "--timeout", "0")
    assert result.exit_code == 1
    assert "trainer is still DELETING after 0s; the service continues" in result.stderr


@pytest.mark.parametrize(
    ("verb", "call", "state", "line"),
    [
        ("delete", ("DELETE", f"/v1/nodes/{ID}"), "DELETED", "trainer is DELETED; it cost $0.15"),
        (
            "stop",
            ("POST", f"/v1/nodes/{ID}:stop"),
            "STOPPED",
            "trainer is STOPPED; it cost $0.15 so far",
        ),
        (
            "start",
            ("POST", f"/v1/nodes/{ID}:start"),
            "READY",
            "trainer is READY; it cost $0.15 so far",
        ),
    ],
)
def test_a_node_is_changed_and_waited_for(api, verb, call, state, line):
    api.when(*call, node(state="CREATING"), status=202)
    api.when("GET", f"/v1/nodes/{ID}", node(state=state))
    result = steward("nodes", verb, ID, "--wait")
    assert (result.exit_code, result.stdout) == (0, f"{line}\n")


def test_without_waiting_it_is_said_what_will_be(api):
    api.when("DELETE", f"/v1/nodes/{ID}", node(asked="absent"), status=202)
    assert steward("nodes", "delete", ID).stdout == "trainer is READY and is to be deleted\n"


def test_the_story_of_a_node(api):
    event = {"number": 1, "at": "2026-11-05T11:56:48Z", "kind": "asked", "actor": "caller"}
    api.when(
        "GET",
        f"/v1/nodes/{ID}/events",
        {"events": [{**event, "message": "asked for", "facts": {}}], "next_page_token": ""},
    )
    shown = steward("nodes", "events", ID).stdout.splitlines()
    assert shown[1].split() == ["2026-11-05", "11:56:48", "asked", "caller", "asked", "for"]


def test_what_a_node_cost_and_how_sure_that_is(api):
    api.when(
        "GET",
        f"/v1/nodes/{ID}/cost",
        {
            "cost": "0.154106667",
            "list_cost": "0.320000000",
            "chip_seconds": 960,
            "uncertainty": "0.001284222",
            "estimated": True,
            "unpriced_seconds": 0,
            "as_of": "2026-11-05T12:00:00Z",
        },
    )
    assert steward("nodes", "cost", ID).stdout.splitlines() == [
        "Cost           $0.154106667, and it may still change",
        "Uncertain by   ± $0.001284222",
        "At list price  $0.32",
        "Chip-hours     0.2667",
        "As of          2026-11-05 12:00:00 UTC",
    ]


def test_the_ledger_has_its_sum(api):
    entry = {
        "number": 7,
        "kind": "usage",
        "corrects": None,
        "start": "2026-11-05T11:58:00Z",
        "end": "2026-11-05T12:00:00Z",
        "chip_seconds": 960,
        "usd_per_chip_hour": "0.577900000",
        "amount": "0.154106667",
    }
    path = f"/v1/nodes/{ID}/ledger"
    taken_back = {**entry, "number": 9, "kind": "adjustment", "corrects": 7, "chip_seconds": -960}
    entries = [entry, {**taken_back, "amount": "-0.154106667"}]
    api.when("GET", path, {"entries": entries, "next_page_token": ""})
    shown = steward("nodes", "ledger", ID).stdout.splitlines()
    seconds = ["2026-11-05", "11:58:00", "2026-11-05", "12:00:00"]
    assert [line.split() for line in shown[1:3]] == [
        ["7", *seconds, "usage", "960", "$0.5779", "$0.154106667"],
        ["9", *seconds, "adjustment", "of", "7", "-960", "$0.5779", "-$0.154106667"],
    ]
    assert shown[-1] == "$0.00 in 2 entries"


NOTHING = {"cost": "0.000000000", "unpriced_seconds": 0, "free": [], "unposted": []}
FREE = {"free": ["preempted in its first minute"]}


@pytest.mark.parametrize(
    ("ended", "cost", "line"),
    [
        (
            {"state": "READY"},
            {"cost": "0.154106667"},
            "nothing is posted yet; what runs is posted at each full hour",
        ),
        ({}, {}, "nothing is posted: it has ended and cost nothing"),
        (
            {"ready_at": None, "state": "FAILED"},
            {},
            "nothing is posted: it has ended and cost nothing (it was never READY)",
        ),
        (
            {},
            FREE,
            "nothing is posted: it has ended and cost nothing (preempted in its first minute)",
        ),
        ({}, {"unpriced_seconds": 192}, "nothing is posted: 3m12s with unknown price"),
        ({}, {"cost": "0.15"}, "nothing is posted yet of the $0.15 that it cost"),
    ],
)
def test_an_empty_ledger_says_why_it_is_empty(api, ended, cost, line):
    api.when("GET", f"/v1/nodes/{ID}", node(**{"state": "DELETED"} | ended))
    api.when("GET", f"/v1/nodes/{ID}/cost", NOTHING | cost)
    api.when("GET", f"/v1/nodes/{ID}/ledger", {"entries": [], "next_page_token": ""})
    assert steward("nodes", "ledger", ID).stdout == f"{line}\n"
    assert steward("nodes", "explain", ID).stderr == f"{line}\n"


def test_what_was_free_is_said_with_the_cost(api):
    more = {"list_cost": "0.000000000", "chip_seconds": 0, "uncertainty": "0.000000000"}
    told = NOTHING | FREE | more | {"estimated": False, "as_of": "2026-11-05T12:00:00Z"}
    api.when("GET", f"/v1/nodes/{ID}/cost", told)
    lines = steward("nodes", "cost", ID).stdout.splitlines()
    assert "Free        preempted in its first minute" in lines


def test_a_line_of_the_ledger_is_explained_in_sentences(api):
    sentences = ["8 chips x 120 s x $0.5779 a chip-hour / 3,600 = $0.154106667", "it has not ended"]
    document = {"explanation": sentences}
    path = f"/v1/nodes/{ID}/ledger"
    api.when("GET", f"{path}/7", document)
    assert steward("nodes", "explain", ID, "7").stdout.splitlines() == sentences
    assert json.loads(steward("nodes", "explain", ID, "7", "--json").stdout) == document
    api.when("GET", path, {"entries": [{"number": 3}, {"number": 7}], "next_page_token": ""})
    api.when("GET", f"/v1/nodes/{ID}/cost", NOTHING)
    assert steward("nodes", "explain", ID).stdout.splitlines() == sentences, "the last one"
    assert steward("nodes", "explain", ID, "0").exit_code == 2


RUNNING = {
    "unposted": [
        {
            "what": "v5litepod-8",
            "start": "2026-11-05T12:00:00Z",
            "end": "2026-11-05T12:10:00Z",
            "explanation": ["8 chips x 600 s x $1.20 a chip-hour / 3,600 = $1.60", "it runs"],
        }
    ]
}
TOLD = [
    "not in the ledger yet, v5litepod-8, 2026-11-05 12:00:00 to 2026-11-05 12:10:00 UTC:",
    *RUNNING["unposted"][0]["explanation"],
]


def test_what_runs_is_explained_before_anything_is_posted(api):
    path = f"/v1/nodes/{ID}"
    api.when("GET", f"{path}/ledger", {"entries": [], "next_page_token": ""})
    api.when("GET", f"{path}/cost", NOTHING | RUNNING)
    assert steward("nodes", "explain", ID).stdout.splitlines() == TOLD
    assert json.loads(steward("nodes", "explain", ID, "--json").stdout) == NOTHING | RUNNING


def test_what_runs_on_is_explained_after_the_last_line(api):
    path = f"/v1/nodes/{ID}"
    api.when("GET", f"{path}/ledger", {"entries": [{"number": 7}], "next_page_token": ""})
    api.when("GET", f"{path}/ledger/7", {"explanation": ["9 x 9", "posted"]})
    api.when("GET", f"{path}/cost", NOTHING | RUNNING)
    assert steward("nodes", "explain", ID).stdout.splitlines() == ["9 x 9", "posted", *TOLD]
    as_json = steward("nodes", "explain", ID, "--json").stdout
    assert json.loads(as_json) == {"explanation": ["9 x 9", "posted"]}, "the line alone"


def test_what_is_only_read_may_have_ended(api):
    api.when("GET", "/v1/nodes", page(node(state="DELETED")))
    api.when("GET", f"/v1/nodes/{ID}/events", {"events": [], "next_page_token": ""})
    assert steward("nodes", "events", "trainer").exit_code == 0
    api.when("GET", "/v1/nodes", page(node(state="DELETED"), node(id=OTHER, state="DELETED")))
    told = steward("nodes", "events", "trainer").stderr
    assert told.startswith(f"no live node is named 'trainer'; there was: {ID} (DELETED), {OTHER}")


def test_a_node_is_shown_with_what_ends_it_besides_its_time_to_live(api):
    api.when("GET", f"/v1/nodes/{ID}", node())
    end = {"rank": 3, "ender": "budget", "reason": "the budget 'b' is exceeded", "held_by": []}
    soon = {"at": "2026-11-05T12:09:00Z"}
    ends = [
        end | soon,
        end | soon | {"ender": "ttl", "reason": "its time to live"},
        end | {"ender": "idle", "reason": "it has been idle", "at": None},
        end | soon | {"ender": "idle", "reason": "it has been idle", "held_by": ["mode"]},
    ]
    api.when("GET", f"/v1/nodes/{ID}/policy", {"ends": ends})
    shown = steward("nodes", "show", ID).stdout.splitlines()
    said = "Ends by itself  2026-11-05 12:09:00 UTC, in 9m00s: the budget 'b' is exceeded"
    assert [line for line in shown if line.startswith("Ends by itself")] == [said]
