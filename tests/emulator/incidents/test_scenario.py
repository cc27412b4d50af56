"""A scenario does what its file says, when it says so, the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.incidents.scenario import read_file, start_scenario
from tests.emulator.factories import START, Cloud, name_of

SPOT = {"scheduling_config": {"spot": True}}


@pytest.fixture
def script(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "scenario.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def playing(script):
    def start(text: str, **world) -> Cloud:
        cloud = Cloud(**world)
        start_scenario(cloud.world, read_file(script(text)))
        return cloud

    return start


def moments(cloud: Cloud, state: str) -> list[tuple[str, float]]:
    happened = [each for each in cloud.history if each.after == state]
    return [(each.name.rpartition("/")[2], each.at - START) for each in happened]


def test_it_begins_with_its_configuration(playing):
    cloud = playing("[config]\ndurations = {create = 3}\nstrict_runtimes = true")
    assert cloud.world.config.strict_runtimes
    cloud.create()
    cloud.wait(3)
    assert cloud.state() == "READY"


def test_a_fault_comes_at_its_time(playing):
    cloud = playing(
        """
        [[step]]
        at = 60
        fault = {rpc = "CreateNode", action = "error", code = "RESOURCE_EXHAUSTED"}
        """
    )
    cloud.create("early")
    cloud.wait(60)
    with pytest.raises(ApiError) as caught:
        cloud.create("late")
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    cloud.create("later")


def test_each_node_that_matches_is_preempted_so_long_after_it_was_ready(playing):
    cloud = playing(
        """
        [[step]]
        after_ready = 90
        preempt = {match = {provisioning_model = "spot"}}
        """
    )
    cloud.create("spot", **SPOT)
    cloud.create("solid")
    cloud.wait(500)
    assert moments(cloud, "PREEMPTED") == [("spot", 110)]


def test_what_is_done_only_once_is_done_to_the_first(playing):
    cloud = playing("[[step]]\nafter_ready = 5\ntimes = 1\npreempt = {}")
    cloud.ready("a", **SPOT)
    cloud.ready("b", **SPOT)
    cloud.wait(100)
    assert moments(cloud, "PREEMPTED") == [("a", 25)]


def test_a_step_comes_again_and_again_and_takes_as_many_nodes_as_it_says(playing):
    text = """
        [[step]]
        at = 100
        every = 50
        times = 2
        host_error = {match = {generation = ["v4", "v5p"]}, count = 2}
        """
    cloud = playing(text)
    for node_id in "abc":
        cloud.create(node_id)
    cloud.wait(1000)
    struck = moments(cloud, "RESTARTING")
    assert [at for _, at in struck] == [100, 100, 150, 150]
    again = playing(text)
    for node_id in "abc":
        again.create(node_id)
    again.wait(1000)
    assert moments(again, "RESTARTING") == struck


def test_a_node_can_be_named(playing):
    cloud = playing(f'[[step]]\nat = 50\nmaintenance = {{name = "{name_of("b")}"}}')
    cloud.create("a")
    cloud.create("b")
    cloud.wait(60)
    assert moments(cloud, "REPAIRING") == [("b", 50)]


def test_a_step_that_finds_nothing_to_do_spoils_nothing(playing):
    cloud = playing("[[step]]\nat = 1\npreempt = {count = 0}\n[[step]]\nat = 50\npreempt = {}")
    cloud.create("solid")
    cloud.wait(100)
    assert cloud.state("solid") == "READY"


def test_the_odds_may_change_on_the_way_and_faults_be_cleared(playing):
    cloud = playing(
        """
        [[step]]
        fault = {rpc = "*", action = "error", code = "UNAVAILABLE", times = 0}
        [[step]]
        at = 30
        clear_faults = true
        [[step]]
        at = 30
        config = {odds = {preemptions_per_hour = {"*" = 36000}}}
        """
    )
    cloud.wait(0)
    with pytest.raises(ApiError):
        cloud.create(**SPOT)
    cloud.wait(30)
    cloud.create(**SPOT)
    cloud.wait(20)
    assert cloud.state() == "PREEMPTED"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[step]]\nat = ", "scenario.toml: Invalid value"),
        ("[steps]\n", "unknown table steps; known: config, step"),
        ("[[step]]\nat = 1", "step 1 must say one thing to do, of: config, fault"),
        ("[[step]]\nexplode = {}", "step 1 must say one thing to do"),
        ("[[step]]\npreempt = {}\nmaintenance = {}", "step 1 must say one thing to do"),
        ("[[step]]\nat = -1\npreempt = {}", "step 1: at must be a number from 0"),
        ("[[step]]\npreempt = {match = {colour = 'red'}}", "step 1: match must be a table of"),
        ("[config]\nspeed = 'fast'", "speed must be a number"),
        ("[[step]]\nfault = {rpc = 'Sing', action = 'error'}", "unknown rpc 'Sing'"),
        ("step = 3", r"steps are written as \[\[step\]\]"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(cloud, script, text, complaint):
    with pytest.raises(ApiError, match=complaint):
        start_scenario(cloud.world, read_file(script(text)))
