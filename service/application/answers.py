"""Answers that are kept for as long as what they depend on stays the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class Answers:
    """A bounded cache, used by many threads. The key contains everything that an answer depends on,
    so no cached answer is ever wrong. The least recently used answer is dropped first."""

    def __init__(self, most: int) -> None:
        """`most` is how many answers are kept."""
        self._most = most
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
                if len(self._kept) > self._most:
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
