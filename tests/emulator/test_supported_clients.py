"""Each supported version of google-cloud-tpu lives whole lives over each of its transports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from service.emulator.app import Emulator

HOUSE = Path(__file__).resolve().parents[2]
LIFE = Path(__file__).with_name("life.py")
PACKAGE = "google-cloud-tpu"
# An index that does not answer is given up soon.
IMPATIENT = {**os.environ, "PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "5"}


def lowest() -> Version:
    """The lowest version that pyproject.toml promises to work with."""
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    bounds = [re.fullmatch(rf"{PACKAGE}>=([\d.]+).*", each) for each in project["dependencies"]]
    (found,) = [bound[1] for bound in bounds if bound is not None]
    return Version(found)


INSTALLED = Version(version(PACKAGE))


def interpreter(wanted: Version, folder: Path) -> str:
    """A Python that has a version of the client; skips the test where none can be had."""
    if wanted == INSTALLED:
        return sys.executable
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    made = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", f"{PACKAGE}=={wanted}", "requests"],
        env=IMPATIENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"{PACKAGE} {wanted} cannot be had: no package index is reachable")
    return python


@pytest.mark.parametrize("wanted", sorted({lowest(), INSTALLED}), ids=str)
def test_a_node_and_a_queued_resource_live_their_lives(emulator: Emulator, tmp_path, wanted):
    python = interpreter(wanted, tmp_path)
    lived = subprocess.run(
        [python, str(LIFE), emulator.grpc_address, emulator.rest_url],
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert lived.returncode == 0, lived.stderr
    assert lived.stdout.split() == ["grpc", "grpc_asyncio", "rest"]
