"""Actions on several nodes at once: delete them, keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from service.application.nodes.nodes import NodeFilter
from service.application.nodes.sorted_list import SortedQuery
from service.application.services import Services
from service.dashboard.actions.answers import answer_form
from service.dashboard.actions.form import Form, FormDep
from service.dashboard.actions.nodes import UNKNOWN_PRICE, keep_inputs, read_keep
from service.dashboard.actions.page import ActionPage, ActionResult, Confirmation
from service.dashboard.answers import HtmlRoute
from service.dashboard.kit.figures import Fact, format_count, format_units
from service.dashboard.kit.links import node_address
from service.dashboard.kit.node_rows import build_node_row
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.clock import parse_rfc3339
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.errors import Rejected, StewardError
from service.domain.nodes.node import Asked

FIELD = "node"
"""The repeated field with the ids of the chosen nodes."""

MOST = 100
"""The most nodes of one form."""

_SHOWN_REASONS = 3

router = APIRouter(
    include_in_schema=False, default_response_class=HTMLResponse, route_class=HtmlRoute
)


@dataclass(frozen=True, slots=True)
class ChosenNodes:
    """The chosen nodes that can still be changed, as the API shows them, with nano-dollars an hour
    of each that is billed (None: a price is unknown). `left_out` are the names of the others."""

    nodes: Sequence[Mapping[str, Any]]
    rates: Mapping[str, int | None]
    left_out: Sequence[str]
    as_of: int


@router.post("/nodes/several/delete")
def delete_several(request: Request, form: FormDep) -> Response:
    """Delete the chosen nodes, after a page that requests their number."""
    return answer_form(request, form, build_delete_page, delete_nodes)


@router.post("/nodes/several/keep")
def keep_several(request: Request, form: FormDep) -> Response:
    """Keep the chosen nodes, after a page that requests their number."""
    return answer_form(request, form, build_keep_page, keep_nodes)


def build_delete_page(services: Services, form: Form) -> ActionPage:
    """The page that lists the nodes before their deletion. Raises Rejected for no node."""
    chosen = read_chosen(services, form)
    sentences = (
        "The nodes and all data on their disks will be lost.",
        "A job on one of them ends with it, and so does a keep.",
    )
    if len(chosen.nodes) == 1:
        sentences = (
            "The node and all data on its disks will be lost.",
            "A job on the node ends with it, and so does a keep.",
        )
    return _build_page(chosen, services, "Delete", sentences, is_alarm=True)


def build_keep_page(services: Services, form: Form) -> ActionPage:
    """The page that requests for how long, and why, the nodes are kept. Raises Rejected for no
    node."""
    chosen = read_chosen(services, form)
    them = "the node" if len(chosen.nodes) == 1 else "the nodes"
    sentences = (
        f"During a keep, idleness, the time to live and the end of a job do not delete {them}.",
        "A person, Google, and a budget that deletes still do. A keep never becomes shorter.",
        f"A keep does not stop the cost of {them}.",
    )
    return _build_page(chosen, services, "Keep", sentences, is_alarm=False)


def delete_nodes(services: Services, form: Form) -> ActionResult:
    """Request the deletion of each node."""
    chosen = read_chosen(services, form)
    return _act_on_each(chosen, "The deletion of {} is requested.", services.nodes.request_end)


def keep_nodes(services: Services, form: Form) -> ActionResult:
    """Keep each node. Raises Rejected for an invalid field."""
    order = read_keep(form)
    if not order.reason:
        raise Rejected("give a reason: why are the nodes kept?", field="reason")
    return _act_on_each(
        read_chosen(services, form),
        "The keep of {} is written.",
        lambda node_id: services.keeps.keep_node(node_id, order),
    )


def read_chosen(services: Services, form: Form) -> ChosenNodes:
    """The nodes that a form names. Raises Rejected for none, or too many."""
    ids = tuple(dict.fromkeys(form.list_values(FIELD)))
    if not ids:
        raise Rejected("choose at least one node on the page of nodes", field=FIELD)
    if len(ids) > MOST:
        raise Rejected(f"choose at most {MOST} nodes at once", field=FIELD)
    found = services.nodes.list_sorted(SortedQuery(NodeFilter(ids=ids), size=MOST))
    open_nodes = [node for node in found.nodes if can_change(node)]
    left_out = [node["name"] for node in found.nodes if not can_change(node)]
    return ChosenNodes(open_nodes, found.rates, left_out, found.as_of)


def can_change(said: Mapping[str, Any]) -> bool:
    """Whether a node has neither ended nor is being deleted."""
    return said["ended_at"] is None and said["asked"] != Asked.ABSENT


def _build_page(
    chosen: ChosenNodes,
    services: Services,
    verb: str,
    sentences: tuple[str, ...],
    *,
    is_alarm: bool,
) -> ActionPage:
    number = len(chosen.nodes)
    what = format_count(number, "node")
    names = ", ".join(map(escape_invisible, chosen.left_out))
    left_out = (f"Already deleted, or being deleted: {names}.",) if names else ()
    confirmation = Confirmation("the number of nodes", str(number))
    if number == 1:
        confirmation = Confirmation("the name of the node", chosen.nodes[0]["name"])
    rates = [chosen.rates.get(node["id"], 0) for node in chosen.nodes]
    known = [rate or 0 for rate in rates]
    places = places_for(sum(known))
    # The lines are rounded so that they add up to the shown sum.
    units = in_units(known, unit_for(places))
    total = f"{format_units(sum(units), places)} an hour now"
    if None in rates:
        total += f", and {format_count(rates.count(None), 'node')} at {UNKNOWN_PRICE}"
    # A line for each node: its state, its cost an hour, its owner, and what ends with it.
    facts = [Fact("Together", f"{what}, {total}")]
    for node, rate, rounded in zip(chosen.nodes, rates, units, strict=True):
        row = build_node_row(node, chosen.as_of)
        cost = UNKNOWN_PRICE if rate is None else f"{format_units(rounded, places)} an hour"
        parts = [row.state, cost, row.hardware, row.zone, node["owner"], node["team"]]
        if job := services.jobs.find_running(node["id"]):
            parts.append(f"job {job} runs on it")
        keep = node["keep"]
        if keep is not None and keep["until"] and parse_rfc3339(keep["until"]) > chosen.as_of:
            parts.append(f"kept until {keep['until']}: {keep['reason']}")
        text = ", ".join(escape_invisible(part) for part in parts if part)
        facts.append(Fact(escape_invisible(node["name"]), text, href=node_address(node["id"])))
    return ActionPage(
        heading=f"{verb} {what}?",
        button=f"{verb} {what}",
        back=("/nodes", "Nodes"),
        sentences=(*sentences, *left_out),
        facts=tuple(facts),
        inputs=() if is_alarm else keep_inputs(),
        hidden=tuple((FIELD, node["id"]) for node in chosen.nodes),
        confirmation=confirmation,
        is_alarm=is_alarm,
        refusal="" if number else "None of the chosen nodes can be changed any more.",
    )


def _act_on_each(chosen: ChosenNodes, message: str, act: Callable[[str], object]) -> ActionResult:
    """Act on each node in a transaction of its own, so that the refusal of one node stops no other.
    Raises the error if every node is refused."""
    refusals: list[tuple[str, StewardError]] = []
    for node in sorted(chosen.nodes, key=lambda node: node["id"]):
        try:
            act(node["id"])
        except StewardError as error:
            refusals.append((node["name"], error))
    done = len(chosen.nodes) - len(refusals)
    if refusals and not done:
        raise refusals[0][1]
    summary = message.format(format_count(done, "node"))
    reasons = [f"{escape_invisible(name)}: {error}" for name, error in refusals[:_SHOWN_REASONS]]
    if refusals:
        refused = format_count(len(refusals), "node")
        reasons.insert(0, f"{refused} refused")
    return ActionResult("/nodes", summary, ("; ".join(reasons),) if reasons else ())
