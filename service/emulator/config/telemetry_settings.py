"""The settings of telemetry and of the price list: their delays, gaps and contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from service.emulator.validation import (
    invalid_value,
    parse_integer,
    parse_mapping,
    parse_moment,
    parse_number,
    parse_texts,
    require_known_keys,
)

MAX_SECONDS = 30 * 86_400.0
MAX_USD = Decimal(10) ** 15


@dataclass(frozen=True)
class Telemetry:
    """The settings of time series and log entries."""

    delay_seconds: float = 180.0
    """The longest time until a point is visible; each series has its own delay up to this."""
    gap_share: float = 0.0
    """The share of points that are lost, from 0 to 1."""
    late_share: float = 0.0
    """The share of points that are delayed by `delay_seconds` more, so that they come out of order.
    """
    missing: tuple[str, ...] = ()
    """Series that are never measured: a zone, a generation, the name of a node, `worker-0`, a
    metric, or several of them with a space between, which must all match."""
    cores: int = 4
    """The number of cores of each host with a series; real hosts have up to 240."""
    log_entries: int = 20_000
    """The number of log entries kept, the newest ones; 0 turns logs off."""
    log_delay_seconds: float = 0.0
    """The time until an entry of the cloud itself is visible in the log."""
    log_lost_share: float = 0.0
    """The share of the cloud's own log entries that are lost."""
    log_twice_share: float = 0.0
    """The share of the cloud's own log entries that are written twice, with two ids."""


@dataclass(frozen=True)
class SpotChange:
    """A spot price in USD per chip-hour, in force from `at` (unix seconds)."""

    generation: str
    region: str
    usd: str
    at: float


@dataclass(frozen=True)
class Prices:
    """The settings of the price list.

    `listed` sets the price of SKUs in USD, by id or by description. Any price is accepted.
    """

    spot_price_changes: tuple[SpotChange, ...] = ()
    listed: Mapping[str, str] = field(default_factory=dict)


Settings = TypeVar("Settings", Telemetry, Prices)


def patched_settings(settings: Settings, patch: object) -> Settings:
    """Return the settings with a JSON merge patch of known keys applied; raises ApiError."""
    changes = parse_mapping(patch, "settings")
    require_known_keys(changes, [key.name for key in fields(settings)], "settings")
    return replace(settings, **{key: READERS[key](key, raw) for key, raw in changes.items()})


def _number_parser(highest: float) -> Callable[[str, object], float]:
    return lambda key, raw: parse_number(raw, key, 0, highest)


def _count_parser(lowest: int, highest: int) -> Callable[[str, object], int]:
    return lambda key, raw: parse_integer(raw, key, lowest, highest)


def _parse_usd(key: str, raw: object) -> str:
    """Return a price as a decimal text; raises ApiError."""
    try:
        # The text of a JSON number is its shortest form, mostly the one that was written.
        price = Decimal(str(raw))
    except InvalidOperation:
        price = Decimal("nan")
    if isinstance(raw, bool) or not price.is_finite() or abs(price) > MAX_USD:
        raise invalid_value(f"{key} must be a price in USD such as 1.25")
    return format(price, "f")


def _parse_spot_changes(key: str, raw: object) -> tuple[SpotChange, ...]:
    """Return the price changes, sorted by time; raises ApiError."""
    if not isinstance(raw, list):
        raise invalid_value(f"{key} must be a list")
    changes = []
    for change in raw:
        order = parse_mapping(change, "a spot price change")
        require_known_keys(order, [key.name for key in fields(SpotChange)], "spot price change")
        generation, region = order.get("generation"), order.get("region")
        if not isinstance(generation, str) or not isinstance(region, str):
            raise invalid_value("a spot price change needs a generation and a region, both texts")
        usd = _parse_usd("usd", order.get("usd"))
        changes.append(SpotChange(generation, region, usd, parse_moment(order.get("at"), "at")))
    return tuple(sorted(changes, key=lambda change: change.at))


READERS: Mapping[str, Callable[[str, object], Any]] = {
    "delay_seconds": _number_parser(MAX_SECONDS),
    "gap_share": _number_parser(1),
    "late_share": _number_parser(1),
    "missing": lambda key, raw: parse_texts(raw, key),
    "cores": _count_parser(1, 256),
    "log_entries": _count_parser(0, 10_000_000),
    "log_delay_seconds": _number_parser(MAX_SECONDS),
    "log_lost_share": _number_parser(1),
    "log_twice_share": _number_parser(1),
    "spot_price_changes": _parse_spot_changes,
    "listed": lambda key, raw: {
        name: _parse_usd(name, price) for name, price in parse_mapping(raw, key).items()
    },
}
