"""Counts what makes a codebase easy or hard to find one's way in.

`python -m tests.architecture.figures [FOLDER]` prints the figures of `service`, or of that folder.

In the commit before 641749a6, when the folders had no packages, it prints: functions of one word
65.3 %, private functions with one caller 66.5 %, class names with several meanings 85 and 11 in the
emulator, and nine folders beside the store with more than twenty files.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
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


def shared_names(paths: Iterable[Path]) -> Mapping[str, list[str]]:
    """The public classes that are defined more than once, each with the files it is in."""
    found = defaultdict[str, list[str]](list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.name)
    return {name: files for name, files in found.items() if len(files) > 1}


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
    emulator = [*root.rglob("emulator/**/*.py")]
    rest = [path for path in root.rglob("*.py") if path not in set(emulator)]
    # The emulator speaks Google's language: what it calls a node is not what the rest does.
    print(f"class names with several meanings {len(shared_names(rest))}", end="")
    print(f", in the emulator {len(shared_names(emulator))}")
    for folder, number in crowded_folders(root).items():
        print(f"{folder}: {number} files")


if __name__ == "__main__":
    main(sys.argv[1:])
