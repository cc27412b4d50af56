"""Banners above the figures: why a page may be out of date, and which deletions are overdue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.application.health import (
    STALE_SECONDS,
    FleetHealth,
    HealthService,
)
from service.dashboard.kit.figures import format_count, format_duration, format_money, to_moment

OVERDUE_SHOWN = 5
"""Overdue deletions that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An overdue deletion in words."""

    node_id: str
    name: str
    said: str


@dataclass(frozen=True, slots=True)
class Alarms:
    """Overdue deletions; `left_out` counts those that are not named."""

    named: tuple[Alarm, ...]
    left_out: int


def list_notices(fleet: FleetHealth) -> Iterator[str]:
    """Sentences about what the figures lack: why they may be out of date, and what has no price."""
    yield from list_doubts(fleet)
    for number, what in (
        (fleet.unpriced, "READY node"),
        (fleet.unpriced_vms, "running VM"),
        (fleet.unpriced_reserved, "running reservation"),
    ):
        if number:
            have, they_cost = ("has", "it costs") if number == 1 else ("have", "they cost")
            yield (
                f"{format_count(number, what)} {have} no known price: what {they_cost} is in no"
                " figure here."
            )


def list_doubts(fleet: FleetHealth) -> Iterator[str]:
    """Sentences about projects whose state in the cloud may be out of date."""
    if not fleet.sights:
        yield "No project is set, so nothing is polled: set STEWARD_PROJECTS."
    for sight in fleet.sights:
        reasons = []
        if not sight.looked_at:
            reasons.append("the cloud was never polled")
        elif fleet.as_of - sight.looked_at > STALE_SECONDS:
            ago, at = (
                format_duration(fleet.as_of - sight.looked_at),
                to_moment(sight.looked_at).full,
            )
            reasons.append(f"the cloud was last polled {ago} ago, at {at}")
        if not sight.holder:
            reasons.append("no daemon holds its lease")
        if reasons:
            yield f"Project {sight.project}: {' and '.join(reasons)}. This page may be out of date."


def list_alarms(health: HealthService, now: int) -> Alarms:
    """Overdue deletions, the oldest first."""
    number, found = health.list_overdue(OVERDUE_SHOWN)
    named = []
    for late in found:
        node = late.overdue
        what = "its deletion before the next attempt" if node.replacing else "its deletion"
        if late.hourly is None:
            cost = "it costs money at an unknown price"
        else:
            hourly = f"{format_money(late.hourly)}/h" if late.hourly else "nothing"
            cost = f"it costs {hourly} meanwhile"
        said = (
            f"{what} was requested {format_duration(now - node.asked_at)} ago and has not ended."
            f" It is {node.state} in {node.zone}, {cost}, and the deletion is retried"
            " indefinitely."
        )
        named.append(Alarm(node.node_id, node.name, said))
    return Alarms(tuple(named), number - len(named))
