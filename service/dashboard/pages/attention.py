"""Waste, what needs a person, and what is next, in words, and the page of the agenda."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from service.application.services import Services
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_money,
    format_units,
    to_moment,
)
from service.dashboard.kit.links import node_address
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.attention.agenda import Agenda, AgendaEntry, AgendaKind
from service.domain.attention.waste import WasteKind, WasteReport, WasteSum
from service.domain.costs.display_rounding import in_units, places_for, unit_for

SHOWN = 8
"""Lines of each list on the first page."""

MOST = 500
"""Lines of each list on the page of the agenda."""

_WASTES = {
    WasteKind.FAILING_DELETION: ("failing deletion", "failing deletions", "/nodes?state=failing"),
    WasteKind.ORPHAN: ("orphan", "orphans", "/orphans"),
    WasteKind.UNUSED_RESERVATION: ("unused reservation", "unused reservations", "/reservations"),
    WasteKind.CRASH_LOOP: ("crash loop", "crash loops", "/cleanup"),
    WasteKind.NO_PROGRESS: ("node without progress", "nodes without progress", "/cleanup"),
    WasteKind.IDLE: ("idle node", "idle nodes", "/cleanup"),
}
"""One, several, and the page that says more."""

_PAGES = {
    AgendaKind.ORPHANS: "/orphans",
    AgendaKind.UNPRICED: "/prices",
    AgendaKind.BUDGET_DELETES: "/budgets",
    AgendaKind.BUDGET_EXCEEDED: "/budgets",
}
_KEEP, _DELETE = ("Keep", "/nodes/{}/keep"), ("Delete", "/nodes/{}/delete")
_EDIT = ("Edit", "/budgets/{}/edit")
_ACTIONS = {
    AgendaKind.FAILING_DELETION: ("Details", "/nodes/{}"),
    AgendaKind.UNPRICED: ("Add a price", "/manual/command-line#budgets-and-prices"),
    AgendaKind.ORPHANS: ("Adopt or delete", "/orphans"),
    AgendaKind.BUDGET_DELETES: _EDIT,
    AgendaKind.BUDGET_EXCEEDED: _EDIT,
    AgendaKind.CLEANUP_HOLDS: ("Cleanup", "/cleanup"),
    AgendaKind.CRASH_LOOP: _DELETE,
    AgendaKind.NO_PROGRESS: _DELETE,
    AgendaKind.UNTOLD: _DELETE,
    AgendaKind.UNKNOWN: _DELETE,
    AgendaKind.IDLE_END: _KEEP,
    AgendaKind.TTL_END: _KEEP,
    AgendaKind.JOB_END: _KEEP,
}
"""What a person can do about an entry, and the address of the form, with the place of its subject.
The form shows what it costs, and asks before anything is done."""
_NAMES = {AgendaKind.ORPHANS: "Orphans", AgendaKind.UNPRICED: "Prices"}
_URGENT = frozenset({AgendaKind.FAILING_DELETION, AgendaKind.BUDGET_DELETES})


@dataclass(frozen=True, slots=True)
class WastePart:
    """The number and the cost an hour of one kind of waste, and the page that says more."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class WasteFigure:
    """The cost an hour of what does no work, its parts, and what is unknown (empty for nothing)."""

    hourly: str
    parts: tuple[WastePart, ...]
    unknown: str


@dataclass(frozen=True, slots=True)
class AgendaRow:
    """One line: its sign (`tone`), the subject with its page (empty for none), and a sentence.
    `wait` is the time until `at`, or since `since`. `action` is what a person can do about it, with
    the page that asks for it at `action_href`; both are empty for nothing."""

    tone: str
    name: str
    href: str
    text: str
    at: Moment | None
    wait: str
    hourly: str
    action: str
    action_href: str


@dataclass(frozen=True, slots=True)
class AgendaLists:
    """Both lists, and how many lines each leaves out."""

    needs_person: tuple[AgendaRow, ...]
    needs_person_left_out: int
    next: tuple[AgendaRow, ...]
    next_left_out: int


def describe_waste(report: WasteReport) -> WasteFigure:
    """The figure of the waste, with its kinds, the most expensive first."""
    kinds = sorted(
        ((kind, total) for kind, total in report.by_kind.items() if total.number),
        key=lambda item: (-item[1].hourly, item[0]),
    )
    unknown = report.unknown
    places = places_for(report.total.hourly)
    # The parts are rounded so that they add up to the shown total.
    units = in_units([total.hourly for _, total in kinds], unit_for(places))
    return WasteFigure(
        hourly=format_units(sum(units), places),
        parts=tuple(
            WastePart(
                f"{format_count(total.number, *_WASTES[kind][:2])}"
                f" {describe_rate(total, format_units(rounded, places))}",
                _WASTES[kind][2],
            )
            for (kind, total), rounded in zip(kinds, units, strict=True)
        ),
        unknown=f"+ {format_count(unknown.number, 'node')} with unknown activity"
        f" {describe_rate(unknown)}"
        if unknown.number
        else "",
    )


def describe_orphans(report: WasteReport) -> str:
    """What the orphans cost, which the sum of the known nodes does not include; empty if they cost
    nothing."""
    orphans = report.by_kind.get(WasteKind.ORPHAN, WasteSum())
    if not orphans.hourly and not orphans.unpriced:
        return ""
    count = format_count(orphans.number, "orphan")
    if orphans.known_hourly is None:
        return f"{count}, at an unknown price"
    unpriced = f", {orphans.unpriced} at an unknown price" if orphans.unpriced else ""
    return f"{count}: {format_money(orphans.known_hourly)}/h more{unpriced}"


def describe_rate(total: WasteSum, rounded: str = "") -> str:
    """The cost an hour of a sum as far as prices are known; `rounded` is the known cost where it is
    part of another shown sum."""
    hourly = total.known_hourly
    if hourly is None:
        return "at an unknown price"
    more = f" and {total.unpriced} without a price" if total.unpriced else ""
    return f"{rounded or format_money(hourly)}/h{more}"


@dataclass(frozen=True, slots=True)
class AgendaPage:
    """The page of the agenda: both lists in full."""

    lists: AgendaLists
    as_of: Moment


def build_agenda_page(services: Services) -> AgendaPage:
    """The page as of now."""
    agenda = services.attention.read_agenda(MOST)
    return AgendaPage(build_agenda_lists(agenda, MOST), to_moment(agenda.as_of))


def build_agenda_lists(agenda: Agenda, most: int = SHOWN) -> AgendaLists:
    """The lists with at most `most` lines each: those of the first page, if no number is given."""
    personal, following = agenda.needs_person, agenda.next
    return AgendaLists(
        tuple(_build_rows(personal[:most], agenda.as_of)),
        max(0, len(personal) - most) + agenda.personal_left_out,
        tuple(_build_rows(following[:most], agenda.as_of)),
        max(0, len(following) - most) + agenda.next_left_out,
    )


def _build_rows(entries: Iterable[AgendaEntry], now: int) -> Iterable[AgendaRow]:
    for entry in entries:
        href = _PAGES.get(entry.kind, "")
        if entry.subject_id and not href:
            href = node_address(entry.subject_id)
        if href == "/budgets":
            href += f"#budget-{quote(entry.subject_id, safe='')}"
        action, address = _ACTIONS.get(entry.kind, ("", ""))
        wait = ""
        if entry.at is not None:
            left = entry.at - now
            wait = f"in {format_duration(left)}" if left > 0 else "at the next check"
        elif entry.since is not None:
            wait = f"for {format_duration(now - entry.since)}"
        yield AgendaRow(
            tone="trouble"
            if entry.kind in _URGENT
            else "coming"
            if entry.needs_person
            else "going",
            name=escape_invisible(entry.subject) or _NAMES.get(entry.kind, ""),
            href=href,
            text=escape_invisible(entry.text),
            at=None if entry.at is None else to_moment(entry.at),
            wait=wait,
            hourly=f"{format_money(entry.hourly)}/h" if entry.hourly else "",
            action=action,
            action_href=address.format(quote(entry.subject_id, safe="")),
        )
