"""Reads the order for a fault, as it comes over the control route or from a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from service.emulator.errors import Code
from service.emulator.faults.error_details import details_of
from service.emulator.faults.fault import DEFAULT_CODES, FACTS, Action, Fault, calls_for
from service.emulator.validation import known_only, mapping, number, refusal, whole

MAX_SECONDS = 30 * 86_400
SET_BY_US = {"id", "hits", "since"}


def fault_of(order: object, rpcs: tuple[str, ...], fault_id: int, now: float) -> Fault:
    """Check an order and make the fault of it; raises ApiError that lists what is known."""
    order = mapping(order, "a fault")
    known = [each.name for each in fields(Fault) if each.name not in SET_BY_US]
    known_only(order, known, "fault key")
    action = _action(order.get("action"))
    return Fault(
        id=fault_id,
        rpc=_rpc(order.get("rpc"), action, rpcs),
        action=action,
        match=_match(order.get("match", {})),
        code=_code(order.get("code", DEFAULT_CODES.get(action, Code.INTERNAL))),
        message=_text(order.get("message", "")),
        details=details_of(order.get("details", [])),
        delay_seconds=_seconds(order, "delay_seconds"),
        # What has an end of its own does not wear out by itself.
        times=_times(order.get("times", 0 if "for_seconds" in order else 1)),
        probability=_share(order.get("probability", 1)),
        after_seconds=_seconds(order, "after_seconds"),
        for_seconds=_seconds(order, "for_seconds"),
        since=now,
    )


def _action(raw: object) -> Action:
    try:
        return Action(str(raw))
    except ValueError:
        raise refusal(f"unknown action {raw!r}; known: {', '.join(Action)}") from None


def _rpc(raw: object, action: Action, rpcs: tuple[str, ...]) -> str:
    fitting = calls_for(action, rpcs)
    if raw not in fitting:
        raise refusal(f"unknown rpc {raw!r} for {action}; known: {', '.join(fitting)}")
    return str(raw)


def _match(raw: object) -> dict[str, tuple[str, ...]]:
    match = mapping(raw, "match")
    known_only(match, FACTS, "match key")
    return {key: _texts(key, value) for key, value in match.items()}


def _texts(key: str, raw: object) -> tuple[str, ...]:
    several = raw if isinstance(raw, list) else [raw]
    if not all(isinstance(each, str) for each in several):
        raise refusal(f"match {key} must be a text or a list of texts")
    return tuple(several)


def _code(raw: object) -> Code:
    try:
        return Code(raw) if isinstance(raw, int) else Code[str(raw)]
    except (KeyError, ValueError):
        raise refusal(f"unknown code {raw!r}; known: {', '.join(Code.__members__)}") from None


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise refusal("message must be a text")
    return raw


def _seconds(order: Mapping[str, object], key: str) -> float:
    return number(order.get(key, 0), key, 0, MAX_SECONDS)


def _share(raw: object) -> float:
    if not isinstance(raw, int | float) or isinstance(raw, bool) or not 0 < raw <= 1:
        raise refusal("probability must be a number above 0, at most 1")
    return float(raw)


def _times(raw: object) -> int:
    return whole(raw, "times", lowest=-1) or -1
