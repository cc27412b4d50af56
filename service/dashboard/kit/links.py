"""Addresses of the pages of nodes, jobs and reservations, and links that filter a page."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


def node_address(node_id: str) -> str:
    """The address of a node's page."""
    return f"/nodes/{quote(node_id, safe='')}"


def job_address(job_id: str) -> str:
    """The address of a job's page."""
    return f"/jobs/{quote(job_id, safe='')}"


def reservation_address(reservation_id: str) -> str:
    """The address of a reservation's page."""
    return f"/reservations/{quote(reservation_id, safe='')}"


@dataclass(frozen=True, slots=True)
class FilterLink:
    """A link that changes what a page shows; `chosen` is True if the page shows it now."""

    name: str
    href: str
    chosen: bool = False
