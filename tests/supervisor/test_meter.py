"""The meter: its decisions as tables, and the program on a machine that is played."""

from __future__ import annotations

import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from service.domain.idle.worker_report import parse_activity
from tests.supervisor.conftest import load_program
from tests.supervisor.fake_machine import METER, FakeMachine, dumped

STAT = "cpu  9 9 9 9\ncpu0 100 10 20 800 50 0 5 5 40 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5\n"
DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0
  ens8: 5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
docker0: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0
br-1f2e: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0
vethab1: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0
"""


@pytest.fixture(scope="module")
def meter():
    return load_program(METER)


@pytest.fixture
def machine(tmp_path):
    made = FakeMachine(tmp_path)
    yield made
    made.clean()


def test_a_core_is_at_work_but_for_idle_and_for_waiting(meter):
    assert meter.parse_cpu(STAT) == {"cpu0": (140, 990), "cpu1": (0, 100)}


def test_a_machine_without_cores_is_not_idle(meter):
    with pytest.raises(OSError, match="no core"):
        meter.parse_cpu("intr 5\n")


def test_networks_within_the_machine_do_not_count(meter):
    assert meter.parse_network(DEV) == {"ens8": 12}


@pytest.mark.parametrize(
    ("before", "after", "busiest"),
    [
        ({"a": (0, 0), "b": (0, 0)}, {"a": (5, 100), "b": (90, 100)}, 90),
        ({"a": (0, 0), "b": (0, 0)}, {"a": (5, 100), "b": (9, 0)}, 5),
        ({"a": (0, 0)}, {"a": (0, 100), "b": (50, 100)}, 50),
        ({"a": (50, 100)}, {"a": (40, 200)}, 0),
    ],
)
def test_the_busiest_core_counts(meter, before, after, busiest):
    assert meter.find_busiest(before, after) == busiest


def test_counters_that_stand_still_prove_nothing(meter):
    with pytest.raises(ValueError, match="empty"):
        meter.find_busiest({"a": (5, 9)}, {"a": (5, 9)})


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ({"a": 5, "b": 5}, {"a": 9, "b": 6}, 5),
        ({"a": 5}, {"a": 3}, 3),
        ({}, {"a": 7}, 7),
        ({"a": 5}, {}, 0),
    ],
)
def test_bytes_are_counted_over_networks_that_come_and_go(meter, before, after, count):
    assert meter.count_bytes(before, after) == count


@pytest.mark.parametrize(
    ("since", "is_at_rest", "expected"), [(None, True, 11), (5, True, 5), (5, False, None)]
)
def test_rest_begins_with_its_first_span_and_ends_with_work(meter, since, is_at_rest, expected):
    assert meter.extend_rest(since, 10.2, is_at_rest) == expected


@pytest.mark.parametrize(
    ("command", "is_session"),
    [
        ("sshd: ada@pts/0", True),
        ("sshd: ada@pts/0,pts/1", True),
        ("sshd-session: ada@notty", True),
        ("sshd: ada", True),
        ("sshd: ada [priv]", False),
        ("sshd: [accepted]", False),
        ("sshd: unknown [net]", False),
        ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", False),
        ("/usr/sbin/sshd -D", False),
        ("python3 sshd: ada@pts/0", False),
    ],
)
def test_a_session_is_somebody_who_is_logged_in(meter, command, is_session):
    assert (meter.SESSION.fullmatch(command) is not None) is is_session


def test_restarts_are_counted_within_the_window_only(meter):
    seen: dict[str, Any] = {}
    counted = [
        meter.count_restarts(seen, {"a": count}, minute * 60, 600)
        for minute, count in enumerate([7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    ]
    assert counted == [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 0]
    assert len(seen["a"]) <= 12, "and no more is kept"


def test_the_most_restarts_of_one_container_count_and_one_that_is_gone_is_forgotten(meter):
    seen: dict[str, Any] = {}
    meter.count_restarts(seen, {"a": 0, "b": 0}, 0, 600)
    assert meter.count_restarts(seen, {"a": 2, "b": 3}, 60, 600) == 3
    assert meter.count_restarts(seen, {"a": 2}, 120, 600) == 2
    assert set(seen) == {"a"}


@pytest.mark.parametrize(
    ("sent", "now", "seconds", "age", "may"),
    [
        ({}, {"holder": "", "sessions": 0}, None, 0, True),
        ({"holder": "", "sessions": 0}, {"holder": "", "sessions": 0}, 900, 239, False),
        ({"holder": "", "sessions": 0}, {"holder": "", "sessions": 0}, 60, 240, True),
        ({"holder": "", "sessions": 0}, {"holder": "", "sessions": 0}, 59, 240, False),
        ({"holder": "", "sessions": 0}, {"holder": "x", "sessions": 0}, 59, 0, False),
        ({"holder": "", "sessions": 0}, {"holder": "x", "sessions": 0}, 60, 0, True),
        ({"holder": "x", "sessions": 0}, {"holder": "", "sessions": 0}, 60, 0, True),
        ({"holder": "x", "sessions": 0}, {"holder": "y", "sessions": 0}, 60, 60, False),
        ({"holder": "", "sessions": 0}, {"holder": "", "sessions": 2}, 60, 60, True),
        ({"holder": "", "sessions": 2}, {"holder": "", "sessions": 1}, 60, 60, False),
        ({}, {"holder": "", "sessions": 0}, 60, 1e9, True),
    ],
)
def test_a_change_that_matters_is_reported_within_a_minute(meter, sent, now, seconds, age, may):
    assert meter.may_put(sent, now, seconds, age) is may


def test_a_machine_that_cannot_be_seen_is_not_at_rest(meter, tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "dev").mkdir()
    with pytest.raises(OSError, match="no device"):
        meter.look(tmp_path / "proc", tmp_path / "dev")
    (tmp_path / "dev/accel0").touch()
    with pytest.raises(OSError, match="no process"):
        meter.look(tmp_path / "proc", tmp_path / "dev")


def test_a_process_that_hides_its_files_is_not_taken_for_one_without(meter, tmp_path, monkeypatch):
    def refuse(_folder):
        raise PermissionError

    (tmp_path / "accel0").touch()
    (tmp_path / "1/fd").mkdir(parents=True)
    (tmp_path / "1/cmdline").write_text("init")
    assert meter.look(tmp_path, tmp_path) == ("", 0)
    monkeypatch.setattr(meter, "read_links", refuse)
    with pytest.raises(PermissionError):
        meter.look(tmp_path, tmp_path)


def test_a_machine_at_rest_is_reported_as_one(machine):
    before = int(time.time())
    machine.start()
    first = machine.wait(lambda report: report["at"] > report["from"])
    assert first | {"from": 0, "at": 0} == {
        "v": 1,
        "boot": "boot-1",
        "from": 0,
        "at": 0,
        "holder": "",
        "device_free_since": first["from"],
        "cpu_quiet_since": first["from"],
        "network_quiet_since": first["from"],
        "sessions": 0,
        "containers": 0,
        "restarts": 0,
    }
    assert before <= first["from"] <= first["at"] <= time.time() + 1
    assert dumped(first) < 1_000
    read = parse_activity(first, int(time.time()))
    assert read is not None
    assert read.device_free_since == read.watched_from


def test_a_device_that_is_held_and_freed_is_reported(machine):
    machine.start()
    machine.wait(lambda report: report["device_free_since"])
    machine.hold()
    held = machine.wait(lambda report: report["holder"])
    assert held["holder"] == f"process 7 (python3 train.py) holds {machine.devices}/vfio/0"
    assert held["device_free_since"] is None
    machine.end_process(7)
    freed = machine.wait(lambda report: not report["holder"])
    assert freed["device_free_since"] > held["from"]
    assert freed["from"] == held["from"], "one report covers the whole time"


def test_people_containers_and_restarts_are_reported(machine):
    machine.show_containers(a=5, b=1)
    machine.start()
    machine.wait(lambda report: report["containers"] == 2 and report["restarts"] == 0)
    machine.add_process(8, "sshd: ada@pts/0")
    machine.show_containers(a=9, b=1)
    found = machine.wait(lambda report: report["restarts"])
    assert (found["sessions"], found["restarts"]) == (1, 4)


def test_work_of_a_core_and_of_the_network_is_reported(machine):
    machine.cores, machine.network = [0.0, 80.0], 3e6
    machine.start()
    busy = machine.wait(lambda _: True)
    assert (busy["cpu_quiet_since"], busy["network_quiet_since"]) == (None, None)
    machine.cores, machine.network = [1.0, 1.0], 1_000.0
    quiet = machine.wait(lambda report: report["network_quiet_since"] and report["cpu_quiet_since"])
    assert quiet["from"] == busy["from"]
    assert quiet["cpu_quiet_since"] >= busy["at"]


@pytest.mark.parametrize("is_heard", [True, False])
def test_no_more_than_one_put_a_minute(meter, monkeypatch, is_heard):
    """Of a metadata server that refuses them as well."""
    clock, puts = SimpleNamespace(now=0.0), []

    def put(document):
        puts.append(clock.now)
        if not is_heard:
            raise OSError
        return True

    monkeypatch.setattr(meter, "put", put)
    monkeypatch.setattr(meter.time, "monotonic", lambda: clock.now)
    live = SimpleNamespace(sent={}, put_at=None)
    for second in range(0, 600, 5):
        clock.now = float(second)
        held = "a process" if second % 10 else ""
        at = second - second % 60
        meter.report(live, {"at": at, "holder": held, "sessions": 0})
    pauses = [later - earlier for earlier, later in pairwise(puts)]
    assert len(puts) >= 3
    assert min(pauses) >= 60
    assert max(pauses) <= 240


def test_a_sample_that_fails_begins_anew(machine):
    machine.start()
    first = machine.wait(lambda _: True)
    (machine.devices / "vfio/0").unlink()
    time.sleep(1.5)
    (machine.devices / "vfio/0").touch()
    machine.wait(lambda report: report["from"] > first["from"])
