"""The newest log entries of a world, without duplicates; listeners receive each new entry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BufferedLog:
    """One entry in the JSON form of `google.logging.v2.LogEntry`, at nanoseconds since 1970."""

    at: int
    plain: dict[str, Any]
    message: Any = None
    """The message as a client wrote it; None for entries of the world itself."""

    @property
    def project(self) -> str:
        return self.log.split("/")[1]

    @property
    def log(self) -> str:
        return str(self.plain["logName"])

    @property
    def sort_key(self) -> tuple[int, str]:
        """The entry's position in a list: by time, then by id."""
        return self.at, str(self.plain["insertId"])


class LogBuffer:
    """Entries in the order of their arrival; a duplicate is dropped."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int, str], BufferedLog] = {}
        self._listeners: list[Callable[[BufferedLog], None]] = []
        self._numbers = count(1)

    def add(
        self, plain: dict[str, Any], at: int, limit: int, message: Any = None
    ) -> BufferedLog | None:
        """Add an entry, with an id if it has none. Returns None for a duplicate.

        `at` is in nanoseconds since 1970; `limit` is the number of entries to keep.
        """
        plain.setdefault("insertId", f"{next(self._numbers):013x}")
        entry = BufferedLog(at, plain, message)
        key = (entry.log, *entry.sort_key)
        if key in self._entries:
            return None
        self._entries[key] = entry
        while len(self._entries) > limit:
            del self._entries[next(iter(self._entries))]
        for listener in tuple(self._listeners):
            listener(entry)
        return entry

    def __iter__(self) -> Iterator[BufferedLog]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def add_listener(self, listener: Callable[[BufferedLog], None]) -> Callable[[], None]:
        """Call a listener with every new entry. Calling the returned function ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def clear(self) -> None:
        self._entries.clear()


def to_nanoseconds(at: float) -> int:
    """Convert unix seconds to nanoseconds, truncated to whole microseconds."""
    whole = math.floor(at)
    return whole * NANOS + int((at - whole) * 1_000_000) * 1000


def moment_text(at: int) -> str:
    """Format nanoseconds since 1970 as RFC 3339."""
    return str(Timestamp(seconds=at // NANOS, nanos=at % NANOS).ToJsonString())
