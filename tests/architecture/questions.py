"""Thirty questions of a newcomer: in which file is it decided that …?

`python -m tests.architecture.questions draw [SEED]` prints thirty questions: first sentences of the
docstrings of public functions of the domain, where all rules are decided. A person who has not seen
the files guesses one file for each, from `git ls-files service` alone. The guesses go into
`questions.tsv`: question, tab, file.
`python -m tests.architecture.questions` compares them with where the functions are.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
ANSWERS = Path(__file__).with_name("questions.tsv")
NUMBER = 30
LEAST_WORDS = 7
"""A shorter sentence asks for too little to be found by."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Where somebody looked for the answer, and the files whose function answers."""

    question: str
    guessed: str
    files: frozenset[str]

    @property
    def is_right(self) -> bool:
        return self.guessed in self.files


def find_questions(paths: Iterable[Path], root: Path = ROOT) -> Mapping[str, frozenset[str]]:
    """The first sentences of the docstrings of public functions, each with its files."""
    found = defaultdict[str, set[str]](set)
    for path in paths:
        tree = ast.parse(path.read_text())
        public = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for function in public:
            sentence = _first_sentence(ast.get_docstring(function) or "")
            if not function.name.startswith("_") and len(sentence.split()) >= LEAST_WORDS:
                found[sentence].add(path.relative_to(root).as_posix())
    return {sentence: frozenset(files) for sentence, files in found.items()}


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".")


def draw_questions(
    found: Mapping[str, frozenset[str]], seed: int, number: int = NUMBER
) -> Sequence[str]:
    """So many questions, the same for the same seed."""
    return Random(seed).sample(sorted(found), number)


def read_guesses(text: str, found: Mapping[str, frozenset[str]]) -> Sequence[Guess]:
    """The guesses of a file; a question that nobody asks any more has no right answer."""
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return [
        Guess(question, guessed, found.get(question, frozenset())) for question, guessed in rows
    ]


def find_rules() -> Mapping[str, frozenset[str]]:
    """The questions about the rules of the service."""
    return find_questions(sorted((ROOT / "service" / "domain").rglob("*.py")))


def main(arguments: Sequence[str]) -> None:
    found = find_rules()
    if arguments and arguments[0] == "draw":
        seed = int(arguments[1]) if len(arguments) > 1 else 1
        sys.stdout.write("\n".join(draw_questions(found, seed)) + "\n")
        return
    guesses = read_guesses(ANSWERS.read_text(), found)
    for guess in guesses:
        if not guess.is_right:
            where = ", ".join(sorted(guess.files)) or "no file any more"
            sys.stdout.write(f"{guess.question}\n  guessed {guess.guessed}, is in {where}\n")
    number = sum(guess.is_right for guess in guesses)
    sys.stdout.write(f"{number} of {len(guesses)} are right\n")


if __name__ == "__main__":
    main(sys.argv[1:])
