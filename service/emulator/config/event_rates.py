"""How likely random events are. Nothing happens by itself unless the configuration says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.validation import known_only, mapping, number

MAX = 1e6


@dataclass(frozen=True)
class Odds:
    """Rates in the world's time.

    `preemptions_per_hour` is by `zone/generation`, `generation` or `*`, the narrowest counts; it
    concerns spot and preemptible nodes. Compute Engine ends a preemptible one after 24 hours; 0
    lets it live. `lost_repairs` is the share of host errors from which a node does not come back.
    `spot_rhythm` (0 to 1) is the share of a capacity that others take at the peak of the week, and
    by which preemptions become rarer when nobody wants it. With `sibling_death_seconds`, the
    programs of a played node that is preempted end up to that long before the node shows it.
    """

    preemptions_per_hour: Mapping[str, float] = field(default_factory=dict)
    preemptible_life_seconds: float = 24 * 3600.0
    maintenances_per_day: float = 0.0
    maintenance_notice_seconds: float = 3600.0
    host_errors_per_day: float = 0.0
    lost_repairs: float = 0.0
    spot_rhythm: float = 0.0
    sibling_death_seconds: float = 0.0

    def preemptions_of(self, record: NodeRecord) -> float:
        """Say how often an hour a node like this is preempted."""
        generation = record.accelerator.generation
        for key in (f"{record.place.zone}/{generation}", generation, "*"):
            if key in self.preemptions_per_hour:
                return self.preemptions_per_hour[key]
        return 0.0


SHARES = {"lost_repairs", "spot_rhythm"}


def patched_odds(odds: Odds, patch: object) -> Odds:
    """Apply a JSON merge of known keys; raises ApiError that names what is wrong."""
    changes = mapping(patch, "odds")
    known_only(changes, [each.name for each in fields(Odds)], "odds")
    return replace(odds, **{key: _value(key, raw) for key, raw in changes.items()})


def _value(key: str, raw: object) -> Any:
    if key == "preemptions_per_hour":
        return {name: number(rate, name, 0, MAX) for name, rate in mapping(raw, key).items()}
    return number(raw, key, 0, 1 if key in SHARES else MAX)
