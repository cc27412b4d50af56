"""Actions on a node: delete it, keep it, end its keep, stop it, start it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from service.application.cleanup.keeps import KeepOrder
from service.application.nodes.cost import NodeCost
from service.application.services import Services
from service.dashboard.actions.form import Form, parse_whole_number
from service.dashboard.actions.page import ActionPage, ActionResult, Choice, Confirmation, Input
from service.dashboard.kit.figures import Fact, format_money, to_moment
from service.dashboard.kit.links import job_address, node_address
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.domain.clock import DAY, HOUR, parse_instant_or_date
from service.domain.errors import Rejected
from service.domain.lifecycle.precedence import EndCause
from service.domain.nodes.keep import MAX_REASON, Keep, asked_keep
from service.domain.nodes.node import Asked, Node
from service.domain.nodes.stop_rules import stop_obstacles

UNKNOWN_PRICE = "an unknown price"
DURATIONS: Mapping[int, str] = {
    HOUR: "1 hour",
    4 * HOUR: "4 hours",
    8 * HOUR: "8 hours",
    12 * HOUR: "12 hours",
    DAY: "1 day",
    2 * DAY: "2 days",
    3 * DAY: "3 days",
    7 * DAY: "7 days",
    14 * DAY: "14 days",
    30 * DAY: "30 days",
}


class ActionLink(NamedTuple):
    """A link to the page of an action. `is_alarm` marks an action that loses something."""

    address: str
    name: str
    is_alarm: bool = False


def list_node_actions(node: Node, now: int) -> tuple[ActionLink, ...]:
    """The actions that are possible on a node now."""
    if node.has_ended or node.asked is Asked.ABSENT:
        return ()
    address = node_address(node.id)
    keep = asked_keep(node, now)
    actions = [ActionLink(f"{address}/keep", "Keep until" if keep is None else "Keep longer")]
    if keep is not None:
        actions.append(ActionLink(f"{address}/unkeep", "End the keep"))
    if node.asked is Asked.STOPPED:
        actions.append(ActionLink(f"{address}/start", "Start"))
    elif node.spec.stoppable:
        actions.append(ActionLink(f"{address}/stop", "Stop"))
    return (*actions, ActionLink(f"{address}/delete", "Delete", is_alarm=True))


def build_delete_page(services: Services, _form: Form, node_id: str) -> ActionPage:
    """The page that requests the name of a node before its deletion. Raises NotFound."""
    node, cost = services.nodes.get(node_id), services.nodes.get_cost(node_id)
    name = escape_invisible(node.name)
    keep = asked_keep(node, cost.as_of)
    sentences = ["The node and all data on its disks will be lost."]
    if job := services.jobs.find_running(node.id):
        sentences.append(f"Job {job} runs on the node, and ends with it.")
    if keep is not None:
        sentences.append(f"The node is kept until {_describe_keep(keep)}. The keep ends with it.")
    return ActionPage(
        heading=f"Delete node {name}?",
        button="Delete the node",
        back=_back_to(node),
        sentences=tuple(sentences),
        facts=tuple(list_node_facts(services, node, cost)),
        confirmation=Confirmation("the name of the node", node.name),
        is_alarm=True,
        refusal=_find_end(node),
    )


def delete_node(services: Services, _form: Form, node_id: str) -> ActionResult:
    """Request the deletion of a node."""
    ended = services.nodes.request_end(node_id)
    name = escape_invisible(ended.node.name)
    message = f"The deletion of node {name} is requested. It is gone when its state is DELETED."
    return ActionResult(node_address(node_id), message, ended.warnings)


def build_stop_page(services: Services, _form: Form, node_id: str) -> ActionPage:
    """The page that says what the stop of a node means. Raises NotFound."""
    node, cost = services.nodes.get(node_id), services.nodes.get_cost(node_id)
    sentences = ["Its disk stays, and its chips cost nothing while it is stopped."]
    if job := services.jobs.find_running(node.id):
        sentences.append(f"Job {job} runs on the node, and ends with it.")
    if (keep := asked_keep(node, cost.as_of)) is not None:
        sentences.append(f"The node is kept until {_describe_keep(keep)}. The keep ends with it.")
    refusal = _find_end(node)
    if not refusal and not node.spec.stoppable:
        obstacles = ", and ".join(stop_obstacles(node.spec))
        refusal = f"This node cannot be stopped: {obstacles}. Delete it instead."
    if not refusal and node.asked is Asked.STOPPED:
        refusal = "The stop of this node is already requested."
    return ActionPage(
        heading=f"Stop node {escape_invisible(node.name)}?",
        button="Stop the node",
        back=_back_to(node),
        sentences=tuple(sentences),
        facts=tuple(list_node_facts(services, node, cost)),
        refusal=refusal,
    )


def stop_node(services: Services, _form: Form, node_id: str) -> ActionResult:
    """Request the stop of a node."""
    stopped = services.nodes.request_stop(node_id)
    message = f"The stop of node {escape_invisible(stopped.node.name)} is requested."
    return ActionResult(node_address(node_id), message, stopped.warnings)


def build_start_page(services: Services, _form: Form, node_id: str) -> ActionPage:
    """The page that says what the start of a node costs. Raises NotFound."""
    node, cost = services.nodes.get(node_id), services.nodes.get_cost(node_id)
    refusal = _find_end(node)
    if not refusal and node.asked is Asked.PRESENT:
        refusal = "This node is not stopped."
    return ActionPage(
        heading=f"Start node {escape_invisible(node.name)}?",
        button="Start the node",
        back=_back_to(node),
        sentences=(f"The node costs {_format_hourly(cost)} again once it is READY.",),
        facts=tuple(list_node_facts(services, node, cost)),
        refusal=refusal,
    )


def start_node(services: Services, _form: Form, node_id: str) -> ActionResult:
    """Request that a stopped node runs again."""
    node = services.nodes.start(node_id)
    message = f"The start of node {escape_invisible(node.name)} is requested."
    return ActionResult(node_address(node_id), message)


def build_keep_page(services: Services, _form: Form, node_id: str) -> ActionPage:
    """The form with the duration and the reason of a keep. Raises NotFound."""
    node, cost = services.nodes.get(node_id), services.nodes.get_cost(node_id)
    return ActionPage(
        heading=f"Keep node {escape_invisible(node.name)}",
        button="Keep the node",
        back=_back_to(node),
        sentences=(
            "While it is kept, idleness, its time to live and the end of its job do not delete it.",
            "A person, Google, and a budget that deletes still do. A keep never becomes shorter.",
            *list_budget_ends(services, node_id),
        ),
        facts=tuple(list_node_facts(services, node, cost)),
        inputs=keep_inputs(),
        refusal=_find_end(node),
    )


def keep_inputs() -> tuple[Input, ...]:
    """The fields of a keep: how long, and why."""
    durations = tuple(Choice(str(seconds), name) for seconds, name in DURATIONS.items())
    return (
        Input("for_seconds", "Keep for", str(4 * HOUR), choices=durations),
        Input(
            "until",
            "Or until",
            hint="A UTC date or time, such as 2026-12-01 or 2026-12-01T18:00:00Z. It replaces the"
            " duration. At most 30 days from now.",
            max_length=40,
        ),
        Input(
            "reason",
            "Reason",
            hint="Everyone sees it, as in: a demo on Friday.",
            is_required=True,
            max_length=MAX_REASON,
        ),
    )


def read_keep(form: Form) -> KeepOrder:
    """The keep that a form requests. Raises Rejected for an invalid field."""
    reason, until = " ".join(form.get_text("reason").split()), form.get_text("until")
    if len(reason) > MAX_REASON:
        raise Rejected(f"reason: should have at most {MAX_REASON} characters", field="reason")
    if until:
        try:
            return KeepOrder(reason, until=parse_instant_or_date(until))
        except ValueError as error:
            raise Rejected(f"until: {error}", field="until") from None
    seconds = parse_whole_number(form.get_text("for_seconds"))
    if seconds is None:
        raise Rejected("choose for how long the node is kept", field="for_seconds")
    return KeepOrder(reason, for_seconds=seconds)


def keep_node(services: Services, form: Form, node_id: str) -> ActionResult:
    """Keep a node for a while."""
    kept = services.keeps.keep_node(node_id, read_keep(form))
    name = escape_invisible(kept.node.name)
    until = "" if kept.node.kept_until is None else f" until {to_moment(kept.node.kept_until).full}"
    message = " ".join([f"Node {name} is kept{until}.", *list_budget_ends(services, node_id)])
    return ActionResult(node_address(node_id), message, kept.warnings)


def list_budget_ends(services: Services, node_id: str) -> tuple[str, ...]:
    """When an exceeded budget deletes a node in spite of a keep, as a sentence. Empty if none
    does."""
    return tuple(
        escape_invisible(
            f"{to_sentence(f'{end.reason}: the node will be deleted at {to_moment(end.at).full}')}"
            " The budget does not wait for a keep."
        )
        for end in services.cleanup.get_node(node_id).ends
        if end.ender is EndCause.BUDGET and end.at is not None
    )


def build_unkeep_page(services: Services, _form: Form, node_id: str) -> ActionPage:
    """The page that says what follows the end of a keep. Raises NotFound."""
    node, cost = services.nodes.get(node_id), services.nodes.get_cost(node_id)
    keep = asked_keep(node, cost.as_of)
    refusal = _find_end(node)
    if not refusal and keep is None:
        refusal = "No keep of this node can be ended here."
    return ActionPage(
        heading=f"End the keep of node {escape_invisible(node.name)}?",
        button="End the keep",
        back=_back_to(node),
        sentences=(
            "If its time to live is over, the node is deleted after a notice.",
            "If its job has ended, the node is deleted at once.",
        ),
        facts=tuple(list_node_facts(services, node, cost)),
        refusal=refusal,
    )


def unkeep_node(services: Services, _form: Form, node_id: str) -> ActionResult:
    """End the keep of a node."""
    kept = services.keeps.end_keep(node_id)
    message = f"The keep of node {escape_invisible(kept.node.name)} has ended."
    return ActionResult(node_address(node_id), message, kept.warnings)


def list_node_facts(services: Services, node: Node, cost: NodeCost) -> Iterator[Fact]:
    """What a person needs to know of a node before an action."""
    yield Fact("Node", f"{escape_invisible(node.name)} ({node.id})", href=node_address(node.id))
    yield Fact("State", node.state)
    if not node.has_ended:
        yield Fact("Cost per hour", _format_hourly(cost))
    spent = format_money(cost.cost)
    if cost.unpriced_seconds:
        spent += f", and {cost.unpriced_seconds:,} s at {UNKNOWN_PRICE}"
    yield Fact("Cost so far", spent)
    kind = f"{node.spec.accelerator_type}, {node.spec.provisioning_model}"
    yield Fact("Type", kind if node.spec.slices == 1 else f"{node.spec.slices} slices of {kind}")
    yield Fact("Zone", f"{node.zone}, project {node.spec.project}")
    yield Fact("Owner", escape_invisible(node.owner) or "nobody")
    yield Fact("Team", escape_invisible(node.team) or "none")
    if node.deletes_at is not None and not node.has_ended:
        at = to_moment(node.deletes_at)
        yield Fact("Time to live ends", at.full, at)
    if not node.has_ended and (keep := asked_keep(node, cost.as_of)) is not None:
        yield Fact("Kept until", _describe_keep(keep))
    if job := services.jobs.find_running(node.id):
        yield Fact("Job", f"{job} runs on the node", href=job_address(job))


def _find_end(node: Node) -> str:
    """Why nothing can be changed any more: the node has ended, or is being deleted. Else empty."""
    if node.has_ended:
        return f"This node has ended: it is {node.state}."
    if node.asked is Asked.ABSENT:
        return "The deletion of this node is already requested. A deletion cannot be undone."
    return ""


def _describe_keep(keep: Keep) -> str:
    until = "a date that cannot be read" if keep.until is None else to_moment(keep.until).full
    return f"{until}: {escape_invisible(keep.reason)}"


def _format_hourly(cost: NodeCost) -> str:
    return UNKNOWN_PRICE if cost.burn is None else f"{format_money(cost.burn)} an hour"


def _back_to(node: Node) -> tuple[str, str]:
    return node_address(node.id), escape_invisible(node.name)
