"""`nodes keep`, `unkeep`, `heartbeat`, `heartbeat-token` and `policy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.nodes.idle_terms import describe_recipients, describe_rule
from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import NOTHING, format_time
from service.cli.terminal.render import (
    print_errors,
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.cli.terminal.resolve import find_node
from service.domain.clock import parse_instant_or_date

FIFTEEN_MINUTES: Any = "15m"


def _parse_until(text: str) -> str:
    try:
        parse_instant_or_date(text.strip())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text.strip()


def keep(
    node: options.NodeName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason; shown to everyone.")],
    duration: Annotated[
        int | None,
        typer.Option(
            "--for",
            parser=options.parse_seconds,
            metavar="DURATION",
            help="For how long, as in 4h; at most 30d.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            parser=_parse_until,
            metavar="TIME",
            help="Instead of --for: a timestamp or a date.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Keep a node for up to 30 days.

    Meanwhile neither idleness nor its time to live nor the end of its job deletes the node. Google
    and a budget that deletes still do.
    """
    if (duration is None) is (until is None):
        raise typer.BadParameter(
            "give exactly one of --for and --until", param_hint="--for / --until"
        )
    said = {"for_seconds": duration, "until": until, "reason": reason}
    body = {name: value for name, value in said.items() if value is not None}
    with open_client() as client:
        answer = client.send_request("POST", f"/v1/nodes/{find_node(client, node)}:keep", body=body)
    if json:
        print_json(answer)
        return
    kept = answer.value["keep"]
    print_paragraphs(
        f"{answer.value['name']} is kept until {format_time(kept['until'])} UTC: {kept['reason']}"
    )
    _show_notes(answer.value)


def unkeep(node: options.NodeName, json: options.Json = False) -> None:
    """End the keep of a node. A deletion that the keep held back follows."""
    with open_client() as client:
        answer = client.send_request("DELETE", f"/v1/nodes/{find_node(client, node)}/keep")
    if json:
        print_json(answer)
        return
    print_lines(f"{answer.value['name']} is no longer kept")
    _show_notes(answer.value)


def _show_notes(node: Mapping[str, Any]) -> None:
    print_paragraphs(*(f"note: {warning}" for warning in node["warnings"]))


def heartbeat(
    node: options.NodeName,
    expires: Annotated[
        int,
        typer.Option(
            "--expires",
            parser=options.parse_seconds,
            metavar="DURATION",
            help="For how long it counts; at most 24h.",
        ),
    ] = FIFTEEN_MINUTES,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the node works on.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Report that a node is active. It is not idle until the heartbeat expires."""
    body = {"expires_seconds": expires, **({} if note is None else {"note": note})}
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node)}/heartbeat"
        answer = client.send_request("POST", path, body=body)
    if json:
        print_json(answer)
    else:
        print_lines(f"active until {format_time(answer.value['expires_at'])} UTC")


def heartbeat_token(node: options.NodeName, json: options.Json = False) -> None:
    """Make a token for heartbeats of this node. It is good for nothing else."""
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node)}/heartbeat-token"
        answer = client.send_request("POST", path)
    if json:
        print_json(answer)
        return
    made = answer.value
    print_lines(made["token"])
    print_errors(
        f"not shown again; valid until {format_time(made['expires_at'])} UTC,",
        "or until the node is recreated; to use it:",
        f"STEWARD_TOKEN=... tpu-steward nodes heartbeat {made['node_id']}",
    )


def policy(node: options.NodeName, json: options.Json = False) -> None:
    """Show the idle policy of a node. Also shows who is notified, and what may end the node."""
    with open_client() as client:
        found = find_node(client, node, to_read=True)
        answer = client.get(f"/v1/nodes/{found}/policy")
    if json:
        print_json(answer)
        return
    shown = answer.value
    print_facts(
        [
            ("Policy of", "the node itself" if shown["source"] == "node" else shown["source"]),
            ("Rule", describe_rule(shown)),
            ("Action taken", shown["applied_action"]),
            ("Limited by", "; ".join(shown["limits"])),
            ("Notifies", describe_recipients(shown["recipients"]) or "nobody"),
            ("Recipients from", shown["told_by"]),
        ]
    )
    if shown["ends"]:
        print_lines("")
        print_table(
            [">RANK", "ENDED BY", "WHEN (UTC)", "HELD BY", "REASON"],
            [
                (
                    str(end["rank"]),
                    end["ender"],
                    format_time(end["at"]),
                    ", ".join(end["held_by"]) or NOTHING,
                    end["reason"],
                )
                for end in shown["ends"]
            ],
        )
