"""The links between pages: a few at the top, and under "Costs" those that belong to the costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class NavLink(NamedTuple):
    """A link to a page, and the links under it. The first of these leads to the same page."""

    address: str
    name: str
    under: tuple[NavLink, ...] = ()


LINKS = (
    NavLink("/", "Overview"),
    NavLink("/nodes", "Nodes"),
    NavLink("/jobs", "Jobs"),
    NavLink(
        "/costs",
        "Costs",
        (
            NavLink("/costs", "By group"),
            NavLink("/statements", "Statements"),
            NavLink("/reservations", "Reservations"),
            NavLink("/commitments", "Commitments"),
            NavLink("/prices", "Prices"),
            NavLink("/reconcile", "Reconcile"),
        ),
    ),
    NavLink("/budgets", "Budgets"),
    NavLink("/capacity", "Capacity"),
    NavLink("/cleanup", "Cleanup"),
    NavLink("/orphans", "Orphans"),
)


@dataclass(frozen=True, slots=True)
class NavItem:
    """A link as it is shown. `current` is the value of `aria-current`: `page` for the page itself,
    `true` for a page above it, empty for the others."""

    address: str
    name: str
    current: str


@dataclass(frozen=True, slots=True)
class Navigation:
    """The links of a page: those at the top, and those under the one that is current."""

    top: Sequence[NavItem]
    under: Sequence[NavItem]
    above: str = ""
    """The name of the link that `under` belongs to."""


def build_navigation(path: str) -> Navigation:
    """The links as the page at this path shows them."""
    top = []
    under: Sequence[NavItem] = ()
    above = ""
    for link in LINKS:
        shown = [
            NavItem(sub.address, sub.name, _describe_current(sub.address, path))
            for sub in link.under
        ]
        current = _describe_current(link.address, path)
        if any(item.current for item in shown):
            current, under, above = current or "true", shown, link.name
        if current == "page" and shown:
            current = "true"  # the page itself is said once, below
        top.append(NavItem(link.address, link.name, current))
    return Navigation(top, under, above)


def _describe_current(address: str, path: str) -> str:
    if path == address:
        return "page"
    return "true" if address != "/" and path.startswith(f"{address}/") else ""
