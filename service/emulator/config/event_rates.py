"""The rates of random events, which are all 0 unless the configuration sets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.validation import parse_mapping, parse_number, require_known_keys

MAX = 1e6


@dataclass(frozen=True)
class Odds:
    """Rates in the world's time.

    `preemptions_per_hour` is by `zone/generation`, `generation` or `*`; the narrowest key counts.
    Only spot and preemptible nodes are preempted. `preemptible_life_seconds` is 24 hours on Compute
    Engine; 0 is no limit. `lost_repairs` is the share of host errors without recovery.
    `spot_rhythm` (0 to 1) is the share of a capacity that others use at the weekly peak, and by
    which preemptions become rarer at the lowest demand. `sibling_death_seconds` is the longest time
    by which the programs of a preempted played node end before the node is PREEMPTED.
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
        """Return the preemptions per hour of a node like this."""
        generation = record.accelerator.generation
        for key in (f"{record.place.zone}/{generation}", generation, "*"):
            if key in self.preemptions_per_hour:
                return self.preemptions_per_hour[key]
        return 0.0


SHARES = {"lost_repairs", "spot_rhythm"}


def patched_odds(odds: Odds, patch: object) -> Odds:
    """Return the odds with a JSON merge patch of known keys applied; raises ApiError."""
    changes = parse_mapping(patch, "odds")
    require_known_keys(changes, [key.name for key in fields(Odds)], "odds")
    values: dict[str, Any] = {}
    for key, raw in changes.items():
        if key == "preemptions_per_hour":
            rates = parse_mapping(raw, key).items()
            values[key] = {name: parse_number(rate, name, 0, MAX) for name, rate in rates}
        else:
            values[key] = parse_number(raw, key, 0, 1 if key in SHARES else MAX)
    return replace(odds, **values)
