"""Parsers of values in JSON or TOML. Each raises ApiError with the name of an invalid value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.emulator.clock import LAST_MOMENT, parse_time
from service.emulator.errors import ApiError, Code

LARGEST = 2**63 - 1


def invalid_value(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, text)


def parse_mapping(raw: object, what: str) -> Mapping[str, object]:
    if not isinstance(raw, Mapping):
        raise invalid_value(f"{what} must be a JSON object")
    return raw


def require_known_keys(given: Mapping[str, object], known: Iterable[str], what: str) -> None:
    """Raise ApiError for keys that are not known."""
    named = list(known)
    strangers = sorted(str(key) for key in set(given) - set(named))
    if strangers:
        raise invalid_value(f"unknown {what} {', '.join(strangers)}; known: {', '.join(named)}")


def parse_number(raw: object, what: str, lowest: float, highest: float) -> float:
    """Return the value as a float; NaN is refused, as no comparison with NaN is true."""
    if isinstance(raw, int | float) and not isinstance(raw, bool) and lowest <= raw <= highest:
        return float(raw)
    raise invalid_value(f"{what} must be a number from {lowest:g} to {highest:.0f}")


def parse_integer(raw: object, what: str, lowest: int = 0, highest: int = LARGEST) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool) and lowest <= raw <= highest:
        return raw
    bound = f", at least {lowest}" if highest == LARGEST else f" from {lowest} to {highest}"
    raise invalid_value(f"{what} must be a whole number{bound}")


def parse_flag(raw: object, what: str) -> bool:
    if not isinstance(raw, bool):
        raise invalid_value(f"{what} must be true or false")
    return raw


def parse_texts(raw: object, what: str) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple) or not all(isinstance(text, str) for text in raw):
        raise invalid_value(f"{what} must be a list of texts")
    return tuple(raw)


def parse_moment(raw: object, what: str) -> float:
    """Return unix seconds of unix seconds or RFC 3339, from 1970 to the end of year 9999."""
    try:
        at = parse_time(str(raw))
    except (ValueError, OverflowError):
        at = -1.0
    if not 0 <= at <= LAST_MOMENT:
        raise invalid_value(f"{what} must be unix seconds or RFC 3339: {raw!r}")
    return at
