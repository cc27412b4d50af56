"""Names say what is done, and few jumps lead to a body that the caller could hold."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.figures import SERVICE, Figures, count, crowded_folders

STORE = "service/store"
"""One file for each kind of row, with `unit.py` as their index."""


def test_most_functions_have_names_of_two_words_and_private_ones_several_callers() -> None:
    found = count(path.read_text() for path in SERVICE.rglob("*.py"))
    assert found.functions > 3_000
    assert found.percent_of_one_word <= 25, found
    assert found.percent_with_one_caller <= 45, found


def test_no_folder_but_the_store_has_more_than_twenty_files() -> None:
    assert set(crowded_folders(SERVICE)) <= {STORE}


def test_what_is_counted() -> None:
    source = """
class Node:
    def __init__(self): ...
    @property
    def name(self): return self._read_name() + self._read_name()
    def _read_name(self): return _name()
async def read_nodes(): ...
def _name(): ...
def _unused(): ...
"""
    assert count([source]) == Figures(functions=5, of_one_word=3, private=3, with_one_caller=2)


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "service" / "domain"
    folder.mkdir(parents=True)
    for name in ("__init__", "a", "b", "c"):
        (folder / f"{name}.py").touch()
    assert crowded_folders(tmp_path / "service", most=2) == {"service/domain": 3}
    assert crowded_folders(tmp_path / "service", most=3) == {}
