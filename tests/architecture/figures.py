"""Counts what makes a codebase easy or hard to find one's way in.

`python -m tests.architecture.figures [FOLDER]` prints the figures of `service`, or of that folder.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SERVICE = Path(__file__).parents[2] / "service"
MOST_FILES = 20
"""Of a folder beside its packages, without `__init__.py`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Figures:
    """Functions are counted wherever they stand, with methods and properties, without `__init__`
    and its like. A caller is a mention of the name in the file of a private function."""

    functions: int
    of_one_word: int
    private: int
    with_one_caller: int

    @property
    def percent_of_one_word(self) -> float:
        return 100 * self.of_one_word / max(1, self.functions)

    @property
    def percent_with_one_caller(self) -> float:
        return 100 * self.with_one_caller / max(1, self.private)


def count(sources: Iterable[str]) -> Figures:
    """The figures of modules, whose source is given."""
    functions = of_one_word = private = with_one_caller = 0
    for source in sources:
        tree = ast.parse(source)
        mentions = Counter(_mentions(tree))
        for function in _functions(tree):
            functions += 1
            of_one_word += "_" not in function.name.strip("_")
            private += function.name.startswith("_")
            with_one_caller += function.name.startswith("_") and mentions[function.name] <= 1
    return Figures(functions, of_one_word, private, with_one_caller)


def crowded_folders(root: Path, most: int = MOST_FILES) -> Mapping[str, int]:
    """The folders with more Python files than that, each with their number."""
    files = Counter(
        path.parent.relative_to(root.parent).as_posix()
        for path in root.rglob("*.py")
        if path.name != "__init__.py"
    )
    return {folder: number for folder, number in sorted(files.items()) if number > most}


def _functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and not node.name.startswith("__"):
            yield node


def _mentions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def main(arguments: Sequence[str]) -> None:
    root = Path(arguments[0]).resolve() if arguments else SERVICE
    found = count(path.read_text() for path in sorted(root.rglob("*.py")))
    print(f"functions {found.functions}, of one word {found.percent_of_one_word:.1f} %")
    print(f"private {found.private}, with one caller {found.percent_with_one_caller:.1f} %")
    for folder, number in crowded_folders(root).items():
        print(f"{folder}: {number} files")


if __name__ == "__main__":
    main(sys.argv[1:])
