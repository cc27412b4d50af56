"""Faults on command: which call goes wrong, how, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from itertools import count
from typing import Any

from service.emulator.catalog import region_of, zones
from service.emulator.errors import ApiError, Code, quota_exceeded

Facts = Mapping[str, str]
FACTS = (
    "project",
    "zone",
    "name",
    "node_id",
    "accelerator_type",
    "generation",
    "runtime_version",
    "provisioning_model",
)


class Action(StrEnum):
    STOCKOUT = "stockout"
    QUOTA = "quota"
    ERROR = "error"
    DELAY = "delay"
    LOSE_RESPONSE = "lose_response"
    SLOW_OPERATION = "slow_operation"
    PARTIAL_LIST = "partial_list"


# The calls that an action makes sense for; an action not named here fits every call.
ONLY_FOR = {
    Action.STOCKOUT: ("CreateNode", "StartNode"),
    Action.SLOW_OPERATION: ("CreateNode", "DeleteNode", "StartNode", "StopNode", "UpdateNode"),
    Action.PARTIAL_LIST: ("ListNodes",),
}


@dataclass
class Fault:
    """`times` is what is left of it, -1 for ever; a match value may be a text or several."""

    id: int
    rpc: str
    action: Action
    match: dict[str, tuple[str, ...]]
    code: Code
    message: str
    delay_seconds: float
    times: int
    hits: int = 0

    def fits(self, rpc: str, facts: Facts) -> bool:
        return self.rpc in {rpc, "*"} and all(
            self._agrees(key, wanted, facts.get(key, "")) for key, wanted in self.match.items()
        )

    def _agrees(self, key: str, wanted: tuple[str, ...], actual: str) -> bool:
        everywhere = self.action is Action.PARTIAL_LIST and key == "zone" and actual == "-"
        return everywhere or actual in wanted

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "code": self.code.name, "match": _shown(self.match)}


@dataclass(frozen=True)
class Effects:
    """What the faults that fit one call do to it."""

    refusal: ApiError | None = None
    delay_seconds: float = 0.0
    response_lost: bool = False
    stocked_out: bool = False
    operation_seconds: float = 0.0
    unreachable: tuple[str, ...] = ()


@dataclass
class Faults:
    """The faults in force, in the order they were asked for."""

    rpcs: tuple[str, ...]
    _list: list[Fault] = field(default_factory=list)
    _ids: count[int] = field(default_factory=lambda: count(1))

    def add(self, order: object) -> Fault:
        """Put a fault in force; raises ApiError that lists what is known."""
        fault = _parse(order, self.rpcs, next(self._ids))
        self._list.append(fault)
        return fault

    def all(self) -> list[dict[str, Any]]:
        return [fault.as_dict() for fault in self._list]

    def clear(self) -> None:
        self._list.clear()

    def remove(self, fault_id: int) -> bool:
        left = [fault for fault in self._list if fault.id != fault_id]
        found = len(left) < len(self._list)
        self._list = left
        return found

    def take(self, rpc: str, facts: Facts) -> Effects:
        """Use up one turn of every fault that fits the call."""
        fitting = [fault for fault in self._list if fault.fits(rpc, facts)]
        for fault in fitting:
            fault.hits += 1
            fault.times -= fault.times > 0
        self._list = [fault for fault in self._list if fault.times]
        return _together(fitting, facts)


def _together(faults: list[Fault], facts: Facts) -> Effects:
    def seconds(action: Action) -> float:
        return sum(fault.delay_seconds for fault in faults if fault.action is action)

    refusals = [_refusal(fault, facts) for fault in faults if _refuses(fault)]
    actions = {fault.action for fault in faults}
    return Effects(
        refusal=refusals[0] if refusals else None,
        delay_seconds=seconds(Action.DELAY),
        response_lost=Action.LOSE_RESPONSE in actions,
        stocked_out=Action.STOCKOUT in actions,
        operation_seconds=seconds(Action.SLOW_OPERATION),
        unreachable=_unreachable(faults),
    )


def _unreachable(faults: list[Fault]) -> tuple[str, ...]:
    partial = [fault for fault in faults if fault.action is Action.PARTIAL_LIST]
    named = {zone for fault in partial for zone in fault.match.get("zone", zones())}
    return tuple(sorted(named))


def _refuses(fault: Fault) -> bool:
    return fault.action in {Action.ERROR, Action.QUOTA}


def _refusal(fault: Fault, facts: Facts) -> ApiError:
    if fault.action is Action.ERROR:
        return ApiError(fault.code, fault.message or f"{fault.code.name} on command")
    error = out_of_quota(facts, 0)
    return ApiError(error.code, fault.message or error.message, error.details)


def out_of_quota(facts: Facts, limit: int) -> ApiError:
    """Refuse in the words of the API's own quota, which is named by generation and model."""
    generation = facts.get("generation", "") or "v2"
    spot = facts.get("provisioning_model") in {"spot", "preemptible"}
    family = {"v5e": "V5sLitepod"}.get(generation, generation.upper())
    name = f"TPU{family}{'Preemptible' if spot else ''}PerProjectPerRegionForTPUAPI"
    region = region_of(facts.get("zone", "")) or "global"
    return quota_exceeded(name, limit, f"region {region}", facts.get("project", ""))


def _parse(order: object, rpcs: tuple[str, ...], fault_id: int) -> Fault:
    if not isinstance(order, Mapping):
        raise _bad("a fault must be a JSON object")
    known = [each.name for each in fields(Fault) if each.name not in {"id", "hits"}]
    _refuse_unknown(order, known, "fault key")
    action = _action(order.get("action"))
    return Fault(
        id=fault_id,
        rpc=_rpc(order.get("rpc"), action, rpcs),
        action=action,
        match=_match(order.get("match", {})),
        code=_code(order.get("code", "INTERNAL")),
        message=_text(order.get("message", "")),
        delay_seconds=_seconds(order.get("delay_seconds", 0)),
        times=_times(order.get("times", 1)),
    )


def _action(raw: object) -> Action:
    try:
        return Action(str(raw))
    except ValueError:
        raise _bad(f"unknown action {raw!r}; known: {', '.join(Action)}") from None


def _rpc(raw: object, action: Action, rpcs: tuple[str, ...]) -> str:
    fitting = ONLY_FOR.get(action, (*rpcs, "*"))
    if raw not in fitting:
        raise _bad(f"unknown rpc {raw!r} for {action}; known: {', '.join(fitting)}")
    return str(raw)


def _match(raw: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(raw, Mapping):
        raise _bad("match must be a JSON object")
    _refuse_unknown(raw, list(FACTS), "match key")
    return {key: _texts(key, value) for key, value in raw.items()}


def _texts(key: str, raw: object) -> tuple[str, ...]:
    several = raw if isinstance(raw, list) else [raw]
    if not all(isinstance(each, str) for each in several):
        raise _bad(f"match {key} must be a text or a list of texts")
    return tuple(several)


def _code(raw: object) -> Code:
    try:
        return Code(raw) if isinstance(raw, int) else Code[str(raw)]
    except (KeyError, ValueError):
        raise _bad(f"unknown code {raw!r}; known: {', '.join(Code.__members__)}") from None


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise _bad("message must be a text")
    return raw


def _seconds(raw: object) -> float:
    if not isinstance(raw, int | float) or isinstance(raw, bool) or not 0 <= raw <= 86_400:
        raise _bad("delay_seconds must be a number from 0 to 86400")
    return float(raw)


def _times(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < -1:
        raise _bad("times must be a whole number; 0 or -1 means for ever")
    return raw or -1


def _shown(match: Mapping[str, tuple[str, ...]]) -> dict[str, str | list[str]]:
    return {key: some[0] if len(some) == 1 else list(some) for key, some in match.items()}


def _refuse_unknown(given: Mapping[str, object], known: list[str], what: str) -> None:
    strangers = sorted(set(given) - set(known))
    if strangers:
        raise _bad(f"unknown {what} {', '.join(strangers)}; known: {', '.join(known)}")


def _bad(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, text)
