"""What is told twice with the same key is done once."""

from __future__ import annotations

from collections.abc import Callable

from service.application.retries import tries
from service.domain.errors import Conflict, Rejected, StaleVersion
from service.domain.idempotency import RequestKey
from service.store.unit import Unit, Units


def once(
    units: Units, scope: str, key: RequestKey | None, now: int, write: Callable[[Unit], str]
) -> tuple[str, bool]:
    """The id of what `write` wrote, and whether it did so just now: with a key that has led to
    something before, nothing is checked or written again.

    Raises Rejected where the key came with another body before, and whatever `write` does; but what
    it refuses because the very same was written meanwhile is known by its key.
    """
    for _ in tries():
        try:
            with units() as unit:
                if key is None:
                    return write(unit), True
                known = unit.idempotency_keys.find(scope, key)
                if known is not None:
                    return known, False
                made = write(unit)
                unit.idempotency_keys.add(scope, key, made, now)
                return made, True
        except StaleVersion:
            continue
        except (Conflict, Rejected):
            known = None if key is None else _known(units, scope, key)
            if known is None:
                raise
            return known, False
    raise Conflict("others are writing the same resource; retry")


def _known(units: Units, scope: str, key: RequestKey) -> str | None:
    with units.reading() as unit:
        return unit.idempotency_keys.find(scope, key)
