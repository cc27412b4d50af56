"""The names of the files tell where a rule is: they answer 25 of thirty questions."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.questions import (
    ANSWERS,
    NUMBER,
    Guess,
    draw_questions,
    find_questions,
    find_rules,
    read_guesses,
)

ENOUGH = 25
ASKED = 20


def test_of_thirty_guesses_25_are_right_where_the_functions_are_today() -> None:
    guesses = read_guesses(ANSWERS.read_text(), find_rules())
    assert len({guess.question for guess in guesses}) == NUMBER
    asked = [guess for guess in guesses if guess.files]  # a sentence may be written anew
    assert len(asked) >= ASKED, "draw and guess thirty new questions"
    assert NUMBER * sum(guess.is_right for guess in asked) >= ENOUGH * len(asked)


def test_the_questions_are_the_first_sentences_of_public_functions(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(
        'def due():\n    """Return the nodes that\n    are due today. Sorted."""\n'
        'def _own():\n    """Return the nodes that nobody outside asks for."""\n'
        'def short():\n    """Return nodes."""\n'
    )
    found = find_questions(tmp_path.glob("*.py"), tmp_path)
    assert found == {"Return the nodes that are due today": frozenset({"rules.py"})}


def test_a_guess_is_right_in_a_file_that_answers_and_nowhere_else() -> None:
    found = {"where": frozenset({"a.py", "b.py"})}
    guesses = read_guesses("# by nobody\nwhere\ta.py\nwhere\tc.py\ngone\ta.py\n", found)
    assert [guess.is_right for guess in guesses] == [True, False, False]
    assert guesses[2] == Guess("gone", "a.py", frozenset())


def test_a_seed_draws_the_same_questions() -> None:
    found = {str(number): frozenset({"a.py"}) for number in range(100)}
    assert (
        draw_questions(found, 3, 10) == draw_questions(found, 3, 10) != draw_questions(found, 4, 10)
    )
    assert len(set(draw_questions(found, 3, 10))) == 10
