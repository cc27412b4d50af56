"""The window of time in which a queued resource may be provisioned, from its queueing policy."""

from __future__ import annotations

from dataclasses import replace

from service.emulator.clock import LAST_MOMENT, is_moment, to_timestamp
from service.emulator.errors import ApiError, invalid_argument
from service.emulator.wire import NodeMessage
from service.emulator.world.queue import ValidWindow

# The longest google.protobuf.Duration; JSON cannot represent a longer one.
LONGEST_SECONDS = 315_576_000_000


def window_of(policy: NodeMessage, now: float) -> ValidWindow:
    """Return the window of a policy, in unix seconds; raises ApiError if it is over or empty."""
    which = policy.WhichOneof("start_timing_constraints")
    window = ValidWindow()
    if which == "valid_interval":
        interval, field = policy.valid_interval, "QueueingPolicy.ValidInterval"
        if interval.HasField("start_time"):
            window = ValidWindow(start=_read_moment(interval.start_time, f"{field}.StartTime"))
        if interval.HasField("end_time"):
            window = replace(window, end=_read_moment(interval.end_time, f"{field}.EndTime"))
    elif which is not None:
        field, value = f"QueueingPolicy.{_to_camel_case(which)}", getattr(policy, which)
        is_relative = which.endswith("_duration")
        moment = now + seconds_of(value, field) if is_relative else _read_moment(value, field)
        is_end = which.startswith("valid_until")
        window = ValidWindow(end=moment) if is_end else ValidWindow(start=moment)
    if window.end <= now:
        raise _invalid_field("QueueingPolicy.ValidUntil", "it lies in the past")
    if window.end <= window.start:
        raise _invalid_field("QueueingPolicy.ValidInterval", "it ends before it begins")
    return window


def seconds_of(duration: NodeMessage, field: str) -> float:
    """Return a duration in seconds; raises ApiError if it is negative or too long."""
    seconds = float(duration.seconds + duration.nanos / 1e9)
    if not 0 <= seconds <= LONGEST_SECONDS or not 0 <= duration.nanos < 1_000_000_000:
        raise _invalid_field(field, "it is not a duration from 0 seconds")
    return seconds


def resolve_durations(policy: NodeMessage, now: float) -> None:
    """Add the moment of a relative time to a policy, as Google shows it.

    This was seen for the end of the window; for its start it is assumed.
    """
    for which in ("valid_until", "valid_after"):
        relative, moment = f"{which}_duration", f"{which}_time"
        if policy.HasField(relative):
            field = f"QueueingPolicy.{_to_camel_case(relative)}"
            seconds = seconds_of(getattr(policy, relative), field)
            getattr(policy, moment).CopyFrom(to_timestamp(min(now + seconds, LAST_MOMENT)))


def _read_moment(moment: NodeMessage, field: str) -> float:
    if not is_moment(moment):
        raise _invalid_field(field, "it is not a moment from year 1 to year 9999")
    return float(moment.seconds + moment.nanos / 1e9)


def _to_camel_case(field: str) -> str:
    return field.title().replace("_", "")


def _invalid_field(field: str, why: str) -> ApiError:
    return invalid_argument(f'The field "{field}" cannot be accepted: {why}.')
