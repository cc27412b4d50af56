"""Works on several items of one turn at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")


def work_on(items: Iterable[Item], work: Callable[[Item], object], workers: int) -> None:
    """Do the work for each item on `workers` threads, in the order of the items. Raises the first
    error once all threads have ended; no item is begun after an error.

    The threads are daemon threads: a call without an answer does not keep the process alive.
    """
    line = _Line(items, work)
    if workers == 1:
        line.run()
    else:
        threads = [threading.Thread(target=line.run, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if line.errors:
        raise line.errors[0]


class _Line(Generic[Item]):
    """The items that are left, and the errors so far."""

    def __init__(self, items: Iterable[Item], work: Callable[[Item], object]) -> None:
        self._items = iter(items)
        self._work = work
        self._lock = threading.Lock()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        """Work on one item after the other until none is left or one fails."""
        try:
            while True:
                with self._lock:
                    found = [] if self.errors else list(islice(self._items, 1))
                if not found:
                    return
                self._work(found[0])
        except BaseException as error:  # noqa: BLE001 - `work_on` raises it in its own thread
            self.errors.append(error)


def take_for(
    items: Iterable[Item], seconds: float, monotonic: Callable[[], float]
) -> Iterator[Item]:
    """Yield the items until `seconds` have passed."""
    end = monotonic() + seconds
    for item in items:
        if monotonic() >= end:
            return
        yield item
