"""`orphans`: list, adopt and delete cloud resources without a record."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import (
    NOTHING,
    format_count,
    format_parts,
    format_rate,
    format_since,
    format_usd,
)
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import (
    clean_text,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
    style_state,
)
from service.domain.clock import wall_clock
from service.domain.nodes.node import ENDED, Place
from service.domain.orphans.orphan import orphan_id

app = typer.Typer(
    help="Find and delete what no record accounts for.", no_args_is_help=True, rich_markup_mode=None
)

NEVER = (
    "Unmanaged resources are never touched, unless you adopt one or repeat its name to delete it."
)

_ID = re.compile(r"[0-9a-f]{32}")
_KINDS = {
    "stranger": "unmanaged",
    "ours_without_record": "untracked",
    "zombie_queue": "stale queued resource",
    "leftover": "preempted",
}
_COLUMNS = (
    "NAME",
    "KIND",
    "STATE",
    "TYPE",
    "ZONE",
    ">SEEN FOR",
    ">PER HOUR",
    "FATE",
    "WHOSE",
    "ID",
)
_FATES = {"leave": "stays", "observe": "deleted soon", "collect": "deleted now"}

OrphanName = Annotated[
    str,
    typer.Argument(
        callback=options.require_name,
        metavar="ORPHAN",
        help="Its id, its name in the cloud, or its full name.",
    ),
]


@app.command("list", cls=ListCommand)
def list_orphans(
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="Only of this project.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Only unmanaged, untracked, 'stale queued resource' or preempted. The API's names"
            " are understood too.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the orphans, the most expensive first."""
    asked = next((name for name, shown in _KINDS.items() if shown == kind), kind)
    with open_client() as client:
        answer = client.get_all("/v1/orphans", "orphans", {"project": project, "kind": asked})
    if json:
        print_json(answer)
        return
    found, total = answer.value["orphans"], answer.value["total_hourly_cost"]
    summary = "no orphans: every resource in the cloud has a record"
    if found:
        now = wall_clock()
        costs = _format_costs(found, total)
        rows = (
            [
                orphan["cloud_id"] + (" (queue)" if orphan["is_queued_resource"] else ""),
                _KINDS.get(orphan["kind"], orphan["kind"]),
                style_state(orphan["state"]),
                orphan["accelerator_type"] or NOTHING,
                orphan["zone"],
                format_since(orphan["first_seen"], now),
                cost,
                "to be deleted" if orphan["to_be_deleted"] else _FATES[orphan["verdict"]],
                ", ".join(f"{k}={v}" for k, v in orphan["owner_hints"].items()) or NOTHING,
                orphan["id"],
            ]
            for orphan, cost in zip(found, costs, strict=True)
        )
        print_table(_COLUMNS, rows, spare=("WHOSE", "ID", "TYPE"))
        failed = (orphan for orphan in found if orphan["last_error"])
        print_lines("")
        print_paragraphs(*(f"{orphan['name']}: {orphan['last_error']}" for orphan in failed))
        unpriced = answer.value["unpriced"]
        note = f", and {format_count(unpriced, 'node')} without a known price" if unpriced else ""
        number = format_count(len(found), "orphan")
        summary = f"{number} at {format_usd(total)} an hour{note}"
    print_paragraphs(summary, NEVER)


@app.command()
def adopt(
    orphan: OrphanName,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            callback=options.require_name,
            metavar="NAME",
            help="Name of the node. Default: its name in the cloud.",
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Owner.")] = None,
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Team that pays.")] = None,
    json: options.Json = False,
) -> None:
    """Adopt a node. It is charged from now on."""
    said = {"name": name, "owner": owner, "team": team}
    with open_client() as client:
        found = find_orphan(client, orphan)
        body = {key: value for key, value in said.items() if value is not None}
        answer = client.send_request("POST", f"/v1/orphans/{found}:adopt", body=body)
    if json:
        print_json(answer)
    else:
        node = answer.value
        cost = format_rate(node["hourly_cost"])
        print_lines(f"{node['name']} is adopted, {cost} from now on", f"id {node['id']}")


@app.command()
def delete(
    orphan: OrphanName,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="FULL-NAME", help="Full name again, for unmanaged resources."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Delete an orphan. Unmanaged ones need --confirm with the full name."""
    with open_client() as client:
        found = find_orphan(client, orphan)
        body = {} if confirm is None else {"confirm": confirm}
        answer = client.send_request("POST", f"/v1/orphans/{found}:delete", body=body)
    if json:
        print_json(answer)
    elif answer.value["gone_at"] is not None:
        print_lines(f"{answer.value['name']} is gone")
    else:
        print_lines(f"{answer.value['name']} is {answer.value['state']} and will be deleted")
        if ticket := answer.value["queued_resource"]:  # the deletion of the node leaves it
            sure = f" --confirm {shlex.quote(ticket)}" if answer.value["kind"] == "stranger" else ""
            print_lines(
                f"its queued resource {ticket} stays and holds quota; to delete it too:",
                f"  tpu-steward orphans delete {orphan_id(ticket)}{sure}",
            )


def find_orphan(client: Client, said: str) -> str:
    """Id of the orphan with an id, a name or a cloud id. Raises Failure for an unknown or ambiguous
    name."""
    if _ID.fullmatch(said):
        return said
    known = client.get_all("/v1/orphans", "orphans").value["orphans"]
    meant = [orphan for orphan in known if said in (orphan["name"], orphan["cloud_id"])]
    if len(meant) == 1:
        return str(meant[0]["id"])
    if meant:
        names = ", ".join(clean_text(orphan["name"]) for orphan in meant)
        raise Failure(f"{said!r} is the name of several; give the full name: {names}")
    for node in client.get_all("/v1/nodes", "nodes").value["nodes"]:
        if node["state"] in ENDED:
            continue
        place = Place(node["project"], node["zone"], node["cloud_id"])
        if said in (place.cloud_id, place.path, place.queue_path):
            raise Failure(
                f"{said!r} is not an orphan: it is node {node['id']};"
                f" see: tpu-steward nodes show {node['id']}"
            )
    raise Failure(f"no orphan is named {said!r}; see: tpu-steward orphans list")


def _format_costs(orphans: Sequence[Mapping[str, Any]], total: str) -> Iterator[str]:
    """Dollars an hour of each orphan, or the expected ones of an orphan that is not READY yet. Only
    READY nodes are known to be billed."""
    billed = [orphan["hourly_cost"] if _is_billed(orphan) else None for orphan in orphans]
    for orphan, cost in zip(orphans, format_parts(total, billed), strict=True):
        to_come = orphan["hourly_cost_when_ready"]
        waits = NOTHING if to_come is None else f"({format_usd(to_come)} once READY)"
        yield cost if _is_billed(orphan) else waits


def _is_billed(orphan: Mapping[str, Any]) -> bool:
    return orphan["state"] == "READY" and not orphan["is_queued_resource"]
