"""How telemetry behaves: how late and how complete it is, and what the price list says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from service.emulator.validation import known_only, mapping, moment, number, refusal, texts, whole

MAX_SECONDS = 30 * 86_400.0
MAX_USD = Decimal(10) ** 15


@dataclass(frozen=True)
class Telemetry:
    """What a configuration may say of time series and log entries."""

    delay_seconds: float = 180.0
    """The longest time until a point can be seen; each series has its own, at most this."""
    gap_share: float = 0.0
    """The share of points that are lost, from 0 to 1."""
    late_share: float = 0.0
    """The share of points that come later than those after them, by `delay_seconds` more."""
    missing: tuple[str, ...] = ()
    """What is never measured: a zone, a generation, the name of a node, `worker-0`, a metric, or
    several of them with a space between, which all have to fit."""
    cores: int = 4
    """How many cores of each host have a series; the real ones have up to 240."""
    log_entries: int = 20_000
    """How many log entries are kept, the newest; 0 keeps none and costs nothing."""
    log_delay_seconds: float = 0.0
    """Until what the cloud itself writes can be found in the log."""
    log_lost_share: float = 0.0
    """The share of moments of which the cloud writes nothing, though they should be in the log."""
    log_twice_share: float = 0.0
    """The share of moments that are in the log twice, by two ids."""


@dataclass(frozen=True)
class SpotChange:
    """A spot price in USD a chip-hour, in force from `at` (unix seconds)."""

    generation: str
    region: str
    usd: str
    at: float


@dataclass(frozen=True)
class Prices:
    """What a configuration may say of the price list.

    `listed` gives SKUs, by id or by description, whatever price in USD it says, however absurd.
    """

    spot_price_changes: tuple[SpotChange, ...] = ()
    listed: Mapping[str, str] = field(default_factory=dict)


Settings = TypeVar("Settings", Telemetry, Prices)


def patched_settings(settings: Settings, patch: object) -> Settings:
    """Apply a JSON merge of known keys; raises ApiError that names what is wrong."""
    changes = mapping(patch, "settings")
    known_only(changes, [each.name for each in fields(settings)], "settings")
    return replace(settings, **{key: READERS[key](key, raw) for key, raw in changes.items()})


def _number(highest: float) -> Callable[[str, object], float]:
    return lambda key, raw: number(raw, key, 0, highest)


def _count(lowest: int, highest: int) -> Callable[[str, object], int]:
    return lambda key, raw: whole(raw, key, lowest, highest)


def _usd(key: str, raw: object) -> str:
    try:
        # A JSON number is read as it is written, as far as that can be known by now.
        price = Decimal(str(raw))
    except InvalidOperation:
        price = Decimal("nan")
    if isinstance(raw, bool) or not price.is_finite() or abs(price) > MAX_USD:
        raise refusal(f"{key} must be a price in USD such as 1.25")
    return format(price, "f")


def _listed(key: str, raw: object) -> dict[str, str]:
    return {name: _usd(name, price) for name, price in mapping(raw, key).items()}


def _spot_changes(key: str, raw: object) -> tuple[SpotChange, ...]:
    if not isinstance(raw, list):
        raise refusal(f"{key} must be a list")
    return tuple(sorted(map(_spot_change, raw), key=lambda change: change.at))


def _spot_change(raw: object) -> SpotChange:
    order = mapping(raw, "a spot price change")
    known_only(order, [each.name for each in fields(SpotChange)], "spot price change")
    generation, region = order.get("generation"), order.get("region")
    if not isinstance(generation, str) or not isinstance(region, str):
        raise refusal("a spot price change needs a generation and a region, both texts")
    return SpotChange(
        generation, region, _usd("usd", order.get("usd")), moment(order.get("at"), "at")
    )


READERS: Mapping[str, Callable[[str, object], Any]] = {
    "delay_seconds": _number(MAX_SECONDS),
    "gap_share": _number(1),
    "late_share": _number(1),
    "missing": lambda key, raw: texts(raw, key),
    "cores": _count(1, 256),
    "log_entries": _count(0, 10_000_000),
    "log_delay_seconds": _number(MAX_SECONDS),
    "log_lost_share": _number(1),
    "log_twice_share": _number(1),
    "spot_price_changes": _spot_changes,
    "listed": _listed,
}
