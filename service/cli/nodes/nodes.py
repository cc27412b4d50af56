"""`nodes`: create, show, change, stop, start and delete nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from service.cli.costs.ledger import show_ledger
from service.cli.nodes import create, idle_terms, keeps, node_output
from service.cli.nodes.connection import show_connection
from service.cli.nodes.delete import Force, delete
from service.cli.nodes.idle import idle
from service.cli.nodes.jobs_of_node import check_jobs
from service.cli.nodes.top import top
from service.cli.nodes.wait import Goal, follow_change
from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.errors import Failure
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import print_json, print_lines, print_paragraphs
from service.cli.terminal.resolve import find_node

app = typer.Typer(
    help="Create, watch, connect to and delete nodes.", no_args_is_help=True, rich_markup_mode=None
)
app.command()(create.create)
app.command()(delete)
app.command()(top)
app.command()(idle)
app.command()(keeps.keep)
app.command()(keeps.unkeep)
app.command()(keeps.heartbeat)
app.command("heartbeat-token")(keeps.heartbeat_token)
app.command()(keeps.policy)

Some = list[str] | None


@app.command("list", cls=ListCommand)
def list_nodes(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    state: Annotated[
        Some, typer.Option("--state", metavar="STATE", help="Only these states. Repeatable.")
    ] = None,
    name: Annotated[Some, typer.Option("--name", metavar="NAME", help="Only this name.")] = None,
    team: Annotated[Some, typer.Option(metavar="NAME", help="Only this team.")] = None,
    owner: Annotated[Some, typer.Option(metavar="NAME", help="Only this owner.")] = None,
    zone: Annotated[Some, typer.Option("--zone", metavar="ZONE", help="Only this zone.")] = None,
    generation: Annotated[Some, typer.Option(metavar="NAME", help="Only this generation.")] = None,
    label: options.Labels = None,
    everything: Annotated[bool, typer.Option("--all", help="Also ended nodes; with ids.")] = False,
    json: options.Json = False,
) -> None:
    """List the nodes, newest first."""
    only = {
        "state": [wanted.upper() for wanted in state or ()],
        "name": name,
        "team": team,
        "owner": owner,
        "zone": zone,
        "generation": generation,
        "label": [f"{key}:{value}" for key, value in options.parse_pairs(label, "--label")],
    }
    with open_client() as client:
        answer = client.get_all("/v1/nodes", "nodes", only)
        is_whole = not json and not any(only.values())
        fleet = client.send_request("GET", "/v1/fleet").value if is_whole else None
    if json:
        print_json(answer)
    else:
        everything = everything or bool(state)
        node_output.show_nodes(answer.value["nodes"], everything=everything, fleet=fleet)


@app.command()
def show(node: options.NodeName, json: options.Json = False) -> None:
    """Show everything about a node."""
    ends = []
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node, to_read=True)}"
        answer = client.get(path)
        if not json and node_output.is_ready(answer.value):
            ends = client.get(f"{path}/policy").value["ends"]
    if json:
        print_json(answer)
    else:
        node_output.show_node(answer.value, ends)


@app.command()
def stop(
    node: options.NodeName,
    force: Force = False,
    wait: options.Wait = False,
    timeout: options.Timeout = options.PATIENCE,
    json: options.Json = False,
) -> None:
    """Stop an on-demand node that has one host. A keep ends with it."""
    with open_client() as client:
        found = find_node(client, node)
        check_jobs(client, found, node, force=force, json=json)
        answer = client.send_request("POST", f"/v1/nodes/{found}:stop")
        follow_change(client, answer, Goal.STOPPED, timeout if wait else None, json=json)


@app.command()
def start(
    node: options.NodeName,
    wait: options.Wait = False,
    timeout: options.Timeout = options.PATIENCE,
    json: options.Json = False,
) -> None:
    """Start a node that was stopped."""
    with open_client() as client:
        answer = client.send_request("POST", f"/v1/nodes/{find_node(client, node)}:start")
        follow_change(client, answer, Goal.READY, timeout if wait else None, json=json)


@app.command()
def reimage(
    node: options.NodeName,
    runtime_version: create.Runtime = None,
    framework: options.Framework = None,
    json: options.Json = False,
) -> None:
    """Reimage a legacy TPU Node with other software."""
    if (runtime_version is None) is (framework is None):
        raise typer.BadParameter(
            "give exactly one of --runtime-version and --framework",
            param_hint="--runtime-version / --framework",
        )
    wanted = {"runtime_version": runtime_version, "framework": options.parse_framework(framework)}
    body = {name: value for name, value in wanted.items() if value is not None}
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node)}:reimage"
        answer = client.send_request("POST", path, body=body)
    if json:
        print_json(answer)
    else:
        after = answer.value
        print_lines(f"{after['name']} is {after['state']} and is to run {after['runtime_version']}")


@app.command("set")
def set_(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    node: options.NodeName,
    team: Annotated[
        str | None, typer.Option("--team", metavar="TEAM", help="Team that pays.")
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Owner.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="KEY=VALUE", help="Label. Repeatable; KEY= removes the label."
        ),
    ] = None,
    ttl: create.Ttl = None,
    no_ttl: Annotated[bool, typer.Option("--no-ttl", help="Remove its time to live.")] = False,
    idle_after: idle_terms.IdleAfter = None,
    grace: idle_terms.Grace = None,
    action: idle_terms.Action = None,
    also: idle_terms.Also = None,
    inherit: Annotated[
        bool,
        typer.Option("--inherit", help="Remove its own idle policy; the inherited one applies."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Change the owner, team, labels, TTL or idle policy."""
    idle = idle_terms.build_policy(idle_after, grace, action, also)
    if ttl is not None and no_ttl:
        raise typer.BadParameter("give --ttl or --no-ttl, not both", param_hint="--ttl / --no-ttl")
    if idle and inherit:
        raise typer.BadParameter(
            "cannot be combined with another idle option", param_hint="--inherit"
        )
    labels = {key: value or None for key, value in options.parse_pairs(label, "--label")}
    said = {"team": team, "owner": owner, "labels": labels or None, "ttl_seconds": ttl}
    body: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    body |= {"ttl_seconds": None} if no_ttl else {}
    body |= {"idle": None} if inherit else {}
    if not body and not idle:
        raise typer.BadParameter(
            "give at least one option", param_hint="--team / --owner / --label / ..."
        )
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node)}"
        if idle:  # a setting that was not given keeps its value, even an inherited one
            known = idle_terms.settings_of(client.get(f"{path}/policy").value)
            body["idle"] = idle_terms.as_own(known | idle)
        answer = client.send_request("PATCH", path, body=body)
    if json:
        print_json(answer)
    else:
        node_output.show_update(answer.value, body)


@app.command()
def connect(node: options.NodeName, json: options.Json = False) -> None:
    """Show commands and code that connect to a node."""
    _show_resource(node, "/connection", show_connection, json=json)


@app.command(cls=ListCommand)
def events(node: options.NodeName, json: options.Json = False) -> None:
    """Show the events of a node."""
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node, to_read=True)}/events"
        answer = client.get_all(path, "events")
    if json:
        print_json(answer)
    else:
        node_output.show_events(answer.value["events"])


@app.command()
def cost(node: options.NodeName, json: options.Json = False) -> None:
    """Show what a node has cost so far."""
    _show_resource(node, "/cost", node_output.show_cost, json=json)


@app.command(cls=ListCommand)
def ledger(node: options.NodeName, json: options.Json = False) -> None:
    """List the ledger lines of a node."""
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node, to_read=True)}"
        answer = client.get_all(f"{path}/ledger", "entries")
        if json:
            print_json(answer)
        elif answer.value["entries"]:
            show_ledger(answer.value["entries"])
        else:
            print_lines(_describe_empty_ledger(client, path))


@app.command()
def explain(
    node: options.NodeName,
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[NO.]",
            min=1,
            help="Number of the line. Default: the last, and what is not posted yet.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Explain a ledger line: price, seconds and evidence."""
    with open_client() as client:
        path = f"/v1/nodes/{find_node(client, node, to_read=True)}"
        if number is not None:
            line = client.get(f"{path}/ledger/{number}")
            if json:
                print_json(line)
            else:
                print_paragraphs(*line.value["explanation"])
            return
        entries = client.get_all(f"{path}/ledger", "entries").value["entries"]
        cost = client.get(f"{path}/cost")
        if not entries and not cost.value["unposted"]:
            raise Failure(_describe_empty_ledger(client, path))
        last = client.get(f"{path}/ledger/{entries[-1]['number']}") if entries else None
    if json:
        print_json(last or cost)
        return
    for sentences in node_output.explain_newest(None if last is None else last.value, cost.value):
        print_paragraphs(*sentences)


def _describe_empty_ledger(client: Client, path: str) -> str:
    """Reason that the ledger of the node at `path` is empty."""
    return node_output.nothing_posted(client.get(path).value, client.get(f"{path}/cost").value)


def _show_resource(
    node: str, tail: str, show: Callable[[Mapping[str, Any]], None], *, json: bool
) -> None:
    """Show the resource at the path of a node plus `tail`."""
    with open_client() as client:
        answer = client.get(f"/v1/nodes/{find_node(client, node, to_read=True)}{tail}")
    if json:
        print_json(answer)
    else:
        show(answer.value)
