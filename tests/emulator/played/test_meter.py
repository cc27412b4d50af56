"""The activity of played workers: what the service's reader makes of it."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from service.domain.idle.worker_report import parse_activity
from service.emulator.errors import ApiError
from service.emulator.nodes import activity
from tests.emulator.factories import name_of
from tests.emulator.played.given import POD, SUPERVISOR, Jobs, task

METERED = {**SUPERVISOR, "steward-meter": "source"}


class Metered(Jobs):
    """A played cloud whose nodes have a meter."""

    def ready(self, text=None, node_id="a", **wanted):
        metadata = {**METERED, **({"steward-task": text} if text else {})}
        return self.cloud.ready(node_id, metadata=metadata, **wanted)

    def activity(self, worker=0, node_id="a"):
        """What a worker has written; None before it wrote anything."""
        asked = {"name": name_of(node_id), "query_path": "steward/activity"}
        with suppress(ApiError):
            found = self.cloud.ask("GetGuestAttributes", **asked, worker_ids=[str(worker)])
            (item,) = found.guest_attributes[0].query_value.items
            return json.loads(item.value)
        return None

    def note(self, worker=None, **changes):
        world = self.cloud.world
        activity.record_activity(world.nodes[name_of("a")], self.cloud.now, changes, worker)


@pytest.fixture
def jobs():
    return Metered()


def test_a_node_of_which_nothing_was_said_is_at_rest_and_holds_nothing(jobs):
    jobs.ready()
    assert jobs.activity() is None
    jobs.cloud.wait(70)
    found = jobs.activity()
    start = found["from"]
    assert found["at"] - start in {59, 60}
    assert found | {"boot": "", "at": 0} == {
        "v": 1,
        "boot": "",
        "from": start,
        "at": 0,
        "holder": "",
        "device_free_since": start,
        "cpu_quiet_since": start,
        "network_quiet_since": start,
        "sessions": 0,
        "containers": 0,
        "restarts": 0,
    }
    assert found["boot"] == jobs.report()["boot"]
    assert parse_activity(found, int(jobs.cloud.now)) is not None


def test_a_node_without_a_meter_writes_no_activity(jobs):
    Jobs.ready(jobs)
    jobs.cloud.wait(600)
    assert jobs.activity() is None
    assert jobs.report()["state"] == "IDLE"


def test_it_is_written_every_four_minutes_and_within_one_of_what_matters(jobs):
    jobs.ready()
    jobs.cloud.wait(70)
    first = jobs.activity()["at"]
    jobs.cloud.wait(230)
    assert jobs.activity()["at"] == first
    jobs.cloud.wait(10)
    second = jobs.activity()["at"]
    assert second == first + 240
    jobs.note(sessions=2)
    jobs.cloud.wait(56)
    assert jobs.activity()["sessions"] == 2
    jobs.note(sessions=0)
    jobs.cloud.wait(30)
    assert jobs.activity()["sessions"] == 2, "one PUT a minute"
    jobs.cloud.wait(31)
    assert jobs.activity()["sessions"] == 0


def test_what_the_node_was_told_is_what_its_workers_report(jobs):
    jobs.ready(**POD)
    jobs.cloud.wait(70)
    jobs.note(worker=1, held=1, cpu=300, received=2e6, containers=1, restarts=5)
    jobs.cloud.wait(300)
    busy, idle = jobs.activity(1), jobs.activity(0)
    assert busy["holder"]
    assert [busy[key] for key in ("device_free_since", "cpu_quiet_since")] == [None, None]
    assert (busy["network_quiet_since"], busy["containers"], busy["restarts"]) == (None, 1, 5)
    assert (idle["holder"], idle["cpu_quiet_since"]) == ("", idle["from"])
    jobs.note(worker=1, held=0, cpu=0, received=0)
    told = jobs.cloud.now
    jobs.cloud.wait(300)
    rest = jobs.activity(1)
    for key in ("device_free_since", "cpu_quiet_since", "network_quiet_since"):
        assert told <= rest[key] <= told + 1


def test_a_chip_at_work_is_held_unless_something_else_was_said(jobs):
    jobs.ready()
    jobs.note(duty_cycle=50)
    jobs.cloud.wait(70)
    assert jobs.activity()["holder"]
    jobs.note(duty_cycle=0)
    jobs.cloud.wait(70)
    assert not jobs.activity()["holder"]
    jobs.note(held=1)
    jobs.cloud.wait(70)
    assert jobs.activity()["holder"]


@pytest.mark.parametrize(("env", "is_busy"), [({}, True), ({"EMULATOR_HANGS": "1"}, False)])
def test_the_container_of_a_job_holds_the_chips_and_one_that_hangs_does_nothing_else(
    jobs, env, is_busy
):
    jobs.ready(task(env={"EMULATOR_DURATION_SECONDS": "3600", **env}))
    jobs.until("RUNNING")
    jobs.cloud.wait(500)
    found = jobs.activity()
    assert "j-1" in found["holder"]
    assert (found["cpu_quiet_since"] is None) is is_busy
    lines = [entry for entry in jobs.lines() if entry.text_payload.startswith("line")]
    assert bool(lines) is is_busy
    jobs.cloud.wait(3_600)
    assert (jobs.report()["state"] == "EXITED") is is_busy
    if is_busy:
        ended = jobs.report()["ended_at"]
        jobs.cloud.wait(60)
        found = jobs.activity()
        assert not found["holder"]
        assert found["device_free_since"] in {ended, ended + 1}
        assert found["cpu_quiet_since"] in {ended, ended + 1}


def test_a_boot_begins_a_report_of_its_own(jobs):
    name = jobs.ready()
    jobs.cloud.wait(70)
    before = jobs.activity()
    jobs.cloud.ask("StopNode", name=name)
    jobs.cloud.wait(60)
    jobs.cloud.ask("StartNode", name=name)
    jobs.cloud.wait(200)
    after = jobs.activity()
    assert after["boot"] != before["boot"]
    assert after["from"] > before["at"]
