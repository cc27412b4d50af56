"""A fault: the calls that it hits, its effect, its time and its number of uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from service.emulator.errors import Code
from service.emulator.faults.error_details import Details

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
    "queued_resource_id",
    "page",
    "metric",
)


class Action(StrEnum):
    STOCKOUT = "stockout"
    QUOTA = "quota"
    ERROR = "error"
    DELAY = "delay"
    LOSE_RESPONSE = "lose_response"
    SLOW_OPERATION = "slow_operation"
    FAIL_OPERATION = "fail_operation"
    MISREPORT_OPERATION = "misreport_operation"
    LOSE_OPERATION = "lose_operation"
    PARTIAL_LIST = "partial_list"
    EMPTY_LIST = "empty_list"
    SHORT_LIST = "short_list"
    STALE = "stale"
    FAIL_PROVISIONING = "fail_provisioning"


OPERATIONS = (
    "CreateNode",
    "DeleteNode",
    "StartNode",
    "StopNode",
    "UpdateNode",
    "CreateQueuedResource",
    "DeleteQueuedResource",
    "ResetQueuedResource",
    "ReimageNode",
    "SimulateMaintenanceEvent",
    "PerformMaintenance",
    "PerformMaintenanceQueuedResource",
)

# The calls that an action can hit. An action without an entry can hit every call.
ONLY_FOR = {
    Action.STOCKOUT: ("CreateNode", "StartNode", "CreateQueuedResource"),
    Action.FAIL_PROVISIONING: ("CreateQueuedResource",),
    Action.SLOW_OPERATION: OPERATIONS,
    Action.FAIL_OPERATION: OPERATIONS,
    Action.MISREPORT_OPERATION: OPERATIONS,
    Action.LOSE_OPERATION: OPERATIONS,
    Action.PARTIAL_LIST: ("ListNodes", "ListQueuedResources"),
    Action.STALE: ("ListNodes", "GetNode", "ListQueuedResources", "GetQueuedResource"),
}
LISTS_ONLY = {Action.EMPTY_LIST, Action.SHORT_LIST}
DEFAULT_CODES = {Action.LOSE_RESPONSE: Code.UNAVAILABLE}


def calls_for(action: Action, rpcs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the calls that a fault of this action may hit; `*` stands for every call."""
    if action in LISTS_ONLY:
        return tuple(rpc for rpc in rpcs if rpc.startswith("List"))
    return ONLY_FOR.get(action, (*rpcs, "*"))


@dataclass
class Fault:
    """A fault with its remaining `times` (-1: unlimited) and the facts that a call must match.

    The fault starts `after_seconds` after `since`, lasts `for_seconds` (0: without end) and hits a
    matching call with `probability`. `delay_seconds` is real time for `delay`, world time for
    `slow_operation` and for the `stockout` of a queued resource, and the age of the data for
    `stale`.
    """

    id: int
    rpc: str
    action: Action
    match: dict[str, tuple[str, ...]]
    code: Code
    message: str
    details: Details
    delay_seconds: float
    times: int
    probability: float
    after_seconds: float
    for_seconds: float
    since: float
    hits: int = 0

    def fits_call(self, rpc: str, facts: Facts, now: float) -> bool:
        # A list over all zones (`-`) can miss any zone that the fault names.
        lists_all_zones = self.action is Action.PARTIAL_LIST and facts.get("zone", "") == "-"
        return (
            self.rpc in {rpc, "*"}
            and self.in_force(now)
            and all(
                facts.get(key, "") in wanted or (lists_all_zones and key == "zone")
                for key, wanted in self.match.items()
            )
        )

    def in_force(self, now: float) -> bool:
        return now >= self.since + self.after_seconds and not self.is_over(now)

    def is_over(self, now: float) -> bool:
        ends = self.since + self.after_seconds + self.for_seconds
        return not self.times or (self.for_seconds > 0 and now >= ends)

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "code": self.code.name,
            "details": list(self.details),
            "match": {
                key: values[0] if len(values) == 1 else list(values)
                for key, values in self.match.items()
            },
        }
