"""What the service ships: the texts of two programs, and the stub that unpacks and starts them."""

from __future__ import annotations

import ast
import base64
import fcntl
import gzip
import hashlib
import json
import os
import subprocess
import sys
import time

import pytest

from tests.supervisor.conftest import SOURCE, find_python
from tests.supervisor.fake_google import FakeGoogle
from tests.supervisor.fake_machine import METER

STUB = SOURCE.with_name("startup.sh")
TEXT = SOURCE.read_text(encoding="utf-8")
METER_TEXT = METER.read_text(encoding="utf-8")
PROGRAMS = [pytest.param(SOURCE, id="supervisor"), pytest.param(METER, id="meter")]
VERSIONS = [f"3.{minor}" for minor in range(8, 16)]
# Modules of Python 3.8 that newer versions still have are what a worker may count on.
NEWER = {"graphlib", "zoneinfo", "tomllib"}


@pytest.mark.parametrize("source", PROGRAMS)
def test_the_text_is_python_3_8(source):
    ast.parse(source.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("source", PROGRAMS)
def test_only_the_standard_library_of_3_8_is_imported(source):
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).partition(".")[0])
    assert names <= sys.stdlib_module_names - NEWER


@pytest.mark.parametrize("source", PROGRAMS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_starts_on_each_python_that_is_here(version, source):
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    load = f"import runpy; runpy.run_path({str(source)!r})"
    words = [python, "-B", "-W", "error", "-c", load]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "size", "packed_size"), [(TEXT, 24_000, 11_100), (METER_TEXT, 10_000, 5_100)]
)
def test_a_text_is_small(text, size, packed_size):
    """A value of the metadata holds 262,144 bytes at most, and lists of nodes repeat each value."""
    assert len(text.encode()) <= size
    assert len(packed(text)) <= packed_size


def packed(text):
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def test_the_stub_is_small_and_has_two_placeholders():
    stub = STUB.read_text()
    assert len(stub) < 4_500
    lines = stub.splitlines()
    assert {'digest="@SHA256@"', 'meter_digest="@METER_SHA256@"'} < set(lines)
    assert stub.count("@") == 4 + stub.count('"$@"')
    subprocess.run(["bash", "-n", STUB], check=True)


METER_DIGEST = hashlib.sha256(METER_TEXT.encode()).hexdigest()
WRITE_DOWN = 'out="{}/${{1#--unit=}}"; printf "%s\\n" "$@" >"$out.new"; mv "$out.new" "$out"'


class Unit:
    """A machine with stand-ins: `systemd-run` writes down what it is asked to start."""

    def __init__(self, folder, google):
        self.bin, self.home = folder / "bin", folder / "home"
        self.bin.mkdir()
        self.google, self.asked = google, folder / "tpu-steward-supervisor"
        self.asked_meter = folder / "tpu-steward-meter"
        self.boot_id, self.env = folder / "boot_id", {}
        self.env["EMULATOR_BOOT_ID_FILE"] = str(self.boot_id)
        self.boot_id.write_text("boot-1\n")
        self.digest = hashlib.sha256(TEXT.encode()).hexdigest()
        google.values["attributes/steward-supervisor"] = packed(TEXT)
        google.values["attributes/steward-meter"] = packed(METER_TEXT)
        self.write("systemd-run", WRITE_DOWN.format(folder))

    def write(self, name, body):
        (self.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def boot(self, digest=None, **digests):
        with self.booting(digest, **digests) as process:
            self.console = process.communicate()[0].decode()
        return process.returncode

    def booting(self, digest=None, meter_digest=METER_DIGEST):
        text = STUB.read_text().replace("@SHA256@", digest or self.digest)
        text = text.replace("@METER_SHA256@", meter_digest)
        env = {"GCE_METADATA_HOST": self.google.url[7:], "EMULATOR_HOME": str(self.home)}
        env |= {"PATH": f"{self.bin}:{os.environ['PATH']}", **self.env}
        with (self.home.parent / "errors").open("a") as errors:
            return subprocess.Popen(
                ["bash", "-c", text], env=env, stdout=subprocess.PIPE, stderr=errors
            )

    def startup(self):
        return json.loads((self.home / "startup.json").read_text())

    def give_script(self, text):
        self.google.values["attributes/steward-startup-script"] = text

    def reason(self):
        (report,) = (report for _, report in self.google.reports)
        assert (report["v"], report["seq"], report["state"]) == (1, 0, "UNAVAILABLE")
        assert abs(report["at"] - time.time()) < 60
        return report["reason"]


@pytest.fixture
def unit(tmp_path):
    google = FakeGoogle()
    yield Unit(tmp_path, google)
    google.close()


def test_the_stub_unpacks_the_supervisor_and_starts_it(unit):
    assert unit.boot() == 0
    assert (unit.home / "supervisor.py").read_text() == TEXT
    words = unit.asked.read_text().splitlines()
    assert "--property=Restart=always" in words
    lock = words.index("flock")
    assert words[lock : lock + 4] == ["flock", "--no-fork", "--nonblock", f"{unit.home}/lock"]
    assert unit.startup() == {"state": "none", "exit_code": None}
    assert words[words.index("python3") : words.index("--home")] == [
        *("python3", "-B", f"{unit.home}/supervisor.py")
    ]
    assert words[words.index("--devices") + 1] == "/dev"
    assert unit.google.reports == []
    assert unit.boot() == 0


def test_the_stub_unpacks_the_meter_and_starts_it(unit):
    assert unit.boot() == 0
    wait_until(unit.asked_meter.exists)
    assert (unit.home / "meter.py").read_text() == METER_TEXT
    words = unit.asked_meter.read_text().splitlines()
    lock = words.index("flock")
    assert words[lock : lock + 4] == ["flock", "--no-fork", "--nonblock", f"{unit.home}/meter.lock"]
    options = words[words.index("--home") :]
    assert dict(zip(options[::2], options[1::2], strict=True)) == {
        "--home": str(unit.home),
        "--metadata": unit.google.url,
        "--boot": "boot-1",
        "--devices": "/dev",
        "--proc": "/proc",
        "--speed": "1",
    }


@pytest.mark.parametrize("case", ["absent", "another digest", "no systemd"])
def test_a_meter_that_cannot_start_hinders_nobody(unit, case):
    digests = {"meter_digest": "0" * 64} if case == "another digest" else {}
    if case == "absent":
        unit.google.values["attributes/steward-meter"] = "!"
    if case == "no systemd":
        body = f'printf "%s\\n" "$@" >{unit.asked}; case $1 in *meter) exit 1; esac'
        unit.write("systemd-run", body)
    unit.give_script("echo ran")
    assert (unit.boot(**digests), unit.console) == (0, "ran\n")
    errors = unit.home.parent / "errors"
    wait_until(lambda: "tpu-steward: the meter cannot start" in errors.read_text())
    assert unit.asked.exists()
    assert not unit.asked_meter.exists()
    assert unit.google.reports == []


def test_the_stub_refuses_a_text_with_another_digest(unit):
    assert unit.boot("0" * 64) == 1
    assert unit.reason() == "BAD_DIGEST"
    assert not unit.asked.exists()


def test_the_stub_reports_a_python_that_is_too_old(unit):
    unit.write("python3", "exit 1")
    assert unit.boot() == 1
    assert unit.reason() == "NO_PYTHON3"


def test_the_stub_reports_a_systemd_that_refuses(unit):
    unit.write("systemd-run", "exit 1")
    assert unit.boot() == 1
    assert unit.reason() == "NO_SYSTEMD"


def test_the_stub_reports_a_supervisor_that_is_not_there(unit):
    unit.google.values["attributes/steward-supervisor"] = "!"
    assert unit.boot() == 1
    assert unit.reason() == "NO_SUPERVISOR"


def test_a_unit_that_runs_already_is_no_failure(unit):
    unit.write("systemd-run", "exit 1")
    unit.home.mkdir()
    with (unit.home / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert unit.boot() == 0
    assert unit.google.reports == []


def test_the_callers_script_runs_once_in_each_boot_after_the_supervisor_knows_of_it(unit):
    copy = f'cp "{unit.home}/startup.json" "{unit.home}/before"'
    unit.write("systemd-run", f"case $1 in *supervisor) {copy} ;; esac")
    unit.give_script(f"echo ran >>{unit.home}/ran; echo to the console; exit 6")
    assert (unit.boot(), unit.console) == (0, "to the console\n")
    assert json.loads((unit.home / "before").read_text())["state"] == "running"
    assert unit.startup() == {"state": "exited", "exit_code": 6}
    assert unit.boot() == 0
    assert (unit.home / "ran").read_text() == "ran\n"
    unit.boot_id.write_text("boot-2\n")
    assert unit.boot() == 0
    assert (unit.home / "ran").read_text() == "ran\nran\n"


def test_the_callers_script_runs_though_the_supervisor_cannot_start(unit):
    unit.give_script("exit 6")
    assert unit.boot("0" * 64) == 1
    assert unit.startup() == {"state": "exited", "exit_code": 6}


def test_the_callers_script_may_only_be_recorded(unit):
    unit.env["EMULATOR_STARTUP_SCRIPTS"] = "record"
    unit.give_script(f"touch {unit.home}/ran")
    assert unit.boot() == 0
    assert unit.startup() == {"state": "recorded", "exit_code": None}
    assert not (unit.home / "ran").exists()


def test_the_first_line_of_the_callers_script_names_its_interpreter(unit):
    unit.give_script("#!/usr/bin/env python3\nraise SystemExit(8)\n")
    assert unit.boot() == 0
    assert unit.startup() == {"state": "exited", "exit_code": 8}


def test_the_callers_script_is_unchanged_and_has_no_settings_of_ours(unit):
    script = f"""cat "$0" >{unit.home}/copy
set -o | grep -E "nounset|pipefail" >{unit.home}/options
echo "$digest$home$metadata$unset"'\\$(id)'\n"""
    unit.give_script(script)
    assert (unit.boot(), unit.console) == (0, "\\$(id)\n")
    assert (unit.home / "copy").read_text() == script
    assert "on" not in (unit.home / "options").read_text().split()


def test_a_boot_script_that_is_killed_leaves_no_callers_script_that_seems_to_run(unit):
    """Else no job would start before the next boot."""
    unit.give_script(f"touch {unit.home}/ran; exec sleep 30")
    with unit.booting() as process:
        wait_until((unit.home / "ran").exists)
        assert unit.startup() == {"state": "running", "exit_code": None}
        process.kill()
        process.stdout.close()
    wait_until(lambda: unit.startup() == {"state": "exited", "exit_code": None})


def wait_until(is_so):
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
