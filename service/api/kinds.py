"""Every kind of problem that the service can answer, wherever it is answered."""

from __future__ import annotations

from service.api import auth, connections, guard, problems
from service.api.problems import Kind

EVERY_KIND: tuple[Kind, ...] = tuple(
    dict.fromkeys(
        (
            guard.UNREADABLE,
            guard.CROSS_SITE,
            guard.MISDIRECTED,
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
