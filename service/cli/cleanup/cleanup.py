"""`cleanup`: mode, plan, pause, coverage and history of the cleanup of idle nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.cleanup import policies
from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import (
    NOTHING,
    format_age,
    format_count,
    format_since,
    format_time,
    format_usd,
)
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import (
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.domain.clock import parse_rfc3339, wall_clock

MOST_NAMES = 20
"""Largest number of nodes that a line names for a rail. The table names all of them."""

app = typer.Typer(
    help="Clean up idle nodes: plan, apply, pause and history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.add_typer(policies.app, name="policies")

Project = Annotated[
    str | None,
    typer.Option("--project", metavar="PROJECT", help="Project; needed if there are several."),
]


@app.command()
def status(json: options.Json = False) -> None:
    """Show the mode, the rails that hold, and the nodes that wait."""
    with open_client() as client:
        answer = client.send_request("GET", "/v1/cleanup")
    if json:
        print_json(answer)
        return
    found, now = answer.value, wall_clock()
    print_paragraphs(f"mode {found['mode']}: {_MODES[found['mode']]}")
    for project in found["projects"]:
        _print_project(project, now)


@app.command()
def plan(project: Project = None, json: options.Json = False) -> None:
    """Show exactly what would be stopped or deleted now. Changes nothing."""
    body = {} if project is None else {"project": project}
    with open_client() as client:
        answer = client.send_request("POST", "/v1/cleanup:plan", body=body)
    if json:
        print_json(answer)
        return
    found, now = answer.value, wall_clock()
    if not found["entries"]:
        print_lines(f"no node of project {found['project']} would be stopped or deleted now")
        return
    print_table(
        ["NAME", "ACTION", "DAEMON ACTS", ">PER HOUR"],
        [
            (
                entry["name"],
                entry["action"],
                _format_due(entry, now),
                format_usd(entry["hourly_cost"]),
            )
            for entry in found["entries"]
        ],
        spare=("DAEMON ACTS", "PER HOUR"),
    )
    print_lines("")
    print_paragraphs(*(f"{entry['name']}: {entry['reason']}" for entry in found["entries"]))
    nodes = format_count(len(found["entries"]), "node")
    print_lines("")
    print_paragraphs(
        f"{nodes}; ending all of them saves {format_usd(found['saves_hourly'])} an hour"
    )
    if found["held_by"]:
        rails = ", ".join(found["held_by"])
        print_paragraphs(f"the daemon is held back by: {rails}; you can still apply the plan")
    print_lines(f"to do it now: tpu-steward cleanup apply {found['plan_id']}")


@app.command()
def apply(
    plan_id: Annotated[str, typer.Argument(metavar="PLAN", help="The plan id that plan shows.")],
    json: options.Json = False,
) -> None:
    """Apply a plan, all of it. It is refused if anything has changed since."""
    with open_client() as client:
        answer = client.send_request("POST", "/v1/cleanup:apply", body={"plan_id": plan_id})
    if json:
        print_json(answer)
        return
    for entry in answer.value["entries"]:
        print_lines(f"{entry['name']}: {entry['action']} requested")
    print_lines(f"that saves {format_usd(answer.value['saves_hourly'])} an hour")


@app.command()
def pause(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason; shown to everyone.")],
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="PROJECT", help="Only this project. Default: all projects."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Stop the daemon from ending nodes, until you resume the cleanup. Holds idleness and TTLs."""
    body = {"reason": reason, **({} if project is None else {"project": project})}
    with open_client() as client:
        answer = client.send_request("POST", "/v1/cleanup:pause", body=body)
    if json:
        print_json(answer)
        return
    for paused in answer.value["projects"]:
        print_lines(f"paused in project {paused['project']}: {paused['pause_reason']}")
    print_lines("to resume: tpu-steward cleanup resume")


@app.command()
def resume(
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="PROJECT", help="Only this project. Default: all projects."
        ),
    ] = None,
    breaker: Annotated[
        bool, typer.Option("--breaker", help="Close the breaker; needs --reason.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason for closing the breaker.")
    ] = None,
    json: options.Json = False,
) -> None:
    """End a pause of the cleanup, or close the breaker."""
    if reason is not None and not breaker:
        raise typer.BadParameter("give it with --breaker only", param_hint="--reason")
    said = {"project": project, "breaker": breaker or None, "reason": reason}
    body = {key: value for key, value in said.items() if value is not None}
    with open_client() as client:
        answer = client.send_request("POST", "/v1/cleanup:resume", body=body)
    if json:
        print_json(answer)
        return
    ended, done = (
        ("breaker", "the breaker is closed") if breaker else ("pause", "the pause is over")
    )
    for resumed in answer.value["projects"]:
        rails = ", ".join(held["rail"] for held in resumed["rails"] if held["rail"] != ended)
        still = f"; still held by: {rails}" if rails else ""
        print_lines(f"{done} in project {resumed['project']}{still}")


@app.command()
def coverage(json: options.Json = False) -> None:
    """Show which signals have data, and which nodes have none."""
    with open_client() as client:
        answer = client.send_request("GET", "/v1/cleanup/coverage")
    if json:
        print_json(answer)
        return
    now = wall_clock()
    for project in answer.value["projects"]:
        nodes = format_count(project["nodes"], "READY node")
        print_lines(f"project {project['project']}: {nodes}, {project['unknown']} unknown")
        print_table(
            ["SIGNAL", "STATE", ">NODES", ">AGE", "LAST ERROR"],
            [
                (
                    family["signal"],
                    family["state"],
                    str(family["nodes"]),
                    format_since(family["newest_at"], now),
                    family["error"] or NOTHING,
                )
                for family in project["families"]
            ],
        )
        reports = project["reports"]
        reporting = format_count(reports["nodes"], "node")
        print_lines(f"supervisor reports: {reports['reported']} of {reporting}")
        if reports["needed"]:
            print_paragraphs(
                f"nodes without metrics: {reports['needed']},"
                f" of these without a report: {reports['silent']}"
            )
        if project["never_deleted"]:
            cost = format_usd(project["never_deleted_hourly_cost"])
            unseen = format_count(project["never_deleted"], "node")
            print_paragraphs(
                f"{unseen} without supervisor and metrics; never deleted for idleness:"
                f" {cost} an hour"
            )


@app.command(cls=ListCommand)
def history(json: options.Json = False) -> None:
    """Show what was stopped or deleted for idleness, the newest first."""
    with open_client() as client:
        answer = client.get_all("/v1/cleanup/history", "history")
    if json:
        print_json(answer)
        return
    found = answer.value["history"]
    if not found:
        print_lines("no node was stopped or deleted for idleness yet")
        return
    print_table(
        ["AT (UTC)", "NAME", "ACTION", ">PER HOUR", "BY"],
        [
            (
                format_time(ended["at"]),
                ended["name"],
                ended["action"],
                format_usd(ended["hourly_cost"]),
                ended["actor"],
            )
            for ended in found
        ],
        spare=("BY", "PER HOUR", "ACTION"),
    )
    print_lines("", "to see the evidence: tpu-steward nodes idle NAME")


_MODES = {
    "observe": "nodes are assessed, and no action follows",
    "notify": "people are notified of idle nodes, and none is stopped or deleted",
    "stop": "idle nodes are stopped after a notice, and none is deleted",
    "delete": "idle nodes are stopped or deleted after a notice, by policy",
}


def _print_project(project: Mapping[str, Any], now: int) -> None:
    looked, upcoming = project["ticked_at"], project["next_tick_at"]
    # Empty while the breaker is open, or if it never opened.
    closing = ""
    if project["breaker_closed_at"] is not None:
        closer = project["breaker_closed_by"] or "itself"
        at, reason = format_time(project["breaker_closed_at"]), project["breaker_closed_reason"]
        closing = f"closed by {closer} at {at}: {reason}"
    pause_said = f"since {format_time(project['paused_at'])}: {project['pause_reason']}"
    print_lines("", f"project {project['project']}")
    print_facts(
        [
            ("last check", "never" if looked is None else f"{format_since(looked, now)} ago"),
            (
                "next check",
                "no daemon is running" if upcoming is None else _format_left(upcoming, now),
            ),
            ("paused", pause_said if project["paused_at"] is not None else ""),
            ("breaker", closing),
        ]
    )
    for rail in project["rails"]:
        until = "" if rail["until"] is None else f", until {format_time(rail['until'])}"
        print_paragraphs(
            f"held by {rail['rail']} since {format_time(rail['since'])}{until}: {rail['reason']}"
        )
        if rail["waiting"]:
            names = rail["waiting"]
            more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            print_paragraphs(f"  these nodes wait for it: {', '.join(names[:MOST_NAMES])}{more}")
    if project["waiting"]:
        print_table(
            [">PLACE", "NODE", "WAITS FOR", "SINCE (UTC)", "UNTIL (UTC)"],
            [
                (
                    str(node["place"]),
                    node["name"],
                    node["rail"],
                    format_time(node["since"]),
                    format_time(node["until"]),
                )
                for node in project["waiting"]
            ],
        )


def _format_due(entry: Mapping[str, Any], now: int) -> str:
    """Time left until the daemon acts, `held` while a rail prevents it, or `never`. `now` is in
    seconds."""
    if entry["expected_at"] is not None:
        return _format_left(entry["expected_at"], now)
    return "never" if entry["due_at"] is None else "held"


def _format_left(at: str, now: int) -> str:
    """Time left until an instant, as `in 4m10s` or `now`."""
    left = parse_rfc3339(at) - now
    return f"in {format_age(left)}" if left > 0 else "now"
