"""What real workers see of themselves: files that our meter reads, through the whole path."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from service.domain.idle.worker_report import parse_activity
from service.domain.jobs.startup import metadata_of, script_digest
from service.emulator.app import build_world, run_in_thread
from service.emulator.nodes.observed import Observed
from service.emulator.workers.proc import ProcFiles
from tests import factories
from tests.emulator.factories import Web
from tests.emulator.worker_view import POD, SINGLE, create, serial, until
from tests.supervisor.conftest import load_program
from tests.supervisor.fake_machine import METER

is_linux = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("bash", "curl", "flock"))),
    reason="scripts are run by bash, and call curl",
)


@pytest.fixture
def meter():
    return load_program(METER)


def test_what_a_node_was_told_is_what_the_meter_reads(meter, tmp_path):
    device = tmp_path / "dev/vfio/0"
    device.parent.mkdir(parents=True)
    device.touch()
    proc = ProcFiles(tmp_path / "proc", device, tmp_path / "told")
    meter.GIVEN.proc = str(tmp_path / "proc")
    proc.update_files(100.0, Observed())
    cpu, network = meter.read_counters()
    proc.update_files(160.0, Observed(is_held=True, cpu=150.0, network=2e6, sessions=2))
    later_cpu, later_network = meter.read_counters()
    assert round(meter.find_busiest(cpu, later_cpu)) == 100
    assert meter.count_bytes(network, later_network) == 120_000_000
    holder, sessions = meter.look(str(tmp_path / "proc"), str(tmp_path / "dev"))
    assert holder == f"process 7001 (python3 train.py) holds {device}"
    assert sessions == 2
    proc.update_files(220.0, Observed(restarts=10, containers=1))
    assert meter.look(str(tmp_path / "proc"), str(tmp_path / "dev")) == ("", 0)
    last_cpu, last_network = meter.read_counters()
    assert round(meter.find_busiest(later_cpu, last_cpu)) == 2
    assert meter.count_bytes(later_network, last_network) == 60_000
    assert json.loads((tmp_path / "told").read_text()) == {"containers": 1, "restarts": 1}


@pytest.fixture(scope="module")
def emulator():
    chosen = frozenset({script_digest()})
    with run_in_thread(build_world(speed=600), run_startup_scripts=chosen) as emulator:
        Web(emulator.rest_url).ask("PATCH", "/_emulator/config", {"meter_speed": 12})
        yield emulator


def activity_of(web, name, worker=0):
    asked = {"queryPath": "steward/activity", "workerIds": [str(worker)]}
    status, told = web.ask("POST", f"/v2/{name}:getGuestAttributes", asked)
    if status != 200:
        return None
    return json.loads(told["guestAttributes"][0]["queryValue"]["items"][0]["value"])


def wait_for(web, name, is_right, worker=0):
    def right():
        found = activity_of(web, name, worker)
        return found if found is not None and is_right(found) else None

    return until(right)


@pytest.mark.deep
@is_linux
def test_a_real_meter_reports_what_its_node_was_told(emulator):
    web = Web(emulator.rest_url)
    name = create(web, "metered", SINGLE, **metadata_of(factories.node(supervisor=True).spec))
    web.ask("POST", "/_emulator/nodes/activity", {"name": name, "containers": 1, "restarts": 600})
    rest = wait_for(web, name, lambda _: True)
    assert (rest["holder"], rest["sessions"], rest["restarts"]) == ("", 0, 0)
    assert rest["cpu_quiet_since"] == rest["from"]
    assert parse_activity(rest, rest["at"]) is not None
    told = {"name": name, "held": 1, "sessions": 1, "cpu": 90}
    web.ask("POST", "/_emulator/nodes/activity", told)
    busy = wait_for(web, name, lambda found: found["holder"])
    assert busy["restarts"] > 3
    assert busy["holder"].startswith("process 7001 (python3 train.py) holds ")
    assert (busy["sessions"], busy["containers"], busy["device_free_since"]) == (1, 1, None)
    queries = serial(web, name)["guest_attribute_queries"]
    assert queries, "and both programs write within what Google allows"


@pytest.mark.deep
@is_linux
def test_each_worker_of_a_slice_reports_for_itself(emulator):
    web = Web(emulator.rest_url)
    name = create(web, "slice", POD, **metadata_of(factories.node(supervisor=True).spec))
    web.ask("POST", "/_emulator/nodes/activity", {"name": name, "worker": 2, "held": 1})
    wait_for(web, name, lambda found: found["holder"], worker=2)
    for worker in (0, 1, 3):
        found = wait_for(web, name, lambda _: True, worker)
        assert found["holder"] == ""
