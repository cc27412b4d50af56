"""The state of a worker as a program on it sees it: the holder of the chips, cores, network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.emulator.nodes.activity import ActivityRun, Course, chips_per_worker
from service.emulator.nodes.nodes import NodeRecord

IDLE_CPU = 2.0
"""Percent of a core that a host without recorded activity needs."""
IDLE_BYTES = 1_000.0

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Observed:
    """One moment of a worker: `cpu` is percent over all cores, `network` is bytes per second.

    `restarts` are those of one container in ten minutes.
    """

    is_held: bool = False
    cpu: float = IDLE_CPU
    network: float = IDLE_BYTES
    sessions: int = 0
    containers: int = 0
    restarts: int = 0


class Observer:
    """Observes one worker in its present run; a node that was never up shows no activity."""

    def __init__(self, record: NodeRecord, worker: int) -> None:
        self._record = record
        self._worker = worker

    def observe_at(self, moment: float) -> Observed:
        """Return the state of the worker at a moment."""
        run = self._present_run()
        if run is None:
            return Observed()
        told = {key: self._get_course(run, key).value_at(moment) for key in COUNTS}
        rates = [course.value_at(moment) for course in self._network_courses(run)]
        network = _sum_known(rates, IDLE_BYTES)
        cpu = told["cpu"]
        return Observed(
            is_held=are_chips_held(
                [course.value_at(moment) for course in self._device_courses(run)]
            ),
            cpu=IDLE_CPU if cpu is None else cpu,
            network=network,
            **{key: int(told[key] or 0) for key in ("sessions", "containers", "restarts")},
        )

    def held_until(self, moment: float) -> float | None:
        """Return the last time, up to `moment`, at which a chip was held; None for never in
        the present run."""
        run = self._present_run()
        return None if run is None else last_time(self._device_courses(run), are_chips_held, moment)

    def busy_until(self, moment: float, percent: float) -> float | None:
        """Return the last time, up to `moment`, at which the CPU was above `percent`; None for
        never in the present run."""
        run = self._present_run()

        def is_busy(values: Values) -> bool:
            return _sum_known(values, IDLE_CPU) > percent

        return None if run is None else last_time([self._get_course(run, "cpu")], is_busy, moment)

    def sent_until(self, moment: float, rate: float) -> float | None:
        """Return the last time, up to `moment`, at which the network was above `rate` bytes a
        second.

        None if it never was in the present run.
        """
        run = self._present_run()

        def is_busy(values: Values) -> bool:
            return _sum_known(values, IDLE_BYTES) > rate

        return None if run is None else last_time(self._network_courses(run), is_busy, moment)

    def _present_run(self) -> ActivityRun | None:
        runs = self._record.activity.runs
        return runs[-1] if runs else None

    def _get_course(self, run: ActivityRun, key: str, chip: int | None = None) -> Course:
        return self._record.activity.get_course(run, key, self._worker, chip)

    def _device_courses(self, run: ActivityRun) -> list[Course]:
        """Return the recorded holder of the chips, followed by the work of each chip."""
        chips = range(chips_per_worker(self._record))
        work = [self._get_course(run, key, chip) for key in WORK for chip in chips]
        return [self._get_course(run, "held"), *work]

    def _network_courses(self, run: ActivityRun) -> list[Course]:
        return [self._get_course(run, key) for key in ("received", "sent")]


COUNTS = ("cpu", "sessions", "containers", "restarts")
WORK = ("duty_cycle", "tensorcore")


def are_chips_held(values: Values) -> bool:
    """Whether a process holds the chips: as recorded or, without a record, if a chip works.

    The first value is the record, the others are the work of the chips.
    """
    said, *work = values
    return said > 0 if said is not None else any(value is not None and value > 0 for value in work)


def last_time(
    courses: Sequence[Course], is_so: Callable[[Values], bool], moment: float
) -> float | None:
    """Return the last time, up to `moment`, at which `is_so` was true; None for never."""
    until = moment
    steps = {step.at for course in courses for step in course.steps if step.at <= moment}
    for at in sorted(steps, reverse=True):
        if is_so([course.value_at(at) for course in courses]):
            return until
        until = at
    return None


def _sum_known(values: Values, otherwise: float) -> float:
    """Return the sum of the known values; `otherwise` if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else otherwise
