"""What would go on for ever, or grow without bound, and does not."""

from __future__ import annotations

import signal
import sys
from io import StringIO

import pytest

from service.emulator.clock import LAST_MOMENT
from service.emulator.errors import ApiError, Code
from service.emulator.incidents.scenario import read_file, scenario_of, start_scenario
from service.emulator.surfaces import control
from service.emulator.timeline import Timeline
from service.emulator.workers.docker.cli import carry_out
from service.emulator.workers.docker.containers import Store
from service.emulator.workers.docker.play import SIGNALS
from tests.emulator import queued_resources
from tests.emulator.factories import ZONE, configured, name_of


@pytest.mark.parametrize("patch", [{"durations": {"examine": 0}}, {"speed": 1_000_000}])
def test_to_look_for_hardware_in_vain_does_not_stop_time(patch):
    cloud = configured(capacity={f"{ZONE}/v4": 0}, **patch)
    queued_resources.submit(cloud)
    cloud.wait(3600)
    assert queued_resources.state(cloud) == "WAITING_FOR_RESOURCES"
    control.change_config(cloud.world, {"capacity": {}})
    cloud.wait(3600)
    assert queued_resources.state(cloud) == "ACTIVE"


@pytest.mark.parametrize(
    "step",
    [
        {"at": float("nan"), "preempt": {}},
        {"at": float("inf"), "preempt": {}},
        {"every": 1e-9, "preempt": {}},
        {"times": float("inf"), "preempt": {}},
        {"preempt": {"count": float("inf")}},
        {"after_ready": float("nan"), "preempt": {}},
    ],
)
def test_a_step_that_never_comes_or_never_ends_is_refused(step):
    with pytest.raises(ApiError, match="step 1: "):
        scenario_of({"step": [step]})


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000])
def test_a_scenario_that_cannot_be_read_is_refused(tmp_path, text):
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    with pytest.raises(ApiError) as caught:
        read_file(path)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_step_meant_for_one_node_does_not_strike_another_of_its_name(cloud):
    start_scenario(
        cloud.world, scenario_of({"step": [{"after_ready": 60, "times": 1, "preempt": {}}]})
    )
    cloud.ready(scheduling_config={"spot": True})
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(10)
    cloud.ready(scheduling_config={"spot": True})
    cloud.wait(100)
    assert cloud.state() == "READY"


def test_a_step_after_ready_can_also_change_the_world(cloud):
    outage = {"rpc": "*", "action": "error", "for_seconds": 60}
    start_scenario(cloud.world, scenario_of({"step": [{"after_ready": 10, "fault": outage}]}))
    cloud.ready()
    cloud.wait(10)
    assert len(control.list_faults(cloud.world)["faults"]) == 1


def test_a_reset_ends_a_scenario(cloud):
    start_scenario(cloud.world, scenario_of({"step": [{"after_ready": 10, "preempt": {}}]}))
    control.reset_world(cloud.world)
    cloud.ready(scheduling_config={"spot": True})
    cloud.wait(100)
    assert cloud.state() == "READY"


def test_what_was_called_off_is_let_go_long_before_it_would_be_due():
    timeline = Timeline()
    kept = timeline.schedule_event(1.0, "kept", "end", lambda _: None)
    acts: list[float] = []
    for number in range(10_000):
        event = timeline.schedule_event(1e9 + number, "gone", "end", acts.append)
        event.cancelled = True
    assert timeline.list_pending() == [kept]
    # One for the list, one for the variable, one for the argument; the rest are events.
    assert sys.getrefcount(acts) < 5000


def test_what_fails_while_all_is_hurried_does_not_lose_what_is_to_come():
    timeline = Timeline()

    def fail(_: float) -> None:
        raise RuntimeError("not as planned")

    fate = timeline.schedule_event(5.0, "a", "preempt", fail, fate=True)
    timeline.schedule_event(9.0, "a", "create", fail)
    with pytest.raises(RuntimeError, match="not as planned"):
        timeline.run_pending(1.0)
    assert timeline.list_pending() == [fate]


def test_a_maintenance_ends_within_the_years_that_a_timestamp_has():
    cloud = configured(speed=0.001, durations={"repair": 300_000_000, "create": 0})
    cloud.create()
    cloud.wait(1)
    control.maintain_node(cloud.world, {"name": name_of("a")})
    assert cloud.state() == "REPAIRING"
    maintenance = cloud.world.get_node(name_of("a")).maintenance
    assert maintenance is not None
    assert maintenance[1] < LAST_MOMENT


def test_a_container_that_was_started_leaves_its_starter_its_signals(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", StringIO())
    store = Store(tmp_path, "1")
    handlers = [signal.getsignal(number) for number in SIGNALS]
    run = ["run", "--quiet", "-e", "EMULATOR_DURATION_SECONDS=0"]
    assert carry_out([*run, "--detach", "busybox"], store) == 0
    assert carry_out([*run, "busybox"], store) == 0
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(SIGNALS)
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
