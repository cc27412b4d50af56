"""Where hardware was to be had lately, and what is left alone for now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.catalog import catalog
from service.domain.clock import Clock
from service.domain.nodes.placement import HardwareKey
from service.domain.placement.choice import cooldowns_with_quota, describe_cooldown
from service.domain.placement.cooldown import Cooldown
from service.domain.placement.quota import FRESH_SECONDS
from service.domain.placement.quota_admission import barred, claims_of, concerned
from service.domain.time_window import parse_window, zone_of
from service.store.capacity import AttemptCounts
from service.store.unit import Unit, Units

UTC = "UTC"


@dataclass(frozen=True, slots=True)
class AttemptQuery:
    """Which attempts count: those that began in `window`. Other fields that are empty mean any."""

    window: str = "7d"
    project: str = ""
    zone: str = ""
    accelerator_type: str = ""
    generation: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """What became of the attempts at one kind of hardware in one zone, and until when it is left
    alone (whole UTC seconds; None: it is not), with the reason in words."""

    tried: AttemptCounts
    back_off_until: int | None
    reason: str


class CapacityService:
    """Reads what placements have become; it asks no cloud."""

    def __init__(self, units: Units, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    def report(self, query: AttemptQuery) -> Sequence[CapacityRow]:
        """By zone, type, model and project. Raises Rejected where the question makes no sense."""
        now = self._clock()
        if query.generation:
            catalog.load().generation(query.generation)
        if query.accelerator_type:
            catalog.load().accelerator(query.accelerator_type)
        window = parse_window(query.window, zone_of(UTC), now)
        names = ("project", "zone", "accelerator_type", "generation", "model")
        only = {name: value for name in names if (value := getattr(query, name))}
        with self._units.reading() as unit:
            found = unit.capacity.tried(window, only)
            resting = _resting(unit, found, now)
        return [_row(tried, resting.get((tried.project, tried.key)), now) for tried in found]


def _resting(
    unit: Unit, found: Sequence[AttemptCounts], now: int
) -> dict[tuple[str, HardwareKey], Cooldown]:
    """As it is chosen from when a node of one slice is placed."""
    keys: defaultdict[tuple[str, str], list[HardwareKey]] = defaultdict(list)
    for tried in found:
        keys[tried.project, tried.key.model].append(tried.key)
    resting: dict[tuple[str, HardwareKey], Cooldown] = {}
    for (project, model), some in keys.items():
        wanted = claims_of(some)
        known = concerned(unit.quotas.all([project], now - FRESH_SECONDS), wanted.values())
        never = barred(wanted, unit.quotas.tallies(project, known, now))
        left = cooldowns_with_quota(some, unit.placements.recent(project, model, now), now, never)
        resting |= {(project, key): rest for key, rest in left.items()}
    return resting


def _row(tried: AttemptCounts, rest: Cooldown | None, now: int) -> CapacityRow:
    if rest is None:
        return CapacityRow(tried, None, "")
    return CapacityRow(tried, rest.until, describe_cooldown(rest, tried.key, now))
