"""Divides calendar buckets into UTC days and the hours at their edges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.domain.clock import DAY, HOUR, floor_to
from service.domain.time_window import Window


@dataclass(frozen=True, slots=True)
class HourMove:
    """An hour that is added to the part at `position` (`sign` 1), or taken from it (-1).

    The UTC day of the hour counts in a neighbouring part.
    """

    position: int
    sign: int


class DaysAndHours:
    """Adjoining parts, each as whole UTC days plus or minus a few hours.

    A local day begins some hours before or after a midnight in UTC. The sum of a part is the sum of
    the UTC days between the midnights nearest to its edges, corrected by the hours in `moves`. At
    each edge these are half a day at most, however long the part is. Parts of one hour each have no
    days: each is the hour itself. Every edge must be a full hour of UTC.
    """

    def __init__(self, edges: Sequence[int]) -> None:
        if all(end - start == HOUR for start, end in pairwise(edges)):
            self._midnights = [edges[0]]
            self.start = self.end = edges[0]
            self.moves: Mapping[int, Sequence[HourMove]] = {
                hour: [HourMove(number, 1)] for number, hour in enumerate(edges[:-1])
            }
            return
        self._midnights = [floor_to(edge + DAY // 2, DAY) for edge in edges]
        self.start, self.end = self._midnights[0], self._midnights[-1]
        moves: dict[int, list[HourMove]] = defaultdict(list)
        last = len(edges) - 1
        for number, (edge, midnight) in enumerate(zip(edges, self._midnights, strict=True)):
            sign = 1 if edge < midnight else -1
            for hour in range(min(edge, midnight), max(edge, midnight), HOUR):
                if number < last:
                    moves[hour].append(HourMove(number, sign))
                if number:
                    moves[hour].append(HourMove(number - 1, -sign))
        self.moves = dict(moves)

    def part_of(self, day: int) -> int:
        """The position of the part to which a UTC day counts; the day lies in [start, end)."""
        return bisect_right(self._midnights, day) - 1


def edges_of(
    parts: Sequence[Window], *, to_the_end: bool, hourly: bool = False
) -> tuple[int, ...] | None:
    """The edges of adjoining buckets, for DaysAndHours; None if an edge is not a full hour of UTC.

    With `to_the_end` nothing is charged after the last part, so its edge moves to a midnight, or to
    the next full hour if the buckets are hours.
    """
    if not parts:
        return None
    last = parts[-1].end
    if to_the_end:
        last += -last % (HOUR if hourly else DAY)
    edges = *(part.start for part in parts), last
    return None if any(edge % HOUR for edge in edges) else edges


def settle_parts(parts: Sequence[Window]) -> list[Window]:
    """Adjoining buckets up to the last full hour of UTC before their end. Empty if that is none of
    their seconds."""
    if not parts:
        return []
    until = floor_to(parts[-1].end, HOUR)
    return [Window(part.start, min(part.end, until)) for part in parts if part.start < until]
