"""`nodes delete`: delete one or several nodes, with a confirmation on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated

import typer

from service.cli.nodes import jobs_of_node
from service.cli.nodes.node_output import is_ready, shown_state, sum_rates
from service.cli.nodes.wait import Goal, follow_change
from service.cli.terminal import options
from service.cli.terminal.client import ApiAnswer, Client, open_client
from service.cli.terminal.errors import FAILED, Failure
from service.cli.terminal.formatting import format_count, format_parts, format_rate, format_usd
from service.cli.terminal.render import can_ask, print_errors, print_paragraphs
from service.cli.terminal.resolve import find_node

Force = Annotated[
    bool,
    typer.Option("--force", help="Also if a job runs on it; the job ends. Skips the confirmation."),
]


def delete(
    nodes: Annotated[
        list[str],
        typer.Argument(callback=options.require_name, metavar="NODE...", help="Names or ids."),
    ],
    force: Force = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Skip the confirmation on a terminal.")
    ] = False,
    wait: options.Wait = False,
    timeout: options.Timeout = options.PATIENCE,
    json: options.Json = False,
) -> None:
    """Delete nodes. A keep ends with its node."""
    with open_client() as client:
        found = {find_node(client, name): name for name in nodes}
        if not force:
            _check_deletion(client, found, may_ask=not (yes or json))
        answers = list(_request_deletions(client, found))
        for answer in answers:
            follow_change(client, answer, Goal.DELETED, timeout if wait else None, json=json)
    if len(answers) < len(found):
        raise typer.Exit(FAILED)


def _check_deletion(client: Client, found: Mapping[str, str], *, may_ask: bool) -> None:
    """Have the user confirm the deletion at a terminal, jobs and costs included.

    Without `may_ask`, and without a terminal, there is no question. Raises Failure when the user
    says no, and when there is no question and a job runs on a node.
    """
    jobs = {node_id: jobs_of_node.find_running_job(client, node_id) for node_id in found}
    if not (may_ask and can_ask()):
        for node_id, job in jobs.items():
            if job is not None:
                raise jobs_of_node.make_refusal(job, found[node_id])
        return
    views = [client.get(f"/v1/nodes/{node_id}").value for node_id in found]
    total = str(sum((Decimal(node["cost"]) for node in views), Decimal(0)))
    costs = format_parts(total, [node["cost"] for node in views])
    for node, so_far in zip(views, costs, strict=True):
        job = jobs[node["id"]]
        *most, last = [
            "the data on its disks",
            *(["its keep"] if node.get("keep") else []),
            *([] if job is None else [f"job {job}, which runs on it"]),
        ]
        names = f"{', '.join(most)} and {last}" if most else last
        rate = format_rate(node["hourly_cost"])
        state = f"{node['name']} ({shown_state(node)})"
        print_paragraphs(f"{state}: {rate}, {so_far} so far; lost: {names}", err=True)
    ready = [node for node in views if is_ready(node)]
    unpriced = sum(node["hourly_cost"] is None for node in ready)
    rate = f"{'at least ' if unpriced else ''}{format_usd(sum_rates(ready))} an hour"
    if unpriced and unpriced == len(ready):
        rate = "an unknown amount an hour"
    what = views[0]["name"]
    if len(views) > 1:
        what = format_count(len(views), "node")
        print_paragraphs(f"{what} cost {rate} now and {format_usd(total)} so far", err=True)
    if not typer.confirm(f"Delete {what}?", err=True):
        raise Failure("nothing was deleted")


def _request_deletions(client: Client, found: Mapping[str, str]) -> Iterator[ApiAnswer]:
    """The answer for each node that is to be deleted. The refusal of one node of several is printed
    and the others are deleted; that of a single node is raised."""
    for node_id, name in found.items():
        try:
            yield client.send_request("DELETE", f"/v1/nodes/{node_id}")
        except Failure as failure:
            if len(found) == 1:
                raise
            print_errors(f"{name}: {failure.lines[0]}", *failure.lines[1:])
