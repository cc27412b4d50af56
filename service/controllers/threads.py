"""Works on several things of one turn at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")


def work_on(items: Iterable[Item], work: Callable[[Item], object], workers: int) -> None:
    """Do the work for each item, on so many threads, in the order of the items. Raises the first
    error once all threads are back; after one, no other item is begun.

    The threads end with the process: one whose call is not answered does not keep it.
    """
    line = _Line(items, work)
    if workers == 1:
        line.run()
    else:
        threads = [threading.Thread(target=line.run, daemon=True) for _ in range(workers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    if line.errors:
        raise line.errors[0]


class _Line(Generic[Item]):
    """The items that are left to do, and the errors so far."""

    def __init__(self, items: Iterable[Item], work: Callable[[Item], object]) -> None:
        self._items = iter(items)
        self._work = work
        self._lock = threading.Lock()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        """Work on one item after the other until there is none, or an error."""
        try:
            for item in self._taken():
                self._work(item)
        except BaseException as error:  # noqa: BLE001 - it is raised where the work was asked for
            self.errors.append(error)

    def _taken(self) -> Iterator[Item]:
        while True:
            with self._lock:
                found = [] if self.errors else list(islice(self._items, 1))
            if not found:
                return
            yield from found


def for_so_long(
    items: Iterable[Item], seconds: float, monotonic: Callable[[], float]
) -> Iterator[Item]:
    """The items, until the time is over."""
    end = monotonic() + seconds
    for item in items:
        if monotonic() >= end:
            return
        yield item
