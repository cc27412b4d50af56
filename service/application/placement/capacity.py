"""Where hardware was available lately, and which hardware is in cooldown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.catalog import catalog
from service.domain.clock import Clock
from service.domain.nodes.placement import HardwareKey
from service.domain.placement.cooldown import Cooldown, cooldowns_with_quota, describe_cooldown
from service.domain.placement.quota import FRESH_SECONDS
from service.domain.placement.quota_admission import claims_of, filter_limits, find_barred
from service.domain.time_window import parse_window, zone_of
from service.store.capacity import AttemptCounts
from service.store.unit import Units

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
    """The outcome of the attempts at one kind of hardware in one zone. `back_off_until` is the end
    of its cooldown in UTC seconds, None without a cooldown; `reason` describes it."""

    tried: AttemptCounts
    back_off_until: int | None
    reason: str


class CapacityService:
    """Reads the outcomes of placements, without a call to the cloud."""

    def __init__(self, units: Units, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    def report(self, query: AttemptQuery) -> Sequence[CapacityRow]:
        """The rows by zone, type, model and project. Raises Rejected for an invalid query."""
        now = self._clock()
        if query.generation:
            catalog.load_catalog().get_generation(query.generation)
        if query.accelerator_type:
            catalog.load_catalog().get_accelerator(query.accelerator_type)
        window = parse_window(query.window, zone_of(UTC), now)
        names = ("project", "zone", "accelerator_type", "generation", "model")
        only = {name: value for name in names if (value := getattr(query, name))}
        with self._units.reading() as unit:
            found = unit.capacity.count_attempts(window, only)
            # The cooldowns that apply when a node of one slice is placed.
            keys: defaultdict[tuple[str, str], list[HardwareKey]] = defaultdict(list)
            for tried in found:
                keys[tried.project, tried.key.model].append(tried.key)
            resting: dict[tuple[str, HardwareKey], Cooldown] = {}
            for (project, model), some in keys.items():
                wanted = claims_of(some)
                limits = unit.quotas.list_all([project], now - FRESH_SECONDS)
                known = filter_limits(limits, wanted.values())
                never = find_barred(wanted, unit.quotas.tally_limits(project, known, now))
                recent = unit.placements.list_recent(project, model, now)
                left = cooldowns_with_quota(some, recent, now, never)
                resting |= {(project, key): rest for key, rest in left.items()}
        rows = []
        for tried in found:
            rest = resting.get((tried.project, tried.key))
            reason = "" if rest is None else describe_cooldown(rest, tried.key, now)
            rows.append(CapacityRow(tried, None if rest is None else rest.until, reason))
        return rows
