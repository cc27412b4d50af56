"""What became of all attempts, counted by what was tried and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
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
    """The attempts at one kind of hardware in one zone, and what became of them.

    `ready` of them came up, after `seconds_to_ready` in the middle one; of these `preempted` were
    taken back, after `seconds_lived` in the middle one. None where there is none in the middle.
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
    """Counts attempts where they are stored; no attempt is read by itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tried(self, window: Window, only: Mapping[str, str]) -> Sequence[AttemptCounts]:
        """The attempts that began in the window, by zone, type, model and project.

        `only` maps columns of the placements to the value that counts.
        """
        meant = [
            placements.c.started_at >= window.start,
            placements.c.started_at < window.end,
            *(placements.c[name] == value for name, value in only.items()),
        ]
        to_ready = self._medians(placements.c.ready_at - placements.c.started_at, _CAME_UP, meant)
        lived = self._medians(placements.c.ended_at - placements.c.ready_at, _TAKEN_BACK, meant)
        rows = self._connection.execute(_counts(meant))
        return [
            _read(row, to_ready.get(tuple(row[: len(_KEY)])), lived.get(tuple(row[: len(_KEY)])))
            for row in rows
        ]

    def _medians(
        self,
        value: ColumnElement[Any],
        counts: ColumnElement[bool],
        meant: Sequence[ColumnElement[bool]],
    ) -> Mapping[Group, int]:
        """The value in the middle of each group, the lower one of two."""
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


def _counts(meant: Sequence[ColumnElement[bool]]) -> Select[Any]:
    outcome = placements.c.outcome
    return (
        select(
            *_KEY,
            func.count(),
            _number(_CAME_UP),
            *(
                _number(outcome == one)
                for one in (Outcome.STOCK_OUT, Outcome.QUOTA, Outcome.DENIED)
            ),
            _number(outcome.in_(_FAILED)),
            _number(_TAKEN_BACK),
            func.max(placements.c.started_at),
        )
        .where(*meant)
        .group_by(*_KEY)
        .order_by(
            *(placements.c[name] for name in ("zone", "accelerator_type", "model", "project"))
        )
    )


def _number(of: ColumnElement[bool]) -> ColumnElement[int]:
    return cast(func.sum(case((of, 1), else_=0)), BigInteger)


def _read(row: Any, seconds_to_ready: int | None, seconds_lived: int | None) -> AttemptCounts:
    project, *key = row[: len(_KEY)]
    tried = AttemptCounts(project, HardwareKey(*key), *row[len(_KEY) :])
    return replace(tried, seconds_to_ready=seconds_to_ready, seconds_lived=seconds_lived)
