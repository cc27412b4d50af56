"""Google's command line, pointed at a served emulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.emulator.app import Emulator

GCLOUD = shutil.which("gcloud")

needs_gcloud = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed on this machine")


@dataclass(frozen=True)
class Gcloud:
    """Commands of `gcloud compute tpus`, in the general release unless a track is named."""

    emulator: Emulator
    folder: Path
    track: str = ""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        tracks = [self.track] if self.track else []
        return subprocess.run(
            [str(GCLOUD), *tracks, "compute", "tpus", *arguments],
            env={
                **os.environ,
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{self.emulator.rest_url}/",
                "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
                "CLOUDSDK_CORE_PROJECT": "lab",
                "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
                "CLOUDSDK_CONFIG": str(self.folder),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def told(self, *arguments: str) -> str:
        """Give what a human reads of a command that succeeds: results, not progress."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, *arguments: str) -> list[list[str]]:
        """Give the table that a command prints, cell by cell, its heading first."""
        return [line.split() for line in self.told(*arguments).splitlines()]

    def json(self, *arguments: str) -> Any:
        return json.loads(self.told(*arguments, "--format=json") or "null")

    def refused(self, *arguments: str) -> str:
        """Give the complaint of a command that fails."""
        done = self.run(*arguments)
        assert done.returncode == 1, done.stdout
        return done.stderr
