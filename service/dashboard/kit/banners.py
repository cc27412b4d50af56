"""What a reader has to know before all figures: why they may not be so, and what does not end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.application.health import (
    STALE_SECONDS,
    FleetHealth,
    HealthService,
    LateDeletion,
    ProjectLook,
)
from service.dashboard.kit.figures import count, duration, moment, money

OVERDUE_SHOWN = 5
"""Deletions that do not come to their end, each told by itself; of more it is said how many."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A deletion that does not come to its end, in words."""

    node_id: str
    name: str
    said: str


@dataclass(frozen=True, slots=True)
class Alarms:
    """Deletions that do not come to their end; `left_out` counts those that are not named."""

    named: tuple[Alarm, ...]
    left_out: int


def notices_of(fleet: FleetHealth) -> Iterator[str]:
    """What makes the picture less than the truth, in sentences."""
    yield from doubts_of(fleet)
    for number, what in (
        (fleet.unpriced, "READY node"),
        (fleet.unpriced_vms, "running VM"),
        (fleet.unpriced_reserved, "running reservation"),
    ):
        if number:
            yield (
                f"{count(number, what)} {'has' if number == 1 else 'have'} no known price: what"
                f" {'it costs' if number == 1 else 'they cost'} is in no figure here."
            )


def doubts_of(fleet: FleetHealth) -> Iterator[str]:
    """Why what is shown of the cloud may not be so, in sentences."""
    if not fleet.sights:
        yield "No project is set, so nothing is polled: set STEWARD_PROJECTS."
    for sight in fleet.sights:
        doubt = _doubt(sight, fleet.as_of)
        if doubt:
            yield doubt


def _doubt(sight: ProjectLook, now: int) -> str:
    """Why what is shown of a project may not be so; empty when it is."""
    said = []
    if not sight.looked_at:
        said.append("the cloud was never polled")
    elif now - sight.looked_at > STALE_SECONDS:
        ago = duration(now - sight.looked_at)
        said.append(f"the cloud was last polled {ago} ago, at {moment(sight.looked_at).full}")
    if not sight.holder:
        said.append("no daemon holds its lease")
    if not said:
        return ""
    return f"Project {sight.project}: {' and '.join(said)}. This page may be out of date."


def alarms_of(health: HealthService, now: int) -> Alarms:
    """Deletions that do not come to their end, the oldest first."""
    number, found = health.overdue(OVERDUE_SHOWN)
    named = tuple(_alarm(late, now) for late in found)
    return Alarms(named, number - len(named))


def _alarm(late: LateDeletion, now: int) -> Alarm:
    one = late.overdue
    what = "its deletion before the next attempt" if one.replacing else "its deletion"
    said = (
        f"{what} was requested {duration(now - one.asked_at)} ago and has not ended. It is"
        f" {one.state} in {one.zone}, {_meanwhile(late.hourly)}, and the deletion is retried"
        " indefinitely."
    )
    return Alarm(one.node_id, one.name, said)


def _meanwhile(hourly: int | None) -> str:
    if hourly is None:
        return "it costs money at an unknown price"
    return f"it costs {money(hourly)}/h meanwhile" if hourly else "it costs nothing meanwhile"
