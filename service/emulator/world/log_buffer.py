"""The log entries of a world: the newest so many, each once, and told to those who listen."""

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
    """The message as a client wrote it; None for what the world itself wrote."""

    @property
    def project(self) -> str:
        return self.log.split("/")[1]

    @property
    def log(self) -> str:
        return str(self.plain["logName"])

    @property
    def place(self) -> tuple[int, str]:
        """Give where the entry stands in a list: by time, then by its id."""
        return self.at, str(self.plain["insertId"])


class LogBuffer:
    """Entries in the order in which they came; one that says what is there already is dropped."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int, str], BufferedLog] = {}
        self._listeners: list[Callable[[BufferedLog], None]] = []
        self._numbers = count(1)

    def add(
        self, plain: dict[str, Any], at: int, limit: int, message: Any = None
    ) -> BufferedLog | None:
        """Take an entry in, with an id if it has none; None for one that was there already."""
        plain.setdefault("insertId", f"{next(self._numbers):013x}")
        entry = BufferedLog(at, plain, message)
        key = (entry.log, *entry.place)
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

    def listen(self, listener: Callable[[BufferedLog], None]) -> Callable[[], None]:
        """Tell a listener of every new entry until the function that is given back is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def clear(self) -> None:
        self._entries.clear()


def nanoseconds(at: float) -> int:
    """Turn unix seconds into nanoseconds, cut off at the microsecond."""
    whole = math.floor(at)
    return whole * NANOS + int((at - whole) * 1_000_000) * 1000


def moment_text(at: int) -> str:
    """Write nanoseconds since 1970 as RFC 3339."""
    return str(Timestamp(seconds=at // NANOS, nanos=at % NANOS).ToJsonString())
