"""A command loads what it needs: heavy libraries of other commands would make all of them slow."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from service.cli.app import ALONE, HELP, MODULES, Modules
from tests.cli.given import node, page

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
RUN = """
import atexit, sys
from service.cli import main
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
main()
"""
SERVERS = {"alembic", "apscheduler", "fastapi", "google", "grpc", "sqlalchemy", "structlog"}
"""What servers are made of. No command that asks one needs any of it."""

SLOW = {"pydantic", "pydantic_settings", "service.settings"}
"""What checks settings. To load it takes longer than to ask."""

CLIENTS = {"dotenv", "httpx2", "rich"}
"""What asks a service, and shows tables."""


def run(*words: str) -> tuple[int, str, set[str]]:
    """Exit code, stdout and the loaded modules of a command."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, set(done.stderr.split())


def test_a_command_that_asks_loads_nothing_of_a_server(api):
    api.when("GET", "/v1/nodes", page(node()))
    code, shown, loaded = run("nodes", "list")
    assert (code, shown[:4]) == (0, "NAME")
    assert "service.cli.nodes.nodes" in loaded
    assert loaded >= CLIENTS
    assert not loaded & (SERVERS | SLOW | {"service.cli.jobs.jobs", "service.cli.processes.dev"})


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_no_command(word):
    code, _, loaded = run(word)
    assert code == 0
    assert "service.cli.app" in loaded
    assert not loaded & (SERVERS | SLOW | CLIENTS | {f"service.cli.{name}" for name in HELP})


def test_the_version_is_one_line_of_plain_text():
    version = tomllib.loads(PYPROJECT.read_text())["project"]["version"]
    assert run("--version")[:2] == (0, f"tpu-steward {version}\n")


def test_help_lists_every_command_with_its_own_help():
    assert set(ALONE) <= set(HELP)
    assert {name: command.help for name, command in Modules().items()} == HELP
    _, shown, _ = run("--help")
    assert re.findall(r"(?m)^  ([a-z]+)  ", shown.partition("Commands")[2]) == list(HELP)


def test_each_command_of_the_help_has_a_module():
    assert MODULES.keys() == HELP.keys()
