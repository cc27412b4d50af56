"""Everybody who follows the output of a job shares one reader of its log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import structlog
from fastapi.concurrency import run_in_threadpool

from service.application.jobs.logs import JobLogService, LogRead
from service.domain.clock import rfc3339
from service.domain.errors import RateLimited, StewardError
from service.domain.jobs.log import NANOS, LogCursor, LogLine

log = structlog.get_logger()

READ_SECONDS = 3.0
"""Between two reads of the log of one job, however many follow it."""

KEPT_LINES = 20_000
"""Lines that are kept for a follower who is slow; older ones are skipped, with a note."""

BEAT_SECONDS = 15.0


@dataclass
class _Reader:
    """One reader of the log of a job, shared by all who follow it."""

    lines: list[LogLine] = field(default_factory=list)
    dropped: int = 0
    notes: tuple[str, ...] = ()
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
        self.notes, self.is_over = read.notes, read.is_over
        if read.lines or read.is_over:  # else nobody would ever wait for as long as a beat
            self.wake()

    def wake(self) -> None:
        """Have all who wait look again."""
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class LogFollowers:
    """Everybody who follows a job, by the job. Used in the event loop alone."""

    def __init__(self, service: JobLogService, seconds: float = READ_SECONDS) -> None:
        self.service = service
        self._seconds = seconds
        self._readers: dict[str, _Reader] = {}

    async def followed(
        self, job_id: str, begin: LogCursor, worker: int | None
    ) -> AsyncIterator[bytes]:
        """The lines from the beginning on, as events, until the job has ended."""
        reader = self._readers.get(job_id)
        if reader is None:
            reader = self._readers[job_id] = _Reader()
            reader.task = asyncio.create_task(self._read(job_id, reader, begin))
        reader.followers += 1
        try:
            async for event in _events(reader, worker):
                yield event
            for one in await run_in_threadpool(self.service.tails, job_id):
                if worker in {None, one.worker}:
                    yield _event(line_of(one))
            for note in reader.notes:
                yield _event(note_of(note))
            yield b"event: end\ndata: {}\n\n"
        finally:
            reader.followers -= 1
            if not reader.followers and reader.task is not None:
                reader.task.cancel()
                self._readers.pop(job_id, None)

    async def _read(self, job_id: str, reader: _Reader, cursor: LogCursor) -> None:
        while not reader.is_over:
            pause = self._seconds
            try:
                found = await run_in_threadpool(self.service.read, job_id, cursor)
            except RateLimited as error:
                wait = error.facts.get("retry_after")
                pause = float(wait) if isinstance(wait, int) else pause
            except StewardError as error:
                log.warning("logs.not_read", job_id=job_id, reason=str(error))
            else:
                cursor = found.cursor
                reader.add(found)
                pause = 0.0 if found.more else pause
            await asyncio.sleep(pause)


async def _events(reader: _Reader, worker: int | None) -> AsyncIterator[bytes]:
    position = 0
    while True:
        changed = reader.changed
        if position < reader.dropped:
            yield _event(note_of(f"{reader.dropped - position} lines were skipped: too slow"))
            position = reader.dropped
        waiting = reader.lines[position - reader.dropped :]
        position += len(waiting)
        for one in waiting:
            if worker in {None, one.worker}:
                yield _event(line_of(one))
        if reader.is_over and position == reader.dropped + len(reader.lines):
            return
        try:
            await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
        except TimeoutError:
            yield b": still here\n\n"


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
