"""Everybody who follows the output of a job shares one reader of its log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from service.application.jobs.logs import JobLogService, LogRead
from service.domain.clock import rfc3339
from service.domain.jobs.log import NANOS, LogCursor, LogLine
from service.domain.jobs.pace import free_turn, pause_between_reads

KEPT_LINES = 20_000
"""Lines that are kept for a follower who is slow; older ones are skipped, with a note."""

BEAT_SECONDS = 15.0


@dataclass
class _Reader:
    """One reader of the log of a job, shared by all who follow it. `trouble` says why there is no
    more output, as long as the log cannot be read; `turn` is when it is read next, or was last."""

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
        """Keep what was read, and tell all who wait."""
        self.lines.extend(read.lines)
        excess = len(self.lines) - KEPT_LINES
        if excess > 0:
            del self.lines[:excess]
            self.dropped += excess
        is_news = bool(read.lines) or read.is_over or (bool(read.trouble) and not self.trouble)
        self.notes, self.trouble, self.is_over = read.notes, read.trouble, read.is_over
        if is_news:  # without news, followers wait for the next beat
            self.wake()

    def wake(self) -> None:
        """Have all who wait look again."""
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class LogFollowers:
    """Everybody who follows a job, by the job. Used in the event loop alone."""

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

    async def followed(
        self, job_id: str, begin: LogCursor, worker: int | None
    ) -> AsyncGenerator[bytes, None]:
        """The lines from the beginning on, as events, until the job has ended."""
        reader = self._readers.get(job_id)
        if reader is None:
            reader = self._readers[job_id] = _Reader(self._turn_from(self._clock()))
            reader.task = asyncio.create_task(self._read(job_id, reader, begin))
        reader.followers += 1
        try:
            async for event in _events(reader, worker):
                yield event
            for event in _shown(await run_in_threadpool(self.service.tails, job_id), worker):
                yield event
            for note in reader.notes:
                yield _event(note_of(note))
            yield b"event: end\ndata: {}\n\n"
        finally:
            reader.followers -= 1
            if not reader.followers and reader.task is not None:
                reader.task.cancel()
                self._readers.pop(job_id, None)

    async def _read(self, job_id: str, reader: _Reader, cursor: LogCursor) -> None:
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
                share = pause_between_reads(len(self._turns()), found.calls)
                reader.turn = self._turn_from(max(reader.turn + share, self._clock()))
            else:  # a page of the dashboard took its turn
                reader.turn = self._clock() + found.retry_after

    def _turn_from(self, earliest: float) -> float:
        return free_turn(self._turns(), earliest)

    def _turns(self) -> list[float]:
        return [one.turn for one in self._readers.values() if not one.is_over]


async def _events(reader: _Reader, worker: int | None) -> AsyncGenerator[bytes, None]:
    position, noted = 0, ""
    while True:
        changed = reader.changed
        if position < reader.dropped:
            yield _event(
                note_of(
                    f"{reader.dropped - position} lines were skipped: the client reads too slowly"
                )
            )
            position = reader.dropped
        waiting = reader.lines[position - reader.dropped :]
        position += len(waiting)
        for event in _shown(waiting, worker):
            yield event
        if reader.trouble and not noted:
            yield _event(note_of(reader.trouble))
        noted = reader.trouble
        if reader.is_over and position == reader.dropped + len(reader.lines):
            return
        try:
            await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
        except TimeoutError:
            yield b": still here\n\n"


def _shown(lines: Sequence[LogLine], worker: int | None) -> Iterator[bytes]:
    """Events for the lines of one worker; of all where `worker` is None."""
    return (_event(line_of(one)) for one in lines if worker in {None, one.worker})


def line_of(one: LogLine) -> bytes:
    """One line of output as a line of JSON."""
    seconds, nanos = divmod(one.at_ns, NANOS)
    at = f"{rfc3339(seconds)[:-1]}.{nanos:09d}Z"
    shown = {"at": at, "worker": one.worker, "attempt": one.attempt, "text": one.text}
    return json.dumps(shown, separators=(",", ":")).encode() + b"\n"


def note_of(text: str) -> bytes:
    """A line of JSON that says why output is missing."""
    return json.dumps({"note": text}, separators=(",", ":")).encode() + b"\n"


def _event(line: bytes) -> bytes:
    return b"data: " + line + b"\n"


async def _job_logs(request: Request) -> LogFollowers:
    found: LogFollowers = request.app.state.log_followers
    return found


JobLogsDep = Annotated[LogFollowers, Depends(_job_logs)]
