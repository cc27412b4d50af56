"""What a supervisor finds on a worker: systemd-run, python3, a home, chips, and a boot id."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.emulator.app import build_world, run_in_thread
from service.emulator.worker_http.workers import Workers
from service.emulator.workers.options import parse_options
from service.emulator.workers.systemd_run import (
    OPTIONS,
    Failed,
    Unit,
    claim_name,
    parse_seconds,
    unit_of,
)
from tests.emulator.docker import is_alive
from tests.emulator.factories import Web
from tests.emulator.worker_view import POD, SINGLE, create, serial, until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("bash", "curl"))),
    reason="scripts are run by bash, and call curl",
)

# A supervisor of a few lines: it runs one container and reports how that ended.
SUPERVISOR = """\
import json, os, subprocess, urllib.request

def docker(*words):
    told = subprocess.run(["docker", *words], capture_output=True, text=True)
    if told.returncode:
        raise SystemExit(told.stderr)
    return told.stdout.strip()

image = "us-docker.pkg.dev/lab/r/i@sha256:" + "a" * 64
docker("pull", image)
docker("run", "--detach", "--name", "job", "--network", "host", "--env", "A=b c", image,
       "bash", "-c", "echo $A; exit 7")
report = {
    "code": docker("wait", "job"),
    "state": docker("inspect", "--format", "{{.State.Status}}", "job"),
    "log": docker("logs", "--timestamps", "job").split(" ", 1)[1],
    "digest": docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", image)[-4:],
    "devices": sorted(
        os.path.join(where, each)[len(os.environ["EMULATOR_DEVICES"]) + 1 :]
        for where, _, files in os.walk(os.environ["EMULATOR_DEVICES"]) for each in files
    ),
    "scripts": os.environ["EMULATOR_STARTUP_SCRIPTS"],
}
docker("rm", "--force", "job")
report["left"] = docker("ps", "-aq")
request = urllib.request.Request(
    "http://" + os.environ["GCE_METADATA_HOST"]
    + "/computeMetadata/v1/instance/guest-attributes/steward/report",
    json.dumps(report).encode(), {"Metadata-Flavor": "Google"}, method="PUT")
urllib.request.urlopen(request).close()
"""
STUB = f"""\
cat > "$EMULATOR_HOME/supervisor.py" <<'END'
{SUPERVISOR}
END
systemd-run --unit=tpu-steward-supervisor --property=Restart=on-failure --property=RestartSec=2 \\
  --property=StartLimitIntervalSec=0 python3 -B "$EMULATOR_HOME/supervisor.py"
"""


def digest(script):
    return hashlib.sha256(script.encode()).hexdigest()


@pytest.fixture(scope="module")
def shared():
    chosen = frozenset({digest(STUB), digest(BOOTS), digest(SERVICES), digest(JOBS)})
    with run_in_thread(build_world(speed=600), run_startup_scripts=chosen) as emulator:
        yield emulator


@pytest.fixture
def emulator(shared):
    Web(shared.rest_url).ask("POST", "/_emulator/reset")
    return shared


# Counts the boots in the home, and shows the id of each.
BOOTS = """\
number=$(($(cat "$EMULATOR_HOME/boots" 2>/dev/null) + 1)); echo $number > "$EMULATOR_HOME/boots"
echo "boot $number $(cat "$EMULATOR_BOOT_ID_FILE") $(stat -c %a "$EMULATOR_HOME")"
"""
SERVICES = """\
export SECRET=x PYTHONPATH=/nowhere
one() { systemd-run --unit=one --property=Restart=always --property=RestartSec=0.01 \\
  --property=StartLimitIntervalSec=0 "$@"; }
one bash -c 'echo "pid $$ ${SECRET-none} $PWD"; exec sleep 1000'
one true; echo "second $?"
systemd-run --unit=two --setenv=A='b c' --quiet bash -c 'echo "two $A"'
python3 -c 'import os, sys; print("python", sys.version_info[0], os.environ.get("PYTHONPATH"))'
systemd-run --unit=three no-such-program; echo "third $?"
systemd-run --unit=four --dance true; echo "fourth $?"
"""
# Leaves a container behind that ignores SIGTERM and has forked away.
JOBS = """\
docker run -d -e EMULATOR_IGNORE_SIGTERM=1 -e EMULATOR_FORK=1 train:1000h > /dev/null
docker run -d image bash -c 'trap "" TERM; setsid sleep 1000 & sleep 1000; true' >/dev/null
for id in $(docker ps -q); do docker inspect -f 'pid {{.State.Pid}}' $id; done
echo ready
"""


def lines_of(shown):
    return [line.removeprefix("startup-script: ") for line in shown["lines"]]


def inside(directory):
    """List the processes whose present directory is below one, which all of a worker's are."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if each.readlink().is_relative_to(directory):
                found.append(int(each.parts[2]))
        except OSError:
            continue
    return found


def report_of(web, name, worker):
    asked = {"queryPath": "steward/report", "workerIds": [str(worker)]}
    status, told = web.ask("POST", f"/v2/{name}:getGuestAttributes", asked)
    return told["guestAttributes"][0]["queryValue"]["items"][0]["value"] if status == 200 else None


def test_a_supervisor_runs_a_container_on_every_worker_and_reports(web, emulator):
    name = create(web, "job", POD, **{"startup-script": STUB})
    for worker in range(4):
        text = until(lambda number=worker: report_of(web, name, number))
        assert text == (
            '{"code": "7", "state": "exited", "log": "b c", "digest": "aaaa", "devices": ["vfio/0",'
            ' "vfio/1", "vfio/2", "vfio/3", "vfio/vfio"], "scripts": "record", "left": ""}'
        )
    unit = "Running as unit: tpu-steward-supervisor.service; invocation ID: "
    assert any(line.startswith(unit) for line in lines_of(serial(web, name)))


def test_the_home_survives_a_reboot_and_the_boot_id_does_not(web, emulator):
    name = create(web, "boots", SINGLE, **{"startup-script": BOOTS})

    def boot(number):
        start = f"boot {number} "
        found = [line for line in lines_of(serial(web, name)) if line.startswith(start)]
        return found[0].split()[2:] if found else None

    first, rights = until(lambda: boot(1))
    web.ask("POST", "/_emulator/nodes/maintenance", {"name": name})
    second, _ = until(lambda: boot(2))
    assert (len(first), rights, first == second) == (36, "700", False)


def test_a_service_is_restarted_and_has_a_name_and_an_environment_of_its_own(web, emulator):
    name = create(web, "services", SINGLE, **{"startup-script": SERVICES})

    def found(start, count=1):
        lines = [line for line in lines_of(serial(web, name)) if line.startswith(start)]
        return lines if len(lines) >= count else None

    [first] = until(lambda: found("pid "))
    _, pid, secret, where = first.split()
    assert (secret, Path(where).name.startswith("worker-")) == ("none", True)
    assert until(lambda: found("fourth")) == ["fourth 1"]
    assert found("second") == ["second 1"]
    assert found("Failed to start transient service unit: Unit one.service was already loaded or")
    assert until(lambda: found("two")) == ["two b c"]
    assert found("python") == [f"python {sys.version_info[0]} None"]
    assert found("third") == ["third 1"]
    assert found("Failed to find executable no-such-program: No such file or directory")
    assert found("unknown flag: --dance")
    os.kill(int(pid), 9)
    again = until(lambda: found("pid ", 2))[1].split()[1]
    web.ask("DELETE", f"/v2/{name}")
    until(lambda: not is_alive(int(again)))


@pytest.mark.deep
def test_the_end_of_a_node_ends_its_containers_wherever_they_ran_to(web, emulator):
    name = create(web, "jobs", SINGLE, **{"startup-script": JOBS})
    lines = until(lambda: "ready" in (found := lines_of(serial(web, name))) and found)
    pids = [int(line.split()[1]) for line in lines if line.startswith("pid")]
    assert len(pids) == 2
    home = Path(f"/proc/{pids[0]}/cwd").resolve()
    assert home.name == "work"
    worker = home.parents[3]
    assert len(inside(worker)) > len(pids) * 2
    web.ask("DELETE", f"/v2/{name}")
    until(lambda: not inside(worker))
    until(lambda: not worker.exists())


def test_somebody_else_s_script_is_recorded_and_not_run(web, emulator, tmp_path):
    script = f"touch {tmp_path / 'proof'}\n"
    name = create(web, "other", SINGLE, **{"startup-script": script})
    shown = until(lambda: (found := serial(web, name))["lines"] and found)
    assert shown["lines"] == [f"emulator: not run: a startup script with SHA-256 {digest(script)}"]
    assert (shown["boots"], shown["exits"]) == (0, {})
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_was_changed_is_not_run_at_the_next_boot(web, emulator, tmp_path):
    name = create(web, "changed", SINGLE, **{"startup-script": BOOTS})
    until(lambda: serial(web, name)["exits"])
    body = {"metadata": {"startup-script": f"touch {tmp_path / 'proof'}"}}
    web.ask("PATCH", f"/v2/{name}?updateMask=metadata", body)
    until(lambda: web.ask("GET", f"/v2/{name}")[1]["metadata"] == body["metadata"])
    web.ask("POST", "/_emulator/nodes/maintenance", {"name": name})
    until(lambda: serial(web, name)["lines"][-1].startswith("emulator: not run: "))
    assert list(tmp_path.iterdir()) == []


def test_a_shutdown_script_is_never_run_where_startup_scripts_are_chosen(web, emulator, tmp_path):
    scripts = {"startup-script": BOOTS, "shutdown-script": f"touch {tmp_path / 'proof'}"}
    name = create(web, "shutdown", SINGLE, **scripts)
    until(lambda: serial(web, name)["exits"])
    web.ask("POST", f"/v2/{name}:stop")
    until(lambda: not serial(web, name)["on"])
    assert list(tmp_path.iterdir()) == []


def test_a_node_runs_with_all_of_its_workers_or_none(web, emulator):
    web.ask("PATCH", "/_emulator/config", {"real_workers": 3})
    pod = create(web, "pod", POD, **{"startup-script": BOOTS})
    single = create(web, "single", SINGLE, **{"startup-script": BOOTS})
    until(lambda: serial(web, single)["exits"])
    until(lambda: all(serial(web, pod, worker)["lines"] for worker in range(4)))
    for worker in range(4):
        assert serial(web, pod, worker)["lines"] == [
            "emulator: not run: at most 3 workers run at once; this node's 4 do not"
        ]
        assert serial(web, pod, worker)["boots"] == 0


@pytest.mark.deep
def test_machines_that_are_about_to_end_take_no_room(web, emulator):
    for number in range(5):
        web.ask("PATCH", "/_emulator/config", {"real_workers": 1})
        name = create(web, f"n-{number}", SINGLE, **{"startup-script": BOOTS})
        until(lambda name=name: serial(web, name)["on"])
        web.ask("POST", "/_emulator/reset")


@pytest.mark.parametrize(
    ("text", "expected"), [("2", 2), ("100ms", 0.1), ("1min", 60), ("0", 0), ("1.5s", 1.5)]
)
def test_a_span_of_time_is_read_as_systemd_reads_it(text, expected):
    assert parse_seconds(text) == expected


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "Command line to execute required."),
        (["--unit=a b", "true"], "Failed to mangle unit name"),
        (["-p", "Restart", "true"], "Not an assignment: Restart"),
        (["--property=RestartSec=soon", "true"], "Failed to parse time span: soon"),
    ],
)
def test_a_unit_that_cannot_be_is_refused(args, text):
    with pytest.raises((Failed, ValueError), match=text):
        unit_of(*parse_options(args, OPTIONS))


def test_a_unit_takes_the_options_of_its_caller_and_leaves_those_of_its_command():
    args = ["--unit", "a", "-p", "Restart=always", "--collect", "/bin/sh", "-c", "--unit=b"]
    unit = unit_of(*parse_options(args, OPTIONS))
    assert (unit.name, unit.command) == ("a.service", ["/bin/sh", "-c", "--unit=b"])
    assert unit.properties["Restart"] == "always"
    assert unit_of(*parse_options(["--service-type", "exec", "/bin/sh"], OPTIONS)).command == [
        "/bin/sh"
    ]


def test_a_unit_s_name_is_free_once_it_has_ended(tmp_path):
    held = claim_name(tmp_path, "a.service")
    with pytest.raises(Failed, match="was already loaded or has a fragment file"):
        claim_name(tmp_path, "a.service")
    os.close(held)
    os.close(claim_name(tmp_path, "a.service"))


def test_a_unit_that_ends_at_once_is_not_restarted_for_ever(capfd, monkeypatch):
    properties = {
        "Restart": "always",
        "RestartSec": "0",
        "StartLimitIntervalSec": "10",
        "StartLimitBurst": "3",
    }
    monkeypatch.setattr("signal.signal", lambda *_: None)
    unit = Unit("a.service", ["/bin/sh", "-c", "echo run; exit 1"], {}, properties)
    unit.run_until_stopped()
    out, err = capfd.readouterr()
    assert out == "run\n" * 3
    assert err == "a.service: Start request repeated too quickly.\n"


def test_whoever_plays_the_nodes_that_found_no_room_is_told_of_each_once(cloud):
    told: list[Any] = []
    record = cloud.world.get_node(
        cloud.ready(accelerator_type="v4-16", metadata={"startup-script": "true"})
    )

    async def follow():
        workers = Workers(cloud.world, run_scripts=True)
        workers.on_overflow.append(told.append)
        async with workers.follow_world():
            for state in ("STOPPED", "READY"):
                cloud.world.set_state(record, state, cloud.now)
                await asyncio.sleep(0)

    cloud.world.set_config(replace(cloud.world.config, real_workers=1))
    asyncio.run(follow())
    assert told == [record]
