"""Answers that are kept for as long as what they depend on stays the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


class Answers:
    """A bounded store, used by many threads. The key says all that an answer depends on, so no
    answer in it is ever wrong; the answer that was not asked for the longest goes first."""

    def __init__(self, most: int) -> None:
        """`most` answers are kept."""
        self._most = most
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def of(
        self,
        key: Hashable,
        make: Callable[[], T],
        is_kept: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """The answer to a key, made by the first thread that asks; others that ask meanwhile wait
        for it. What `make` raises is not kept, nor what `is_kept` says is too large."""
        mine: Future[Any] = Future()
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                self._kept[key] = mine
                if len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
        return self._made(key, mine, make, is_kept) if kept is None else self._awaited(kept, make)

    def _made(
        self,
        key: Hashable,
        mine: Future[Any],
        make: Callable[[], T],
        is_kept: Callable[[T], bool],
    ) -> T:
        try:
            made = make()
        except BaseException as error:
            self._drop(key, mine)
            mine.set_exception(error)
            raise
        mine.set_result(made)
        if not is_kept(made):
            self._drop(key, mine)
        return made

    def _drop(self, key: Hashable, mine: Future[Any]) -> None:
        with self._lock:
            if self._kept.get(key) is mine:
                del self._kept[key]

    def _awaited(self, kept: Future[Any], make: Callable[[], T]) -> T:
        """The answer of another thread; where that failed, an attempt of one's own."""
        if kept.exception() is not None:
            return make()
        found: T = kept.result()
        return found
