"""When a queued resource may be provisioned: the queueing policy, read as two moments."""

from __future__ import annotations

import math

from service.emulator.clock import LAST_MOMENT, is_moment, stamp
from service.emulator.errors import ApiError, invalid_argument
from service.emulator.wire import NodeMessage
from service.emulator.world.queue import ValidWindow

# What google.protobuf.Duration may hold; JSON has no words for the rest.
LONGEST_SECONDS = 315_576_000_000


def window_of(policy: NodeMessage, now: float) -> ValidWindow:
    """Read a policy; what is over already is refused."""
    window = _window(policy, now)
    if window.end <= now:
        raise _refused("QueueingPolicy.ValidUntil", "it lies in the past")
    if window.end <= window.start:
        raise _refused("QueueingPolicy.ValidInterval", "it ends before it begins")
    return window


def seconds_of(duration: NodeMessage, field: str) -> float:
    """Read a duration, which must not be negative."""
    seconds = float(duration.seconds + duration.nanos / 1e9)
    if not 0 <= seconds <= LONGEST_SECONDS or not 0 <= duration.nanos < 1_000_000_000:
        raise _refused(field, "it is not a duration from 0 seconds")
    return seconds


def fix(policy: NodeMessage, now: float) -> None:
    """Turn what is said in seconds from now into a moment: so it is shown, as Google was seen to.

    Only the end was seen; the beginning is taken to be shown alike.
    """
    for which in ("valid_until", "valid_after"):
        relative, moment = f"{which}_duration", f"{which}_time"
        if policy.HasField(relative):
            seconds = seconds_of(getattr(policy, relative), f"QueueingPolicy.{_camel(relative)}")
            getattr(policy, moment).CopyFrom(stamp(min(now + seconds, LAST_MOMENT)))


def _window(policy: NodeMessage, now: float) -> ValidWindow:
    which = policy.WhichOneof("start_timing_constraints")
    if which is None:
        return ValidWindow()
    value = getattr(policy, which)
    if which == "valid_interval":
        return _interval(value)
    field = f"QueueingPolicy.{_camel(which)}"
    relative = which.endswith("_duration")
    moment = now + seconds_of(value, field) if relative else _moment(value, field)
    return ValidWindow(end=moment) if which.startswith("valid_until") else ValidWindow(start=moment)


def _interval(interval: NodeMessage) -> ValidWindow:
    start, end = -math.inf, math.inf
    if interval.HasField("start_time"):
        start = _moment(interval.start_time, "QueueingPolicy.ValidInterval.StartTime")
    if interval.HasField("end_time"):
        end = _moment(interval.end_time, "QueueingPolicy.ValidInterval.EndTime")
    return ValidWindow(start, end)


def _moment(stamp: NodeMessage, field: str) -> float:
    if not is_moment(stamp):
        raise _refused(field, "it is not a moment from year 1 to year 9999")
    return float(stamp.seconds + stamp.nanos / 1e9)


def _camel(field: str) -> str:
    return field.title().replace("_", "")


def _refused(field: str, why: str) -> ApiError:
    return invalid_argument(f'The field "{field}" cannot be accepted: {why}.')
