"""Time series in the hand: asked for and taken apart."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.errors import ApiError
from service.emulator.nodes.activity import record_activity
from tests.emulator.factories import Cloud

DUTY = "accelerator/duty_cycle"
GAUGE, DELTA = 1, 2
INT64, DOUBLE = 2, 3
ON_TIME = {"delay_seconds": 0}


def filter_of(metric: str, *more: str) -> str:
    return " AND ".join([f'metric.type = "tpu.googleapis.com/{metric}"', *more])


def ask(cloud: Cloud, text: str, seconds: float = 900, **fields):
    """Ask for the last so many seconds."""
    now = int(cloud.now)
    interval = {"start_time": {"seconds": now - int(seconds)}, "end_time": {"seconds": now}}
    return cloud.ask(
        "ListTimeSeries", **{"name": "projects/lab", "filter": text, "interval": interval, **fields}
    )


def listed(cloud: Cloud, metric: str, *more: str, **fields) -> list[Any]:
    return list(ask(cloud, filter_of(metric, *more), **fields).time_series)


def values(series) -> list[float]:
    field = "int64_value" if series.value_type == INT64 else "double_value"
    return [getattr(point.value, field) for point in series.points]


def ends(series) -> list[int]:
    return [point.interval.end_time.seconds for point in series.points]


def refusal(cloud: Cloud, text: str, **fields) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ask(cloud, text, **fields)
    return caught.value


def busy(cloud: Cloud, name: str, **changes: float) -> None:
    record_activity(cloud.world.nodes[name], cloud.now, changes)
