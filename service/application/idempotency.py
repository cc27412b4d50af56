"""Requests with an idempotency key: a repeated request is executed once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from service.application.retries import retry_stale
from service.domain.clock import Clock
from service.domain.errors import Conflict, Rejected, StaleVersion
from service.domain.idempotency import RequestKey
from service.store.unit import Unit, Units

Remember = Callable[[str], None]
"""Records the result of the key in the same unit of work."""


def write_once(
    units: Units,
    scope: str,
    key: RequestKey | None,
    clock: Clock,
    write: Callable[[Unit, Remember], str],
    *,
    opened: Callable[[], AbstractContextManager[Unit]] | None = None,
) -> tuple[str, bool]:
    """The id of what `write` wrote, and whether it was written just now. A key that has a result
    already skips all checks and writes.

    `write` gets the unit of work, which `opened` opens if it is not an ordinary one, and a function
    that records an id under the key. `write` may call the function as soon as it has the id, and
    need not. Raises Rejected if the key came with another body before, and whatever `write` raises;
    a refusal because the same request was written meanwhile is answered from its key.
    """

    def try_to_write() -> tuple[str, bool]:
        try:
            with (opened or units)() as unit:
                return _write_in_unit(unit, scope, key, clock, write)
        except StaleVersion:
            raise
        except (Conflict, Rejected):
            known = None if key is None else find_result(units, scope, key)
            if known is None:
                raise
            return known, False

    return retry_stale(try_to_write, "the same name or key is being written by others; retry")


def _write_in_unit(
    unit: Unit,
    scope: str,
    key: RequestKey | None,
    clock: Clock,
    write: Callable[[Unit, Remember], str],
) -> tuple[str, bool]:
    now = clock()  # the unit may have waited for its turn
    remembered: list[str] = []

    def remember_result(made: str) -> None:
        if key is not None:
            unit.idempotency_keys.add(scope, key, made, now)
        remembered.append(made)

    if key is not None and (known := unit.idempotency_keys.find_result(scope, key)) is not None:
        return known, False
    made = write(unit, remember_result)
    if not remembered:
        remember_result(made)
    return made, True


def find_result(units: Units, scope: str, key: RequestKey) -> str | None:
    """The recorded result of a key; None for a new key. Raises Rejected if the key came with
    another body before."""
    with units.reading() as unit:
        return unit.idempotency_keys.find_result(scope, key)
