"""Readings as text with their units. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.idle.signals.signal import Kind

UNITS: Mapping[str, str] = {
    Kind.DUTY_CYCLE: "%",
    Kind.TENSORCORE: "%",
    Kind.CPU: "%",
    Kind.REPORTED_CPU: "%",
    Kind.TENSORCORE_IDLE: "s",
    Kind.ACTIVE_CHIPS: "chips",
    Kind.UTILIZED_CHIPS: "chips",
    Kind.SCHEDULED_CHIPS: "chips",
}


def describe_value(kind: str, value: float) -> str:
    """Return `2.5 %`, `0.74 kB/s`, `63 s`; `held` or `free` for a device."""
    if kind == Kind.DEVICE:
        return "held" if value else "free"
    if kind in UNITS:
        return f"{value:.3g} {UNITS[kind]}" if value < 1_000 else f"{value:,.0f} {UNITS[kind]}"
    return f"{value / 1_000:,.3g} kB/s" if value < 1_000_000 else f"{value / 1e6:,.3g} MB/s"
