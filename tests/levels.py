"""Which seeds of a search run when: the first by `make test`, the others by `make test-deep`."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(number: int, quick: int) -> list[Any]:
    """Parameters for the seeds below `number`; those from `quick` on are deep."""
    return [
        pytest.param(seed, marks=[pytest.mark.deep] if seed >= quick else [])
        for seed in range(number)
    ]
