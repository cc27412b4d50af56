"""When nobody could have known better: what is called uncertain is held against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from service.domain.metering.meter import Usage
from service.domain.nodes.node import Node
from tests.simulation.invariants import Violation

LOOKS_SECONDS = 90
"""What may be uncertain beside that: a look at all every minute, and the time it takes."""
LASTING = 120
"""So long after it is over a disturbance may be felt: a lease runs out, a back-off ends."""


@dataclass
class Fog:
    """The time in which something kept the service from seeing, or from writing what it saw."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def cover(self, start: float, end: float) -> None:
        """Something is in the way from `start` to `end`."""
        self.spans.append((start, end + LASTING))

    def within(self, start: float, end: float) -> float:
        """For how many seconds of [start, end) something was in the way."""
        covered, upto = 0.0, start
        for span in sorted(self.spans):
            left, right = max(span[0], upto), min(span[1], end)
            if left < right:
                covered, upto = covered + right - left, right
        return covered

    def check(self, node: Node, usages: Iterable[Usage]) -> None:
        """No more is called uncertain than nobody could see; raises Violation."""
        for usage in usages:
            assert usage.end is not None
            assert usage.end_lo is not None
            for what, start, end in (
                ("start", usage.start, usage.start_hi),
                ("end", usage.end_lo, usage.end),
            ):
                clear = (end - start) - self.within(start, end)
                if clear > LOOKS_SECONDS:
                    raise Violation(
                        f"{node.id}: the {what} of {usage.id} is called uncertain for {end - start}"
                        f" seconds, {clear:.0f} of them without any reason"
                    )
