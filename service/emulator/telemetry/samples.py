"""The value of each metric at a moment, out of what is known of a worker and its chips."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from service.emulator.nodes.activity import ActivityRun, Course, chips_per_worker
from service.emulator.nodes.nodes import NodeRecord

PERIOD = 60
"""Seconds between two points of a series, and what a point sums up."""
GIB = 2**30
HBM_GIB = {"v2": 16, "v3": 32, "v4": 32, "v5e": 16, "v5p": 95, "v6e": 32}
# A model keeps TensorCores and memory busy for only a part of the time that a chip is at work.
TENSORCORE_SHARE = 0.25
BANDWIDTH_SHARE = 0.4
HBM_SHARE = 0.75


@dataclass(frozen=True)
class Spot:
    """One chip, core or host during one run, which a series follows."""

    record: NodeRecord
    run: ActivityRun
    worker: int
    part: int | None = None
    parts: int = 1

    def course(self, key: str) -> Course:
        chip = self.part if key in CHIP_KEYS else None
        return self.record.activity.course(self.run, key, self.worker, chip)

    def noise(self, what: str, at: float) -> float:
        """Give a number from 0 to 1 that is always the same for the same place and minute."""
        where = f"{self.record.message.id}/{self.worker}/{self.part}/{what}/{int(at)}"
        return zlib.crc32(where.encode()) / 2**32


CHIP_KEYS = {"duty_cycle", "tensorcore", "memory_bandwidth", "hbm"}
Sample = Callable[[float], float | None]


def sampler(path: str, spot: Spot) -> Sample:
    """Give what answers the value of a metric at the end of a period, None for no point."""
    return SAMPLERS[path](spot)


def _duty_cycle(spot: Spot) -> Sample:
    """An accelerator that never started has no duty cycle, not one of zero."""
    course = spot.course("duty_cycle")
    return lambda at: course.mean(at - PERIOD, at)


def _of_duty(key: str, share: float) -> Callable[[Spot], Sample]:
    """Measure what was told, or a share of the duty cycle, or the murmur of an idle chip."""

    def start(spot: Spot) -> Sample:
        told, duty = spot.course(key), spot.course("duty_cycle")

        def sample(at: float) -> float:
            known = told.mean(at - PERIOD, at)
            if known is None:
                busy = duty.mean(at - PERIOD, at)
                known = None if busy is None else busy * share
            return 0.4 * spot.noise(key, at) if known is None else known

        return sample

    return start


def _hbm_used(spot: Spot) -> Sample:
    told, duty = spot.course("hbm"), spot.course("duty_cycle")
    total = _hbm_total(spot.record)

    def sample(at: float) -> float | None:
        known, busy = told.at(at), duty.at(at)
        if known is None and busy is not None:
            return total * HBM_SHARE if busy else 0.0
        return known

    return sample


def _hbm_size(spot: Spot) -> Sample:
    used, total = _hbm_used(spot), _hbm_total(spot.record)
    return lambda at: None if used(at) is None else total


def _hbm_total(record: NodeRecord) -> float:
    return float(HBM_GIB[record.accelerator.generation] * GIB)


def _cpu(spot: Spot) -> Sample:
    """Fill one core after the other, so that the sum over cores is what was told."""
    course = spot.course("cpu")
    core, cores = spot.part or 0, spot.parts

    def sample(at: float) -> float:
        told = course.mean(at - PERIOD, at)
        total = 1.0 + 2.0 * _host_noise(spot, "cpu", at) if told is None else told
        if total > 100.0 * cores:
            return total / cores
        return min(100.0, max(0.0, total - 100.0 * core))

    return sample


def _memory(spot: Spot) -> Sample:
    course = spot.course("memory")

    def sample(at: float) -> float:
        told = course.at(at)
        return (2.0 + spot.noise("memory", at)) * GIB if told is None else told

    return sample


def _bytes(key: str) -> Callable[[Spot], Sample]:
    def start(spot: Spot) -> Sample:
        course = spot.course(key)

        def sample(at: float) -> float:
            told = course.mean(at - PERIOD, at)
            rate = 500.0 + 2500.0 * spot.noise(key, at) if told is None else told
            return rate * PERIOD

        return sample

    return start


def _uptime(spot: Spot) -> Sample:
    return lambda at: at - spot.run.start


def _idle(spot: Spot) -> Sample:
    """Count the seconds since a TensorCore was last at work, or since the machine came up."""
    told, duty = spot.course("tensorcore"), spot.course("duty_cycle")

    def sample(at: float) -> float:
        last = [each.last_above(0.0, at) for each in (told, duty)]
        return at - max(moment for moment in (spot.run.start, *last) if moment is not None)

    return sample


def _scheduled(spot: Spot) -> Sample:
    chips = chips_per_worker(spot.record)
    return lambda _: chips


def _chips_above_zero(key: str) -> Callable[[Spot], Sample]:
    """Count the chips of a worker that were at work."""

    def start(spot: Spot) -> Sample:
        chips = range(chips_per_worker(spot.record))
        courses = [replace(spot, part=chip).course(key) for chip in chips]
        return lambda at: sum((one.mean(at - PERIOD, at) or 0) > 0 for one in courses)

    return start


def _host_noise(spot: Spot, what: str, at: float) -> float:
    return Spot(spot.record, spot.run, spot.worker).noise(what, at)


SAMPLERS: dict[str, Callable[[Spot], Sample]] = {
    "accelerator/duty_cycle": _duty_cycle,
    "accelerator/memory_bandwidth_utilization": _of_duty("memory_bandwidth", BANDWIDTH_SHARE),
    "accelerator/memory_total": _hbm_size,
    "accelerator/memory_used": _hbm_used,
    "accelerator/tensorcore_utilization": _of_duty("tensorcore", TENSORCORE_SHARE),
    "cpu/utilization": _cpu,
    "instance/tpu/active_chips": _chips_above_zero("duty_cycle"),
    "instance/tpu/scheduled_chips": _scheduled,
    "instance/tpu/utilized_chips": _chips_above_zero("tensorcore"),
    "instance/uptime_total": _uptime,
    "memory/usage": _memory,
    "network/received_bytes_count": _bytes("received"),
    "network/sent_bytes_count": _bytes("sent"),
    "tpu/mxu/utilization": _of_duty("tensorcore", TENSORCORE_SHARE),
    "tpu/tensorcore/idle_duration": _idle,
}
