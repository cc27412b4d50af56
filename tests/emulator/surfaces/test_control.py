"""The control routes: configuration, state, activity, reset."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from tests.emulator.factories import START, name_of


def refusal(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args)
    return caught.value


def test_a_patch_changes_what_it_names(cloud):
    before = control.read_config(cloud.world)
    after = control.change_config(
        cloud.world, {"durations": {"create": 3}, "strict_runtimes": True}
    )
    assert after["durations"] == {**before["durations"], "create": 3.0}
    assert after["strict_runtimes"] is True
    assert after["speed"] == before["speed"]
    cloud.create()
    cloud.wait(3)
    assert cloud.state() == "READY"


def test_what_has_begun_keeps_its_time(cloud):
    cloud.create()
    control.change_config(cloud.world, {"speed": 1000})
    cloud.wait(19)
    assert cloud.state() == "CREATING"


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"haste": 1}, "unknown configuration key haste; known: speed"),
        ({"durations": {"dance": 1}}, "unknown duration dance; known: create"),
        ({"durations": 1}, "durations must be a JSON object"),
        ({"durations": {"create": -1}}, "create must be a number from 0"),
        ({"durations": {"create": True}}, "create must be a number"),
        ({"durations": {"create": float("nan")}}, "create must be a number"),
        ({"speed": 0}, "speed must be a number from 0.001"),
        ({"speed": 10**400}, "speed must be a number"),
        ({"speed": "fast"}, "speed must be a number"),
        ({"strict_runtimes": 1}, "strict_runtimes must be true or false"),
        ({"capacity": {"us-central2-b/v4": -1}}, "must be a whole number"),
        ({"quotas": []}, "quotas must be a JSON object"),
        (None, "must be a JSON object"),
    ],
)
def test_a_patch_that_makes_no_sense_changes_nothing(cloud, patch, text):
    before = control.read_config(cloud.world)
    error = refusal(control.change_config, cloud.world, patch)
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message
    assert control.read_config(cloud.world) == before


def test_the_state_shows_what_is_and_what_is_due(cloud):
    cloud.create()
    shown = control.describe_state(cloud.world)
    assert shown["now"] == START
    assert [each["node"]["state"] for each in shown["nodes"]] == ["CREATING"]
    assert [each["done"] for each in shown["operations"]] == [False]
    assert shown["pending"] == [{"due": START + 20, "target": name_of("a"), "what": "create"}]


def test_activity_is_kept_with_the_node(cloud):
    name = cloud.ready()
    control.set_activity(cloud.world, {"name": name, "duty_cycle": 70})
    shown = control.set_activity(cloud.world, {"name": name, "cpu": 140.5})
    assert shown["activity"] == {"duty_cycle": 70.0, "cpu": 140.5}


@pytest.mark.parametrize(
    "extra",
    [{"duty_cycle": 101}, {"duty_cycle": -1}, {"cpu": "x"}, {"cpu": float("inf")}, {"gpu": 1}],
)
def test_activity_is_a_percentage(cloud, extra):
    order = {"name": cloud.ready(), **extra}
    assert refusal(control.set_activity, cloud.world, order).code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("act", [control.preempt_node, control.maintain_node, control.set_activity])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": name_of("none")}, Code.NOT_FOUND),
        ({"name": ""}, Code.INVALID_ARGUMENT),
        ({"name": 5}, Code.INVALID_ARGUMENT),
        ({}, Code.INVALID_ARGUMENT),
        ([], Code.INVALID_ARGUMENT),
        ({"name": name_of("none"), "why": 1}, Code.INVALID_ARGUMENT),
    ],
)
def test_what_is_done_to_a_node_needs_its_name(cloud, act, body, code):
    assert refusal(act, cloud.world, body).code is code


def test_force_is_yes_or_no(cloud):
    order = {"name": cloud.ready(), "force": "please"}
    assert (
        "force must be true or false" in refusal(control.preempt_node, cloud.world, order).message
    )


def test_a_reset_forgets_everything_and_repeats_no_id(cloud):
    cloud.create()
    first = cloud.get().id
    control.add_fault(cloud.world, {"rpc": "GetNode", "action": "error", "times": -1})
    control.change_config(cloud.world, {"speed": 2})
    control.reset_world(cloud.world)
    shown = control.describe_state(cloud.world)
    assert (shown["nodes"], shown["operations"], shown["pending"], shown["faults"]) == (
        [],
        [],
        [],
        [],
    )
    assert shown["config"]["speed"] == 1
    assert cloud.bill() == []
    cloud.create()
    assert cloud.get().id != first
