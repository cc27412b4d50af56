"""What a worker reports of its own activity, and the readings that it makes. Pure.

It is a claim by a process on that machine, never proof. One report tells of the whole time since
the meter began to watch, so a report that is lost costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.domain import claims
from service.domain.idle.proof import Host
from service.domain.idle.signal import HOST_BYTES, HOST_PERCENT, Kind, Reading

REPORT, ACTIVITY = "report", "activity"
"""The keys under which the supervisor and the meter of a worker write."""

MAX_REPORT_BYTES, MAX_ACTIVITY_BYTES = 256 * 1024, 16 * 1024
"""Google's limit for a value, and several times of what a meter writes; longer ones are not read.
"""

AHEAD_SECONDS = 5
"""A report that is dated further ahead of our clock counts for nothing. It would look new for as
long as that time has not come, though its meter died long ago."""

_LONGEST_HOLDER = 300
_INSTANCE = re.compile(r"[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkerActivity:
    """What was seen on a worker from `watched_from` until `at`, in whole UTC seconds of its clock
    and of one boot.

    `holder` is the process that holds a device, in words. `device_free_since` is None while one
    does; the others are None while a core or the network is at work.
    """

    watched_from: int
    at: int
    holder: str = ""
    device_free_since: int | None = None
    cpu_quiet_since: int | None = None
    network_quiet_since: int | None = None
    sessions: int = 0
    """Connections by ssh of people who are logged in."""
    containers: int = 0
    """Running containers that are not those of jobs."""
    restarts: int = 0
    """The most restarts of one container within ten minutes."""
    boot: str = ""

    @property
    def host(self) -> Host:
        """What it shows of the worker at its end."""
        return Host(self.at, self.holder, self.sessions, self.containers, self.restarts, self.boot)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What one worker has written: the id of its instance, empty where it names none, and its
    activity in the boot that its supervisor reports; None where there is none of that boot.
    `is_ahead` says that it is dated in the future, and therefore not read."""

    instance: str = ""
    activity: WorkerActivity | None = None
    is_ahead: bool = False


def parse_worker(values: Mapping[str, str], now: int, since: int = 0) -> WorkerReport:
    """Read what a worker has written; any process on it can write any text. Nothing counts from
    before `since`, when its node came up, nor from before the boot."""
    report = _document(values.get(REPORT, ""), MAX_REPORT_BYTES)
    activity = _document(values.get(ACTIVITY, ""), MAX_ACTIVITY_BYTES)
    boot, instance = claims.text(report, "boot", 80), claims.text(report, "instance", 40)
    is_of_boot = bool(boot) and activity.get("v") == 1 and activity.get("boot") == boot
    since = max(since, claims.instant(report, "boot_at", now) or 0)
    is_ahead = is_of_boot and (claims.whole(activity, "at") or 0) > now + AHEAD_SECONDS
    return WorkerReport(
        instance if _INSTANCE.fullmatch(instance) else "",
        parse_activity(activity, now, since) if is_of_boot and not is_ahead else None,
        is_ahead,
    )


def _document(text: str, longest: int) -> Mapping[str, Any]:
    """The object that a text holds; empty for anything else."""
    if len(text) > longest:
        return {}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def parse_activity(
    document: Mapping[str, Any], now: int, boot_at: int | None = None
) -> WorkerActivity | None:
    """The activity in a report; None where there is none, or it makes no sense.

    No instant is later than `now`, and nothing counts from before `boot_at`.
    """
    first, at = claims.instant(document, "from", now), claims.instant(document, "at", now)
    if first is None or at is None:
        return None
    first = max(first, boot_at or 0)
    if first > at:
        return None
    holder = claims.text(document, "holder", _LONGEST_HOLDER)

    def since(name: str) -> int | None:
        value = claims.instant(document, name, at)
        return None if value is None else max(value, first)

    return WorkerActivity(
        watched_from=first,
        at=at,
        holder=holder,
        device_free_since=None if holder else since("device_free_since"),
        cpu_quiet_since=since("cpu_quiet_since"),
        network_quiet_since=since("network_quiet_since"),
        sessions=claims.whole(document, "sessions") or 0,
        containers=claims.whole(document, "containers") or 0,
        restarts=claims.whole(document, "restarts") or 0,
        boot=claims.text(document, "boot", 80),
    )


def readings_of(worker: int, activity: WorkerActivity) -> Sequence[Reading]:
    """The readings of a worker in its activity: at rest over the whole time that was watched and
    quiet, else at work in the last second, as work now says nothing of the time before. What came
    to rest while it was watched was at work just before: a burst between two reports counts."""
    return tuple(_readings(worker, activity))


def _readings(worker: int, activity: WorkerActivity) -> Iterator[Reading]:
    first, at = activity.watched_from, activity.at
    for kind, since, at_work in (
        (Kind.DEVICE, activity.device_free_since, 1.0),
        (Kind.REPORTED_CPU, activity.cpu_quiet_since, HOST_PERCENT + 1),
        (Kind.REPORTED_NETWORK, activity.network_quiet_since, HOST_BYTES + 1),
    ):
        if since is None:
            yield Reading(worker, kind, at - 1, at, at_work)
            continue
        if since > first:
            yield Reading(worker, kind, since - 1, since, at_work)
        if since < at:
            yield Reading(worker, kind, since, at, 0.0)
