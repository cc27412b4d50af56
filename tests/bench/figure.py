"""One figure, with what was promised of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, in which unit, and the bound that it has to keep."""

    name: str
    value: float
    bound: float
    at_least: bool = False
    detail: str = ""

    @property
    def kept(self) -> bool:
        """Whether the promise is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "ok " if self.kept else "MISS"
        line = f"{verdict}  {self.name:<58} {self.value:8.3f}  (promised {sign} {self.bound:g})"
        return f"{line}\n      {self.detail}" if self.detail else line


def median_of(runs: int, work: Callable[[], object], timer: Callable[[], float]) -> float:
    """The median of several runs by a timer, in its unit."""
    found = []
    for _ in range(runs):
        start = timer()
        work()
        found.append(timer() - start)
    return statistics.median(found)


def wall(runs: int, work: Callable[[], object]) -> float:
    """The median wall time of several runs, in seconds."""
    return median_of(runs, work, time.perf_counter)
