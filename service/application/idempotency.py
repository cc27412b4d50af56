"""What is told twice with the same key is done once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from service.application.retries import tries
from service.domain.clock import Clock
from service.domain.errors import Conflict, Rejected, StaleVersion
from service.domain.idempotency import RequestKey
from service.store.unit import Unit, Units

Remember = Callable[[str], None]
"""Writes down, in the same unit of work, what the key of a request has led to."""


def once(
    units: Units,
    scope: str,
    key: RequestKey | None,
    clock: Clock,
    write: Callable[[Unit, Remember], str],
    *,
    opened: Callable[[], AbstractContextManager[Unit]] | None = None,
) -> tuple[str, bool]:
    """The id of what `write` wrote, and whether it did so just now: with a key that has led to
    something before, nothing is checked or written again.

    `write` gets the unit of work, which `opened` opens where it is not an ordinary one, and a
    function that remembers an id under the key. It may call that as soon as it has the id, and
    need not. Raises Rejected where the key came with another body before, and whatever `write`
    does; but what it refuses because the very same was written meanwhile is known by its key.
    """
    for _ in tries():
        try:
            with (opened or units)() as unit:
                return _in_unit(unit, scope, key, clock, write)
        except StaleVersion:
            continue
        except (Conflict, Rejected):
            known = None if key is None else known_by(units, scope, key)
            if known is None:
                raise
            return known, False
    raise Conflict("the same name or key is being written by others; retry")


def _in_unit(
    unit: Unit,
    scope: str,
    key: RequestKey | None,
    clock: Clock,
    write: Callable[[Unit, Remember], str],
) -> tuple[str, bool]:
    now = clock()  # the unit may have waited for its turn
    remembered: list[str] = []

    def remember(made: str) -> None:
        if key is not None:
            unit.idempotency_keys.add(scope, key, made, now)
        remembered.append(made)

    if key is not None and (known := unit.idempotency_keys.find(scope, key)) is not None:
        return known, False
    made = write(unit, remember)
    if not remembered:
        remember(made)
    return made, True


def known_by(units: Units, scope: str, key: RequestKey) -> str | None:
    """What a key has led to; None for a new one. Raises Rejected where it came with another body
    before."""
    with units.reading() as unit:
        return unit.idempotency_keys.find(scope, key)
