"""Turns of the writers of one process, for a database with one writer at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from service.domain.errors import StoreUnavailable

LONGEST_SECONDS = 30


class WriterTurns:
    """Lets writers write in the order in which they came. SQLite itself has no order, so that one
    of many writers may wait forever."""

    def __init__(self) -> None:
        self._bell = threading.Condition()
        self._line: deque[object] = deque()
        self._is_taken = False

    @contextmanager
    def take_turn(self, *, first: bool = False) -> Iterator[None]:
        """Wait for a turn, and hold it within the block; with `first`, before all other waiting
        writers. Raises StoreUnavailable after half a minute."""
        with self._bell:
            self._wait_for_turn(first=first)
            self._is_taken = True
        try:
            yield
        finally:
            with self._bell:
                self._is_taken = False
                self._bell.notify_all()

    def _wait_for_turn(self, *, first: bool) -> None:
        me = object()
        if first:
            self._line.appendleft(me)
        else:
            self._line.append(me)

        def is_my_turn() -> bool:
            return not self._is_taken and self._line[0] is me

        try:
            if not self._bell.wait_for(is_my_turn, LONGEST_SECONDS):
                raise StoreUnavailable("other writers blocked the database for too long; retry")
        finally:
            self._line.remove(me)
            self._bell.notify_all()


_turns: dict[str, WriterTurns] = {}
_lock = threading.Lock()


def turns_of(address: str) -> WriterTurns:
    """The turns of a database; the same object for all callers in this process."""
    with _lock:
        return _turns.setdefault(address, WriterTurns())
