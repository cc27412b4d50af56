"""What jobs need of the world, in the hands of a test: a registry, a log, and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from service.domain.errors import CloudUnavailable, StewardError
from service.domain.jobs.image import ImageFacts
from service.domain.jobs.log import LogCursor, LogLine, LogPage, build_page, list_new_lines
from service.domain.jobs.task import KEY, REPORT
from service.domain.nodes.node import Node
from service.domain.nodes.slices import WHOLE, place_of
from tests.fakes import FakeCloud

DIGEST = "sha256:" + "ab" * 32


class FakeRegistry:
    """A registry that has every image, until a test says otherwise."""

    def __init__(self) -> None:
        self.error: StewardError | None = None
        self.asked: list[str] = []

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """What the registry says."""
        self.asked.append(image)
        if self.error is not None:
            raise self.error
        return ImageFacts(DIGEST, (f"linux/{architecture}",))


class NoLogs:
    """A log that cannot be read."""

    def read_page(self, project: str, job: str, since: LogCursor, limit: int) -> LogPage:
        """Always without an answer."""
        raise CloudUnavailable("the log gave no answer")

    def read_last_lines(self, project: str, job: str, since: int, limit: int) -> Sequence[LogLine]:
        """Always without an answer."""
        raise CloudUnavailable("the log gave no answer")


class FakeLogs:
    """A log that a test writes. A line without a job is of every job."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self._jobs: dict[str, str] = {}
        self.reads = 0
        self.error: StewardError | None = None

    def write(self, at: int, text: str, worker: int = 0, attempt: int = 1, job: str = "") -> None:
        """A line arrives."""
        number = len(self.lines)
        self._jobs[f"i{number}"] = job
        self.lines.append(LogLine(at * 10**9 + number, worker, attempt, text, f"i{number}"))

    def read_page(self, project: str, job: str, since: LogCursor, limit: int) -> LogPage:
        """The next lines."""
        self.reads += 1
        if self.error is not None:
            raise self.error
        return build_page(since, self._of(job), limit, more=False)

    def read_last_lines(self, project: str, job: str, since: int, limit: int) -> Sequence[LogLine]:
        """The newest lines."""
        self.reads += 1
        if self.error is not None:
            raise self.error
        return list_new_lines(LogCursor.start(since), self._of(job))[-limit:]

    def _of(self, job: str) -> list[LogLine]:
        return [line for line in self.lines if self._jobs[line.insert_id] in {"", job}]


class Worker:
    """A supervisor played by hand, on one worker of a node."""

    def __init__(self, cloud: FakeCloud, node: Node, number: int = 0, part: int = WHOLE) -> None:
        self._cloud = cloud
        self._path = place_of(node, part).path
        self._number = number
        self.seq = 0
        self.boot = "boot-1"
        self.times: dict[str, int] = {}
        self.ended_at: int | None = None

    @property
    def task(self) -> Mapping[str, Any]:
        """The task in the metadata; empty where there is none."""
        text = self._cloud.maps.get(self._path, {}).get(KEY, "{}")
        found: Mapping[str, Any] = json.loads(text)
        return found

    def report(self, state: str, **changes: Any) -> None:
        """Write a report about the task that is in the metadata now."""
        self.seq += 1
        task = self.task
        document = {
            "v": 1,
            "seq": self.seq,
            "boot": self.boot,
            "at": self._cloud.clock(),
            "generation": task.get("generation", 0),
            "attempt": task.get("attempt", ""),
            "state": state,
        }
        self.write(json.dumps({**document, **changes}))

    def write(self, text: str) -> None:
        """Write any text as the report."""
        workers = self._cloud.written.setdefault(self._path, {})
        workers.setdefault(self._number, {})[REPORT] = text

    def run(self) -> None:
        """The container has started."""
        now = self._cloud.clock()
        self.times = {"pull_started_at": now - 3, "pulled_at": now - 2, "started_at": now - 1}
        self.ended_at = None
        self.report("RUNNING", **self.times)

    def exit(self, code: int | None = 0, **changes: Any) -> None:
        """The container has ended, now or when that was said first."""
        if self.ended_at is None:
            self.ended_at = self._cloud.clock()
        base = {**self.times, "ended_at": self.ended_at, "reason": "COMPLETED", "exit_code": code}
        self.report("EXITED", **{**base, **changes})
