"""What containers really did: the truth that reports and ledgers can be held against."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from service.emulator.nodes import NodeRecord
from service.emulator.played.task import Task

MAX_RUNS = 100_000


@dataclass(eq=False)
class Run:
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
    lines: int = 0
    """Of output."""

    def close(self, at: float, exit_code: int | None, how: str) -> None:
        self.end, self.exit_code, self.how = at, exit_code, how


class Runs:
    """Every container of a world, the newest last; of very many, the newest."""

    def __init__(self) -> None:
        self._runs: deque[Run] = deque(maxlen=MAX_RUNS)

    def begin(self, node: NodeRecord, number: int, task: Task, boot: int, at: float) -> Run:
        run = Run(
            attempt=task.attempt,
            job=task.labels.get("job", ""),
            node=node.name,
            uid=int(node.message.id),
            number=number,
            worker=task.first_worker + number,
            slice=task.slice,
            boot=boot,
            start=at,
        )
        self._runs.append(run)
        return run

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def shown(self) -> list[dict[str, Any]]:
        return [asdict(run) for run in self._runs]

    def clear(self) -> None:
        self._runs.clear()
