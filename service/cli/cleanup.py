"""`cleanup`: what the cleanup daemon does with idle nodes, its plan, its pause and its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli import options, policies
from service.cli.client import connected
from service.cli.render import as_json, echo, facts, table
from service.cli.wording import NOTHING, age, counted, moment, money, since
from service.domain.clock import parse_rfc3339, wall_clock

app = typer.Typer(
    help="Idle nodes: what goes, when, and why.", no_args_is_help=True, rich_markup_mode=None
)

app.add_typer(policies.app, name="policies")

Project = Annotated[
    str | None, typer.Option(metavar="PROJECT", help="Needed where there are several.")
]


@app.command()
def status(json: options.Json = False) -> None:
    """Show what the daemon may do, which rails hold it, and which nodes wait."""
    with connected() as client:
        answer = client.ask("GET", "/v1/cleanup")
    if json:
        as_json(answer)
        return
    found, now = answer.value, wall_clock()
    echo(f"mode {found['mode']}: {_MODES[found['mode']]}")
    for project in found["projects"]:
        _show_project(project, now)


@app.command()
def plan(project: Project = None, json: options.Json = False) -> None:
    """Show exactly what would be stopped or deleted now. Changes nothing."""
    body = {} if project is None else {"project": project}
    with connected() as client:
        answer = client.ask("POST", "/v1/cleanup:plan", body=body)
    if json:
        as_json(answer)
        return
    found, now = answer.value, wall_clock()
    if not found["entries"]:
        echo(f"nothing in project {found['project']} is proved to be idle")
        return
    _show_entries(found["entries"], now)
    nodes = counted(len(found["entries"]), "node")
    echo("", f"{nodes}, {money(found['saves_hourly'])} an hour")
    if found["held_by"]:
        echo(f"the daemon waits for: {', '.join(found['held_by'])}; a person need not")
    echo(f"do it now: tpu-steward cleanup apply {found['plan_id']}")


@app.command()
def apply(
    plan_id: Annotated[str, typer.Argument(metavar="PLAN", help="The id that plan showed.")],
    json: options.Json = False,
) -> None:
    """Do what a plan says: all of it, or nothing where anything has changed since."""
    with connected() as client:
        answer = client.ask("POST", "/v1/cleanup:apply", body={"plan_id": plan_id})
    if json:
        as_json(answer)
        return
    for entry in answer.value["entries"]:
        echo(f"{entry['name']}: {entry['action']} asked for")
    echo(f"that saves {money(answer.value['saves_hourly'])} an hour")


@app.command()
def pause(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; everybody is shown it.")],
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Only this project.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Have the daemon end no idle node by itself until you resume it."""
    body = {"reason": reason, **({} if project is None else {"project": project})}
    with connected() as client:
        answer = client.ask("POST", "/v1/cleanup:pause", body=body)
    if json:
        as_json(answer)
        return
    for one in answer.value["projects"]:
        echo(f"paused in project {one['project']}: {one['pause_reason']}")
    echo("go on: tpu-steward cleanup resume")


@app.command()
def resume(
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Only this project.")
    ] = None,
    breaker: Annotated[
        bool, typer.Option("--breaker", help="Close the breaker; needs --reason.")
    ] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why it is closed.")] = None,
    json: options.Json = False,
) -> None:
    """Have the daemon go on after a pause, or close the breaker."""
    said = {"project": project, "breaker": breaker or None, "reason": reason}
    body = {key: value for key, value in said.items() if value is not None}
    with connected() as client:
        answer = client.ask("POST", "/v1/cleanup:resume", body=body)
    if json:
        as_json(answer)
        return
    for one in answer.value["projects"]:
        echo(f"the daemon goes on in project {one['project']}")


@app.command()
def coverage(json: options.Json = False) -> None:
    """Show which signals there are, and which nodes nobody sees."""
    with connected() as client:
        answer = client.ask("GET", "/v1/cleanup/coverage")
    if json:
        as_json(answer)
        return
    now = wall_clock()
    for project in answer.value["projects"]:
        _show_coverage(project, now)


@app.command()
def history(json: options.Json = False) -> None:
    """Show what was stopped or deleted for idleness, the newest first."""
    with connected() as client:
        answer = client.pages("/v1/cleanup/history", "history")
    if json:
        as_json(answer)
        return
    found = answer.value["history"]
    if not found:
        echo("nothing was ended for idleness yet")
        return
    table(
        ["AT (UTC)", "NAME", "ACTION", ">AN HOUR", "BY"],
        [
            (
                moment(one["at"]),
                one["name"],
                one["action"],
                money(one["hourly_cost"]),
                one["actor"],
            )
            for one in found
        ],
    )
    echo("", "the evidence: tpu-steward nodes idle NAME")


_MODES = {
    "observe": "nodes are judged, and nothing else is done",
    "notify": "people are told of idle nodes, and nothing is stopped or deleted",
    "stop": "idle nodes are stopped after a notice, and none is deleted",
    "delete": "idle nodes are stopped or deleted after a notice, as their policies say",
}


def _show_project(project: Mapping[str, Any], now: int) -> None:
    looked = project["ticked_at"]
    pause_said = f"since {moment(project['paused_at'])}: {project['pause_reason']}"
    echo("", f"project {project['project']}")
    facts(
        [
            ("looked at", "never" if looked is None else f"{since(looked, now)} ago"),
            ("paused", pause_said if project["paused_at"] is not None else ""),
        ]
    )
    for rail in project["rails"]:
        until = "" if rail["until"] is None else f", until {moment(rail['until'])}"
        echo(f"held by {rail['rail']} since {moment(rail['since'])}{until}: {rail['reason']}")
    if project["waiting"]:
        table(
            [">PLACE", "NODE", "WAITS FOR", "UNTIL (UTC)"],
            [
                (str(one["place"]), one["node_id"], one["rail"], moment(one["until"]))
                for one in project["waiting"]
            ],
        )


def _show_entries(entries: list[Mapping[str, Any]], now: int) -> None:
    table(
        ["NAME", "ACTION", "BY ITSELF", ">AN HOUR"],
        [
            (one["name"], one["action"], _in(one["due_at"], now), money(one["hourly_cost"]))
            for one in entries
        ],
    )
    echo("", *(f"{one['name']}: {one['reason']}" for one in entries))


def _in(at: str | None, now: int) -> str:
    """When the daemon does it by itself."""
    if at is None:
        return "never"
    left = parse_rfc3339(at) - now
    return f"in {age(left)}" if left > 0 else "now"


def _show_coverage(project: Mapping[str, Any], now: int) -> None:
    nodes = counted(project["nodes"], "READY node")
    echo(f"project {project['project']}: {nodes}, {project['unknown']} unknown")
    table(
        ["SIGNAL", "STATE", ">NODES", ">AGE", "LAST ERROR"],
        [
            (
                one["signal"],
                one["state"],
                str(one["nodes"]),
                since(one["newest_at"], now),
                one["error"] or NOTHING,
            )
            for one in project["families"]
        ],
    )
    reports = project["reports"]
    echo(
        f"reports: {reports['reported']} of {counted(reports['nodes'], 'node')} with a supervisor;"
        f" {reports['silent']} of {reports['needed']} that need them are silent"
    )
    if project["never_deleted"]:
        cost = money(project["never_deleted_hourly_cost"])
        unseen = counted(project["never_deleted"], "node")
        echo(f"{unseen} without supervisor and metrics, never deleted for idleness: {cost} an hour")
