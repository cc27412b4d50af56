"""What a supervisor reports of the activity of its worker, and the readings that it makes. Pure.

It is a claim by a process on that machine, never proof. One report tells of the whole time since
the supervisor began to watch, so a report that is lost costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.domain import claims
from service.domain.idle.proof import Host
from service.domain.idle.signal import HOST_BYTES, HOST_PERCENT, Kind, Reading

_LONGEST_HOLDER = 300


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
    """The most restarts of one running container."""

    @property
    def host(self) -> Host:
        """What it shows of the worker at its end."""
        return Host(self.at, self.holder, self.sessions, self.containers, self.restarts)


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
    )


def readings_of(worker: int, activity: WorkerActivity) -> Sequence[Reading]:
    """The readings of a worker in its activity: at rest over the whole time that was watched and
    quiet, else at work in the last second, as work now says nothing of the time before."""
    return tuple(_readings(worker, activity))


def _readings(worker: int, activity: WorkerActivity) -> Iterator[Reading]:
    at = activity.at
    for kind, since, at_work in (
        (Kind.DEVICE, activity.device_free_since, 1.0),
        (Kind.REPORTED_CPU, activity.cpu_quiet_since, HOST_PERCENT + 1),
        (Kind.REPORTED_NETWORK, activity.network_quiet_since, HOST_BYTES + 1),
    ):
        if since is None:
            yield Reading(worker, kind, at - 1, at, at_work)
        elif since < at:
            yield Reading(worker, kind, since, at, 0.0)
