"""What the service ships: the supervisor's text, and the stub that unpacks and starts it."""

from __future__ import annotations

import ast
import base64
import fcntl
import gzip
import hashlib
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
    words = [python, "-B", "-W", "error", str(SOURCE), "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_text_is_small():
    """A value of the metadata holds 262,144 bytes at most, and lists of nodes repeat each value."""
    packed = base64.b64encode(gzip.compress(TEXT.encode(), mtime=0))
    assert len(TEXT.encode()) <= 42_000
    assert len(packed) <= 19_000


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
        self.digest = hashlib.sha256(TEXT.encode()).hexdigest()
        packed = base64.b64encode(gzip.compress(TEXT.encode(), mtime=0))
        google.attributes["steward-supervisor"] = packed.decode()
        google.values["attributes/steward-supervisor"] = packed.decode()
        self.write("systemd-run", f'printf "%s\\n" "$@" >{self.asked}')

    def write(self, name, body):
        (self.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def boot(self, digest=None):
        text = STUB.read_text().replace("@SHA256@", digest or self.digest)
        env = {"GCE_METADATA_HOST": self.google.url[7:], "EMULATOR_HOME": str(self.home)}
        path = {"PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", text], env={**env, **path}, check=False).returncode

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
