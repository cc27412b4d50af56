"""Records the polls of a project, and detects when too many nodes go missing at once. Pure.

A list that is suddenly short may be an error of the cloud, and a collected node cannot be restored
(invariant I4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.orphans.orphan import ShownResource

WINDOW_SECONDS = 900
"""Seconds to wait before a deletion: after an orphan is first seen, after the start of a daemon,
and after a sudden loss of nodes."""

Blind = frozenset[tuple[bool, str]]
"""The parts without an answer in a poll: (whether it is about queued resources, zone)."""

Sizes = tuple[tuple[int, int], ...]
"""Decreasing numbers of nodes, each with the whole UTC second since which there are no more."""

EVERYWHERE = "-"
"""The wildcard for all zones, as in Google's names."""


@dataclass(frozen=True, slots=True)
class FleetWatch:
    """The record of the polls of a project under one lease.

    `since` is when the first of an unbroken series of polls was sent, `asked` when the last was
    sent. `sizes` are the numbers of nodes in complete polls, the largest first and the last poll's
    last, each with the time since which the fleet has that size. A size that the fleet left longer
    ago than the window is dropped. `sizes` is empty before the first complete poll. `blind` are the
    parts without an answer in the last poll.
    """

    since: int
    asked: int
    sizes: Sizes = ()
    blind: Blind = frozenset()

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes within the window."""
        return self.sizes[0][0] if self.sizes else 0

    @property
    def is_shrunk(self) -> bool:
        """Whether at least half of these nodes are missing from the last complete poll."""
        return bool(self.most_nodes) and 2 * self.sizes[-1][0] <= self.most_nodes


def is_hidden(shown: ShownResource, blind: Blind) -> bool:
    """Whether a resource of the fleet may exist although the poll lacks it."""
    return not blind.isdisjoint(((shown.queued, shown.place.zone), (shown.queued, EVERYWHERE)))


def next_watch(
    before: FleetWatch | None, asked: int, size: int, blind: Blind, period: int
) -> FleetWatch:
    """The fleet watch after one more poll with `size` nodes.

    After an outage, or a change of the clock, it starts again: the changes meanwhile are unknown
    (invariant I4). Only the largest size is kept.
    """
    longest = max(WINDOW_SECONDS // 3, 4 * period)
    if before is None or not 0 <= asked - before.asked <= longest:
        known = () if before is None or not before.sizes else ((before.most_nodes, asked),)
        before = FleetWatch(asked, asked, known)
    after = replace(before, asked=asked, blind=blind)
    if any(not queued for queued, _ in blind):
        return after  # the poll was not complete
    sizes = before.sizes
    larger = [known for known in sizes if known[0] > size]
    since = sizes[len(larger)][1] if len(larger) < len(sizes) else asked
    found = [*larger, (size, since)]
    # A larger size is dropped once the fleet has been smaller for a whole window. So a slow
    # decrease counts as one loss, and deletions do not wait forever.
    while len(found) > 1 and asked - found[1][1] >= WINDOW_SECONDS:
        del found[0]
    return replace(after, sizes=tuple(found))
