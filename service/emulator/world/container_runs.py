"""What containers really did, to compare with the service's reports and ledgers."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

MAX_RUNS = 100_000


class Cause(StrEnum):
    """The cause of a container's end, which the exit code does not show."""

    NONE = ""
    """The container runs."""
    PROGRAM = "program"
    """The program ended by itself."""
    PEERS = "peers"
    """The program failed because another machine of its job was lost."""
    TASK = "task"
    """The service stopped or removed the container."""
    LIMIT = "limit"
    """The container exceeded its time limit."""
    NOTICE = "notice"
    """The machine received a preemption notice."""
    POWER = "power"
    """The machine was lost."""


@dataclass(eq=False)
class ContainerRun:
    """One container from its start to its end, in unix seconds; `end` is None while it runs."""

    attempt: str
    job: str
    node: str
    uid: int
    number: int
    """The worker's number on its node; `worker` is its number within the job."""
    worker: int
    slice: int
    boot: int
    start: float
    end: float | None = None
    exit_code: int | None = None
    """None while it runs, and if the machine was lost."""
    how: str = ""
    """`ended` by itself or by a signal, `released`, or `power` if the machine was lost."""
    cause: Cause = Cause.NONE
    lines: int = 0
    """The number of lines of output."""

    def close(self, at: float, exit_code: int | None, how: str, cause: Cause) -> None:
        self.end, self.exit_code, self.how, self.cause = at, exit_code, how, cause


class Runs:
    """The newest `MAX_RUNS` containers of a world, the newest last.

    `observers` are called with each container when it starts. `pulled` is the time at which a
    worker first had the image of an attempt: by attempt, then by the worker's number in the job.
    """

    def __init__(self) -> None:
        self._runs: deque[ContainerRun] = deque(maxlen=MAX_RUNS)
        self.observers: list[Callable[[ContainerRun], None]] = []
        self.pulled: dict[str, dict[int, float]] = defaultdict(dict)

    def add_run(self, run: ContainerRun) -> None:
        self._runs.append(run)
        for observer in self.observers:
            observer(run)

    def __iter__(self) -> Iterator[ContainerRun]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def as_dicts(self) -> list[dict[str, Any]]:
        return [asdict(run) for run in self._runs]

    def clear(self) -> None:
        self._runs.clear()
        self.pulled.clear()
