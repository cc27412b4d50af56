"""`nodes top`: the nodes that cost most now, what they do, and when they end."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.text import Text

from service.cli.nodes.node_output import (
    describe_rate,
    is_failing,
    is_ready,
    shown_state,
    sum_rates,
)
from service.cli.nodes.queue import made_of
from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.formatting import (
    NOTHING,
    format_age,
    format_count,
    format_parts,
    format_time,
    format_usd,
)
from service.cli.terminal.live import keep_printing
from service.cli.terminal.printing import current_printing, print_as
from service.cli.terminal.render import (
    Cell,
    is_terminal,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.cli.terminal.sorting import sort_documents
from service.domain.clock import parse_rfc3339, wall_clock

View = Mapping[str, Any]

UPDATE_SECONDS = 5
"""Seconds between two updates on a terminal."""

MOST_NODES = 20
"""Nodes that are shown, if no number is given. Each needs two more requests."""

_ACTIVITIES = {
    "": "not checked yet",
    "WARMING": "warming up",
    "ACTIVE": "active",
    "QUIET": "quiet",
    "CANDIDATE": "idle",
    "NOTIFIED": "idle",
    "DELETING": "ending",
    "UNKNOWN": "unknown",
}
_AT_REST = frozenset({"QUIET", "CANDIDATE", "NOTIFIED"})
_RAILS = frozenset({"rails", "pause"})
"""What holds back the daemon and no person."""

_WASTE = {"crash_loop": "crash loop", "no_progress": "no progress"}


@dataclass(frozen=True, slots=True)
class TopNodes:
    """The READY nodes that cost most an hour, each with its idleness and with what may end it; the
    other READY nodes; and the cost of the fleet."""

    nodes: Sequence[View]
    idleness: Sequence[View]
    ends: Sequence[Sequence[View]]
    others: Sequence[View]
    fleet: View


def top(
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="N", min=1, help="Nodes to show.")
    ] = MOST_NODES,
    every: Annotated[
        int,
        typer.Option(metavar="SECONDS", min=1, max=3_600, help="Time between two updates."),
    ] = UPDATE_SECONDS,
    once: Annotated[bool, typer.Option("--once", help="Print once, on a terminal too.")] = False,
    sort_by: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Sort the shown nodes; -COLUMN for the reverse order."),
    ] = "",
    json: options.Json = False,
) -> None:
    """Show the nodes that cost most now, live on a terminal."""
    with open_client() as client:
        if json:
            found = _read_top(client, number)
            parts = {
                node["id"]: {"node": node, "idle": idle, "ends": ends}
                for node, idle, ends in zip(found.nodes, found.idleness, found.ends, strict=True)
            }
            nodes = [parts[node["id"]] for node in sort_documents(found.nodes, sort_by)]
            document = {"nodes": nodes, "others": len(found.others), "fleet": found.fleet}
            typer.echo(json_text.dumps(document, ensure_ascii=False))
            return
        with print_as(replace(current_printing(), sort_by=sort_by)):
            if once or not is_terminal(sys.stdout):
                print_top(_read_top(client, number))
            else:
                keep_printing(lambda: print_top(_read_top(client, number)), every)


def _read_top(client: Client, number: int) -> TopNodes:
    found = client.get_all("/v1/nodes", "nodes", {"state": ["READY"]}).value["nodes"]
    ready = sorted(
        filter(is_ready, found),
        key=lambda node: (-Decimal(node["hourly_cost"] or 0), -Decimal(node["cost"])),
    )
    shown = ready[:number]
    return TopNodes(
        nodes=shown,
        idleness=[client.get(f"/v1/nodes/{node['id']}/idle").value for node in shown],
        ends=[client.get(f"/v1/nodes/{node['id']}/policy").value["ends"] for node in shown],
        others=ready[number:],
        fleet=client.get("/v1/fleet").value,
    )


def print_top(found: TopNodes) -> None:
    """Print the sum, which stays on a small terminal, then a row for each node."""
    now = wall_clock()
    total = sum_rates([*found.nodes, *found.others])
    shares = [node["hourly_cost"] for node in found.nodes]
    *rates, _ = format_parts(total, [*shares, sum_rates(found.others)])
    ready = [*found.nodes, *found.others]
    print_paragraphs(f"{format_count(len(ready), 'node')} ready at {describe_rate(ready)}")
    if found.others:
        rest = format_usd(sum_rates(found.others))
        print_paragraphs(f"not shown: {format_count(len(found.others), 'node')} at {rest} an hour")
    if coming := found.fleet["coming_nodes"]:
        more = format_usd(found.fleet["coming_hourly_cost"])
        unpriced = found.fleet["coming_unpriced_nodes"]
        left_out = f"; {unpriced} at an unknown price" if unpriced else ""
        print_paragraphs(
            f"coming: {format_count(coming, 'node')}, {more} an hour more once READY{left_out}"
        )
    if Decimal(unused := found.fleet["unused_reservations_hourly_cost"]):
        print_paragraphs(f"reserved chips that no node uses cost {format_usd(unused)} an hour more")
    print_paragraphs(f"as of {format_time(found.fleet['as_of'])} UTC")
    if found.nodes:
        print_lines("")
        rows = list[list[Cell]]()
        shown = zip(found.nodes, found.idleness, found.ends, rates, strict=True)
        for node, idle, ends, rate in shown:
            # What the signals of the node prove: `active`, `idle 3h12m` or `crash loop 20m00s`.
            state, verdict = idle["state"], idle["verdict"] or {"since": None, "waste": ""}
            text = _WASTE.get(verdict["waste"]) or _ACTIVITIES.get(state, state.lower())
            is_wasted = bool(verdict["waste"]) or state in {"CANDIDATE", "NOTIFIED"}
            if verdict["since"] and (state in _AT_REST or verdict["waste"]):
                text += f" {format_age(now - parse_rfc3339(verdict['since']))}"
            rows.append(
                [
                    node["name"],
                    shown_state(node, in_list=True),
                    made_of(node),
                    rate,
                    format_usd(node["cost"]),
                    # After the request of a deletion, signals are not judged any more.
                    NOTHING
                    if node["asked"] == "absent"
                    else Text(text, style="yellow" if is_wasted else ""),
                    _describe_end(node, idle, ends, now),
                    node["team"] or NOTHING,
                ]
            )
        print_table(
            ["NAME", "STATE", "TYPE", ">PER HOUR", ">SO FAR", "ACTIVITY", "DELETES IN", "TEAM"],
            rows,
            spare=("TEAM", "TYPE", "STATE", "DELETES IN", "SO FAR", "ACTIVITY"),
        )


def _describe_end(node: View, idle: View, ends: Sequence[View], now: int) -> str:
    """The time until the node ends by itself: by its time to live, for idleness or by an exceeded
    budget. `held` while a rail without a known end prevents it, `failing` if its deletion does not
    end."""
    if node["asked"] == "absent":
        return "failing" if is_failing(node) else "now"
    # A node that is not due for idleness may still become active.
    is_due = idle["due_at"] is not None
    coming = [
        end for end in ends if end["ender"] != "idle" or (is_due and set(end["held_by"]) <= _RAILS)
    ]
    first = min((parse_rfc3339(end["at"]) for end in coming if end["at"] is not None), default=None)
    if first is None:
        is_held = any(set(end["held_by"]) & _RAILS for end in coming)
        return "held" if is_held else NOTHING
    return format_age(first - now) if first > now else "now"
