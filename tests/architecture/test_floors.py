"""The floors: the house keeps its contracts, and each of them bites."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
CONTRACTS = {
    contract["id"]: contract["name"]
    for contract in tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
}
TOP = {
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints-dev.txt",
    "constraints.txt",
    "deploy",
    "migrations",
    "pyproject.toml",
    "service",
    "tests",
}
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"

PLANTED = [
    ("floors", "domain/planted.py", "import service.store.tables"),
    ("floors", "store/planted.py", "import service.cloud.ports"),
    ("floors", "application/planted.py", "import service.controllers.base"),
    ("floors", "dashboard/planted.py", "import service.api.http.problems"),
    ("floors", "store/planted.py", "import service.wiring"),
    ("floors", "helpers.py", ""),
    ("rooms", "domain/nodes/planted.py", "import service.domain.metering.meter"),
    ("rooms", "domain/costs/planted.py", "import service.domain.budgets.budget"),
    ("rooms", "domain/clock.py", "import service.domain.nodes.node"),
    ("rooms", "domain/helpers.py", ""),
    ("pure-domain", "domain/planted.py", "import sqlalchemy"),
    ("google-at-the-edge", "application/planted.py", "import grpc"),
    ("google-at-the-edge", "controllers/planted.py", "import service.cloud.google.tpus"),
    ("sql-in-the-store", "application/planted.py", "import sqlalchemy"),
    ("web-at-the-edge", "controllers/planted.py", "import fastapi"),
    ("settings-at-the-top", "application/planted.py", "import service.settings"),
    ("emulator-out", "emulator/planted.py", "import service.domain.money"),
    ("emulator-in", "controllers/planted.py", "import service.emulator.world.world"),
    ("emulator-rooms", "emulator/nodes/planted.py", "import service.emulator.world.lifecycle"),
    ("emulator-rooms", "emulator/config/planted.py", "import service.emulator.limits.capacity"),
    ("emulator-rooms", "emulator/world/planted.py", "import service.emulator.telemetry.audit"),
    ("emulator-rooms", "emulator/telemetry/planted.py", "import service.emulator.queued.queueing"),
    ("emulator-rooms", "emulator/api/planted.py", "import service.emulator.surfaces.control"),
    ("emulator-rooms", "emulator/helpers.py", ""),
    ("supervisor-out", "supervisor/planted.py", "import service.domain.money"),
    ("supervisor-in", "cli/planted.py", "import service.supervisor.supervisor"),
    ("tests-out", "cli/demo/planted.py", "import tests.factories"),
]


@pytest.fixture
def copy(tmp_path):
    """The whole house once more, in which a test may do what it likes."""
    shutil.copytree(
        HOUSE / "service", tmp_path / "service", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(HOUSE / "pyproject.toml", tmp_path)
    return tmp_path


def linted(folder):
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_house_keeps_its_contracts():
    code, said = linted(HOUSE)
    assert code == 0, said
    assert all(f"{name} KEPT" in said for name in CONTRACTS.values())


def test_the_top_level_holds_what_was_agreed_and_nothing_that_a_tool_left_there():
    kept = subprocess.run(
        ["git", "ls-files"], cwd=HOUSE, capture_output=True, text=True, timeout=60, check=True
    )
    names = {path.split("/")[0] for path in kept.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} == TOP


def test_no_contract_is_left_untried():
    assert {contract for contract, _, _ in PLANTED} == set(CONTRACTS)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("contract", "path", "line"), PLANTED, ids=[f"{c}-{p}-{line}" for c, p, line in PLANTED]
)
def test_a_contract_bites(copy, contract, path, line):
    planted = copy / "service" / path
    planted.write_text(f'"""Should not be here."""\n\n{line}\n')
    code, said = linted(copy)
    assert code != 0
    if line:
        assert f"{CONTRACTS[contract]} BROKEN" in said
        assert f"service.{path[:-3].replace('/', '.')}" in said
    else:  # a room that no floor knows stops the linter before it looks at anything
        assert "helpers" in said
