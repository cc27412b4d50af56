"""What waits in Google's queue and what is made of slices, read as a person would."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import ID, node, page, steward

WAITING = {
    "state": "QUEUED",
    "queued": True,
    "queue_state": "WAITING_FOR_RESOURCES",
    "ready_at": None,
    "deletes_at": None,
}
SLICES = [
    {"slice": 0, "cloud_id": "run-1-0", "state": "READY", "health": "HEALTHY"},
    {"slice": 1, "cloud_id": "run-1-1", "state": "CREATING", "health": ""},
]
OF_TWO = {"queued": True, "slices": 2, "chips": 16, "hosts": 2, "slice_states": SLICES}


def shown(api, **changes):
    api.when("GET", "/v1/nodes", page(node(**changes)))
    api.when("GET", f"/v1/nodes/{ID}", node(**changes))
    return steward("nodes", "show", "trainer").stdout.splitlines()


def test_a_node_is_asked_for_through_the_queue_as_it_was_typed(api):
    document = node(queued=True, slices=4, warnings=[])
    api.when("POST", "/v1/nodes", document, status=201)
    result = steward(
        *("nodes", "create", "--accelerator-type", "v5litepod-8", "--queued", "--slices", "4"),
        *("--provisioning-model", "reserved", "--reservation", "ours"),
        *("--valid-until", "2026-11-06T18:00:00+01:00"),
    )
    assert api.calls[0].body == {
        "accelerator_type": "v5litepod-8",
        "provisioning_model": "reserved",
        "queued": True,
        "slices": 4,
        "reservation": "ours",
        "valid_until": "2026-11-06T18:00:00+01:00",
    }
    told = "trainer: 4 slices of v5litepod-8 (spot, through the queue), us-west4-a"
    assert result.stdout.startswith(told)


@pytest.mark.parametrize("command", [("nodes", "create"), ("estimate",)])
def test_flex_start_has_a_short_name(api, command):
    api.when("POST", "/v1/nodes", node(warnings=[]), status=201)
    api.when("POST", "/v1/estimates", {}, status=422)
    steward(*command, "--accelerator-type", "v6e-8", "--flex-start")
    assert api.calls[0].body["provisioning_model"] == "flex_start"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--valid-until", "6h", "6h is a duration; use --max-wait 6h"),
        ("--valid-until", "soon", "write it as 2026-11-05T18:00:00Z"),
        ("--valid-until", "2026-11-05T18:00:00", "is not a timestamp"),
        ("--slices", "0", "1"),
        ("--slices", "257", "256"),
        ("--provisioning-model=spot", "--flex-start", "give only one of"),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_is_sent(api, option, value, said):
    result = steward("nodes", "create", "--accelerator-type", "v6e-8", option, value)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert api.calls == []


def test_the_list_says_who_is_in_the_queue_and_for_how_long(api):
    leaving = node(**WAITING, asked="absent")
    api.when("GET", "/v1/nodes", page(node(**WAITING), leaving, node(**OF_TWO)))
    _, waiting, going, of_two, _, summary = steward("nodes", "list").stdout.splitlines()
    assert "QUEUED 2m00s   " in waiting
    assert "QUEUED 2m00s (ends)" in going
    assert "2 slices of v5litepod-8" in of_two
    assert summary == "3 nodes, 1 ready at $4.62 an hour; 2 in the queue"


def test_a_node_in_the_queue_says_what_it_waits_for_and_until_when(api):
    lines = shown(api, **WAITING, reservation="ours", max_wait_seconds=7_200)
    for line in (
        "State         QUEUED, for 2m00s",
        "Queue         WAITING_FOR_RESOURCES: waiting in the queue for hardware",
        "Gives up      2026-11-05 13:56:48 UTC, in 1h56m",
        "Model         spot, through the queue",
        "Reservation   ours",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"queue_state": ""}, "Queue         not shown by Google yet"),
        ({"queue_state": "DREAMING"}, "Queue         DREAMING"),
        ({"valid_until": "2026-11-05T11:00:00Z"}, "Gives up      2026-11-05 11:00:00 UTC"),
        (
            {"valid_until": "2026-11-05T12:30:00Z", "max_wait_seconds": 7_200},
            "Gives up      2026-11-05 12:30:00 UTC, in 30m00s",
        ),
    ],
)
def test_what_is_not_known_of_the_queue_is_not_made_up(api, changes, line):
    assert line in shown(api, **{**WAITING, **changes})


def test_a_node_that_was_ready_gives_up_no_more(api):
    lines = shown(api, queued=True, queue_state="ACTIVE", valid_until="2026-11-05T13:00:00Z")
    assert "Queue           ACTIVE: granted" in lines
    assert not [line for line in lines if line.startswith("Gives up")]


def test_each_slice_is_shown(api):
    lines = shown(api, **OF_TWO, state="CREATING")
    assert [line.split() for line in lines if "run-1-" in line] == [
        ["0", "READY", "HEALTHY", "run-1-0"],
        ["1", "CREATING", "-", "run-1-1"],
    ]
    hardware = "2 slices of v5litepod-8: 16 chips of v5e, 2 hosts, topology 2x4 each"
    assert any(line.endswith(hardware) for line in lines)


def test_waiting_tells_how_it_stands_in_the_queue_and_how_many_slices_are_ready(api):
    api.when("POST", "/v1/nodes", {**node(**WAITING), "warnings": []}, status=201)
    coming = node(**OF_TWO, state="CREATING", queue_state="PROVISIONING")
    api.when("GET", f"/v1/nodes/{ID}", node(**WAITING), coming, node(queue_state="ACTIVE"))
    result = steward("nodes", "create", "--accelerator-type", "v5litepod-8", "--wait", "--json")
    assert json.loads(result.stdout)["state"] == "READY"
    assert [line.strip().split("  ") for line in result.stderr.splitlines()] == [
        [
            *("0s", "QUEUED", "us-west4-a"),
            "queued resource WAITING_FOR_RESOURCES: waiting in the queue for hardware",
        ],
        [
            *("0s", "CREATING", "us-west4-a"),
            "queued resource PROVISIONING: hardware is available and is being set up",
            "1 of 2 slices READY",
        ],
        ["0s", "READY", "us-west4-a"],
    ]


def test_patience_that_ends_in_the_queue_says_so(api):
    api.when("POST", "/v1/nodes", {**node(**WAITING), "warnings": []}, status=201)
    api.when("GET", f"/v1/nodes/{ID}", node(**WAITING))
    result = steward(
        *("nodes", "create", "--accelerator-type", "v5litepod-8", "--wait", "--timeout", "0")
    )
    assert result.exit_code == 1
    assert (
        "trainer is still QUEUED (queued resource WAITING_FOR_RESOURCES: waiting in the queue"
        " for hardware) after 0s; the service continues; see: tpu-steward nodes show trainer"
    ) in result.stderr
