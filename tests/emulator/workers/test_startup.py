"""Startup scripts that are really run: what they see, what they leave behind, and their end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.emulator.app import build_world, run_in_thread
from service.emulator.world import log_buffer
from tests.emulator.factories import Web
from tests.emulator.google_clients import grpc_client
from tests.emulator.worker_view import PARENT, POD, SINGLE, create, port, serial, until

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl"))), reason="scripts are run by bash, and call curl"
)

REPORT = """\
#!/bin/bash
set -eu
metadata=http://metadata.google.internal/computeMetadata/v1/instance
ask() { curl -sf -H 'Metadata-Flavor: Google' "$@"; }
number=$(ask $metadata/attributes/agent-worker-number)
ask -X PUT --data running $metadata/guest-attributes/job/state
docker run --rm --privileged --net=host -e PJRT_DEVICE=TPU -e EMULATOR_DURATION_SECONDS=30 \
  -e EMULATOR_PLAY=1 emulator/train:v1 python train.py
ask -X PUT --data "worker $number is done" $metadata/guest-attributes/job/state
"""
# A process in the group of the script, and one that ran away from it.
HANG = """\
sleep 1000 & echo pid $!
setsid bash -c 'trap "" TERM; echo pid $$; sleep 1000; true' &
echo pid $$
echo ready
wait
"""
PROGRAM = """
from service.emulator.app import build_world, run
run(build_world(speed=600), grpc_port=0, rest_port=0, run_startup_scripts=True,
    on_ready=lambda it: print(it.rest_url, flush=True))
"""


@pytest.fixture(scope="module")
def shared():
    with run_in_thread(build_world(speed=600), run_startup_scripts=True) as emulator:
        yield emulator


@pytest.fixture
def emulator(shared):
    Web(shared.rest_url).ask("POST", "/_emulator/reset")
    return shared


def finished(web, name, worker=0, boots=1):
    """Wait until the startup script of a boot has ended, and show the console."""

    def ended():
        shown = serial(web, name, worker)
        return shown if shown["boots"] == boots and "startup-script" in shown["exits"] else None

    return until(ended)


def lines_of(shown):
    """Give what the startup script wrote."""
    prefix = "startup-script: "
    return [line.removeprefix(prefix) for line in shown["lines"] if line.startswith(prefix)]


def hanging(web, name, node=SINGLE, **metadata):
    """Create a node whose script does not end, and name the processes that it started."""
    full = create(web, name, node, **{"startup-script": HANG, **metadata})
    shown = until(lambda: _with(serial(web, full), "ready"))
    return full, [int(line.split()[1]) for line in lines_of(shown) if line.startswith("pid")]


def _with(shown, line):
    # The one that ran away may be slower than the others.
    return shown if line in lines_of(shown) and len(shown["lines"]) >= 4 else None


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() or _answers(pid)]


def _answers(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_job_runs_on_every_worker_and_reports_through_guest_attributes(web, emulator):
    name = create(web, "job", POD, **{"startup-script": REPORT})
    shown = [finished(web, name, worker) for worker in range(4)]
    assert [each["exits"] for each in shown] == [{"startup-script": 0}] * 4
    with grpc_client(emulator) as client:
        answer = client.get_guest_attributes({"name": name, "query_path": "job/state"})
    values = [each.query_value.items[0].value for each in answer.guest_attributes]
    assert values == [f"worker {number} is done" for number in range(4)]
    assert "train:v1: line 3 of 3" in lines_of(shown[3])
    assert shown[3]["lines"][-1] == "startup-script exit status 0"


def test_what_a_script_writes_is_in_the_log_of_its_worker(web, emulator):
    name = create(web, "logged", SINGLE, **{"startup-script": "echo out; echo err >&2"})
    finished(web, name)
    assert isinstance(emulator.world.logs, log_buffer.LogBuffer)
    query = {"resourceNames": ["projects/lab"], "filter": 'textPayload="startup-script: err"'}
    _, told = web.ask("POST", "/v2/entries:list", query)
    [entry] = told["entries"]
    assert entry["resource"]["type"] == "tpu_worker"
    assert entry["resource"]["labels"]["worker_id"] == "0"


def test_a_script_s_exit_status_is_kept(web, emulator):
    name = create(web, "failing", SINGLE, **{"startup-script": "exit 3"})
    assert finished(web, name)["exits"] == {"startup-script": 3}


def test_the_first_line_of_a_script_may_name_another_interpreter(web, emulator):
    script = f"#!{sys.executable}\nprint('by', 'python')\n"
    name = create(web, "python", SINGLE, **{"startup-script": script})
    assert lines_of(finished(web, name)) == ["by python"]


def test_a_script_sees_its_worker_s_machine_and_nothing_of_ours(web, emulator, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_USER", "x")
    script = "hostname; pwd; echo $HOME $TMPDIR; sudo -E NAME=value bash -c 'echo $NAME'; env"
    name = create(web, "env", SINGLE, **{"startup-script": script})
    told = lines_of(finished(web, name))
    assert told[0].startswith("t1v-n-")
    assert told[1] == told[2].split()[0]
    assert told[2].split()[1].startswith(told[1])
    assert told[3] == "value"
    assert "SECRET_OF_THE_USER=x" not in told
    assert not [line for line in told if line.startswith("TPU_")]


@pytest.mark.parametrize(
    "command",
    [
        "curl -sS https://example.com",
        "curl -sS http://example.com -f",
        "/usr/bin/curl -sSf http://example.com",
        "/usr/bin/curl -sS https://example.com",
        "curl -sS --url=https://example.com",
    ],
)
def test_a_script_s_usual_programs_do_not_leave_this_machine(web, emulator, command):
    name = create(web, "inside", SINGLE, **{"startup-script": f"{command} && echo reached"})
    shown = finished(web, name)
    assert shown["exits"]["startup-script"] != 0
    assert "reached" not in lines_of(shown)


@pytest.mark.parametrize(
    "command", ["shutdown -h now", "apt-get install x", "gcloud auth login", "systemctl stop x"]
)
def test_what_would_change_this_machine_is_only_written_down(web, emulator, command):
    name = create(web, "harmless", SINGLE, **{"startup-script": command})
    shown = finished(web, name)
    assert shown["exits"] == {"startup-script": 0}
    program = command.split()[0]
    assert lines_of(shown) == [f"{program}: nothing was done by the emulator: {command}"]


def test_metadata_is_found_under_all_its_names(web, emulator):
    path = "computeMetadata/v1/instance/description"
    hosts = ("metadata.google.internal", "169.254.169.254", "metadata", "$GCE_METADATA_HOST")
    asks = "\n".join(
        f"curl -sf -H 'Metadata-Flavor: Google' http://{host}/{path}; echo" for host in hosts
    )
    by_proxy = (
        f"/usr/bin/curl -sf -H 'Metadata-Flavor: Google' http://metadata.google.internal/{path}"
    )
    name = create(web, "names", SINGLE, **{"startup-script": f"{asks}\n{by_proxy}\n"})
    assert lines_of(finished(web, name)) == ["names"] * 5


@pytest.mark.deep
def test_scripts_of_a_deleted_node_are_dead(web, emulator):
    name, pids = hanging(web, "doomed")
    assert alive(pids) == pids
    assert len(pids) == 3
    home = Path(f"/proc/{pids[0]}/cwd").resolve() if Path("/proc").exists() else None
    web.ask("DELETE", f"/v2/{name}")
    until(lambda: not alive(pids))
    if home is not None:
        until(lambda: not home.exists())


def test_a_preempted_worker_runs_its_shutdown_script_and_is_killed(web, emulator):
    last_words = {"shutdown-script": "echo going; trap '' TERM; sleep 1000"}
    name, pids = hanging(web, "spot", **last_words)
    web.ask("POST", "/_emulator/nodes/preempt", {"name": name, "force": True})
    until(lambda: not alive(pids))
    shown = serial(web, name)
    assert "shutdown-script: going" in shown["lines"]
    until(lambda: not serial(web, name)["on"])


def test_each_boot_runs_the_script_again_on_the_same_disk(web, emulator):
    script = "number=$(($(cat boots 2>/dev/null) + 1)); echo $number | tee boots"
    name = create(web, "again", SINGLE, **{"startup-script": script})
    finished(web, name)
    web.ask("POST", f"/v2/{name}:stop")
    until(lambda: web.ask("GET", f"/v2/{name}")[1]["state"] == "STOPPED")
    web.ask("POST", f"/v2/{name}:start")
    assert lines_of(finished(web, name, boots=2)) == ["1", "2"]
    web.ask("POST", "/_emulator/nodes/maintenance", {"name": name})
    assert lines_of(finished(web, name, boots=3)) == ["1", "2", "3"]


def test_a_reset_ends_what_runs(web, emulator):
    _, pids = hanging(web, "reset")
    web.ask("POST", "/_emulator/reset")
    until(lambda: not alive(pids))


def test_no_script_is_run_unless_it_is_allowed_and_no_request_can_allow_it(tmp_path):
    proof = tmp_path / "proof"
    with run_in_thread(build_world(speed=600)) as emulator:
        web = Web(emulator.rest_url)
        web.ask("PATCH", "/_emulator/config", {"run_startup_scripts": True})
        name = create(web, "asking", SINGLE, **{"startup-script": f"touch {proof}"})
        assert port(web, name).get("instance/attributes/startup-script").body == f"touch {proof}"
        assert serial(web, name)["boots"] == 0
    assert not proof.exists()


def test_a_node_that_is_ready_when_the_emulator_starts_is_booted():
    world = build_world(speed=600)
    with run_in_thread(world) as before:
        create(Web(before.rest_url), "early", SINGLE, **{"startup-script": "echo here"})
    with run_in_thread(world, run_startup_scripts=True) as emulator:
        assert lines_of(finished(Web(emulator.rest_url), f"{PARENT}/nodes/early")) == ["here"]


def test_the_end_of_the_emulator_leaves_no_process_and_no_file():
    with run_in_thread(build_world(speed=600), run_startup_scripts=True) as emulator:
        _, pids = hanging(Web(emulator.rest_url), "last")
        home = Path(f"/proc/{pids[0]}/cwd").resolve() if Path("/proc").exists() else None
    assert not alive(pids)
    assert home is None or not home.parent.exists()


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_emulator_takes_the_scripts_with_it(number):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        _, pids = hanging(Web(url), "orphan")
        home = Path(f"/proc/{pids[0]}/cwd").resolve() if Path("/proc").exists() else None
        program.send_signal(number)
        program.wait()
        until(lambda: not alive(pids))
        until(lambda: home is None or not home.parent.exists())


def test_a_script_that_kills_the_first_process_of_its_machine_ends_with_it(web, emulator):
    script = "sleep 1000 & echo pid $!; sleep 0.1; kill -9 $PPID; sleep 1000"
    name = create(web, "suicide", SINGLE, **{"startup-script": script})
    line = "emulator: the machine's first process was killed, and all the others"
    shown = until(lambda: line in serial(web, name)["lines"] and serial(web, name))
    pids = [int(each.split()[1]) for each in lines_of(shown) if each.startswith("pid")]
    assert len(pids) == 1
    until(lambda: not alive(pids))
