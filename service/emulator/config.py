"""How long things take in the emulated cloud, and how strict and how full it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from service.emulator.errors import ApiError, Code

MAX_SECONDS = 10 * 365 * 24 * 3600.0


@dataclass(frozen=True)
class Durations:
    """Seconds that each change takes, before `speed` divides them."""

    create: float = 20.0
    delete: float = 8.0
    stop: float = 10.0
    start: float = 15.0
    update: float = 2.0
    repair: float = 60.0


@dataclass(frozen=True)
class Config:
    """`capacity` and `quotas` are chips by `zone/generation`; what is not named is unlimited.

    Capacity counts nodes that hold hardware, and runs out late, inside the operation. Quota counts
    every listed node of a project, dead ones too, and refuses at once.
    """

    speed: float = 1.0
    strict_runtimes: bool = False
    durations: Durations = field(default_factory=Durations)
    capacity: Mapping[str, int] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)

    def seconds(self, what: str) -> float:
        """Say how long a change takes at the present speed."""
        nominal: float = getattr(self.durations, what)
        return nominal / self.speed

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def patched(config: Config, patch: object) -> Config:
    """Apply a JSON merge of known keys; raises ApiError that names what is wrong."""
    changes = _mapping(patch, "the configuration")
    _refuse_unknown(changes, [each.name for each in fields(Config)], "configuration key")
    return replace(config, **{key: _value(config, key, raw) for key, raw in changes.items()})


def _value(config: Config, key: str, raw: object) -> Any:
    match key:
        case "speed":
            return _number(raw, "speed", 0.001, 1_000_000)
        case "strict_runtimes":
            return _flag(raw, key)
        case "durations":
            return _durations(config.durations, raw)
        case _:
            return {name: _count(chips, name) for name, chips in _mapping(raw, key).items()}


def _durations(durations: Durations, raw: object) -> Durations:
    changes = _mapping(raw, "durations")
    _refuse_unknown(changes, [each.name for each in fields(Durations)], "duration")
    return replace(
        durations, **{key: _number(value, key, 0, MAX_SECONDS) for key, value in changes.items()}
    )


def _mapping(raw: object, what: str) -> Mapping[str, object]:
    if not isinstance(raw, Mapping):
        raise _refusal(f"{what} must be a JSON object")
    return raw


def _number(raw: object, what: str, lowest: float, highest: float) -> float:
    if isinstance(raw, int | float) and not isinstance(raw, bool) and lowest <= raw <= highest:
        return float(raw)
    raise _refusal(f"{what} must be a number from {lowest:g} to {highest:.0f}")


def _count(raw: object, what: str) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < 0:
        raise _refusal(f"{what} must be a whole number of chips, at least 0")
    return raw


def _flag(raw: object, what: str) -> bool:
    if not isinstance(raw, bool):
        raise _refusal(f"{what} must be true or false")
    return raw


def _refuse_unknown(given: Mapping[str, object], known: list[str], what: str) -> None:
    strangers = sorted(set(given) - set(known))
    if strangers:
        raise _refusal(f"unknown {what} {', '.join(strangers)}; known: {', '.join(known)}")


def _refusal(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, text)
