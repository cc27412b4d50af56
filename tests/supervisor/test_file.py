"""What the service ships: the supervisor's text, and the stub that unpacks and starts it."""

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

STUB = SOURCE.with_name("startup.sh")
TEXT = SOURCE.read_text(encoding="utf-8")
VERSIONS = [f"3.{minor}" for minor in range(8, 16)]
# Modules of Python 3.8 that newer versions still have are what a worker may count on.
NEWER = {"graphlib", "zoneinfo", "tomllib"}


def test_the_text_is_python_3_8():
    ast.parse(TEXT, feature_version=(3, 8))


def test_only_the_standard_library_of_3_8_is_imported():
    names = set()
    for node in ast.walk(ast.parse(TEXT)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).partition(".")[0])
    assert names <= sys.stdlib_module_names - NEWER


@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_starts_on_each_python_that_is_here(version):
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    load = f"import runpy; runpy.run_path({str(SOURCE)!r})"
    words = [python, "-B", "-W", "error", "-c", load]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_text_is_small():
    """A value of the metadata holds 262,144 bytes at most, and lists of nodes repeat each value."""
    packed = base64.b64encode(gzip.compress(TEXT.encode(), mtime=0))
    assert len(TEXT.encode()) <= 24_000
    assert len(packed) <= 11_100


def test_the_stub_is_small_and_has_one_placeholder():
    stub = STUB.read_text()
    assert len(stub) < 4_000
    assert stub.count("@") == stub.count('digest="@SHA256@"') * 2 + stub.count('"$@"')
    subprocess.run(["bash", "-n", STUB], check=True)


class Unit:
    """A machine with stand-ins: `systemd-run` writes down what it is asked to start."""

    def __init__(self, folder, google):
        self.bin, self.home = folder / "bin", folder / "home"
        self.bin.mkdir()
        self.google, self.asked = google, folder / "asked"
        self.boot_id, self.env = folder / "boot_id", {}
        self.env["EMULATOR_BOOT_ID_FILE"] = str(self.boot_id)
        self.boot_id.write_text("boot-1\n")
        self.digest = hashlib.sha256(TEXT.encode()).hexdigest()
        packed = base64.b64encode(gzip.compress(TEXT.encode(), mtime=0))
        google.attributes["steward-supervisor"] = packed.decode()
        google.values["attributes/steward-supervisor"] = packed.decode()
        self.write("systemd-run", f'printf "%s\\n" "$@" >{self.asked}')

    def write(self, name, body):
        (self.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def boot(self, digest=None):
        with self.booting(digest) as process:
            self.console = process.communicate()[0].decode()
        return process.returncode

    def booting(self, digest=None):
        text = STUB.read_text().replace("@SHA256@", digest or self.digest)
        env = {"GCE_METADATA_HOST": self.google.url[7:], "EMULATOR_HOME": str(self.home)}
        env |= {"PATH": f"{self.bin}:{os.environ['PATH']}", **self.env}
        return subprocess.Popen(["bash", "-c", text], env=env, stdout=subprocess.PIPE)

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
    unit.write("systemd-run", f'cp "{unit.home}/startup.json" "{unit.home}/before"')
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
