"""The two files of pins: what runs, and what development adds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as name_of

HOUSE = Path(__file__).resolve().parents[2]
RUNTIME, DEVELOPMENT = HOUSE / "constraints.txt", HOUSE / "constraints-dev.txt"
PROJECT = tomllib.loads((HOUSE / "pyproject.toml").read_text())
NEEDED = (*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"])


def pins(path: Path) -> list[Requirement]:
    """What a file pins, each as it is written there without its hashes."""
    lines = path.read_text().splitlines()
    return [Requirement(line.removesuffix(" \\")) for line in lines if re.match("[a-z]", line)]


def names(requirements: Iterable[Requirement]) -> list[str]:
    return [name_of(requirement.name) for requirement in requirements]


def closure(wanted: Iterable[str]) -> set[str]:
    """The names of all packages that those bring along on this machine."""
    left, found = [(Requirement(text), "") for text in wanted], set[tuple[str, str]]()
    while left:
        requirement, extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = name_of(requirement.name)
        for extra_of_it in ("", *requirement.extras):
            if (name, extra_of_it) not in found:
                found.add((name, extra_of_it))
                brought = distribution(name).requires or ()
                left += [(Requirement(text), extra_of_it) for text in brought]
    return {name for name, _ in found}


def test_no_package_is_pinned_twice():
    pinned = names([*pins(RUNTIME), *pins(DEVELOPMENT)])
    assert len(pinned) == len(set(pinned)) > 100


def test_what_runs_is_pinned_with_what_it_needs_and_nothing_else():
    here = [pin for pin in pins(RUNTIME) if pin.marker is None or pin.marker.evaluate()]
    assert set(names(here)) == closure(NEEDED)


def test_no_tool_of_development_is_pinned_for_what_runs():
    tools = names(map(Requirement, PROJECT["project"]["optional-dependencies"]["dev"]))
    only = set(tools) - closure(NEEDED)
    assert only >= {"pytest", "ruff", "mypy", "uv"}
    assert only <= set(names(pins(DEVELOPMENT)))
    assert not only & set(names(pins(RUNTIME)))


def test_the_file_of_development_is_complete_with_the_one_that_it_reads_first():
    lines = DEVELOPMENT.read_text().splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "-r constraints.txt"


@pytest.mark.parametrize("path", [RUNTIME, DEVELOPMENT], ids=lambda path: path.name)
def test_every_pin_has_its_version_and_a_hash(path):
    blocks = re.split(r"(?m)^(?=[a-z])", path.read_text())[1:]
    assert [
        block for block in blocks if not re.match(r"\S+==\S+[^\n]*\n +--hash=sha256:", block)
    ] == []
