"""What `make` installs, and what it says: in a copy, with programs that only note the call."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
MAKE = shutil.which("make")
TOOLS = ("awk", "cat", "chmod", "cp", "expr", "grep", "mkdir", "rm", "sed", "sh", "touch")
FILES = ("Makefile", "pyproject.toml", "constraints.txt", "constraints-dev.txt")

PYTHON = """#!/bin/sh
case "$*" in
*version_info*) exit ${OLD:-0} ;;
*) echo "python $*" >>"$CALLS" ;;
esac
case "$*" in
"-m venv"*)
  mkdir -p .venv/bin
  cp "$0" .venv/bin/python
  printf '#!/bin/sh\\necho "steward $*" >>"$CALLS"\\n' >.venv/bin/tpu-steward
  chmod +x .venv/bin/tpu-steward
  ;;
*uv.txt) [ -z "$FAKE_UV" ] || { cp .venv/uv.txt pinned && cp "$FAKE_UV" .venv/bin/uv; } ;;
esac
"""
"""A Python that makes environments with a copy of itself, and installs $FAKE_UV if it is set."""

UV = """#!/bin/sh
echo "uv $*" >>"$CALLS"
[ -z "$BROKEN" ] || { echo "no route" >&2; exit 2; }
"""

pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed here")


@dataclass
class Checkout:
    """A copy of what make reads, on a machine that has few programs."""

    folder: Path
    environment: dict[str, str]

    def make(self, *words: str, **more: str) -> tuple[int, list[str], list[str]]:
        """Exit code of a target, and the lines of stdout and stderr."""
        assert MAKE is not None
        environment = self.environment | more
        done = subprocess.run(
            [MAKE, *words], cwd=self.folder, env=environment, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()

    def calls(self) -> list[str]:
        """What was called since the last look, with the options that every call has left out."""
        noted = Path(self.environment["CALLS"])
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted.unlink(missing_ok=True)
        always = " --quiet --compile-bytecode --python .venv/bin/python"
        return [line.replace(always, "") for line in lines]

    def change(self, name: str) -> None:
        """Make a file newer than every stamp."""
        stamps = (self.folder / ".venv").glob(".installed*")
        later = max(stamp.stat().st_mtime for stamp in stamps) + 10
        os.utime(self.folder / name, (later, later))


@pytest.fixture
def checkout(tmp_path):
    folder, tools = tmp_path / "checkout", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    for name in FILES:
        shutil.copy(HOUSE / name, folder)
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or "/missing")
    for name, text in (("python3", PYTHON), ("fake-uv", UV)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {"PATH": str(tools), "CALLS": str(tmp_path / "calls")}
    return Checkout(folder, environment)


@pytest.fixture
def with_uv(checkout):
    """The same, with uv on the path."""
    tools = Path(checkout.environment["PATH"])
    (tools / "uv").symlink_to(tools / "fake-uv")
    return checkout


RUNTIME = [
    "uv pip install --require-hashes -r constraints.txt",
    "uv pip install --no-deps --no-build-isolation --editable .",
]
DEVELOPMENT = ["uv pip install --require-hashes -r constraints-dev.txt", RUNTIME[1]]
PIP = "python -m pip install --quiet --disable-pip-version-check"


def test_make_run_says_what_it_installs_and_installs_only_what_runs(with_uv):
    code, said, complained = with_uv.make("run")
    assert (code, complained) == (0, [])
    assert said == [
        "Installing TPU Steward into .venv: 76 packages, 40 MB to download, 220 MB on disk."
    ]
    assert with_uv.calls() == ["python -m venv --without-pip .venv", *RUNTIME, "steward dev"]


def test_an_environment_is_reused_without_a_word_until_its_file_changes(with_uv):
    with_uv.make("install")
    with_uv.calls()
    assert with_uv.make("install") == (0, [], [])
    assert with_uv.calls() == []
    with_uv.change("constraints-dev.txt")
    assert with_uv.make("install") == (0, [], [])
    with_uv.change("constraints.txt")
    with_uv.make("install")
    assert with_uv.calls() == RUNTIME


@pytest.mark.parametrize("target", ["test", "test-deep", "check", "bench"])
def test_what_developers_call_adds_the_tools_of_development_once(with_uv, target):
    with_uv.make(target, "JOBS=2")
    assert with_uv.calls()[1:5] == [*RUNTIME, *DEVELOPMENT]
    _, said, _ = with_uv.make(target, "JOBS=2")
    assert said == []
    with_uv.calls()
    with_uv.change("constraints-dev.txt")
    with_uv.make(target, "JOBS=2")
    assert with_uv.calls()[:2] == DEVELOPMENT


def test_without_uv_the_pinned_one_comes_first(checkout):
    fake = str(Path(checkout.environment["PATH"]) / "fake-uv")
    code, said, complained = checkout.make("install", FAKE_UV=fake)
    assert (code, len(said), complained) == (0, 2, [])
    assert "First uv" in said[1]
    assert checkout.calls() == [
        "python -m venv --without-pip .venv",
        "python -m pip --python .venv/bin/python install --quiet --require-hashes -r .venv/uv.txt",
        *RUNTIME,
    ]
    version, *hashes = (checkout.folder / "pinned").read_text().splitlines()
    assert version.startswith("uv==")
    assert len(hashes) > 5
    assert all(line.startswith("    --hash=sha256:") for line in hashes)


def test_pip_goes_on_where_uv_cannot_install_and_says_so_in_one_line(with_uv):
    code, _, complained = with_uv.make("install", BROKEN="1")
    assert code == 0
    assert complained == [
        "  uv cannot install here (.venv/uv.log says why): pip goes on, in about a minute."
    ]
    assert (with_uv.folder / ".venv" / "uv.log").read_text() == "no route\n"
    assert with_uv.calls()[-3:] == [
        "python -m venv .venv",
        f"{PIP} --require-hashes -r constraints.txt",
        f"{PIP} --no-deps --no-build-isolation --editable .",
    ]


def test_pip_goes_on_where_there_is_no_uv_to_be_had(checkout):
    code, _, complained = checkout.make("install")
    assert (code, len(complained)) == (0, 1)
    assert checkout.calls()[-2:] == [
        f"{PIP} --require-hashes -r constraints.txt",
        f"{PIP} --no-deps --no-build-isolation --editable .",
    ]


def test_another_python_is_named_and_an_old_one_refused(with_uv):
    tools = Path(with_uv.environment["PATH"])
    (tools / "python3").rename(tools / "another")
    code, _, complained = with_uv.make("install", "PYTHON=another", OLD="1")
    assert code == 2
    assert complained[0].startswith("TPU Steward needs Python 3.11 or newer")
    assert with_uv.calls() == []
    assert with_uv.make("install", "PYTHON=another")[0] == 0
    assert with_uv.calls()[0] == "python -m venv --without-pip .venv"


@pytest.mark.parametrize(
    ("words", "called"),
    [
        ((), "tests.simulation 0-999"),
        (("SEEDS=30",), "tests.simulation 0-29"),
        (("WHAT=cleanup", "SEEDS=1000"), "tests.simulation.cleanup 0-999"),
        (("WHAT=cleanup", "SEEDS=500-999"), "tests.simulation.cleanup 500-999"),
        (("WHAT=interleaving", "SEEDS=7"), "tests.interleaving 0-6"),
    ],
)
def test_make_simulate_runs_the_seeds_of_what_is_named(with_uv, words, called):
    assert with_uv.make("simulate", *words)[0] == 0
    assert with_uv.calls()[-1] == f"python -m {called}"
    module = called.split()[0].replace(".", "/")
    assert (HOUSE / module / "__main__.py").exists()


def test_make_simulate_refuses_what_it_does_not_know(with_uv):
    code, _, complained = with_uv.make("simulate", "WHAT=weather")
    assert (code, complained[0]) == (2, "WHAT is fleet, cleanup or interleaving")
    assert not any("-m tests" in call for call in with_uv.calls())


def test_make_help_says_what_can_be_simulated_in_a_line_of_80_columns(with_uv):
    code, said, _ = with_uv.make("help")
    assert code == 0
    (simulate,) = [line for line in said if "make simulate" in line]
    assert "WHAT=fleet, cleanup or interleaving" in simulate
    assert len(simulate) <= 80
