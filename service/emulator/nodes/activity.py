"""The activity of a node's hosts and chips over time: recorded as it happens, read for any moment.

A node without recorded activity is an idle machine whose accelerator never started.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from operator import attrgetter
from typing import Any, Protocol

from service.emulator.catalog import Accelerator
from service.emulator.validation import invalid_value, parse_number

# The quantities that can be recorded, each with its highest value.
HIGHEST: Mapping[str, float] = {
    # Percent, of a chip. The first record of one of these quantities starts the accelerator.
    "duty_cycle": 100.0,
    "tensorcore": 100.0,
    "memory_bandwidth": 100.0,
    # Bytes, of a chip's HBM.
    "hbm": 1e12,
    # Percent, of a worker; the sum over many cores may exceed 100.
    "cpu": 100_000.0,
    # Bytes, of a worker.
    "memory": 1e14,
    # Bytes a second, of a worker.
    "received": 1e12,
    "sent": 1e12,
    # Whether a process holds the chips of a worker, 0 or 1. Without a record, a working chip is
    # held.
    "held": 1.0,
    # Of a worker: ssh sessions, containers outside of jobs, and the restarts of one of these
    # containers in ten minutes.
    "sessions": 100.0,
    "containers": 100.0,
    "restarts": 600.0,
}
# The number of steps kept of one quantity; beyond it, the oldest quarter is dropped.
MAX_STEPS = 4096

Scope = tuple[int | None, int | None]
"""A worker and a chip in it; None for all of them."""
WHOLE: Scope = (None, None)
_at = attrgetter("at")


@dataclass(frozen=True, order=True)
class ActivityStep:
    """A quantity's value from `at` on; of two steps at one moment, the later record counts."""

    at: float
    order: int
    value: float


@dataclass(frozen=True, slots=True)
class ActivityRun:
    """The time from a boot to the machine's end, in unix seconds; `end` is None while it is up.

    `floor` is the end of the previous run: activity recorded before it belongs to that run.
    """

    start: float
    end: float | None
    floor: float


@dataclass(frozen=True)
class Interruption:
    """A loss of the hardware; `type` and `reason` are labels of the metric."""

    at: float
    type: str
    reason: str


@dataclass(frozen=True)
class Course:
    """One quantity during one run: its steps in time order. Before the first, it is unknown."""

    steps: tuple[ActivityStep, ...]

    def value_at(self, moment: float) -> float | None:
        """Return the value at a moment; None if it is unknown."""
        index = bisect_right(self.steps, moment, key=_at)
        return self.steps[index - 1].value if index else None

    def mean_over(self, start: float, end: float, otherwise: float = 0.0) -> float | None:
        """Return the mean over a span; an unknown value counts as `otherwise`.

        None if the whole span is unknown.
        """
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
        return total / (end - start) if end > start else self.value_at(end)

    def last_above(self, threshold: float, moment: float) -> float | None:
        """Return the last time, up to `moment`, at which the quantity was above a threshold.

        None if it never was.
        """
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
    """The recorded activity of one node, and the times at which its machines were up."""

    runs: list[ActivityRun] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)
    since: float = 0.0
    """Activity before this time has been dropped."""
    observers: list[Callable[[float], None]] = field(default_factory=list)
    """Called with the time of each recorded change."""
    _told: dict[str, dict[Scope, list[ActivityStep]]] = field(default_factory=dict)
    _order: count[int] = field(default_factory=count)
    _courses: dict[tuple[str, Scope, float], Course] = field(default_factory=dict)

    def record_changes(self, at: float, changes: Mapping[str, float], scope: Scope) -> None:
        """Record new values from `at` on, and notify observers."""
        self._courses.clear()
        for key, value in changes.items():
            steps = self._told.setdefault(key, {}).setdefault(scope, [])
            insort(steps, ActivityStep(at, next(self._order), float(value)))
            if len(steps) > MAX_STEPS:
                del steps[: MAX_STEPS // 4]
                self.since = max(self.since, steps[0].at)
        for observer in self.observers:
            observer(at)

    def get_course(
        self, run: ActivityRun, key: str, worker: int, chip: int | None = None
    ) -> Course:
        """Return a quantity of a worker, or of one of its chips, during a run.

        Values of the node, of the worker and of the chip are merged: the latest one counts.
        """
        place = key, (worker, chip), run.floor
        if place not in self._courses:
            told = self._told.get(key, {})
            scopes = {WHOLE, (worker, None), (worker, chip)}
            steps = sorted(step for scope in scopes for step in told.get(scope, ()))
            # A value at the moment of a machine's end belongs to its run, not to the next one.
            self._courses[place] = Course(tuple(step for step in steps if step.at > run.floor))
        return self._courses[place]

    def follow_state(self, before: str, after: str, at: float) -> None:
        """Follow a node's change of state: its machines are up only while READY."""
        if before == "READY" and self.runs and self.runs[-1].end is None:
            last = self.runs[-1]
            self.runs[-1] = ActivityRun(last.start, at, last.floor)
        if after == "READY":
            floor = self.runs[-1].end if self.runs else None
            self.runs.append(ActivityRun(at, None, -1.0 if floor is None else floor))

    def as_dict(self) -> dict[str, Any]:
        """Return the latest values: of the whole node by key, of its parts under `parts`."""
        last = {
            scope: {
                key: scopes[scope][-1].value
                for key, scopes in sorted(self._told.items())
                if scope in scopes
            }
            for scope in {scope for scopes in self._told.values() for scope in scopes}
        }
        whole: dict[str, Any] = dict(last.pop(WHOLE, {}))
        if last:
            whole["parts"] = [
                {"worker": worker, "chip": chip, **values}
                for (worker, chip), values in sorted(last.items(), key=lambda item: str(item[0]))
            ]
        return whole


class Subject(Protocol):
    """A node with activity, as far as this module reads it."""

    @property
    def name(self) -> str: ...

    @property
    def accelerator(self) -> Accelerator: ...

    @property
    def activity(self) -> Activity: ...


def record_activity(
    node: Subject,
    at: float,
    changes: Mapping[str, float],
    worker: int | None = None,
    chip: int | None = None,
) -> None:
    """Record the activity of a node from `at` on, until the next record or its machine's end.

    Keys and highest values are those of `HIGHEST`. A chip has its number within its worker or,
    without a worker, within the slice. Raises ApiError.
    """
    for key, value in changes.items():
        check_value(key, value)
    chips = chips_per_worker(node)
    if worker is None and chip is not None:
        worker, chip = divmod(chip, chips)
    if worker is not None and not 0 <= worker < node.accelerator.hosts:
        raise invalid_value(
            f"{node.name} has workers 0 to {node.accelerator.hosts - 1}, not {worker}"
        )
    if chip is not None and not 0 <= chip < chips:
        raise invalid_value(f"a worker of {node.name} has chips 0 to {chips - 1}, not {chip}")
    node.activity.record_changes(at, changes, (worker, chip))


def chips_per_worker(node: Subject) -> int:
    return node.accelerator.chips // node.accelerator.hosts


def check_value(key: str, value: object) -> float:
    """Return a value that may be recorded under a key; raises ApiError."""
    if key not in HIGHEST:
        raise invalid_value(f"unknown activity {key}; known: {', '.join(HIGHEST)}")
    return parse_number(value, key, 0, HIGHEST[key])
