"""`orphans`: what is in the cloud and not in our books, to look at, to adopt, to delete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli import options
from service.cli.client import Client, connected
from service.cli.failure import Failure
from service.cli.render import as_json, cleaned, echo, state, table
from service.cli.wording import NOTHING, counted, money, since
from service.domain.clock import wall_clock

app = typer.Typer(
    help="What is in the cloud and not in our books.", no_args_is_help=True, rich_markup_mode=None
)

NEVER = "Strangers are never touched, unless you adopt one or repeat its name to delete it."

_ID = re.compile(r"[0-9a-f]{32}")
_KINDS = {
    "stranger": "stranger",
    "ours_without_record": "ours, no record",
    "zombie_queue": "ours, spent queue",
    "leftover": "ours, taken away",
}
_FATES = {"leave": "stays", "observe": "goes soon", "collect": "goes now"}

OrphanName = Annotated[
    str, typer.Argument(metavar="ORPHAN", help="Its id, its name in the cloud, or its full name.")
]


@app.command("list")
def list_orphans(
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Only of this project.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Only stranger, ours_without_record, zombie_queue or leftover."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """List them, the dearest first. Strangers are never touched by themselves."""
    with connected() as client:
        answer = client.pages("/v1/orphans", "orphans", {"project": project, "kind": kind})
    if json:
        as_json(answer)
        return
    found = answer.value["orphans"]
    if found:
        _show(found)
        echo("", *(f"{one['name']}: {one['last_error']}" for one in found if one["last_error"]))
    echo(_summary(answer.value), NEVER)


@app.command()
def adopt(
    orphan: OrphanName,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; the cloud's name for it.")
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Whose it is.")] = None,
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Which team pays.")] = None,
    json: options.Json = False,
) -> None:
    """Manage a node that is there as if we had made it; it is charged from now on."""
    said = {"name": name, "owner": owner, "team": team}
    with connected() as client:
        found = find_orphan(client, orphan)
        body = {key: value for key, value in said.items() if value is not None}
        answer = client.ask("POST", f"/v1/orphans/{found}:adopt", body=body)
    if json:
        as_json(answer)
    else:
        node = answer.value
        cost = money(node["hourly_cost"])
        echo(f"{node['name']} is ours now, {cost} an hour from this second", f"id {node['id']}")


@app.command()
def delete(
    orphan: OrphanName,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="FULL-NAME", help="For what is not ours: its full name once more."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Delete one, for good. What is not ours needs --confirm with its full name."""
    with connected() as client:
        found = find_orphan(client, orphan)
        body = {} if confirm is None else {"confirm": confirm}
        answer = client.ask("POST", f"/v1/orphans/{found}:delete", body=body)
    if json:
        as_json(answer)
    elif answer.value["gone_at"] is not None:
        echo(f"{answer.value['name']} is gone")
    else:
        echo(f"{answer.value['name']} is {answer.value['state']} and is to be deleted")


def find_orphan(client: Client, said: str) -> str:
    """The id of the one that is meant. Raises Failure when that is none, or not clear."""
    if _ID.fullmatch(said):
        return said
    known = client.pages("/v1/orphans", "orphans").value["orphans"]
    meant = [one for one in known if said in (one["name"], one["cloud_id"])]
    if len(meant) == 1:
        return str(meant[0]["id"])
    if meant:
        names = ", ".join(cleaned(one["name"]) for one in meant)
        raise Failure(f"{said!r} is the name of several; say the full name: {names}")
    raise Failure(f"no orphan is named {said!r}; see: tpu-steward orphans list")


def _show(orphans: Sequence[Mapping[str, Any]]) -> None:
    now = wall_clock()
    table(
        ["NAME", "KIND", "STATE", "TYPE", "ZONE", ">SEEN FOR", ">PER HOUR", "FATE", "WHOSE", "ID"],
        (
            [
                one["cloud_id"] + (" (queue)" if one["is_queued_resource"] else ""),
                _KINDS.get(one["kind"], one["kind"]),
                state(one["state"]),
                one["accelerator_type"] or NOTHING,
                one["zone"],
                since(one["first_seen"], now),
                _cost(one),
                "to be deleted" if one["to_be_deleted"] else _FATES[one["verdict"]],
                ", ".join(f"{k}={v}" for k, v in one["owner_hints"].items()) or NOTHING,
                one["id"],
            ]
            for one in orphans
        ),
    )


def _cost(orphan: Mapping[str, Any]) -> str:
    """What it costs; nothing is known to be billed but a node that is READY."""
    billed = orphan["state"] == "READY" and not orphan["is_queued_resource"]
    return money(orphan["hourly_cost"]) if billed else NOTHING


def _summary(page: Mapping[str, Any]) -> str:
    number, unpriced = len(page["orphans"]), page["unpriced"]
    if not number:
        return "everything in the cloud is in our books"
    note = f", and {counted(unpriced, 'node')} without a known price" if unpriced else ""
    total = money(page["total_hourly_cost"])
    return f"{counted(number, 'orphan')} at {total} an hour{note}"
