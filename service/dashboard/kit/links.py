"""Where the page of a node, a job or a reservation is."""

from __future__ import annotations

from urllib.parse import quote


def home_of_node(node_id: str) -> str:
    """The address of a node's page."""
    return f"/nodes/{quote(node_id, safe='')}"


def home_of_job(job_id: str) -> str:
    """The address of a job's page."""
    return f"/jobs/{quote(job_id, safe='')}"


def home_of_reservation(reservation_id: str) -> str:
    """The address of a reservation's page."""
    return f"/reservations/{quote(reservation_id, safe='')}"
