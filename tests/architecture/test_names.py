"""One name for one thing: no two public classes of the service share a name, and loops name their
elements."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.architecture.figures import shared_names

DECIDED_BY = {
    "diff": "orphans.orphan",
    "inventory": "evidence.poll",
    "launch": "placement.choice",
    "operation_log": "evidence.poll",
    "posting": "metering.ledger",
    "prices": "pricing.feed",
    "recording": "evidence.observation",
    "teardown": "lifecycle.loss",
}
"""Controllers that act for a module of the domain with another name: the field has a word for the
act, and another for what is decided."""

ACTS_ONLY = frozenset({"base", "context", "mailbox", "memory", "queue_models", "threads"})
"""Modules of the controllers for which nothing is decided in the domain."""

SERVICE = Path(__file__).parents[2] / "service"
TESTS = SERVICE.parent / "tests"
EMULATOR = SERVICE / "emulator"
"""A world of its own: what it calls a node is not what the rest does."""


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


def nameless_things(paths: Iterable[Path]) -> list[str]:
    """Where a loop, an assignment or a parameter has the name `one`, which does not say what it
    is. A text `one`, as in `format_count(number, one, many)`, is the word for one of them."""
    found = []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Name):
                is_nameless = node.id == "one" and isinstance(node.ctx, ast.Store)
            elif isinstance(node, ast.arg):
                kind = "" if node.annotation is None else ast.unparse(node.annotation)
                is_nameless = node.arg == "one" and kind != "str"
            else:
                continue
            if is_nameless:
                found.append(f"{path.name}:{node.lineno}")
    return sorted(found)


def test_what_is_at_hand_has_a_name() -> None:
    assert nameless_things(SERVICE.rglob("*.py")) == []


def test_loops_of_the_tests_name_their_elements() -> None:
    paths = [*TESTS.rglob("*.py")]
    assert len(paths) > 500
    assert nameless_loops(paths) == []


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


def test_a_loop_that_does_not_name_its_elements_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("for one in []: ...\nnames = [one for one in names]\n")
    assert nameless_loops([tmp_path / "a.py"]) == ["a.py:1", "a.py:2"]
    (tmp_path / "b.py").write_text("one = 1\ndef f(one, two): ...\ndef g(one: str): ...\n")
    assert nameless_things([tmp_path / "a.py", tmp_path / "b.py"]) == [
        *("a.py:1", "a.py:2", "b.py:1", "b.py:2")
    ]


def nameless_controllers(service: Path) -> list[str]:
    """The controllers without a module or package of the domain that has their name, and without
    one that DECIDED_BY names and they import."""
    domain = service / "domain"
    names = {path.stem if path.is_file() else path.name for path in domain.rglob("*")}
    return [
        path.name
        for path in sorted((service / "controllers").rglob("*.py"))
        if path.stem not in {"__init__", *ACTS_ONLY, *names}
        and f"from service.domain.{DECIDED_BY.get(path.stem)} import" not in path.read_text()
    ]


def test_a_controller_has_the_name_of_what_decides_for_it() -> None:
    assert nameless_controllers(SERVICE) == []
    controllers = {path.stem for path in (SERVICE / "controllers").rglob("*.py")}
    assert ACTS_ONLY | DECIDED_BY.keys() <= controllers, "an exception that is not needed"


def test_a_controller_with_a_name_of_its_own_is_found(tmp_path: Path) -> None:
    for name in ("domain/nodes/quota.py", "controllers/quota.py", "controllers/quotas.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "controllers/posting.py").touch()
    assert nameless_controllers(tmp_path) == ["posting.py", "quotas.py"]
