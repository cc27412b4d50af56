"""A worker's report of its own activity, and the readings that are made of it. Pure.

The report is a claim by a process on that machine, never proof. One report is about the whole time
since the meter started, so a lost report loses nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.domain import claims
from service.domain.idle.proof import CRASHES, Host
from service.domain.idle.signals.signal import HOST_BYTES, HOST_PERCENT, Kind, Reading

REPORT, ACTIVITY = "report", "activity"
"""The keys under which the supervisor and the meter of a worker write."""

MAX_REPORT_BYTES, MAX_ACTIVITY_BYTES = 256 * 1024, 16 * 1024
"""Google's limit for a value, and several times the size of a meter's report. Longer values are not
read."""

AHEAD_SECONDS = 5
"""A report that is dated further ahead of our clock does not count. It would look new until that
time, also after its meter has ended."""

RESTART_SECONDS = 600
"""The time before a report in which the meter counts restarts."""

_LONGEST_HOLDER = 300
_INSTANCE = re.compile(r"[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WorkerActivity:
    """The activity of a worker from `watched_from` until `at`, in whole UTC seconds of its clock
    and of one boot.

    `holder` describes the process that holds a device. `device_free_since` is None while a process
    holds it; the others are None while a core or the network is active.
    """

    watched_from: int
    at: int
    holder: str = ""
    device_free_since: int | None = None
    cpu_quiet_since: int | None = None
    network_quiet_since: int | None = None
    sessions: int = 0
    """Open ssh sessions of people."""
    containers: int = 0
    """Running containers that are not of jobs."""
    restarts: int = 0
    """The most restarts of one container within ten minutes."""
    boot: str = ""

    @property
    def host(self) -> Host:
        """The worker at the end of the activity."""
        return Host(self.at, self.holder, self.sessions, self.containers, self.restarts, self.boot)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The report of one worker: the id of its instance, empty without an id, and its activity in
    the boot that its supervisor reports; None without activity of that boot. `is_ahead` says that
    the report is dated in the future, and therefore not read."""

    instance: str = ""
    activity: WorkerActivity | None = None
    is_ahead: bool = False


def parse_worker(values: Mapping[str, str], now: int, since: int = 0) -> WorkerReport:
    """Parse a worker's report of its own activity; any process on the worker can write any text.
    Time before the boot does not count, nor time before `since`, when the node came up."""
    report = _parse_document(values.get(REPORT, ""), MAX_REPORT_BYTES)
    activity = _parse_document(values.get(ACTIVITY, ""), MAX_ACTIVITY_BYTES)
    boot, instance = claims.read_text(report, "boot", 80), claims.read_text(report, "instance", 40)
    is_of_boot = bool(boot) and activity.get("v") == 1 and activity.get("boot") == boot
    since = max(since, claims.read_instant(report, "boot_at", now) or 0)
    is_ahead = is_of_boot and (claims.read_whole_number(activity, "at") or 0) > now + AHEAD_SECONDS
    return WorkerReport(
        instance if _INSTANCE.fullmatch(instance) else "",
        parse_activity(activity, now, since) if is_of_boot and not is_ahead else None,
        is_ahead,
    )


def _parse_document(text: str, longest: int) -> Mapping[str, Any]:
    """The JSON object of a text; empty for other text."""
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
    """Return the activity in a worker's own report; None without valid activity.

    No instant is later than `now`, and time before `boot_at` does not count.
    """
    first, at = claims.read_instant(document, "from", now), claims.read_instant(document, "at", now)
    if first is None or at is None:
        return None
    first = max(first, boot_at or 0)
    if first > at:
        return None
    holder = claims.read_text(document, "holder", _LONGEST_HOLDER)

    def read_since(name: str) -> int | None:
        value = claims.read_instant(document, name, at)
        return None if value is None else max(value, first)

    return WorkerActivity(
        watched_from=first,
        at=at,
        holder=holder,
        device_free_since=None if holder else read_since("device_free_since"),
        cpu_quiet_since=read_since("cpu_quiet_since"),
        network_quiet_since=read_since("network_quiet_since"),
        sessions=claims.read_whole_number(document, "sessions") or 0,
        containers=claims.read_whole_number(document, "containers") or 0,
        restarts=claims.read_whole_number(document, "restarts") or 0,
        boot=claims.read_text(document, "boot", 80),
    )


def readings_of(
    worker: int, activity: WorkerActivity, *, is_held_on: bool = False
) -> Sequence[Reading]:
    """Return the readings that are made of the activity in a worker's report. A signal is quiet
    over the whole quiet time. Else it is active in the last second, as present work does not show
    the time before. A signal that became quiet in this time was active just before: a burst
    between two reports counts.

    A crash loop is no work of the device while the meter counts its restarts. `is_held_on` says
    that an earlier report had the same holder: that process is not of the loop.
    """
    first, at = activity.watched_from, activity.at
    device_from, free_since = first, activity.device_free_since
    if activity.restarts >= CRASHES and not is_held_on:
        looped_from = max(first, at - RESTART_SECONDS)
        if free_since is None or free_since > looped_from:
            device_from = free_since = looped_from
    readings = []
    for kind, start, since, at_work in (
        (Kind.DEVICE, device_from, free_since, 1.0),
        (Kind.REPORTED_CPU, first, activity.cpu_quiet_since, HOST_PERCENT + 1),
        (Kind.REPORTED_NETWORK, first, activity.network_quiet_since, HOST_BYTES + 1),
    ):
        if since is None:
            readings.append(Reading(worker, kind, at - 1, at, at_work))
            continue
        if since > start:
            readings.append(Reading(worker, kind, since - 1, since, at_work))
        if since < at:
            readings.append(Reading(worker, kind, since, at, 0.0))
    return tuple(readings)
