"""An API to talk to, and a place without settings of its own."""

from __future__ import annotations

import os

import pytest

from service.cli.nodes import node_output, top, wait
from tests.cli.given import Api, served
from tests.hands import NOON


@pytest.fixture(autouse=True)
def _nowhere(tmp_path, monkeypatch):
    """No `.env`, no settings, and a clock that stands still."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("STEWARD_")]:
        monkeypatch.delenv(name)
    for module in (node_output, top):
        monkeypatch.setattr(module, "wall_clock", lambda: NOON)
    monkeypatch.setattr(wait, "POLL_SECONDS", 0.001)


@pytest.fixture
def api(monkeypatch):
    """An API at STEWARD_URL."""
    with served(Api()) as running:
        monkeypatch.setenv("STEWARD_URL", running.url)
        yield running
