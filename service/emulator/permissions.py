"""Which permissions a caller has, by its token, and the denial of a call that needs another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from service.emulator.errors import ApiError, permission_denied
from service.emulator.validation import known_only, mapping, refusal, texts

EVERYBODY = "*"
"""Stands for each caller that is not named, those without a token among them."""
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
    # Google's list of permissions names none for queued resources and reservations.
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
"""By RPC. A call that is not named needs no permission, as those of the price list."""
STORAGE = ("storage.buckets.get", "storage.objects.*")


@dataclass(frozen=True)
class Permissions:
    """What one caller may do; a permission may end in `.*`, and `*` is all of them."""

    granted: tuple[str, ...] = ("*",)
    """Those that the caller has."""
    denied: tuple[str, ...] = ()
    """Those that the caller lacks though they are granted."""

    def include(self, permission: str) -> bool:
        return _any_fits(self.granted, permission) and not _any_fits(self.denied, permission)


Callers = Mapping[str, Permissions]


def callers_of(raw: object, what: str) -> dict[str, Permissions]:
    """Read the permissions of callers, by token or `*`; raises ApiError that says what is wrong."""
    return {token: _permissions(each, token) for token, each in mapping(raw, what).items()}


def may(callers: Callers, token: str, permission: str) -> bool:
    """Whether the caller with a token has a permission; all are had where nothing is said."""
    found = callers.get(token) or callers.get(EVERYBODY)
    return found is None or found.include(permission)


def denial(callers: Callers, token: str, rpc: str, resource: str) -> ApiError | None:
    """The refusal of a call on a resource whose caller lacks the permission; None if it may."""
    permission = NEEDED.get(rpc, "")
    if not permission or may(callers, token, permission):
        return None
    return permission_denied(permission, resource)


def token_of(authorization: str) -> str:
    """Give the token of an `Authorization` header; empty if it has none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _permissions(raw: object, token: str) -> Permissions:
    said = mapping(raw, f"permissions of {token!r}")
    known_only(said, [each.name for each in fields(Permissions)], "key of permissions")
    found = Permissions(**{key: texts(value, key) for key, value in said.items()})
    for each in (*found.granted, *found.denied):
        if PATTERN.fullmatch(each) is None:
            raise refusal(f"{each!r} is not a permission, such as tpu.nodes.create or tpu.nodes.*")
    for each in found.denied:
        _require_effect(each)
    return found


def _require_effect(pattern: str) -> None:
    """Refuse a denial that fits no permission which the emulator asks for: it is a mistake."""
    known = sorted({*NEEDED.values(), *STORAGE})
    if not any(_fits(pattern, each) or _fits(each, pattern) for each in known):
        raise refusal(f"nothing here needs {pattern!r}; known: {', '.join(known)}")


def _any_fits(patterns: tuple[str, ...], permission: str) -> bool:
    return any(_fits(each, permission) for each in patterns)


def _fits(pattern: str, permission: str) -> bool:
    prefix, star, _ = pattern.partition("*")
    return permission.startswith(prefix) if star else permission == pattern
