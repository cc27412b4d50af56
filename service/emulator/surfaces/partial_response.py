"""Partial responses: what of the JSON of a response its caller wants."""

from __future__ import annotations

from typing import Any

from service.emulator.api.field_masks import Chosen


def select(shown: Any, chosen: Chosen) -> Any:
    """Keep what is chosen of a JSON value, by its keys or `*`; a list is cut item by item."""
    if not chosen:
        return shown
    if isinstance(shown, list):
        return [select(each, chosen) for each in shown]
    if not isinstance(shown, dict):
        return shown
    if "*" in chosen:
        return {key: select(value, chosen["*"]) for key, value in shown.items()}
    return {key: select(value, chosen[key]) for key, value in shown.items() if key in chosen}
