"""Streams the output of jobs. All followers of a job share one reader of its log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fastapi.concurrency import run_in_threadpool

from service.application.jobs.logs import JobLogService, LogRead
from service.domain.clock import to_rfc3339
from service.domain.jobs.log import NANOS, LogCursor, LogLine
from service.domain.jobs.pace import free_turn, pause_between_reads

KEPT_LINES = 20_000
"""Lines that are kept for a slow follower. Older lines are skipped, with a note."""

BEAT_SECONDS = 15.0


@dataclass
class _Reader:
    """The reader of the log of a job, shared by all its followers.

    `trouble` is the reason that the log cannot be read now, else empty. `turn` is the time of the
    next read, or of the last one.
    """

    turn: float

    lines: list[LogLine] = field(default_factory=list)
    dropped: int = 0
    notes: tuple[str, ...] = ()
    trouble: str = ""
    is_over: bool = False
    followers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def add(self, read: LogRead) -> None:
        """Keep the lines, and wake the followers if there is news."""
        self.lines.extend(read.lines)
        excess = len(self.lines) - KEPT_LINES
        if excess > 0:
            del self.lines[:excess]
            self.dropped += excess
        is_news = bool(read.lines) or read.is_over or (bool(read.trouble) and not self.trouble)
        self.notes, self.trouble, self.is_over = read.notes, read.trouble, read.is_over
        if is_news:  # without news, followers wait for the next beat
            self.wake_followers()

    def wake_followers(self) -> None:
        """Wake all waiting followers."""
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class LogFollowers:
    """The readers of all followed jobs. Used in the event loop only."""

    def __init__(
        self,
        service: JobLogService,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.service = service
        self._clock = clock
        self._sleep = sleep
        self._readers: dict[str, _Reader] = {}

    async def follow_job(
        self, job_id: str, begin: LogCursor, worker: int | None
    ) -> AsyncGenerator[bytes, None]:
        """The lines from `begin` on, as server-sent events, until the job has ended. None for
        `worker` is all workers."""
        reader = self._readers.get(job_id)
        if reader is None:
            reader = self._readers[job_id] = _Reader(self._find_turn(self._clock()))
            reader.task = asyncio.create_task(self._read_log(job_id, reader, begin))
        reader.followers += 1
        try:
            async for event in _stream_events(reader, worker):
                yield event
            for event in _format_lines(
                await run_in_threadpool(self.service.list_tails, job_id), worker
            ):
                yield event
            for note in reader.notes:
                yield _format_event(note_of(note))
            yield b"event: end\ndata: {}\n\n"
        finally:
            reader.followers -= 1
            if not reader.followers and reader.task is not None:
                reader.task.cancel()
                self._readers.pop(job_id, None)

    async def _read_log(self, job_id: str, reader: _Reader, cursor: LogCursor) -> None:
        failed = None
        while True:
            if (wait := reader.turn - self._clock()) > 0:
                await self._sleep(wait)
            found = await run_in_threadpool(self.service.follow, job_id, cursor, failed)
            cursor, failed = found.cursor, found.failed
            reader.add(found)
            if reader.is_over:
                return
            if found.retry_after is None:
                share = pause_between_reads(len(self._list_turns()), found.calls)
                reader.turn = self._find_turn(max(reader.turn + share, self._clock()))
            else:  # a page of the dashboard used this turn
                reader.turn = self._clock() + found.retry_after

    def _find_turn(self, earliest: float) -> float:
        return free_turn(self._list_turns(), earliest)

    def _list_turns(self) -> list[float]:
        return [reader.turn for reader in self._readers.values() if not reader.is_over]


async def _stream_events(reader: _Reader, worker: int | None) -> AsyncGenerator[bytes, None]:
    position, noted = 0, ""
    while True:
        changed = reader.changed
        if position < reader.dropped:
            yield _format_event(
                note_of(
                    f"{reader.dropped - position} lines were skipped: the client reads too slowly"
                )
            )
            position = reader.dropped
        waiting = reader.lines[position - reader.dropped :]
        position += len(waiting)
        for event in _format_lines(waiting, worker):
            yield event
        if reader.trouble and not noted:
            yield _format_event(note_of(reader.trouble))
        noted = reader.trouble
        if reader.is_over and position == reader.dropped + len(reader.lines):
            return
        try:
            await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
        except TimeoutError:
            yield b": still here\n\n"


def _format_lines(lines: Sequence[LogLine], worker: int | None) -> Iterator[bytes]:
    """Events of the lines of one worker. None for `worker` is all workers."""
    return (_format_event(line_of(line)) for line in lines if worker in {None, line.worker})


def line_of(line: LogLine) -> bytes:
    """A line of output as a line of JSON."""
    seconds, nanos = divmod(line.at_ns, NANOS)
    at = f"{to_rfc3339(seconds)[:-1]}.{nanos:09d}Z"
    shown = {"at": at, "worker": line.worker, "attempt": line.attempt, "text": line.text}
    return json.dumps(shown, separators=(",", ":")).encode() + b"\n"


def note_of(text: str) -> bytes:
    """A line of JSON with the reason of missing output."""
    return json.dumps({"note": text}, separators=(",", ":")).encode() + b"\n"


def _format_event(line: bytes) -> bytes:
    return b"data: " + line + b"\n"
