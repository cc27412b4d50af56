"""What the hosts and chips of a node did over time: told as it happens, known for any moment.

A node that nobody told anything of is an idle machine whose accelerator never started.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from operator import attrgetter
from typing import Any, Protocol

from service.emulator.catalog import Accelerator
from service.emulator.validation import number, refusal

# What can be noted, each with its highest value.
HIGHEST: Mapping[str, float] = {
    # Percent, of a chip. The first note of one of these starts the accelerator.
    "duty_cycle": 100.0,
    "tensorcore": 100.0,
    "memory_bandwidth": 100.0,
    # Bytes, of a chip's HBM.
    "hbm": 1e12,
    # Percent, of a worker; the utilization of many cores may add up to more than 100.
    "cpu": 100_000.0,
    # Bytes, of a worker.
    "memory": 1e14,
    # Bytes a second, of a worker.
    "received": 1e12,
    "sent": 1e12,
    # Whether a process holds the chips of a worker, 0 or 1; else whoever keeps one at work does.
    "held": 1.0,
    # People who are logged in by ssh, containers that are of no job, and how often one of those is
    # restarted in ten minutes; of a worker.
    "sessions": 100.0,
    "containers": 100.0,
    "restarts": 600.0,
}
# How many steps of one quantity are kept; the oldest quarter goes when they are more.
MAX_STEPS = 4096

Scope = tuple[int | None, int | None]
"""A worker and a chip in it; None for all of them."""
WHOLE: Scope = (None, None)
_at = attrgetter("at")


@dataclass(frozen=True, order=True)
class ActivityStep:
    """From `at` on the quantity has this value; of two at one moment the later told counts."""

    at: float
    order: int
    value: float


@dataclass(frozen=True, slots=True)
class ActivityRun:
    """The time from a boot until the machine is gone, None while it is up.

    `floor` is where the previous run ended: what was told before that died with it.
    """

    start: float
    end: float | None
    floor: float


@dataclass(frozen=True)
class Interruption:
    """A moment at which the hardware was taken away, in the words of the metric."""

    at: float
    type: str
    reason: str


@dataclass(frozen=True)
class Course:
    """How one quantity went during one run: steps in time order, unknown before the first."""

    steps: tuple[ActivityStep, ...]

    def at(self, moment: float) -> float | None:
        index = bisect_right(self.steps, moment, key=_at)
        return self.steps[index - 1].value if index else None

    def mean(self, start: float, end: float, otherwise: float = 0.0) -> float | None:
        """Average over a span, `otherwise` where nothing is known; None if nothing is at all."""
        if not self.steps or self.steps[0].at > end:
            return None
        if self.steps[-1].at <= start:
            return self.steps[-1].value
        low = bisect_right(self.steps, start, key=_at)
        high = bisect_left(self.steps, end, low, key=_at)
        before = self.steps[low - 1].value if low else otherwise
        edges = [(start, before), *((step.at, step.value) for step in self.steps[low:high])]
        spans = pairwise([*edges, (end, 0.0)])
        total = sum(value * (later - at) for (at, value), (later, _) in spans)
        return total / (end - start) if end > start else self.at(end)

    def last_above(self, threshold: float, moment: float) -> float | None:
        """Say when the quantity was last above a threshold, at the latest now; None for never."""
        until = moment
        for step in reversed(self.steps):
            if step.at > moment:
                continue
            if step.value > threshold:
                return until
            until = step.at
        return None


@dataclass(slots=True)
class Activity:
    """Everything told about one node, and when its machines were up."""

    runs: list[ActivityRun] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)
    since: float = 0.0
    """What happened before is forgotten."""
    observers: list[Callable[[float], None]] = field(default_factory=list)
    """Told the moment from which on something is so."""
    _told: dict[str, dict[Scope, list[ActivityStep]]] = field(default_factory=dict)
    _order: count[int] = field(default_factory=count)
    _courses: dict[tuple[str, Scope, float], Course] = field(default_factory=dict)

    def tell(self, at: float, changes: Mapping[str, float], scope: Scope) -> None:
        self._courses.clear()
        for key, value in changes.items():
            steps = self._told.setdefault(key, {}).setdefault(scope, [])
            insort(steps, ActivityStep(at, next(self._order), float(value)))
            if len(steps) > MAX_STEPS:
                del steps[: MAX_STEPS // 4]
                self.since = max(self.since, steps[0].at)
        for told in self.observers:
            told(at)

    def course(self, run: ActivityRun, key: str, worker: int, chip: int | None = None) -> Course:
        """Give what counts for a worker, or one of its chips, during a run; the last word wins."""
        place = key, (worker, chip), run.floor
        if place not in self._courses:
            self._courses[place] = self._course(run, key, worker, chip)
        return self._courses[place]

    def _course(self, run: ActivityRun, key: str, worker: int, chip: int | None) -> Course:
        told = self._told.get(key, {})
        scopes = {WHOLE, (worker, None), (worker, chip)}
        steps = sorted(step for scope in scopes for step in told.get(scope, ()))
        # At the very moment a machine went down is not yet told of the next one.
        return Course(tuple(step for step in steps if step.at > run.floor))

    def moved(self, before: str, after: str, at: float) -> None:
        """Follow the node: its machines are up while it is READY, and boot anew each time."""
        if before == "READY" and self.runs and self.runs[-1].end is None:
            last = self.runs[-1]
            self.runs[-1] = ActivityRun(last.start, at, last.floor)
        if after == "READY":
            floor = self.runs[-1].end if self.runs else None
            self.runs.append(ActivityRun(at, None, -1.0 if floor is None else floor))

    def shown(self) -> dict[str, Any]:
        """Show what was told last: of the whole node by key, of its parts under `parts`."""
        last = {
            scope: {
                key: scopes[scope][-1].value
                for key, scopes in sorted(self._told.items())
                if scope in scopes
            }
            for scope in self._scopes()
        }
        whole: dict[str, Any] = dict(last.pop(WHOLE, {}))
        if last:
            whole["parts"] = [
                {"worker": worker, "chip": chip, **values}
                for (worker, chip), values in sorted(last.items(), key=lambda each: str(each[0]))
            ]
        return whole

    def _scopes(self) -> Iterable[Scope]:
        return {scope for scopes in self._told.values() for scope in scopes}


class Subject(Protocol):
    """A node whose activity is told, as far as this module reads it."""

    @property
    def name(self) -> str: ...

    @property
    def accelerator(self) -> Accelerator: ...

    @property
    def activity(self) -> Activity: ...


def note(
    node: Subject,
    at: float,
    changes: Mapping[str, float],
    worker: int | None = None,
    chip: int | None = None,
) -> None:
    """Say what a node does from a moment on, until told otherwise or until its machine goes down.

    Keys and highest values are those of `HIGHEST`. A chip is counted within its worker or, where
    no worker is named, within the slice. Raises ApiError.
    """
    for key, value in changes.items():
        check(key, value)
    node.activity.tell(at, changes, _scope(node, worker, chip))


def chips_per_worker(node: Subject) -> int:
    return node.accelerator.chips // node.accelerator.hosts


def _scope(node: Subject, worker: int | None, chip: int | None) -> Scope:
    each = chips_per_worker(node)
    if worker is None and chip is not None:
        worker, chip = divmod(chip, each)
    if worker is not None and not 0 <= worker < node.accelerator.hosts:
        raise refusal(f"{node.name} has workers 0 to {node.accelerator.hosts - 1}, not {worker}")
    if chip is not None and not 0 <= chip < each:
        raise refusal(f"a worker of {node.name} has chips 0 to {each - 1}, not {chip}")
    return worker, chip


def check(key: str, value: object) -> float:
    """Read a value that may be noted under a key; raises ApiError."""
    if key not in HIGHEST:
        raise refusal(f"unknown activity {key}; known: {', '.join(HIGHEST)}")
    return number(value, key, 0, HIGHEST[key])
