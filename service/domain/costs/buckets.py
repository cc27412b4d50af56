"""Where calendar buckets meet: what lies between their edges, told by UTC days and a few hours."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.domain.clock import DAY, HOUR, floor_to
from service.domain.time_window import Window


def touched(parts: Sequence[Window], start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(position, start, end) of what of [start, end) lies in each of the parts, which are in order
    and do not overlap; found without a look at the others, as there may be thousands."""
    for position in range(bisect_right(parts, start, key=_end_of), len(parts)):
        part = parts[position]
        if part.start >= end:
            return
        left, right = max(start, part.start), min(end, part.end)
        if left < right:
            yield position, left, right


def _end_of(part: Window) -> int:
    return part.end


@dataclass(frozen=True, slots=True)
class HourMove:
    """An hour that counts in the part at `position` (`sign` 1), or does not (-1), other than the
    day does in which it lies."""

    position: int
    sign: int


class DaysAndHours:
    """Parts that adjoin, each as whole UTC days and the hours by which those are too many or too
    few.

    A local day begins some hours before or after a midnight in UTC. The sum of a part is that of
    the UTC days between the midnights that are next to its edges, and what `moves` says of the
    hours between each edge and its midnight: half a day at most, however long the part is. Every
    edge has to be a full hour of UTC.
    """

    def __init__(self, edges: Sequence[int]) -> None:
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
        self.moves: Mapping[int, Sequence[HourMove]] = dict(moves)

    def part_of(self, day: int) -> int:
        """The position of the part in which a day counts that lies in [start, end)."""
        return bisect_right(self._midnights, day) - 1


def edges_of(parts: Sequence[Window], *, to_the_end: bool) -> tuple[int, ...] | None:
    """The edges of parts that adjoin, as DaysAndHours takes them; None where one of them is not a
    full hour. `to_the_end` says that there is nothing after the last one, whatever it is."""
    if not parts:
        return None
    last = parts[-1].end
    if to_the_end:
        last += -last % DAY
    edges = *(part.start for part in parts), last
    return None if any(edge % HOUR for edge in edges) else edges
