"""What a program on a worker sees of it: who holds the chips, how busy cores and network are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.emulator.nodes.activity import ActivityRun, Course, chips_per_worker
from service.emulator.nodes.nodes import NodeRecord

IDLE_CPU = 2.0
"""Percent of a core that a host needs of which nobody said anything."""
IDLE_BYTES = 1_000.0

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Observed:
    """One moment of a worker: `cpu` is percent over all cores, `network` bytes a second; `restarts`
    are those of one container in ten minutes."""

    is_held: bool = False
    cpu: float = IDLE_CPU
    network: float = IDLE_BYTES
    sessions: int = 0
    containers: int = 0
    restarts: int = 0


class Observer:
    """Sees one worker in its present run; of a node that has never been up, nothing at all."""

    def __init__(self, record: NodeRecord, worker: int) -> None:
        self._record = record
        self._worker = worker

    def at(self, moment: float) -> Observed:
        """What is to be seen at a moment."""
        run = self._run()
        if run is None:
            return Observed()
        told = {key: self._course(run, key).at(moment) for key in COUNTS}
        network = _value([course.at(moment) for course in self._network(run)], IDLE_BYTES)
        cpu = told["cpu"]
        return Observed(
            is_held=holds([course.at(moment) for course in self._device(run)]),
            cpu=IDLE_CPU if cpu is None else cpu,
            network=network,
            **{key: int(told[key] or 0) for key in ("sessions", "containers", "restarts")},
        )

    def held_until(self, moment: float) -> float | None:
        """When a chip was last held, at the latest `moment`; None for never in this run."""
        run = self._run()
        return None if run is None else last_time(self._device(run), holds, moment)

    def busy_until(self, moment: float, percent: float) -> float | None:
        """When the busiest core was last above so many percent."""
        run = self._run()

        def is_busy(values: Values) -> bool:
            return _value(values, IDLE_CPU) > percent

        return None if run is None else last_time([self._course(run, "cpu")], is_busy, moment)

    def sent_until(self, moment: float, rate: float) -> float | None:
        """When the network was last above so many bytes a second."""
        run = self._run()

        def is_busy(values: Values) -> bool:
            return _value(values, IDLE_BYTES) > rate

        return None if run is None else last_time(self._network(run), is_busy, moment)

    def _run(self) -> ActivityRun | None:
        runs = self._record.activity.runs
        return runs[-1] if runs else None

    def _course(self, run: ActivityRun, key: str, chip: int | None = None) -> Course:
        return self._record.activity.course(run, key, self._worker, chip)

    def _device(self, run: ActivityRun) -> list[Course]:
        """What was said of holders, and the work of each chip."""
        chips = range(chips_per_worker(self._record))
        work = [self._course(run, key, chip) for key in WORK for chip in chips]
        return [self._course(run, "held"), *work]

    def _network(self, run: ActivityRun) -> list[Course]:
        return [self._course(run, key) for key in ("received", "sent")]


COUNTS = ("cpu", "sessions", "containers", "restarts")
WORK = ("duty_cycle", "tensorcore")


def holds(values: Values) -> bool:
    """Whether somebody holds the chips: as was said, else whoever keeps one of them at work."""
    said, *work = values
    return said > 0 if said is not None else any(value is not None and value > 0 for value in work)


def last_time(
    courses: Sequence[Course], is_so: Callable[[Values], bool], moment: float
) -> float | None:
    """Until when something was so, at the latest `moment`; None for never."""
    until = moment
    steps = {step.at for course in courses for step in course.steps if step.at <= moment}
    for at in sorted(steps, reverse=True):
        if is_so([course.at(at) for course in courses]):
            return until
        until = at
    return None


def _value(values: Values, otherwise: float) -> float:
    """The sum of what was said; `otherwise` where nothing was."""
    known = [value for value in values if value is not None]
    return sum(known) if known else otherwise
