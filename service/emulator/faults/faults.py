"""The faults in force, and their effects on a call."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from service.emulator.catalog import list_zones, region_of
from service.emulator.errors import ApiError, Code
from service.emulator.faults.error_details import messages_of
from service.emulator.faults.fault import Action, Facts, Fault
from service.emulator.faults.fault_parser import fault_of
from service.emulator.limits.quota import out_of_quota


@dataclass(frozen=True)
class Effects:
    """The effects of all faults that hit one call."""

    refusal: ApiError | None = None
    loss: ApiError | None = None
    """The error that replaces the response after the call took effect."""
    delay_seconds: float = 0.0
    stocked_out: bool = False
    stockout_seconds: float = 0.0
    """How long a queued resource finds no hardware; infinite if the fault gives no delay."""
    provisioning_error: ApiError | None = None
    """The error with which provisioning of a queued resource fails."""
    operation_seconds: float = 0.0
    operation_error: ApiError | None = None
    """The error with which the operation ends, without its effect."""
    misreport: ApiError | None = None
    """The error that the operation reports although it took effect."""
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
        """Return the fault that now is in force. Raises ApiError, which lists the known values."""
        fault = fault_of(order, self.rpcs, next(self._ids), now)
        self._list.append(fault)
        return fault

    @property
    def is_empty(self) -> bool:
        """Whether no fault is in force; callers then skip `apply_to`."""
        return not self._list

    def list_all(self) -> list[dict[str, Any]]:
        return [fault.as_dict() for fault in self._list]

    def clear(self) -> None:
        self._list.clear()

    def remove(self, fault_id: int) -> bool:
        left = [fault for fault in self._list if fault.id != fault_id]
        found = len(left) < len(self._list)
        self._list = left
        return found

    def apply_to(self, rpc: str, facts: Facts, now: float) -> Effects:
        """Return the effects on a call, and count one use of each fault that hits it."""
        fitting = [fault for fault in self._list if fault.fits_call(rpc, facts, now)]
        # A certain fault draws no random number, so the draws of other faults stay the same.
        hitting = [
            fault
            for fault in fitting
            if fault.probability >= 1 or self.random.random() < fault.probability
        ]
        for fault in hitting:
            fault.hits += 1
            fault.times -= fault.times > 0
        self._list = [fault for fault in self._list if not fault.is_over(now)]

        def total_seconds(action: Action) -> float:
            return sum(fault.delay_seconds for fault in hitting if fault.action is action)

        actions = {fault.action for fault in hitting}
        partial = [fault for fault in hitting if fault.action is Action.PARTIAL_LIST]
        missed = {zone for fault in partial for zone in fault.match.get("zone", list_zones())}
        return Effects(
            refusal=_find_error(hitting, facts, Action.ERROR, Action.QUOTA),
            loss=_find_error(hitting, facts, Action.LOSE_RESPONSE),
            delay_seconds=total_seconds(Action.DELAY),
            stocked_out=Action.STOCKOUT in actions,
            stockout_seconds=total_seconds(Action.STOCKOUT) or math.inf,
            provisioning_error=_find_error(hitting, facts, Action.FAIL_PROVISIONING),
            operation_seconds=total_seconds(Action.SLOW_OPERATION),
            operation_error=_find_error(hitting, facts, Action.FAIL_OPERATION),
            misreport=_find_error(hitting, facts, Action.MISREPORT_OPERATION),
            operation_lost=Action.LOSE_OPERATION in actions,
            unreachable=tuple(sorted(missed - {"-"})),
            emptied=Action.EMPTY_LIST in actions,
            shortened=Action.SHORT_LIST in actions,
            stale_seconds=total_seconds(Action.STALE),
        )


def _find_error(faults: list[Fault], facts: Facts, *actions: Action) -> ApiError | None:
    fault = next((fault for fault in faults if fault.action in actions), None)
    if fault is None:
        return None
    details = messages_of(fault.details)
    if fault.action is Action.QUOTA:
        error = out_of_quota(
            facts.get("generation", "") or "v2",
            facts.get("provisioning_model", ""),
            0,
            region_of(facts.get("zone", "")) or "global",
            facts.get("project", ""),
        )
        return ApiError(error.code, fault.message or error.message, details or error.details)
    if fault.action is Action.LOSE_RESPONSE:
        default = "The connection was lost before the response arrived."
    elif fault.code is Code.INTERNAL:
        default = "an internal error has occurred"
    else:
        default = f"{fault.code.name} on command"
    return ApiError(fault.code, fault.message or default, details)
