"""The page of nodes: those that match a filter, in an order, with their end and their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from service.application.attention.attention import BudgetEnd
from service.application.cleanup.cleanup import IdleBrief
from service.application.nodes.nodes import NodeFilter
from service.application.nodes.sorted_list import NodeOrder, SortedPage, SortedQuery, SortKey
from service.application.services import Services
from service.dashboard.actions.several_nodes import can_change
from service.dashboard.kit.banners import list_doubts
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_units,
    to_moment,
)
from service.dashboard.kit.links import FilterLink
from service.dashboard.kit.node_rows import FAILING, NodeRow, build_node_row
from service.dashboard.kit.visible_text import escape_invisible
from service.dashboard.pages.nodes.idle import RAIL_REASONS, idle_line
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import parse_rfc3339
from service.domain.costs.display_rounding import in_units, unit_for
from service.domain.errors import Rejected
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail
from service.domain.nodes.keep import names_job_end
from service.domain.nodes.node import NodeState

NODES = 100
"""The most nodes on one page."""

CHOICES = 200
"""The most values in one menu."""

LIVE, ENDED, ALL, FAILING_ONLY = "live", "ended", "all", "failing"
_STATES: Mapping[str, str] = {
    LIVE: "live",
    ENDED: "ended",
    ALL: "live and ended",
    FAILING_ONLY: FAILING,
    **{state: state for state in NodeState},
}
_MENUS: Mapping[str, str] = {
    "project": "Project",
    "team": "Team",
    "owner": "Owner",
    "generation": "Generation",
    "zone": "Zone",
    "model": "Model",
}
_SORTS: Mapping[SortKey, tuple[str, bool]] = {
    SortKey.RATE: ("$/h now", True),
    SortKey.COST: ("Cost so far", True),
    SortKey.AGE: ("Age", True),
    SortKey.NAME: ("Name", False),
    SortKey.DELETES_AT: ("Deletes at", False),
    SortKey.USED: ("Used in 24 h", False),
}
"""The title of each order, and whether it begins with the largest."""

_CENTS = 2


@dataclass(frozen=True, slots=True)
class NodesAsked:
    """The nodes that the address asks for; an empty field matches every node. `order` is `asc` or
    `desc`, empty for the usual one of `sort`."""

    state: str = LIVE
    search: str = ""
    project: str = ""
    team: str = ""
    owner: str = ""
    generation: str = ""
    zone: str = ""
    model: str = ""
    sort: str = SortKey.RATE
    order: str = ""
    after: str = ""

    @staticmethod
    def from_query(values: Mapping[str, str]) -> NodesAsked:
        """The nodes of an address. The usual value stands in for one that is not known."""
        asked = NodesAsked(
            **{
                name: text.strip()[:200]
                for name, text in values.items()
                if name in NodesAsked.__dataclass_fields__
            }
        )
        if asked.state not in _STATES:
            asked = replace(asked, state=LIVE)
        if asked.sort not in set(SortKey):
            asked = replace(asked, sort=SortKey.RATE)
        if asked.order not in ("asc", "desc"):
            asked = replace(asked, order="")
        return asked

    @property
    def href(self) -> str:
        """The address of these nodes."""
        usual = NodesAsked()
        said = {name: text for name, text in asdict(self).items() if text != getattr(usual, name)}
        return f"/nodes?{urlencode(said)}" if said else "/nodes"

    @property
    def is_narrowed(self) -> bool:
        """Whether the address has a filter."""
        return replace(self, sort=SortKey.RATE, order="", after="") != NodesAsked()

    def to_query(self) -> SortedQuery:
        """The question as the application takes it."""
        key = SortKey(self.sort)
        descending = self.order == "desc" if self.order else _SORTS[key][1]
        fields: dict[str, Any] = {name: [text] for name in _MENUS if (text := getattr(self, name))}
        only = NodeFilter(
            **fields,
            state=[self.state] if self.state in set(NodeState) else [],
            live=self.state == LIVE,
            ended=self.state == ENDED,
            failing=self.state == FAILING_ONLY,
            search=self.search,
        )
        return SortedQuery(only, NodeOrder(key, descending), NODES, self.after)


@dataclass(frozen=True, slots=True)
class Menu:
    """One menu of the form: the parameter, its title, and its values, each with its text."""

    name: str
    title: str
    options: tuple[tuple[str, str], ...]
    chosen: str


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """When a node is deleted, or stopped, without a person, and why: `TTL`, `idle`, or `idle, then
    stopped`. `at` is None while a rail without a known end holds it; `why` then names the rail."""

    at: Moment | None
    wait: str
    why: str


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A row of the table. `rate` is what is billed now, an hour; empty for nothing, `no price` for
    an unknown price. `used` is the used share of the last day, empty while that is unknown.
    `can_change` is whether the node can be kept or deleted."""

    row: NodeRow
    rate: str
    is_unpriced: bool
    end: NodeEnd | None
    used: str
    can_change: bool


@dataclass(frozen=True, slots=True)
class NodesPage:
    """Everything on the page. `summary` is about all nodes that match, `shown` about those of the
    page, empty if that is all. `sorts` has a link for each order, by the key of its column."""

    asked: NodesAsked
    notices: tuple[str, ...]
    menus: tuple[Menu, ...]
    sort: Menu
    filters: tuple[FilterLink, ...]
    number: str
    rate: str
    unpriced: str
    shown: str
    rows: tuple[ListedNode, ...]
    has_used: bool
    can_change: bool
    sorts: Mapping[str, FilterLink]
    descending: bool
    first: str
    more: str
    as_of: Moment


def build_nodes_page(services: Services, asked: NodesAsked) -> NodesPage:
    """The page as of now. Requests within the same second share one page until data on the page
    changes."""
    stamp = services.health.read_stamp()
    return services.pages.get_or_make(
        ("nodes", asked, stamp), lambda: _build_nodes_page(services, asked)
    )


def _build_nodes_page(services: Services, asked: NodesAsked) -> NodesPage:
    budgets = services.attention.find_budget_ends()
    ends = {node_id: end.at for node_id, end in budgets.items()}
    try:
        found = services.nodes.list_sorted(replace(asked.to_query(), budget_ends=ends))
    except Rejected:  # a token that this service did not issue asks for the first page
        asked = replace(asked, after="")
        found = services.nodes.list_sorted(replace(asked.to_query(), budget_ends=ends))
    briefs = services.cleanup.find_briefs(node["id"] for node in found.nodes)
    paused = services.cleanup.list_paused()
    billed = [found.rates.get(node["id"]) or 0 for node in found.nodes]
    rates = in_units(billed, unit_for(_CENTS))
    rows = tuple(
        _build_listed_node(
            node,
            found,
            format_units(rate, _CENTS),
            briefs.get(node["id"]),
            budgets.get(node["id"]),
            is_paused=node["project"] in paused,
        )
        for node, rate in zip(found.nodes, rates, strict=True)
    )
    first = replace(asked, after="")
    is_descending = first.to_query().order.descending
    # The link of a column sorts by it, or turns the order round if the page is sorted by it.
    sorts = dict[str, FilterLink]()
    for key, (title, is_descending_first) in _SORTS.items():
        is_turned = first.sort == key and is_descending is is_descending_first
        turned = "asc" if is_descending else "desc"
        href = replace(first, sort=key, order=turned if is_turned else "").href
        sorts[key] = FilterLink(title, href, first.sort == key)
    is_part = len(rows) < found.number
    unpriced = " and ".join(
        format_count(number, noun)
        for number, noun in ((found.running.unpriced, "node"), (found.running.unpriced_vms, "VM"))
        if number
    )
    return NodesPage(
        asked=asked,
        notices=tuple(list_doubts(services.health.read_fleet())),
        menus=tuple(_list_menus(asked, found.choices)),
        sort=Menu(
            "sort", "Sort by", tuple((key, title) for key, (title, _) in _SORTS.items()), asked.sort
        ),
        filters=tuple(_list_filters(first)),
        number=format_count(found.number, "node"),
        rate=format_units(in_units([found.running.burn], unit_for(_CENTS))[0], _CENTS),
        unpriced=f"{unpriced} without a known price" if unpriced else "",
        shown=f"{len(rows):,} shown, {format_units(sum(rates), _CENTS)}/h" if is_part else "",
        rows=rows,
        has_used=any(row.used for row in rows),
        can_change=any(row.can_change for row in rows),
        sorts=sorts,
        descending=is_descending,
        first=first.href if asked.after else "",
        more=replace(asked, after=found.next_page_token).href if found.next_page_token else "",
        as_of=to_moment(found.as_of),
    )


def _list_menus(asked: NodesAsked, choices: Mapping[str, Sequence[str]]) -> Sequence[Menu]:
    """The menus; those with a single value are left out unless they are in use."""
    menus = [Menu("state", "State", tuple(_STATES.items()), asked.state)]
    for name, title in _MENUS.items():
        chosen, values = getattr(asked, name), list(choices[name])[:CHOICES]
        if chosen and chosen not in values:
            values.append(chosen)
        if chosen or len(values) > 1:
            options = tuple((value, escape_invisible(value)) for value in values)
            menus.append(Menu(name, title, (("", "any"), *options), chosen))
    return menus


def _list_filters(first: NodesAsked) -> Sequence[FilterLink]:
    """The filters in use, each with the address of the page without it."""
    usual = NodesAsked()
    titles = {"state": "state", "search": "name has"} | {
        name: title.lower() for name, title in _MENUS.items()
    }
    return [
        FilterLink(
            f"{title}: {escape_invisible(_STATES.get(text, text) if name == 'state' else text)}",
            replace(first, **{name: getattr(usual, name)}).href,
        )
        for name, title in titles.items()
        if (text := getattr(first, name)) != getattr(usual, name)
    ]


def _build_listed_node(
    said: Mapping[str, Any],
    found: SortedPage,
    rate: str,
    brief: IdleBrief | None,
    budget: BudgetEnd | None,
    *,
    is_paused: bool,
) -> ListedNode:
    node_id, now = said["id"], found.as_of
    is_billed = node_id in found.rates
    is_unpriced = found.rates[node_id] is None if is_billed else said["hourly_cost"] is None
    used = found.used.get(node_id)
    return ListedNode(
        row=build_node_row(said, now, "" if brief is None else idle_line(brief, now)),
        rate=rate if is_billed and not is_unpriced else "",
        is_unpriced=is_unpriced,
        end=find_end(said, brief, budget, now, is_paused=is_paused),
        used="" if used is None else f"{used} %",
        can_change=can_change(said),
    )


def find_end(
    said: Mapping[str, Any],
    brief: IdleBrief | None,
    budget: BudgetEnd | None,
    now: int,
    *,
    is_paused: bool = False,
) -> NodeEnd | None:
    """The earliest of the end of its time to live, its end for idleness and its deletion by a
    budget; None if none is known, or if the node is deleted already. `is_paused` says that a person
    has paused the cleanup of its project."""
    if not can_change(said):
        return None
    ends: list[tuple[int, str]] = []
    held: list[str] = []
    if said["deletes_at"] is not None:
        # A pause holds back a time to live, but no end of a job, and nothing that Google does.
        is_google = said["provisioning_model"] == ProvisioningModel.FLEX_START
        if is_paused and not is_google and not names_job_end(said["ends_after_keep"]):
            held.append(f"TTL: {RAIL_REASONS[Rail.PAUSE]}")
        else:
            ends.append((parse_rfc3339(said["deletes_at"]), "TTL"))
    if brief is not None and brief.expected is not None:
        is_stop = brief.applied.action is Action.STOP
        why = "idle, then stopped" if is_stop else "idle"
        if brief.expected.at is None:
            held.append(f"{why}: {RAIL_REASONS[brief.expected.held_by[0].rail]}")
        else:
            ends.append((brief.expected.at, why))
    if budget is not None:
        ends.append((budget.at, f"budget {escape_invisible(budget.budget)}"))
    if ends:
        at, why = min(ends)
        wait = f"in {format_duration(at - now)}" if at > now else "at the next check"
        return NodeEnd(to_moment(at), wait, why)
    return NodeEnd(None, "held", held[0]) if held else None
