"""Each planted bug can be planted: what it changes is there, under the name that it knows."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from service.store import leases
from tests.interleaving import planted as interleaving
from tests.simulation import planted as fleet
from tests.simulation.cleanup import planted as cleanup
from tests.simulation.invariants import Violation
from tests.simulation.jobs import planted as jobs
from tests.simulation.search import MOVED, is_found, tells_apart

ALL: Mapping[str, Callable[[], Any]] = {
    f"{home}-{name}": plant
    for home, bugs in {
        "fleet": fleet.BUGS,
        "cleanup": {**cleanup.GROSS, **cleanup.SUBTLE},
        "jobs": {**jobs.GROSS, **jobs.SUBTLE},
        "interleaving": interleaving.PLANTED,
    }.items()
    for name, plant in bugs.items()
}


def _names_read_at_run_time(module: ModuleType) -> set[str]:
    """The names that functions of a module read when they are called."""
    tree = ast.parse(inspect.getsource(module))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda))
    return {
        node.id
        for function in functions
        for statement in (function.body if isinstance(function.body, list) else [function.body])
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
    }


def _constants_planted_in_vain(plant: Callable[[], Any]) -> list[str]:
    """The constants of modules that a planting replaces and that nothing reads any more when the
    service runs."""
    seen: list[tuple[Any, str]] = []
    enter = mock._patch.__enter__

    def noting(patcher: Any) -> Any:
        seen.append((patcher.getter(), patcher.attribute))
        return enter(patcher)

    with mock.patch.object(mock._patch, "__enter__", noting), plant():
        pass
    return [
        f"{target.__name__}.{name}"
        for target, name in seen
        if isinstance(target, ModuleType)
        and target.__name__.startswith("service.")
        and name.lstrip("_").isupper()
        and name not in _names_read_at_run_time(target)
    ]


@pytest.mark.parametrize("bug", ALL)
def test_what_a_bug_replaces_is_read_when_the_service_runs(bug):
    assert _constants_planted_in_vain(ALL[bug]) == []


def test_a_bug_that_replaces_what_nothing_reads_is_seen():
    held = mock.patch.object(leases, "_HELD", None)
    assert _constants_planted_in_vain(lambda: held) == ["service.store.leases._HELD"]


@pytest.mark.parametrize("bug", ALL)
def test_a_bug_is_planted_and_taken_out_again(bug):
    """A name that moved would end the search for the bug before it begins."""
    with ALL[bug]():
        pass


def _planted_in(bad: set[int]) -> tuple[Callable[[int], None], Callable[[], Any]]:
    """A life in which some seeds are bad while something is planted, and seed 7 always is."""
    there = set[int]()

    @contextmanager
    def plant() -> Iterator[None]:
        there.update(bad)
        try:
            yield
        finally:
            there.clear()

    def live(seed: int) -> None:
        if seed in there | {7}:
            raise Violation(f"seed {seed}")

    return live, plant


def test_a_seed_finds_a_bug_only_if_it_is_clean_without_it():
    live, plant = _planted_in({3})
    assert tells_apart(3, live, plant)
    assert not tells_apart(4, live, plant)
    with pytest.raises(Violation, match="seed 7"):
        tells_apart(7, live, plant)


def test_the_seed_that_is_known_is_tried_first_and_a_move_is_told():
    live, plant = _planted_in({3})
    finding, moves = partial(tells_apart, live=live, plant=plant), dict[str, str]()
    assert is_found("bug", 3, [], finding, moves.__setitem__)
    assert not moves
    assert is_found("bug", 5, [5, 4, 3], finding, moves.__setitem__)
    assert moves == {MOVED: "bug: seed 5 finds it no more, write down 3"}
    assert not is_found("bug", 5, [4], finding, moves.__setitem__)
