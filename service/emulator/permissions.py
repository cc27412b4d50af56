"""Which permissions a caller has, by its token, and the denial of a call that needs another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from service.emulator.errors import ApiError, permission_denied
from service.emulator.validation import (
    invalid_value,
    parse_mapping,
    parse_texts,
    require_known_keys,
)

EVERYBODY = "*"
"""The key of all callers that have no key of their own, with and without a token."""
PATTERN = re.compile(r"\*|[a-z]+(\.[A-Za-z]+)*\.(\*|[A-Za-z]+)")
NEEDED = {
    "ListNodes": "tpu.nodes.list",
    "GetNode": "tpu.nodes.get",
    "CreateNode": "tpu.nodes.create",
    "DeleteNode": "tpu.nodes.delete",
    "StopNode": "tpu.nodes.stop",
    "StartNode": "tpu.nodes.start",
    "UpdateNode": "tpu.nodes.update",
    "ReimageNode": "tpu.nodes.reimage",
    "GetGuestAttributes": "tpu.nodes.get",
    "SimulateMaintenanceEvent": "tpu.nodes.simulateMaintenanceEvent",
    "PerformMaintenance": "tpu.nodes.performMaintenance",
    # Google documents no permissions of queued resources and reservations; these are our own.
    "ListQueuedResources": "tpu.queuedResources.list",
    "GetQueuedResource": "tpu.queuedResources.get",
    "CreateQueuedResource": "tpu.queuedResources.create",
    "DeleteQueuedResource": "tpu.queuedResources.delete",
    "ResetQueuedResource": "tpu.queuedResources.reset",
    "PerformMaintenanceQueuedResource": "tpu.queuedResources.performMaintenance",
    "GetMaintenanceInfo": "tpu.queuedResources.get",
    "ListReservations": "tpu.reservations.list",
    "ListAcceleratorTypes": "tpu.acceleratortypes.list",
    "GetAcceleratorType": "tpu.acceleratortypes.get",
    "ListRuntimeVersions": "tpu.runtimeversions.list",
    "GetRuntimeVersion": "tpu.runtimeversions.get",
    "ListTensorFlowVersions": "tpu.tensorflowversions.list",
    "GetTensorFlowVersion": "tpu.tensorflowversions.get",
    "ListLocations": "tpu.locations.list",
    "GetLocation": "tpu.locations.get",
    "ListOperations": "tpu.operations.list",
    "GetOperation": "tpu.operations.get",
    "DeleteOperation": "tpu.operations.delete",
    "CancelOperation": "tpu.operations.cancel",
    "ListTimeSeries": "monitoring.timeSeries.list",
    "ListMetricDescriptors": "monitoring.metricDescriptors.list",
    "GetMetricDescriptor": "monitoring.metricDescriptors.get",
    "ListLogEntries": "logging.logEntries.list",
    "TailLogEntries": "logging.logEntries.list",
    "WriteLogEntries": "logging.logEntries.create",
    "ListLogs": "logging.logs.list",
}
"""By RPC. A call that is missing here needs no permission, such as those of the price list."""
STORAGE = ("storage.buckets.get", "storage.objects.*")


@dataclass(frozen=True)
class Permissions:
    """The permissions of one caller. A permission may end in `.*`, and `*` is all of them."""

    granted: tuple[str, ...] = ("*",)
    denied: tuple[str, ...] = ()
    """Permissions that the caller lacks although they are granted."""

    def has_permission(self, permission: str) -> bool:
        granted = _is_any_covering(self.granted, permission)
        return granted and not _is_any_covering(self.denied, permission)


Callers = Mapping[str, Permissions]


def callers_of(raw: object, what: str) -> dict[str, Permissions]:
    """Parse the permissions of callers, by token or `*`; raises ApiError."""
    callers = {}
    for token, permissions in parse_mapping(raw, what).items():
        said = parse_mapping(permissions, f"permissions of {token!r}")
        require_known_keys(said, [key.name for key in fields(Permissions)], "key of permissions")
        found = Permissions(**{key: parse_texts(value, key) for key, value in said.items()})
        for pattern in (*found.granted, *found.denied):
            if PATTERN.fullmatch(pattern) is None:
                raise invalid_value(
                    f"{pattern!r} is not a permission, such as tpu.nodes.create or tpu.nodes.*"
                )
        for denied in found.denied:
            # A denial of a permission that no call needs is a mistake of its author.
            known = sorted({*NEEDED.values(), *STORAGE})
            if not any(
                _is_covered(needed, denied) or _is_covered(denied, needed) for needed in known
            ):
                raise invalid_value(f"nothing here needs {denied!r}; known: {', '.join(known)}")
        callers[token] = found
    return callers


def is_permitted(callers: Callers, token: str, permission: str) -> bool:
    """Whether the caller with this token has a permission; a caller without a key has all."""
    found = callers.get(token) or callers.get(EVERYBODY)
    return found is None or found.has_permission(permission)


def find_denial(callers: Callers, token: str, rpc: str, resource: str) -> ApiError | None:
    """Return the error of a caller that lacks the permission of an RPC; None if it has it."""
    permission = NEEDED.get(rpc, "")
    if not permission or is_permitted(callers, token, permission):
        return None
    return permission_denied(permission, resource)


def token_of(authorization: str) -> str:
    """Return the bearer token of an `Authorization` header; empty if it has none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_any_covering(patterns: tuple[str, ...], permission: str) -> bool:
    return any(_is_covered(permission, pattern) for pattern in patterns)


def _is_covered(permission: str, pattern: str) -> bool:
    prefix, star, _ = pattern.partition("*")
    return permission.startswith(prefix) if star else permission == pattern
