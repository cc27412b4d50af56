"""Which answers of a route the OpenAPI document declares."""

from __future__ import annotations

import re
from typing import Any

_PARAMETER = re.compile(r"{[a-z_]+}")


def operation_of(document: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """The operation that answers at this path. None where there is none."""
    matching = [pattern for pattern in document["paths"] if _matches(pattern, path)]
    best = max(matching, key=lambda one: len(_PARAMETER.sub("", one)), default=None)
    return None if best is None else document["paths"][best].get(method.lower())


def _matches(template: str, path: str) -> bool:
    literals = map(re.escape, _PARAMETER.split(template))
    return re.fullmatch(".+".join(literals), path) is not None
