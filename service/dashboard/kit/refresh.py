"""How often an open page asks whether it has changed."""

from __future__ import annotations

LIVE_SECONDS = 5
SLOW_SECONDS = 30

_LIVE = {"", "nodes", "jobs", "orphans"}
"""First parts of the paths of pages whose nodes, jobs and costs change by the second."""

_FIXED = {"prices", "manual", "docs"}
"""Pages that change too seldom to be asked for again."""


def refresh_seconds(path: str) -> int:
    """Seconds between two requests of the script for the page at this path. 0 if it makes none."""
    first = path.lstrip("/").partition("/")[0]
    if first in _FIXED:
        return 0
    return LIVE_SECONDS if first in _LIVE else SLOW_SECONDS
