"""Google's client for Node.js lives whole lives, where Node.js and the package are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service.emulator.app import Emulator
from tests.journeys.terminal import MANUAL, part_of

LIFE = Path(__file__).with_name("life.mjs")
PACKAGES = Path(__file__).parents[3] / "var" / "nodejs"
"""`npm install --prefix var/nodejs @google-cloud/tpu` puts the package there, as `.ci/run` does."""

NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(
    not NODE or not (PACKAGES / "node_modules/@google-cloud/tpu").is_dir(),
    reason="needs Node.js and its package @google-cloud/tpu",
)


def run(*arguments: str) -> str:
    """What Node.js prints; the package is beside it."""
    done = subprocess.run(
        [NODE, *arguments], cwd=PACKAGES, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_node_and_a_queued_resource_live_their_lives_in_nodejs(emulator: Emulator):
    printed = run(str(LIFE), emulator.grpc_address, emulator.rest_url)
    assert printed.split() == ["grpc", "rest"]


def test_the_example_of_the_manual_lists_nodes(web, emulator: Emulator):
    zone = "projects/lab/locations/us-east5-a"
    wanted = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    assert web.ask("POST", f"/v2/{zone}/nodes?nodeId=trainer", wanted)[0] == 200
    (script,) = re.findall(r"```js\n(.*?)```", part_of(MANUAL / "emulator.md", "nodejs"), re.DOTALL)
    host, port = emulator.grpc_address.split(":")
    printed = run("-e", script.replace("127.0.0.1", host).replace("9470", port))
    assert f"{zone}/nodes/trainer" in printed
