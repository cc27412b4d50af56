"""What containers really did: the truth that reports and ledgers can be held against."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

MAX_RUNS = 100_000


class Cause(StrEnum):
    """Why a container ended. The exit code does not tell."""

    NONE = ""
    """The container runs."""
    PROGRAM = "program"
    """The program ended by itself."""
    PEERS = "peers"
    """The program failed because another machine of its job went away."""
    TASK = "task"
    """The service had the container stopped or removed."""
    LIMIT = "limit"
    """The container ran for longer than it may."""
    NOTICE = "notice"
    """The machine was told of its preemption."""
    POWER = "power"
    """The machine went away below the container."""


@dataclass(eq=False)
class ContainerRun:
    """One container from its start to its end, in unix seconds; `end` is None while it runs."""

    attempt: str
    job: str
    node: str
    uid: int
    number: int
    """Of the worker on its node; `worker` is its number among all of the job."""
    worker: int
    slice: int
    boot: int
    start: float
    end: float | None = None
    exit_code: int | None = None
    """None while it runs, and where the machine went away below it."""
    how: str = ""
    """`ended` by itself or by a signal, `released`, or `power` where the machine went away."""
    cause: Cause = Cause.NONE
    lines: int = 0
    """Of output."""

    def close(self, at: float, exit_code: int | None, how: str, cause: Cause) -> None:
        self.end, self.exit_code, self.how, self.cause = at, exit_code, how, cause


class Runs:
    """Every container of a world, the newest last; of very many, the newest.

    `observers` are called with each container when it starts. `pulled` is when the workers of an
    attempt first had its image: by attempt, then by the worker's number in the job.
    """

    def __init__(self) -> None:
        self._runs: deque[ContainerRun] = deque(maxlen=MAX_RUNS)
        self.observers: list[Callable[[ContainerRun], None]] = []
        self.pulled: dict[str, dict[int, float]] = defaultdict(dict)

    def begin(self, run: ContainerRun) -> None:
        self._runs.append(run)
        for observer in self.observers:
            observer(run)

    def __iter__(self) -> Iterator[ContainerRun]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def shown(self) -> list[dict[str, Any]]:
        return [asdict(run) for run in self._runs]

    def clear(self) -> None:
        self._runs.clear()
        self.pulled.clear()
