"""Answers that are kept: made once, bounded, and never an error."""

from __future__ import annotations

from functools import partial
from threading import Barrier, Event, Thread

import pytest

from service.application.answers import Answers


def test_many_who_ask_at_once_share_one_answer():
    answers, made, begun, may_end = Answers(4), [], Event(), Event()

    def make() -> object:
        made.append(object())
        begun.set()
        may_end.wait()
        return made[-1]

    found: list[object] = []
    threads = [
        Thread(target=lambda: found.append(answers.get_or_make("key", make))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    begun.wait()
    may_end.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == made * 6


def test_what_was_not_asked_for_the_longest_goes_first():
    answers = Answers(2)
    made: list[str] = []
    for key in ("a", "b", "a", "c", "a", "b"):
        answers.get_or_make(key, partial(made.append, key))
    assert made == ["a", "b", "c", "b"]


def test_an_error_is_not_kept_and_those_who_waited_try_themselves():
    answers, both, tries = Answers(2), Barrier(2), []

    def fail() -> object:
        both.wait()
        raise ValueError("no")

    def ask() -> None:
        with pytest.raises(ValueError, match="no"):
            answers.get_or_make("key", fail)

    thread = Thread(target=ask)
    thread.start()

    def make() -> str:
        tries.append(1)
        return "yes"

    both.wait()
    assert answers.get_or_make("key", make) == "yes"
    thread.join()
    assert answers.get_or_make("key", make) == "yes"
    assert tries


def test_what_is_too_large_is_answered_and_not_kept():
    answers, made = Answers(2), []

    def make() -> list[int]:
        made.append(1)
        return [1, 2, 3]

    for _ in range(2):
        assert answers.get_or_make("key", make, lambda one: len(one) < 3)
    assert len(made) == 2
