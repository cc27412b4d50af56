"""`nodes create --dry-run`: the cost of a request, its share of each budget, and the refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.cli.costs.estimate import print_estimate
from service.cli.terminal.client import ApiAnswer, Client
from service.cli.terminal.errors import Failure
from service.cli.terminal.render import print_json, print_lines, print_paragraphs
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.provisioning_modes import MAX_FLEX_SECONDS
from service.domain.clock import DAY

_YEAR = 365 * DAY
"""Seconds that a node without an end is estimated for: no budget has a longer period."""

_ESTIMATED = (
    *("generation", "chips", "topology", "zone", "zones", "regions", "slices"),
    *("project", "team", "owner", "labels"),
)
"""Fields of the request that the estimate has too."""

View = Mapping[str, Any]


def show_dry_run(client: Client, body: View, *, json: bool) -> None:
    """Print what a request would cost, and create nothing. Raises Failure when a budget would
    refuse it, or when no hardware fits."""
    model = body.get("provisioning_model", ProvisioningModel.ON_DEMAND.value)
    has_end = "ttl_seconds" in body or model == "flex_start"
    longest = MAX_FLEX_SECONDS if model == "flex_start" else _YEAR
    terms = {
        **{name: body[name] for name in _ESTIMATED if name in body},
        "provisioning_model": model,
        "duration_seconds": body.get("ttl_seconds", longest),
    }
    types = body.get("accelerator_types") or [body.get("accelerator_type")]
    estimated = [terms if kind is None else {"accelerator_type": kind} | terms for kind in types]
    answers = [client.send_request("POST", "/v1/estimates", body=request) for request in estimated]
    for answer in answers:
        if json:
            print_json(answer)
        else:
            print_estimate(answer.value, has_end=has_end)
            print_lines("")
    if not json:
        if "vm" in body:
            print_paragraphs("note: the cost of your VM is not included")
        print_paragraphs("note: not checked are the name, the quota and the runtime version")
    refusals = [_find_refusal(answer) for answer in answers]
    if all(refusals):
        raise Failure(*dict.fromkeys(filter(None, refusals)))
    if not json:
        is_known = "vm" not in body or not any(map(_list_refusing, answers))
        known = "no budget would refuse it"
        unknown = "with the cost of your VM, a budget may refuse it"
        print_lines(f"nothing was created; {known if is_known else unknown}")


def _find_refusal(answer: ApiAnswer) -> str | None:
    """Reason that the tightest budget would refuse the node. None if no budget would."""
    for budget in _list_refusing(answer):
        if not budget["fits"]:
            name = budget["name"] or budget["budget_id"]
            why = "too little of it is left" if budget["fits"] is False else "its rest is unknown"
            kind = answer.value["accelerator_type"]
            return f"the budget {name} would refuse {kind}: {why}; nothing was created"
    return None


def _list_refusing(answer: ApiAnswer) -> list[View]:
    """The budgets of the caller that refuse what does not fit."""
    return [budget for budget in answer.value["budgets"] if budget["on_exceeded"] != "notify"]
