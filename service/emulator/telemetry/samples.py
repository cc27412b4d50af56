"""The value of each metric at a moment, computed from the activity of a worker and its chips."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from service.emulator.nodes.activity import ActivityRun, Course, chips_per_worker
from service.emulator.nodes.nodes import NodeRecord

PERIOD = 60
"""Seconds between two points of a series, and the span that a point covers."""
GIB = 2**30
HBM_GIB = {"v2": 16, "v3": 32, "v4": 32, "v5e": 16, "v5p": 95, "v6e": 32}
# A model keeps TensorCores and memory busy for only a part of a chip's busy time.
TENSORCORE_SHARE = 0.25
BANDWIDTH_SHARE = 0.4
HBM_SHARE = 0.75


@dataclass(frozen=True)
class Spot:
    """One chip, core or host during one run; the source of a series."""

    record: NodeRecord
    run: ActivityRun
    worker: int
    part: int | None = None
    parts: int = 1

    def get_course(self, key: str) -> Course:
        chip = self.part if key in CHIP_KEYS else None
        return self.record.activity.get_course(self.run, key, self.worker, chip)

    def noise_at(self, what: str, at: float) -> float:
        """Return a number from 0 to 1 that depends only on the place and the second."""
        where = f"{self.record.message.id}/{self.worker}/{self.part}/{what}/{int(at)}"
        return zlib.crc32(where.encode()) / 2**32


CHIP_KEYS = {"duty_cycle", "tensorcore", "memory_bandwidth", "hbm"}
Sample = Callable[[float], float | None]


def make_sampler(path: str, spot: Spot) -> Sample:
    """Return a function of the end of a period: the metric's value, None for no point."""
    return SAMPLERS[path](spot)


def _sample_duty_cycle(spot: Spot) -> Sample:
    """The duty cycle; None (not 0) for an accelerator that never started."""
    course = spot.get_course("duty_cycle")
    return lambda at: course.mean_over(at - PERIOD, at)


def _sample_share_of_duty(key: str, share: float) -> Callable[[Spot], Sample]:
    """The configured course, else a share of the duty cycle, else the noise of an idle chip."""

    def make_sample(spot: Spot) -> Sample:
        course, duty = spot.get_course(key), spot.get_course("duty_cycle")

        def sample_at(at: float) -> float:
            value = course.mean_over(at - PERIOD, at)
            if value is None:
                busy = duty.mean_over(at - PERIOD, at)
                value = None if busy is None else busy * share
            return 0.4 * spot.noise_at(key, at) if value is None else value

        return sample_at

    return make_sample


def _sample_hbm_used(spot: Spot) -> Sample:
    course, duty = spot.get_course("hbm"), spot.get_course("duty_cycle")
    total = _hbm_total(spot.record)

    def sample_at(at: float) -> float | None:
        value, busy = course.value_at(at), duty.value_at(at)
        if value is None and busy is not None:
            return total * HBM_SHARE if busy else 0.0
        return value

    return sample_at


def _sample_hbm_size(spot: Spot) -> Sample:
    used, total = _sample_hbm_used(spot), _hbm_total(spot.record)
    return lambda at: None if used(at) is None else total


def _hbm_total(record: NodeRecord) -> float:
    return float(HBM_GIB[record.accelerator.generation] * GIB)


def _sample_cpu(spot: Spot) -> Sample:
    """One core of the host. Cores fill one after the other, so that their sum is the course."""
    course = spot.get_course("cpu")
    core, cores = spot.part or 0, spot.parts
    host = Spot(spot.record, spot.run, spot.worker)

    def sample_at(at: float) -> float:
        total = course.mean_over(at - PERIOD, at)
        if total is None:
            total = 1.0 + 2.0 * host.noise_at("cpu", at)
        if total > 100.0 * cores:
            return total / cores
        return min(100.0, max(0.0, total - 100.0 * core))

    return sample_at


def _sample_memory(spot: Spot) -> Sample:
    course = spot.get_course("memory")

    def sample_at(at: float) -> float:
        used = course.value_at(at)
        return (2.0 + spot.noise_at("memory", at)) * GIB if used is None else used

    return sample_at


def _sample_bytes(key: str) -> Callable[[Spot], Sample]:
    def make_sample(spot: Spot) -> Sample:
        course = spot.get_course(key)

        def sample_at(at: float) -> float:
            rate = course.mean_over(at - PERIOD, at)
            if rate is None:
                rate = 500.0 + 2500.0 * spot.noise_at(key, at)
            return rate * PERIOD

        return sample_at

    return make_sample


def _sample_idle_seconds(spot: Spot) -> Sample:
    """Seconds since a TensorCore was last busy, or since the boot of the machine."""
    courses = spot.get_course("tensorcore"), spot.get_course("duty_cycle")

    def sample_at(at: float) -> float:
        last = [course.last_above(0.0, at) for course in courses]
        return at - max(moment for moment in (spot.run.start, *last) if moment is not None)

    return sample_at


def _sample_scheduled_chips(spot: Spot) -> Sample:
    chips = chips_per_worker(spot.record)
    return lambda _: chips


def _sample_busy_chips(key: str) -> Callable[[Spot], Sample]:
    """The number of chips of a worker that were busy."""

    def make_sample(spot: Spot) -> Sample:
        chips = range(chips_per_worker(spot.record))
        courses = [replace(spot, part=chip).get_course(key) for chip in chips]
        return lambda at: sum((course.mean_over(at - PERIOD, at) or 0) > 0 for course in courses)

    return make_sample


SAMPLERS: dict[str, Callable[[Spot], Sample]] = {
    "accelerator/duty_cycle": _sample_duty_cycle,
    "accelerator/memory_bandwidth_utilization": _sample_share_of_duty(
        "memory_bandwidth", BANDWIDTH_SHARE
    ),
    "accelerator/memory_total": _sample_hbm_size,
    "accelerator/memory_used": _sample_hbm_used,
    "accelerator/tensorcore_utilization": _sample_share_of_duty("tensorcore", TENSORCORE_SHARE),
    "cpu/utilization": _sample_cpu,
    "instance/tpu/active_chips": _sample_busy_chips("duty_cycle"),
    "instance/tpu/scheduled_chips": _sample_scheduled_chips,
    "instance/tpu/utilized_chips": _sample_busy_chips("tensorcore"),
    "instance/uptime_total": lambda spot: lambda at: at - spot.run.start,
    "memory/usage": _sample_memory,
    "network/received_bytes_count": _sample_bytes("received"),
    "network/sent_bytes_count": _sample_bytes("sent"),
    "tpu/mxu/utilization": _sample_share_of_duty("tensorcore", TENSORCORE_SHARE),
    "tpu/tensorcore/idle_duration": _sample_idle_seconds,
}
