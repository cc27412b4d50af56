"""All kinds of problems, and the operations that answer each kind."""

from __future__ import annotations

from collections.abc import Mapping

from service.api.http import auth, connections, middleware, problems
from service.api.http.problems import ProblemKind

EVERY_KIND: tuple[ProblemKind, ...] = tuple(
    dict.fromkeys(
        (
            middleware.UNREADABLE,
            middleware.CROSS_SITE,
            middleware.MISDIRECTED,
            auth.UNAUTHORIZED,
            connections.HEAD_TOO_LARGE,
            connections.BUSY,
            problems.INVALID,
            problems.MALFORMED,
            problems.WRONG_MEDIA_TYPE,
            problems.TOO_LARGE,
            problems.STALE,
            problems.INTERNAL,
            *problems.BY_STATUS.values(),
            *problems.KINDS.values(),
        )
    )
)
"""Two kinds may share a slug: `stale-version` is 409, and 412 for a request with `If-Match`."""

_HARDWARE = frozenset({"request_node", "submit_job"})
_LOGS = frozenset({"get_job_logs"})
_NONE = frozenset[str]()
"""For kinds that only the daemon meets: no operation answers them today."""

_RARE: Mapping[str, frozenset[str]] = {
    "budget-exceeded": _HARDWARE | {"start_node", "update_node", "keep_node"},
    "token-refused": frozenset({"send_heartbeat"}),
    "unknown-accelerator-type": _HARDWARE
    | {"estimate", "resolve_runtime", "list_capacity", "adopt_orphan"},
    "not-offered": _HARDWARE
    | {"estimate", "plan_hardware", "resolve_runtime", "list_accelerators"},
    "runtime-mismatch": _HARDWARE | {"reimage_node", "resolve_runtime"},
    "quota-too-small": _HARDWARE,
    "cloud-error": _LOGS,
    "cloud-denied": _LOGS,
    "cloud-refused": _LOGS,
    "cloud-not-found": _LOGS,
    "cloud-unavailable": _LOGS,
    "cloud-name-taken": _NONE,
    "capacity-unavailable": _NONE,
    "quota-exceeded": _NONE,
    "image-not-found": _NONE,
    "image-denied": _NONE,
    "no-such-platform": _NONE,
    "lease-lost": _NONE,
}
"""The operations that answer a kind. Other kinds may be answered by every operation with their
status."""


def kinds_of(operation: str, status: int) -> tuple[ProblemKind, ...]:
    """The kinds of problems that an operation answers with this status. `operation` is its id."""
    return tuple(
        kind
        for kind in EVERY_KIND
        if kind.status == status and operation in _RARE.get(kind.slug, {operation})
    )
