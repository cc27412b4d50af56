"""Who pays for what, and what a budget counts: by what callers said, since when, and a calendar.

It is told what was said, and knows nothing of how the service keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from service.domain.budgets.budget import Budget, Period, Scope
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.node import Node

FOREVER = 2**40


@dataclass(frozen=True)
class Payer:
    """Whom a second of a node is charged to."""

    project: str
    team: str = ""
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def after(self, change: Reattribution) -> Payer:
        """The same once that was said; a label whose value is None is taken away."""
        labels = {**self.labels, **change.labels}
        return replace(
            self,
            team=self.team if change.team is None else change.team,
            owner=self.owner if change.owner is None else change.owner,
            labels={key: value for key, value in labels.items() if value is not None},
        )


class AllocationOracle:
    """By node: from when on it is charged to whom."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[int, Payer]]] = {}

    def begin(self, node: Node) -> None:
        """It is charged to the one who asked for it from its first second."""
        first = Payer(node.spec.project, node.team, node.owner, node.labels)
        self._of.setdefault(node.id, [(0, first)])

    def hand_on(self, node_id: str, change: Reattribution, now: int) -> None:
        """Somebody else is charged from now on, or, where that was said in this second already,
        from the next one; who says what is so already changes nothing."""
        since, latest = self._of[node_id][-1]
        after = latest.after(change)
        if after != latest:
            self._of[node_id].append((max(now, since + 1), after))

    @contextmanager
    def supposing(self, node_id: str, change: Reattribution, now: int) -> Iterator[None]:
        """As if it had been handed on; afterwards all is as it was."""
        before = list(self._of[node_id])
        self.hand_on(node_id, change, now)
        try:
            yield
        finally:
            self._of[node_id] = before

    def now(self, node_id: str) -> Payer:
        """Whom it is charged to."""
        return self._of[node_id][-1][1]

    def stretches(self, node_id: str) -> Iterator[tuple[int, int, Payer]]:
        """Who is charged from when to when."""
        edges = [*self._of[node_id], (FOREVER, self.now(node_id))]
        for (since, payer), (until, _) in pairwise(edges):
            yield since, until, payer


def counts(scope: Scope, payer: Payer) -> bool:
    """Whether a budget of that scope pays: all that it names has to be so. Nobody here works for
    a job."""
    named = (
        (scope.project, payer.project),
        (scope.team, payer.team),
        (scope.owner, payer.owner),
        (scope.job, ""),
    )
    if any(wanted is not None and wanted != said for wanted, said in named):
        return False
    return scope.label is None or payer.labels.get(scope.label[0]) == scope.label[1]


def span_of(budget: Budget, now: int) -> tuple[int, int] | None:
    """The seconds [start, end) in which a budget counts what is spent now; None where it does
    not."""
    first = budget.created_at if budget.start is None else budget.start
    last = FOREVER if budget.end is None else budget.end
    if budget.period is Period.CUSTOM:
        return (first, last) if first <= now < last else None
    start, end = _by_calendar(budget, now)
    if budget.start is not None:
        start = max(start, budget.start)
    end = min(end, last)
    return (start, end) if start <= now < end else None


def _by_calendar(budget: Budget, now: int) -> tuple[int, int]:
    zone = ZoneInfo(budget.tz)
    day = datetime.fromtimestamp(now, zone).date()
    match budget.period:
        case Period.WEEK:
            first = day - timedelta(days=day.weekday())
            following = first + timedelta(days=7)
        case Period.MONTH:
            first = day.replace(day=1)
            following = (first + timedelta(days=32)).replace(day=1)
        case Period.QUARTER:
            first = date(day.year, (day.month - 1) // 3 * 3 + 1, 1)
            following = (first + timedelta(days=100)).replace(day=1)
        case Period.YEAR:
            first, following = date(day.year, 1, 1), date(day.year + 1, 1, 1)
        case _:
            first, following = day, day + timedelta(days=1)
    return _midnight(first, zone), _midnight(following, zone)


def _midnight(day: date, zone: ZoneInfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())
