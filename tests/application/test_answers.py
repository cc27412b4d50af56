"""Answers that are kept: made once, bounded, and never an error."""

from __future__ import annotations

import threading
from functools import partial
from threading import Barrier, Event, Thread

import pytest

from service.application.answers import NEXT, Answers, LatestAnswers


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


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == NEXT:
            thread.join()


def test_an_answer_that_is_a_little_old_is_returned_while_the_next_one_is_made():
    latest, may_end, made = LatestAnswers(Answers(2), 60), Event(), []

    def make() -> str:
        made.append("new")
        may_end.wait()
        return "new"

    assert latest.get_or_make("question", 1, 100, lambda: "old") == "old"
    assert [latest.get_or_make("question", 2, 160, make) for _ in range(3)] == ["old"] * 3
    may_end.set()
    wait_for_threads()
    assert made == ["new"], "one thread makes it, however many ask"
    assert latest.get_or_make("question", 2, 161, make) == "new"
    wait_for_threads()
    assert made == ["new"], "it depends on nothing that changed"


@pytest.mark.parametrize(
    ("question", "now"), [("question", 161), ("question", 99), ("another", 100)]
)
def test_an_answer_is_waited_for_if_there_is_none_or_it_is_too_old_or_the_clock_went_back(
    question: str, now: int
) -> None:
    latest = LatestAnswers(Answers(2), 60)
    latest.get_or_make("question", 1, 100, lambda: "old")
    assert latest.get_or_make(question, 2, now, lambda: "new") == "new"


def test_who_asks_after_an_error_gets_the_error():
    latest = LatestAnswers(Answers(2), 60)

    def fail() -> str:
        raise ValueError("no")

    latest.get_or_make("question", 1, 100, lambda: "old")
    assert latest.get_or_make("question", 2, 101, fail) == "old"
    wait_for_threads()
    with pytest.raises(ValueError, match="no"):
        latest.get_or_make("question", 2, 101, fail)
    assert latest.get_or_make("question", 2, 101, lambda: "new") == "new"


def test_an_answer_never_gives_way_to_an_older_one():
    latest, may_end = LatestAnswers(Answers(2), 60), Event()

    def make() -> str:
        may_end.wait()
        return "of 110"

    latest.get_or_make("question", 1, 100, lambda: "of 100")
    latest.get_or_make("question", 2, 110, make)
    assert latest.get_or_make("question", 3, 170, lambda: "of 170") == "of 170"
    may_end.set()
    wait_for_threads()
    assert latest.get_or_make("question", 3, 170, lambda: "none") == "of 170"


def test_one_thread_makes_the_next_answers_in_turn():
    latest, may_end, made = LatestAnswers(Answers(4), 60), Event(), []

    def make(question: str) -> str:
        may_end.wait()
        made.append((question, threading.current_thread()))
        return f"new {question}"

    questions = ["a", "b", "c"]
    for question in questions:
        latest.get_or_make(question, 1, 100, lambda: "old")
    for question in questions:
        latest.get_or_make(question, 2, 110, partial(make, question))
    may_end.set()
    wait_for_threads()
    assert [question for question, _ in made] == questions
    assert len({thread for _, thread in made}) == 1
    found = [latest.get_or_make(question, 2, 110, lambda: "none") for question in questions]
    assert found == ["new a", "new b", "new c"]


def test_an_error_does_not_keep_the_others_waiting():
    latest, may_end = LatestAnswers(Answers(4), 60), Event()

    def fail() -> str:
        may_end.wait()
        raise ValueError("no")

    for question in ("a", "b"):
        latest.get_or_make(question, 1, 100, lambda: "old")
    latest.get_or_make("a", 2, 110, fail)
    latest.get_or_make("b", 2, 110, lambda: "new b")
    may_end.set()
    wait_for_threads()
    assert latest.get_or_make("b", 2, 110, lambda: "none") == "new b"


def test_the_question_that_was_not_answered_for_the_longest_is_dropped():
    latest = LatestAnswers(Answers(2), 60)
    for question in ("a", "b", "c"):
        latest.get_or_make(question, 1, 100, lambda: "old")
    asked = [latest.get_or_make(question, 2, 110, lambda: "new") for question in ("b", "c", "a")]
    wait_for_threads()
    assert asked == ["old", "old", "new"]
