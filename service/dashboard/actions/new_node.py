"""The form for a new node: the request, then its estimate and the budgets, then the node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlencode

from service.application.catalog import list_accelerators, list_zones
from service.application.nodes.nodes import CreatedNode
from service.application.pricing.estimates import Estimate
from service.application.services import Services
from service.dashboard.actions.answers import list_field_errors, sentence_of, status_of
from service.dashboard.actions.bodies import Bodies
from service.dashboard.actions.form import KEY, Form, parse_whole_number
from service.dashboard.actions.nodes import DURATIONS, UNKNOWN_PRICE
from service.dashboard.actions.page import ActionPage, ActionResult, ActionTable, Choice, Input
from service.dashboard.actions.tokens import FIELD
from service.dashboard.kit.figures import Fact, format_count, format_duration, format_money
from service.dashboard.kit.links import node_address
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR, MINUTE
from service.domain.errors import (
    BudgetExceeded,
    Conflict,
    NotOffered,
    Rejected,
    StewardError,
    UnknownAcceleratorType,
)
from service.domain.idle.policy import Action
from service.domain.money import half_even

PATH = "/nodes/new"
REVIEW = "review"
_STEP = "step"
_OFFERS = 8
"""The most zones of which the estimate is shown."""

_ALL_NODES = "/", "All nodes"
_NO_ROOM = "\N{BALLOT X} does not fit"
_ROOM = "\N{CHECK MARK} fits"
_MODELS = (
    Choice(ProvisioningModel.ON_DEMAND, "on demand"),
    Choice(ProvisioningModel.SPOT, "spot: cheaper, can be preempted at any time"),
    Choice(ProvisioningModel.FLEX_START, "flex-start: waits for capacity, at most 7 days"),
    Choice(ProvisioningModel.RESERVED, "reserved"),
    Choice(ProvisioningModel.PREEMPTIBLE, "preemptible: at most 24 hours"),
)
_IDLE_TIMES = (15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR)
_ACTIONS = (
    Choice(Action.NOTIFY, "notify its owner"),
    Choice(Action.STOP, "stop the node"),
    Choice(Action.DELETE, "delete the node"),
    Choice(Action.OBSERVE, "nothing, only observe"),
)
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_TEXTS = ("accelerator_type", "provisioning_model", "name", "project", "owner", "team")
_FIELD_OF = {"zones": "zone", "regions": "zone", "idle": "idle_after"}
"""The field of the form for each field of the API that has another name."""

_FIELD_OF_ERROR: Mapping[type[StewardError], str] = {
    UnknownAcceleratorType: "accelerator_type",
    NotOffered: "zone",
}


def build_new_node_page(services: Services, form: Form, bodies: Bodies) -> ActionPage:
    """The empty form, or the estimate of what the fields request. An invalid request is the form
    again, with the reason at its field."""
    if form.get_text(_STEP) != REVIEW:
        return _build_request_form(services).with_typed(form)
    try:
        said = read_request(form)
        wanted, _ = bodies.parse_node(said, form.read_key())
        who = {name: said[name] for name in ("project", "team", "owner", "labels") if name in said}
        caller = bodies.parse_caller(who)
        found = services.estimates.estimate(
            wanted, wanted.provisioning_model, wanted.ttl_seconds or HOUR, caller
        )
        refusal, tried = "", None
        try:
            # A form that is sent is not tried out: its node, and so its name, may exist by now.
            tried = None if FIELD in form else services.nodes.try_out(wanted)
        except BudgetExceeded as error:
            refusal = f"A budget refuses this node: {sentence_of(error)}"
        fields = [(name, text) for name in form.fields for text in form.list_values(name)]
        kept = [each for each in fields if each[0] not in {FIELD, KEY, _STEP}]
        warnings = () if tried is None else (*tried.warnings, *tried.policy.warnings)
        return ActionPage(
            heading="Create this node?",
            button="Create the node",
            back=(f"{PATH}?{urlencode(kept)}", "Change the request"),
            sentences=tuple(f"Note: {each}." for each in warnings),
            facts=tuple(_iter_facts(said, found, tried, wanted.ttl_seconds)),
            tables=tuple(_iter_tables(found, tried, wanted.ttl_seconds)),
            hidden=(*kept, (_STEP, REVIEW), (KEY, form.read_key())),
            refusal=refusal,
        )
    except (Rejected, Conflict) as error:
        reasons = list_field_errors(error) or {_FIELD_OF_ERROR.get(type(error), ""): str(error)}
        errors = {_FIELD_OF.get(name, name): text for name, text in reasons.items()}
        page = _build_request_form(services).with_typed(form)
        problem = f"This node cannot be created: {sentence_of(error)}"
        if not errors.keys().isdisjoint(each.name for each in page.inputs):
            problem = "This node cannot be created. The reason is at the marked field."
        page = page.with_problem(problem, errors)
        return replace(page, status=status_of(error))


def create_node(services: Services, form: Form, bodies: Bodies) -> ActionResult:
    """Request the node. The same form sent twice is one node."""
    wanted, key = bodies.parse_node(read_request(form), form.read_key())
    made = services.nodes.request(wanted, key=key)
    name = escape_invisible(made.node.name)
    message = f"Node {name} is requested. The daemon creates it."
    if not made.created:
        message = f"Node {name} was requested by this form before. Nothing was created now."
    return ActionResult(node_address(made.node.id), message, made.warnings)


def read_request(form: Form) -> Mapping[str, object]:
    """The body of `POST /v1/nodes` that the form means. Raises Rejected for an invalid field."""
    said: dict[str, object] = {name: form.get_text(name) for name in _TEXTS if form.get_text(name)}
    place = form.get_text("zone")
    if _REGION.fullmatch(place):
        said["regions"] = [place]
    elif place:
        said["zone"] = place
    numbers = ("slices", "ttl_seconds")
    said |= {name: _read_number(form, name) for name in numbers if form.get_text(name)}
    if form.get_text("recreate_on_preemption"):
        said["recreate_on_preemption"] = True
    if form.get_text("idle_after"):
        action = form.get_text("idle_action") or Action.NOTIFY
        said["idle"] = {"after_seconds": _read_number(form, "idle_after"), "action": action}
    if form.get_text("labels"):
        labels = {}
        for line in filter(str.strip, form.get_text("labels").splitlines()):
            key, joint, value = line.partition("=")
            if not joint:
                hint = "labels: write each label on its own line, as in run=17"
                raise Rejected(hint, field="labels")
            labels[key.strip()] = value.strip()
        said["labels"] = labels
    return said


def _build_request_form(services: Services) -> ActionPage:
    projects = [each.cleanup.project for each in services.cleanup.list_statuses()]
    durations = [Choice("", "no end: until someone deletes it")]
    durations += [Choice(str(seconds), name) for seconds, name in DURATIONS.items()]
    idle_times = [Choice("", "as its team, project or the default says")]
    idle_times += [Choice(str(each), f"after {format_duration(each)}") for each in _IDLE_TIMES]
    zones = [zone for zone, _ in list_zones()]
    regions = dict.fromkeys(map(region_of, zones))
    inputs = [
        Input(
            "accelerator_type",
            "Accelerator type",
            hint="Google's name, such as v5litepod-8 or v6e-8.",
            suggestions=tuple(each.name for each in list_accelerators()),
            is_required=True,
            max_length=80,
        ),
        Input("slices", "Slices", "1", is_number=True, max_length=6),
        Input(
            "zone",
            "Zone or region",
            hint="Empty: any zone that offers the type.",
            suggestions=(*zones, *regions),
            max_length=80,
        ),
        Input(
            "provisioning_model", "Provisioning model", ProvisioningModel.ON_DEMAND, choices=_MODELS
        ),
        Input(
            "ttl_seconds",
            "Time to live",
            str(8 * HOUR),
            hint="The node is deleted this long after it is first READY.",
            choices=tuple(durations),
        ),
        Input(
            "name",
            "Name",
            hint="Lower-case letters, digits and hyphens, at most 49. Empty: a new name.",
            max_length=80,
        ),
        Input("owner", "Owner"),
        Input("team", "Team"),
        Input("labels", "Labels", hint="One a line, as in run=17.", rows=3, max_length=8_000),
        Input("idle_after", "Idle policy", choices=tuple(idle_times)),
        Input("idle_action", "When idle", Action.NOTIFY, choices=_ACTIONS),
        Input(
            "recreate_on_preemption",
            "After a preemption",
            choices=(Choice("", "the node ends"), Choice("yes", "recreate the node")),
        ),
    ]
    if len(projects) > 1:
        choices = tuple(Choice(each, each) for each in projects)
        inputs.insert(5, Input("project", "Project", projects[0], choices=choices))
    return ActionPage(
        heading="Create a node",
        button="Show the estimate",
        back=_ALL_NODES,
        sentences=(
            "The next page shows the cost and the budgets. Nothing is created before that.",
        ),
        inputs=tuple(inputs),
        hidden=((_STEP, REVIEW),),
        is_question=True,
    )


def _iter_facts(
    said: Mapping[str, object], found: Estimate, tried: CreatedNode | None, ttl: int | None
) -> Iterator[Fact]:
    slices = said.get("slices", 1)
    chips = found.offers[0].chips if found.offers else found.accelerator.chips
    kind = found.accelerator.name if slices == 1 else f"{slices} slices of {found.accelerator.name}"
    yield Fact("Type", f"{kind}: {format_count(chips, 'chip')}")
    yield Fact("Provisioning model", str(said.get("provisioning_model", "on_demand")))
    known = [offer for offer in found.offers if offer.hourly is not None]
    if not known:
        yield Fact("Cost per hour", UNKNOWN_PRICE)
    else:
        rates = [offer.hourly or 0 for offer in known]
        yield Fact("Cost per hour", f"{_format_range(min(rates), max(rates))} once READY")
        costs = [offer.cost for offer in known if offer.cost is not None]
        if ttl is not None and costs:
            until = f"Cost for {format_duration(ttl)}"
            yield Fact(
                until, f"{_format_range(min(costs), max(costs))}, until its time to live ends"
            )
    if ttl is None:
        yield Fact("Time to live", "none: it costs this every hour until someone deletes it")
    yield from (
        Fact(label, escape_invisible(str(said[name])))
        for name, label in (("name", "Name"), ("owner", "Owner"), ("team", "Team"))
        if name in said
    )
    if isinstance(labels := said.get("labels"), dict):
        for key, value in labels.items():
            yield Fact(f"Label {escape_invisible(key)}", escape_invisible(value))
    if tried is not None:
        applied = tried.policy.applied
        after = format_duration(applied.rule.idle_after_seconds)
        yield Fact("When idle", f"{applied.action} after {after} (policy: {applied.source})")


def _iter_tables(
    found: Estimate, tried: CreatedNode | None, ttl: int | None
) -> Iterator[ActionTable]:
    period = format_duration(ttl or HOUR)
    order = [] if tried is None else list(tried.node.spec.zones)
    offers = [offer for offer in found.offers if tried is None or offer.zone in order]
    if tried is not None:
        offers.sort(key=lambda offer: order.index(offer.zone))
    rows = tuple(
        (
            offer.zone,
            UNKNOWN_PRICE if offer.hourly is None else format_money(offer.hourly),
            UNKNOWN_PRICE if offer.cost is None else format_money(offer.cost),
        )
        for offer in offers[:_OFFERS]
    )
    title = "Zones" if tried is None else "Zones in the order in which they are tried"
    if len(offers) > _OFFERS:
        title += f", the first {_OFFERS} of {len(offers)}"
    yield ActionTable(title, ("Zone", "Per hour", f"For {period}"), rows, frozenset({1, 2}))
    payers = tuple(
        (
            escape_invisible(share.budget.name),
            "unknown" if share.fits is None else _ROOM if share.fits else _NO_ROOM,
            f"{format_money(share.cost)} ({half_even(100 * share.cost, share.budget.amount)} %)",
            "unknown" if share.left is None else format_money(share.left),
            share.budget.on_exceeded,
        )
        for share in found.shares
    )
    if payers:
        yield ActionTable(
            f"Budgets that pay, at the lowest price for {period}",
            ("Budget", "Room", "Takes", "Left after that", "When exceeded"),
            payers,
            frozenset({2, 3}),
        )


def _format_range(low: int, high: int) -> str:
    return format_money(low) if low == high else f"{format_money(low)} to {format_money(high)}"


def _read_number(form: Form, name: str) -> int:
    number = parse_whole_number(form.get_text(name))
    if number is None:
        raise Rejected(f"{name}: should be a whole number", field=name)
    return number
