"""Counts of the outcomes of all attempts, by hardware and zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    case,
    cast,
    func,
    or_,
    select,
)

from service.domain.nodes.placement import HardwareKey, Outcome
from service.domain.time_window import Window
from service.store.tables import placements

_KEY = tuple(
    placements.c[name] for name in ("project", "zone", "accelerator_type", "generation", "model")
)
_CAME_UP = placements.c.ready_at.is_not(None)
_TAKEN_BACK = and_(_CAME_UP, placements.c.outcome == Outcome.PREEMPTED)
_FAILED = (Outcome.FAILED, Outcome.REFUSED, Outcome.NAME_TAKEN)

Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """The attempts at one kind of hardware in one zone, and their outcomes.

    `ready` of them became READY, after a median of `seconds_to_ready`; `preempted` of these were
    preempted, after a median of `seconds_lived`. A median is None if there are none.
    """

    project: str
    key: HardwareKey
    attempts: int
    ready: int
    stock_outs: int
    quota_refusals: int
    denied: int
    failed: int
    preempted: int
    last_attempt_at: int
    seconds_to_ready: int | None = None
    seconds_lived: int | None = None


class Capacity:
    """Counts attempts in the database; no attempt is read by itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count_attempts(self, window: Window, only: Mapping[str, str]) -> Sequence[AttemptCounts]:
        """The attempts that began in the window, by zone, type, model and project.

        `only` maps columns of the placements to the value that counts.
        """
        meant = [
            placements.c.started_at >= window.start,
            placements.c.started_at < window.end,
            *(placements.c[name] == value for name, value in only.items()),
        ]
        to_ready = self._find_medians(
            placements.c.ready_at - placements.c.started_at, _CAME_UP, meant
        )
        lived = self._find_medians(
            placements.c.ended_at - placements.c.ready_at, _TAKEN_BACK, meant
        )
        outcome = placements.c.outcome
        counted = (
            select(
                *_KEY,
                func.count(),
                _count_where(_CAME_UP),
                *(
                    _count_where(outcome == kind)
                    for kind in (Outcome.STOCK_OUT, Outcome.QUOTA, Outcome.DENIED)
                ),
                _count_where(outcome.in_(_FAILED)),
                _count_where(_TAKEN_BACK),
                func.max(placements.c.started_at),
            )
            .where(*meant)
            .group_by(*_KEY)
            .order_by(
                *(placements.c[name] for name in ("zone", "accelerator_type", "model", "project"))
            )
        )
        found = []
        for row in self._connection.execute(counted):
            group = tuple(row[: len(_KEY)])
            project, *key = group
            counts = AttemptCounts(project, HardwareKey(*key), *row[len(_KEY) :])
            ready, seconds = to_ready.get(group), lived.get(group)
            found.append(replace(counts, seconds_to_ready=ready, seconds_lived=seconds))
        return found

    def _find_medians(
        self,
        value: ColumnElement[Any],
        counts: ColumnElement[bool],
        meant: Sequence[ColumnElement[bool]],
    ) -> Mapping[Group, int]:
        """The median of each group, the lower one of two."""
        ranked = (
            select(
                *_KEY,
                value.label("value"),
                func.row_number().over(partition_by=_KEY, order_by=value).label("rank"),
                func.count().over(partition_by=_KEY).label("size"),
            )
            .where(counts, *meant)
            .subquery()
        )
        middle = or_(ranked.c.rank * 2 == ranked.c.size, ranked.c.rank * 2 == ranked.c.size + 1)
        keys = [ranked.c[column.name] for column in _KEY]
        statement = select(*keys, ranked.c.value).where(middle)
        return {tuple(row[:-1]): row[-1] for row in self._connection.execute(statement)}


def _count_where(of: ColumnElement[bool]) -> ColumnElement[int]:
    return cast(func.sum(case((of, 1), else_=0)), BigInteger)
