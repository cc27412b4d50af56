"""What is remembered of the looks at a project, and when too much of it went missing. Pure.

A list that is suddenly short may be the cloud's error, and what is collected meanwhile is not to be
had back (invariant I4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.orphans.orphan import ShownResource

WINDOW_SECONDS = 900
"""How long something is watched before it is believed: an orphan, a daemon that just began, and a
fleet that is suddenly smaller."""

Blind = frozenset[tuple[bool, str]]
"""Where a look says nothing: whether of queued resources or of nodes, and in which zone."""

Sizes = tuple[tuple[int, int], ...]
"""Numbers of nodes, ever fewer, each with the whole UTC second at which there were no more."""

EVERYWHERE = "-"
"""In place of a zone, as in Google's names."""


@dataclass(frozen=True, slots=True)
class FleetWatch:
    """What is remembered of the looks at a project under one lease.

    `since` is when the first of an unbroken row of them was asked for, `asked` the last. `sizes` is
    how many nodes complete looks have shown, the most first and the last one last, each with when
    the fleet came down to it; what it came down from longer ago than the window is forgotten. It is
    empty before there was a complete look. `blind` is where the last one says nothing.
    """

    since: int
    asked: int
    sizes: Sizes = ()
    blind: Blind = frozenset()

    @property
    def most(self) -> int:
        """The most nodes that were seen within the window."""
        return self.sizes[0][0] if self.sizes else 0

    @property
    def is_shrunk(self) -> bool:
        """Whether half of them or more are missing from the last complete look."""
        return bool(self.most) and 2 * self.sizes[-1][0] <= self.most


def is_hidden(shown: ShownResource, blind: Blind) -> bool:
    """Whether its absence from a look says nothing."""
    return not blind.isdisjoint(((shown.queued, shown.place.zone), (shown.queued, EVERYWHERE)))


def watched(
    before: FleetWatch | None, asked: int, size: int, blind: Blind, period: int
) -> FleetWatch:
    """The watch after one more look, which has shown `size` nodes.

    After an outage, or when the clock was set, it begins anew: what happened meanwhile is not known
    (invariant I4). Only the most that was seen is carried over.
    """
    longest = max(WINDOW_SECONDS // 3, 4 * period)
    if before is None or not 0 <= asked - before.asked <= longest:
        known = () if before is None or not before.sizes else ((before.most, asked),)
        before = FleetWatch(asked, asked, known)
    after = replace(before, asked=asked, blind=blind)
    if any(not queued for queued, _ in blind):
        return after  # it was not complete
    return replace(after, sizes=_resized(before.sizes, asked, size))


def _resized(sizes: Sizes, asked: int, size: int) -> Sizes:
    """The sizes after a complete look. A larger one is believed to be over once the fleet has been
    smaller for a whole window, so a slow slide is seen as one fall, and no freeze is for ever."""
    larger = [one for one in sizes if one[0] > size]
    since = sizes[len(larger)][1] if len(larger) < len(sizes) else asked
    found = [*larger, (size, since)]
    while len(found) > 1 and asked - found[1][1] >= WINDOW_SECONDS:
        del found[0]
    return tuple(found)
