"""One name for one thing: no two public classes of the service share a name, and loops name their
elements."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

SERVICE = Path(__file__).parents[2] / "service"
TESTS = SERVICE.parent / "tests"
EMULATOR = SERVICE / "emulator"
"""A world of its own: what it calls a node is not what the rest does."""


def shared_names(paths: Iterable[Path]) -> Mapping[str, list[str]]:
    """The public classes that are defined more than once, each with the files it is in."""
    found = defaultdict[str, list[str]](list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.name)
    return {name: files for name, files in found.items() if len(files) > 1}


def test_no_two_classes_of_the_service_share_a_name() -> None:
    rest = [path for path in SERVICE.rglob("*.py") if EMULATOR not in path.parents]
    assert len(rest) > 300
    assert shared_names(rest) == {}


def test_no_two_classes_of_the_emulator_share_a_name() -> None:
    assert shared_names(EMULATOR.rglob("*.py")) == {}


def test_a_name_that_is_used_twice_is_found(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("class Verdict: ...\n\n\nclass _Own: ...\n")
    assert set(shared_names(tmp_path.glob("*.py"))) == {"Verdict"}


def nameless_loops(paths: Iterable[Path]) -> list[str]:
    """The loops over `one`, which does not say what the elements are."""
    return [
        f"{path.name}:{loop.target.lineno}"
        for path in paths
        for loop in ast.walk(ast.parse(path.read_text()))
        if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension)
        and isinstance(loop.target, ast.Name)
        and loop.target.id == "one"
    ]


def test_loops_name_their_elements() -> None:
    paths = [*SERVICE.rglob("*.py"), *TESTS.rglob("*.py")]
    assert len(paths) > 1_000
    assert nameless_loops(paths) == []


def test_a_loop_that_does_not_name_its_elements_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("for one in []: ...\nnames = [one for one in names]\n")
    assert nameless_loops([tmp_path / "a.py"]) == ["a.py:1", "a.py:2"]
