"""Records the activity of nodes in steps of five minutes."""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.clock import HOUR
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.rollup import (
    ActivityHour,
    UnwrittenUse,
    hours_since,
    with_lately,
    with_rest,
)
from service.domain.lease import Lease
from service.domain.nodes.node import Node
from service.store.unit import Units

CHUNK = 500
"""Hours written in one transaction."""

THIN_SECONDS = 6 * HOUR


class Rollups:
    """Writes the hours of nodes whose turn it is."""

    def __init__(self, units: Units, telemetry: int) -> None:
        """`telemetry` is the number of seconds by which points may be late."""
        self._units = units
        self._telemetry = telemetry
        self._thinned_at = 0

    def write_hours(
        self, nodes: Iterable[tuple[Node, WatchedNode, UnwrittenUse]], lease: Lease, now: int
    ) -> None:
        """Update the hours of nodes with their new readings."""
        turn = [
            (node, watched, lately, hours_since(lately.first_slot, now))
            for node, watched, lately in nodes
        ]
        earliest = min((starts[0] for *_, starts in turn), default=now)
        with self._units.reading() as unit:
            ids = [node.id for node, *_ in turn]
            known = unit.idle_rollups.list_hours(ids, earliest, now + 1)
        hours: list[ActivityHour] = []
        for node, watched, lately, starts in turn:
            stored = {
                hour.start: hour
                for hour in known.get(node.id, ())
                if hour.incarnation == node.attempt
            }
            tracks, until = watched.signals.tracks, now - self._telemetry
            for start in starts:
                before = stored.get(start, ActivityHour(node.id, node.attempt, start))
                after = with_rest(with_lately(before, lately), tracks, node.spec.hosts, until)
                if after is not before and after != before:
                    hours.append(after)
        for first in range(0, len(hours), CHUNK):
            with self._units(lease) as unit:
                unit.idle_rollups.save(hours[first : first + CHUNK])

    def delete_old(self, lease: Lease, now: int) -> None:
        """Forget old hours, every `THIN_SECONDS`."""
        if now - self._thinned_at >= THIN_SECONDS:
            with self._units(lease) as unit:
                unit.idle_rollups.delete_old(now)
            self._thinned_at = now
