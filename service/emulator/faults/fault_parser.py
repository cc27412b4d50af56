"""Parses the order for a fault, which a control route or a scenario sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from service.emulator.errors import Code
from service.emulator.faults.error_details import details_of
from service.emulator.faults.fault import DEFAULT_CODES, FACTS, Action, Fault, calls_for
from service.emulator.validation import (
    invalid_value,
    parse_integer,
    parse_mapping,
    parse_number,
    require_known_keys,
)

MAX_SECONDS = 30 * 86_400
SET_BY_US = {"id", "hits", "since"}


def fault_of(order: object, rpcs: tuple[str, ...], fault_id: int, now: float) -> Fault:
    """Return the fault that an order describes. Raises ApiError, which lists the known values."""
    order = parse_mapping(order, "a fault")
    known = [field.name for field in fields(Fault) if field.name not in SET_BY_US]
    require_known_keys(order, known, "fault key")
    try:
        action = Action(str(order.get("action")))
    except ValueError:
        known_actions = ", ".join(Action)
        raise invalid_value(
            f"unknown action {order.get('action')!r}; known: {known_actions}"
        ) from None
    rpc, fitting = order.get("rpc"), calls_for(action, rpcs)
    if rpc not in fitting:
        raise invalid_value(f"unknown rpc {rpc!r} for {action}; known: {', '.join(fitting)}")
    match = _parse_match(order.get("match", {}))
    raw = order.get("code", DEFAULT_CODES.get(action, Code.INTERNAL))
    try:
        code = Code(raw) if isinstance(raw, int) else Code[str(raw)]
    except (KeyError, ValueError):
        raise invalid_value(f"unknown code {raw!r}; known: {', '.join(Code.__members__)}") from None
    message = order.get("message", "")
    if not isinstance(message, str):
        raise invalid_value("message must be a text")
    return Fault(
        id=fault_id,
        rpc=str(rpc),
        action=action,
        match=match,
        code=code,
        message=message,
        details=details_of(order.get("details", [])),
        delay_seconds=_parse_seconds(order, "delay_seconds"),
        # A fault with a duration is not limited to one call by default.
        times=parse_integer(
            order.get("times", 0 if "for_seconds" in order else 1), "times", lowest=-1
        )
        or -1,
        probability=_parse_probability(order.get("probability", 1)),
        after_seconds=_parse_seconds(order, "after_seconds"),
        for_seconds=_parse_seconds(order, "for_seconds"),
        since=now,
    )


def _parse_match(raw: object) -> dict[str, tuple[str, ...]]:
    match = parse_mapping(raw, "match")
    require_known_keys(match, FACTS, "match key")
    found: dict[str, tuple[str, ...]] = {}
    for key, value in match.items():
        texts: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise invalid_value(f"match {key} must be a text or a list of texts")
        found[key] = tuple(texts)
    return found


def _parse_seconds(order: Mapping[str, object], key: str) -> float:
    return parse_number(order.get(key, 0), key, 0, MAX_SECONDS)


def _parse_probability(raw: object) -> float:
    if not isinstance(raw, int | float) or isinstance(raw, bool) or not 0 < raw <= 1:
        raise invalid_value("probability must be a number above 0, at most 1")
    return float(raw)
