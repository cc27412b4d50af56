"""google-cloud-tpu lives whole lives over each of its transports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

from service.emulator.app import Emulator

HOUSE = Path(__file__).resolve().parents[3]
LIFE = Path(__file__).with_name("life.py")
PACKAGE = "google-cloud-tpu"


def lowest() -> Version:
    """The lowest version that pyproject.toml promises to work with."""
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    bounds = [re.fullmatch(rf"{PACKAGE}>=([\d.]+).*", each) for each in project["dependencies"]]
    (found,) = [bound[1] for bound in bounds if bound is not None]
    return Version(found)


INSTALLED = Version(version(PACKAGE))


def test_the_installed_client_is_the_oldest_that_is_promised():
    """It is the newest too, as long as no later one is released. Where the pin moves on, the
    promise has to move with it, or the life of a node has to be tried with both."""
    assert lowest() == INSTALLED


def test_a_node_and_a_queued_resource_live_their_lives(emulator: Emulator):
    """With the installed version. `python tests/emulator/clients/life.py GRPC REST` in another
    environment tries another one."""
    lived = subprocess.run(
        [sys.executable, str(LIFE), emulator.grpc_address, emulator.rest_url],
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert lived.returncode == 0, lived.stderr
    assert lived.stdout.split() == ["grpc", "grpc_asyncio", "rest"]
