"""Partial responses: the requested fields of a JSON response."""

from __future__ import annotations

from typing import Any

from service.emulator.api.calls.field_masks import Chosen


def select_keys(shown: Any, chosen: Chosen) -> Any:
    """Return the chosen keys of a JSON value; `*` is every key. Lists are reduced item by item."""
    if not chosen:
        return shown
    if isinstance(shown, list):
        return [select_keys(item, chosen) for item in shown]
    if not isinstance(shown, dict):
        return shown
    if "*" in chosen:
        return {key: select_keys(value, chosen["*"]) for key, value in shown.items()}
    return {key: select_keys(value, chosen[key]) for key, value in shown.items() if key in chosen}
