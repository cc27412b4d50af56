"""What a plain installation of the emulator can do, without the packages of development."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from service.emulator.api.methods import VERSIONS

HOUSE = Path(__file__).resolve().parents[2]
# Stands for an installation that lacks google-api-python-client.
PROGRAM = """
import sys

sys.modules["googleapiclient"] = None
from service.emulator.surfaces import discovery

for version in sys.argv[1:]:
    made = discovery.get_document(version, "http://127.0.0.1:1/")
    print(made["version"], "Node" in made["schemas"])
print(discovery.__file__)
"""


@pytest.mark.deep
def test_the_wheel_serves_the_discovery_documents_by_itself(tmp_path):
    copy = tmp_path / "house"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(HOUSE / name, copy)
    for name in ("service", "migrations"):
        shutil.copytree(HOUSE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    built = subprocess.run(  # by the backend itself, which asks no package index
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    assert (installed / "service/emulator/surfaces/status.html").is_file()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *VERSIONS],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    *said, file = ran.stdout.splitlines()
    assert said == [f"{version} True" for version in VERSIONS]
    assert Path(file).is_relative_to(installed)
