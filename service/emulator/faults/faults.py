"""The faults in force, and what those that fit a call do to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from service.emulator.catalog import region_of, zones
from service.emulator.errors import ApiError, Code
from service.emulator.faults.error_details import messages_of
from service.emulator.faults.fault import Action, Facts, Fault
from service.emulator.faults.fault_parser import fault_of
from service.emulator.limits.quota import out_of_quota


@dataclass(frozen=True)
class Effects:
    """What the faults that fit one call do to it."""

    refusal: ApiError | None = None
    loss: ApiError | None = None
    """What the caller gets to see instead of the response, after the call took effect."""
    delay_seconds: float = 0.0
    stocked_out: bool = False
    stockout_seconds: float = 0.0
    """How long hardware stays out of reach of what is queued; infinite if nobody said."""
    provisioning_error: ApiError | None = None
    """How a queued resource fails while it is provisioned."""
    operation_seconds: float = 0.0
    operation_error: ApiError | None = None
    """How the operation ends, without its effect."""
    misreport: ApiError | None = None
    """How the operation says that it ended, though it had its effect."""
    operation_lost: bool = False
    unreachable: tuple[str, ...] = ()
    emptied: bool = False
    shortened: bool = False
    stale_seconds: float = 0.0


@dataclass
class Faults:
    """The faults in force, in the order they were asked for."""

    rpcs: tuple[str, ...]
    random: Random
    _list: list[Fault] = field(default_factory=list)
    _ids: count[int] = field(default_factory=lambda: count(1))

    def add(self, order: object, now: float) -> Fault:
        """Put a fault in force; raises ApiError that lists what is known."""
        fault = fault_of(order, self.rpcs, next(self._ids), now)
        self._list.append(fault)
        return fault

    @property
    def quiet(self) -> bool:
        """Say that no fault is in force, so that nobody need ask."""
        return not self._list

    def all(self) -> list[dict[str, Any]]:
        return [fault.as_dict() for fault in self._list]

    def clear(self) -> None:
        self._list.clear()

    def remove(self, fault_id: int) -> bool:
        left = [fault for fault in self._list if fault.id != fault_id]
        found = len(left) < len(self._list)
        self._list = left
        return found

    def take(self, rpc: str, facts: Facts, now: float) -> Effects:
        """Use up one turn of every fault that strikes the call."""
        striking = [fault for fault in self._list if fault.fits(rpc, facts, now)]
        striking = [fault for fault in striking if self._strikes(fault)]
        for fault in striking:
            fault.hits += 1
            fault.times -= fault.times > 0
        self._list = [fault for fault in self._list if not fault.is_over(now)]
        return _together(striking, facts)

    def _strikes(self, fault: Fault) -> bool:
        # A certain fault draws nothing, so that it leaves the others' luck as it was.
        return fault.probability >= 1 or self.random.random() < fault.probability


def _together(faults: list[Fault], facts: Facts) -> Effects:
    def seconds(action: Action) -> float:
        return sum(fault.delay_seconds for fault in faults if fault.action is action)

    actions = {fault.action for fault in faults}
    return Effects(
        refusal=_first(faults, facts, Action.ERROR, Action.QUOTA),
        loss=_first(faults, facts, Action.LOSE_RESPONSE),
        delay_seconds=seconds(Action.DELAY),
        stocked_out=Action.STOCKOUT in actions,
        stockout_seconds=seconds(Action.STOCKOUT) or math.inf,
        provisioning_error=_first(faults, facts, Action.FAIL_PROVISIONING),
        operation_seconds=seconds(Action.SLOW_OPERATION),
        operation_error=_first(faults, facts, Action.FAIL_OPERATION),
        misreport=_first(faults, facts, Action.MISREPORT_OPERATION),
        operation_lost=Action.LOSE_OPERATION in actions,
        unreachable=_unreachable(faults),
        emptied=Action.EMPTY_LIST in actions,
        shortened=Action.SHORT_LIST in actions,
        stale_seconds=seconds(Action.STALE),
    )


def _first(faults: list[Fault], facts: Facts, *actions: Action) -> ApiError | None:
    return next((_error(fault, facts) for fault in faults if fault.action in actions), None)


def _unreachable(faults: list[Fault]) -> tuple[str, ...]:
    partial = [fault for fault in faults if fault.action is Action.PARTIAL_LIST]
    named = {zone for fault in partial for zone in fault.match.get("zone", zones())} - {"-"}
    return tuple(sorted(named))


def _error(fault: Fault, facts: Facts) -> ApiError:
    details = messages_of(fault.details)
    if fault.action is Action.QUOTA:
        error = _out_of_quota(facts)
        return ApiError(error.code, fault.message or error.message, details or error.details)
    return ApiError(fault.code, fault.message or _default_text(fault), details)


def _default_text(fault: Fault) -> str:
    if fault.action is Action.LOSE_RESPONSE:
        return "The connection was lost before the response arrived."
    if fault.code is Code.INTERNAL:
        return "an internal error has occurred"
    return f"{fault.code.name} on command"


def _out_of_quota(facts: Facts) -> ApiError:
    return out_of_quota(
        facts.get("generation", "") or "v2",
        facts.get("provisioning_model", ""),
        0,
        region_of(facts.get("zone", "")) or "global",
        facts.get("project", ""),
    )
