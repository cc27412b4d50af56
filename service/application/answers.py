"""Answers that are kept for as long as what they depend on stays the same, or a little longer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

import structlog

T = TypeVar("T")

NEXT = "next-answer"
"""The name of a thread that makes the next answer."""

log = structlog.get_logger()


class Answers:
    """A bounded cache, used by many threads. The key contains everything that an answer depends on,
    so no cached answer is ever wrong. The least recently used answer is dropped first."""

    def __init__(self, most: int) -> None:
        """`most` is how many answers are kept."""
        self.most = most
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get_or_make(
        self,
        key: Hashable,
        make: Callable[[], T],
        is_kept: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """The answer for a key. The first thread that asks makes it with `make`; other threads wait
        for that result.

        An exception of `make` is not kept, nor is an answer for which `is_kept` returns False (too
        large).
        """
        mine: Future[Any] = Future()
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                self._kept[key] = mine
                if len(self._kept) > self.most:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
        if kept is not None:
            if kept.exception() is not None:  # the other thread failed: this one tries for itself
                return make()
            found: T = kept.result()
            return found
        try:
            made = make()
        except BaseException as error:
            self._drop_answer(key, mine)
            mine.set_exception(error)
            raise
        mine.set_result(made)
        if not is_kept(made):
            self._drop_answer(key, mine)
        return made

    def _drop_answer(self, key: Hashable, mine: Future[Any]) -> None:
        with self._lock:
            if self._kept.get(key) is mine:
                del self._kept[key]


class _Latest(NamedTuple):
    """An answer, what it depends on, and the instant that it is as of."""

    stamp: Hashable
    at: int
    answer: Any


class _Work(NamedTuple):
    """The next answer to a question: what it depends on, and how it is made."""

    question: Hashable
    stamp: Hashable
    at: int
    make: Callable[[], Any]


class LatestAnswers:
    """The latest answer to each question, for answers that take long to make. An answer that is a
    little old is returned at once, and one thread makes the next ones in turn. A caller waits only
    if nobody asked the same question lately. Many threads use it. Of too many
    questions, the one with the oldest answer is dropped."""

    def __init__(self, answers: Answers, most_seconds: int) -> None:
        """`answers` keeps what callers have waited for, and says how many questions are kept. A
        latest answer may be `most_seconds` older than what is asked for."""
        self._answers = answers
        self._most_seconds = most_seconds
        self._lock = Lock()
        self._latest: OrderedDict[Hashable, _Latest] = OrderedDict()
        self._waiting: dict[Hashable, _Work] = {}
        """What the thread makes, in this order. The first is in work. Empty if no thread runs."""

    def get_or_make(
        self, question: Hashable, stamp: Hashable, now: int, make: Callable[[], T]
    ) -> T:
        """The latest answer to a question, if it is recent enough; otherwise a new one. `stamp` is
        everything that the answer depends on, with the instant `now`."""
        with self._lock:
            latest = self._latest.get(question)
            if latest is not None and 0 <= now - latest.at <= self._most_seconds:
                found: T = latest.answer
                if latest.stamp != stamp and question not in self._waiting:
                    self._waiting[question] = _Work(question, stamp, now, make)
                    if len(self._waiting) == 1:
                        Thread(target=self._make_next, name=NEXT, daemon=True).start()
                return found
        made = self._answers.get_or_make((question, stamp), make)
        self._keep(question, _Latest(stamp, now, made))
        return made

    def _make_next(self) -> None:
        """Makes the next answers, one after another, until no question waits."""
        with self._lock:
            work = next(iter(self._waiting.values()), None)
        while work is not None:
            try:
                self._keep(work.question, _Latest(work.stamp, work.at, work.make()))
            except Exception:
                log.exception("answer.not_renewed", question=str(work.question))
                with self._lock:  # the next caller makes it, and gets the error
                    self._latest.pop(work.question, None)
            with self._lock:
                del self._waiting[work.question]
                work = next(iter(self._waiting.values()), None)

    def _keep(self, question: Hashable, latest: _Latest) -> None:
        with self._lock:
            before = self._latest.get(question)
            if before is None or before.at <= latest.at:
                self._latest[question] = latest
                self._latest.move_to_end(question)
            if len(self._latest) > self._answers.most:
                self._latest.popitem(last=False)
