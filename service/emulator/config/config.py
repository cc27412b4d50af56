"""The configuration of the emulated cloud: its durations, its strictness and its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from service.emulator.artifacts.image_pulls import ImageSettings, images_of
from service.emulator.artifacts.registry import Registry, patched_registry
from service.emulator.artifacts.storage import BucketSettings, buckets_of
from service.emulator.config.event_rates import Odds, patched_odds
from service.emulator.config.limit_keys import limits_of, queues_of
from service.emulator.config.reservations import Reserved, reservations_of
from service.emulator.config.telemetry_settings import Prices, Telemetry, patched_settings
from service.emulator.permissions import Callers, callers_of
from service.emulator.validation import (
    invalid_value,
    parse_flag,
    parse_integer,
    parse_mapping,
    parse_number,
    require_known_keys,
)

MAX_REAL_WORKERS = 512
PLAYED = ("none", "overflow", "all")
MAX_SECONDS = 10 * 365 * 24 * 3600.0
# A report every five seconds: more often than Google accepts reports.
FASTEST_METER = 12.0


@dataclass(frozen=True)
class Durations:
    """Seconds that each change takes; `speed` divides them."""

    create: float = 20.0
    delete: float = 8.0
    stop: float = 10.0
    start: float = 15.0
    update: float = 2.0
    repair: float = 60.0
    reimage: float = 30.0
    restart: float = 30.0
    # Of queued resources: CREATING, ACCEPTED, WAITING_FOR_RESOURCES even if there is hardware, from
    # the last READY node to ACTIVE, and at least: SUSPENDING, DELETING.
    accept: float = 3.0
    queue: float = 2.0
    allocate: float = 5.0
    activate: float = 2.0
    suspend: float = 5.0
    remove: float = 4.0
    refuse: float = 1.5
    """Until the operation of a delete fails, if the state of the node does not allow the delete."""
    examine: float = 30.0
    """Between two checks for hardware, at least one second, unless hardware becomes free."""


@dataclass(frozen=True)
class Config:
    """`capacity` and `quotas` are chips by `zone/generation[/model]`; without a key, no limit.

    Capacity counts nodes that hold hardware; a stockout comes inside the operation. Quota counts
    every listed node of a project, lost ones included, and queued resources; a request beyond it
    fails. Quota may also be set by region. A key with a model counts that model alone.
    `closed_queues` accept no requests of a `zone/accelerator-type`, and `no_flex_start` none of
    that provisioning model.
    """

    speed: float = 1.0
    strict_runtimes: bool = False
    strict_queued_scheduling: bool = False
    """Fails each queued resource whose nodes name a model of their own in `schedulingConfig`."""
    durations: Durations = field(default_factory=Durations)
    odds: Odds = field(default_factory=Odds)
    capacity: Mapping[str, int] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    stockout_code: int = 8
    """13 for the opaque error that was seen for spot v5e."""
    create_rate_per_minute: int = 0
    """Creations per minute and project, 0 for no limit; Google's limit was seen at 91."""
    closed_queues: tuple[str, ...] = ()
    no_flex_start: tuple[str, ...] = ()
    reservations: tuple[Reserved, ...] = ()
    real_workers: int = 32
    """The most workers that run as real processes at once; a node has all its workers or none."""
    images: Mapping[str, ImageSettings] = field(default_factory=dict)
    buckets: Mapping[str, BucketSettings] = field(default_factory=dict)
    telemetry: Telemetry = field(default_factory=Telemetry)
    prices: Prices = field(default_factory=Prices)
    registry: Registry = field(default_factory=Registry)
    permissions: Callers = field(default_factory=dict)
    """By token, `*` for all other callers. A caller without a key has all permissions."""
    played_workers: str = "none"
    """The READY nodes whose workers are played: `none`, `overflow` or `all`."""
    meter_speed: float = 1.0
    """The factor by which our meter runs faster, on real workers that boot from now on."""

    def seconds_for(self, what: str) -> float:
        """Return the duration of a change at the present speed, in seconds."""
        nominal: float = getattr(self.durations, what)
        return min(nominal / self.speed, MAX_SECONDS)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def patched_config(config: Config, patch: object) -> Config:
    """Return the configuration with a JSON merge patch of known keys applied; raises ApiError."""
    changes = parse_mapping(patch, "the configuration")
    require_known_keys(changes, [key.name for key in fields(Config)], "configuration key")
    values = {
        key: MERGERS[key](getattr(config, key), raw) if key in MERGERS else READERS[key](raw, key)
        for key, raw in changes.items()
    }
    return replace(config, **values)


def _patched_durations(durations: Durations, raw: object) -> Durations:
    changes = parse_mapping(raw, "durations")
    require_known_keys(changes, [key.name for key in fields(Durations)], "duration")
    return replace(
        durations,
        **{key: parse_number(value, key, 0, MAX_SECONDS) for key, value in changes.items()},
    )


def _parse_choice(known: tuple[object, ...], raw: object, what: str) -> Any:
    """Return the value if it is a known one, of the same type; raises ApiError."""
    is_same_type = isinstance(raw, type(known[0])) and not isinstance(raw, bool)
    if not is_same_type or raw not in known:
        raise invalid_value(f"{what} must be one of {', '.join(map(str, known))}")
    return raw


# The functions that merge a patch into a key with keys of its own.
MERGERS: Mapping[str, Callable[[Any, object], Any]] = {
    "durations": _patched_durations,
    "odds": patched_odds,
    "telemetry": patched_settings,
    "prices": patched_settings,
    "registry": patched_registry,
}
# The functions that parse a key whose value is replaced as a whole.
READERS: Mapping[str, Callable[[object, str], Any]] = {
    "speed": lambda raw, key: parse_number(raw, key, 0.001, 1_000_000),
    "strict_runtimes": parse_flag,
    "strict_queued_scheduling": parse_flag,
    "capacity": lambda raw, key: limits_of(parse_mapping(raw, key), key, by_region=False),
    "quotas": lambda raw, key: limits_of(parse_mapping(raw, key), key, by_region=True),
    "stockout_code": lambda raw, key: _parse_choice((8, 13), raw, key),
    "create_rate_per_minute": parse_integer,
    "closed_queues": queues_of,
    "no_flex_start": queues_of,
    "reservations": reservations_of,
    "images": images_of,
    "permissions": callers_of,
    "buckets": buckets_of,
    "real_workers": lambda raw, key: parse_integer(raw, key, highest=MAX_REAL_WORKERS),
    "played_workers": lambda raw, key: _parse_choice(PLAYED, raw, key),
    "meter_speed": lambda raw, key: parse_number(raw, key, 1, FASTEST_METER),
}
