"""`budgets`: spending limits by scope, their spend and their alerts."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client
from service.cli.terminal.failure import Failure
from service.cli.terminal.formatting import (
    NOTHING,
    format_parts,
    format_span,
    format_time,
    format_usd,
)
from service.cli.terminal.render import (
    Cell,
    clean_text,
    print_facts,
    print_json,
    print_lines,
    print_table,
)

app = typer.Typer(
    help="Manage budgets and alerts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

GRACE: Any = "15m"
"""Default of --grace, as a user would type it."""

_THRESHOLD = re.compile(r"(forecast:)?(\d{1,4})%?")

BudgetName = Annotated[
    str, typer.Argument(callback=options.require_name, metavar="BUDGET", help="Name or id.")
]


@app.command("list")
def list_budgets(json: options.Json = False) -> None:
    """List the budgets with their spend and status."""
    with open_client() as client:
        answer = client.get_all("/v1/budgets", "budgets")
    if json:
        print_json(answer)
    elif not answer.value["budgets"]:
        print_lines("no budgets; create one with: tpu-steward budgets create NAME --amount USD")
    else:
        print_table(
            [
                "NAME",
                "SCOPE",
                "PERIOD",
                ">AMOUNT",
                ">SPENT",
                ">",
                ">HELD",
                ">LEFT",
                "WHEN EXCEEDED",
            ],
            map(_budget_row, answer.value["budgets"]),
            spare=("PERIOD", "HELD"),
        )


@app.command()
def show(budget: BudgetName, json: options.Json = False) -> None:
    """Show a budget, with its latest alerts and refusals."""
    with open_client() as client:
        found = find_budget(client, budget)
        answer = client.get(f"/v1/budgets/{found}")
    if json:
        print_json(answer)
        return
    _print_budget(answer.value)
    refusals = [
        f"{format_time(refusal['at'])}  {refusal['message']}"
        for refusal in answer.value["refusals"]
    ]
    notifications = [_describe_notification(note) for note in answer.value["notifications"]]
    for title, lines in (("Refused", refusals), ("Told", notifications)):
        if lines:
            print_lines("", f"{title} lately:", *(f"  {line}" for line in lines))


@app.command()
def create(  # noqa: PLR0913, PLR0917 - options are no arguments that anybody counts
    name: Annotated[
        str,
        typer.Argument(callback=options.require_name, metavar="NAME", help="Name of the budget."),
    ],
    amount: Annotated[str, typer.Option(metavar="USD", help="Amount of each period, in dollars.")],
    period: Annotated[
        str,
        typer.Option(
            "--period", metavar="PERIOD", help="day, week, month, quarter, year or custom."
        ),
    ] = "month",
    tz: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone, such as Europe/Berlin.")
    ] = "UTC",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Scope: project, team, owner, job or label:KEY. Repeatable.",
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERCENT", help="Alert at 80 percent, or at forecast:100. Repeatable."
        ),
    ] = None,
    on_exceeded: Annotated[
        str, typer.Option(metavar="ACTION", help="notify, refuse or delete.")
    ] = "notify",
    grace: Annotated[
        int,
        typer.Option(
            "--grace",
            parser=options.parse_seconds,
            metavar="DURATION",
            help="With delete: time between the notification and the deletion.",
        ),
    ] = GRACE,
    burn_rate: Annotated[
        int | None,
        typer.Option(metavar="TIMES", help="Alert when the spend is this many times too fast."),
    ] = None,
    start: Annotated[str | None, typer.Option(metavar="TIME", help="Start of the budget.")] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="End of the budget.")] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="URL of the webhook to notify.")
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="STEWARD_WEBHOOK_SECRET",
            help="Secret that signs the webhook. Default: generated, and shown once.",
        ),
    ] = None,
    email: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="E-mail address to notify. Repeatable."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Create a budget."""
    made_up = secrets.token_urlsafe(32) if webhook and not webhook_secret else None
    said = {
        "name": name,
        "amount": amount,
        "period": period,
        "tz": tz,
        "scope": _parse_scope(scope),
        "thresholds": [_parse_threshold(text) for text in threshold or ()],
        "on_exceeded": on_exceeded,
        "grace_seconds": grace,
        "burn_rate": burn_rate,
        "start": start,
        "end": end,
        "webhook": webhook,
        "webhook_secret": webhook_secret or made_up,
        "emails": email,
    }
    with open_client() as client:
        body = {key: value for key, value in said.items() if value not in (None, [])}
        answer = client.send_request("POST", "/v1/budgets", body=body)
    if json:
        print_json(answer)
    else:
        _print_budget(answer.value)
    if made_up:
        typer.echo(f"webhook secret, not shown again: {made_up}", err=True)


@app.command()
def delete(budget: BudgetName, json: options.Json = False) -> None:
    """Delete a budget. Nodes and costs do not change."""
    with open_client() as client:
        found = find_budget(client, budget)
        answer = client.send_request("DELETE", f"/v1/budgets/{found}")
    if json:
        print_json(answer)
    else:
        print_lines(f"the budget {answer.value['name']} is deleted")


def find_budget(client: Client, said: str) -> str:
    """Id of the budget with the name or id `said`. Raises Failure when there is none."""
    known = client.get_all("/v1/budgets", "budgets").value["budgets"]
    for budget in known:
        if said in (budget["id"], budget["name"]):
            return str(budget["id"])
    raise Failure(f"no budget is named {said!r}; see: tpu-steward budgets list")


def _parse_scope(texts: Sequence[str] | None) -> dict[str, str]:
    """Scope of a request, from `["team=vision", "label:run=17"]`. Raises BadParameter for a key
    that is given twice."""
    found: dict[str, str] = {}
    for key, value in options.parse_pairs(texts, "--scope"):
        name, colon, label = key.partition(":")
        if name in found:
            raise typer.BadParameter(f"{name} was given twice", param_hint="--scope")
        found[name] = f"{label}:{value}" if colon else value
    return found


def _parse_threshold(text: str) -> dict[str, object]:
    match = _THRESHOLD.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is not a threshold; write 80, or forecast:100", param_hint="--threshold"
        )
    return {"percent": int(match[2]), "of": "forecast" if match[1] else "actual"}


def _budget_row(budget: Mapping[str, Any]) -> list[Cell]:
    counts = budget["spent"] is not None
    percent = f"{budget['percent']}%" if counts else NOTHING
    spent, held, left = _format_shares(budget) if counts else (NOTHING, NOTHING, NOTHING)
    if budget["unpriced_nodes"]:
        held, left = f">={held}", f"<={left}"
    return [
        budget["name"],
        _describe_scope(budget["scope"]),
        budget["period"],
        format_usd(budget["amount"]),
        spent,
        percent,
        held,
        left,
        _describe_action(budget),
    ]


def _print_budget(budget: Mapping[str, Any]) -> None:
    """Print a budget, then its warnings."""
    print_facts(_budget_facts(budget))
    print_lines(*(f"note: {warning}" for warning in budget["warnings"]))


def _budget_facts(budget: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    yield "Name", budget["name"]
    yield "Id", budget["id"]
    yield "Scope", _describe_scope(budget["scope"])
    often = "once" if budget["period"] == "custom" else f"a {budget['period']} ({budget['tz']})"
    yield "Amount", f"{format_usd(budget['amount'])} {often}"
    if budget["spent"] is None:
        yield "Now", "it is not active now"
    else:
        yield (
            "Period",
            f"{format_time(budget['starts_at'])} to {format_time(budget['ends_at'])} UTC",
        )
        spent, held, left = _format_shares(budget)
        yield "Spent", f"{spent}, {budget['percent']}%"
        least, most = ("at least ", "at most ") if budget["unpriced_nodes"] else ("", "")
        yield "Held", f"{least}{held} for running and requested nodes"
        yield "Left", f"{most}{left}"
        names = budget["unpriced"]
        more = budget["unpriced_nodes"] - len(names)
        yield "No price", clean_text(", ".join(names)) + (f" and {more} more" if more else "")
        forecast = budget["forecast"]
        yield "Forecast", "no forecast" if forecast is None else format_usd(forecast)
    yield (
        "Thresholds",
        ", ".join(
            f"{threshold['percent']}%" + (" forecast" if threshold["of"] == "forecast" else "")
            for threshold in budget["thresholds"]
        ),
    )
    yield "Burn rate", "" if budget["burn_rate"] is None else f"{budget['burn_rate']} times"
    yield "When exceeded", _describe_action(budget)
    yield (
        "Fired",
        ", ".join(f"{a['kind']} ({format_time(a['fired_at'])})" for a in budget["alerts"]),
    )
    yield "Tells", ", ".join(filter(None, [budget["webhook"], *budget["emails"]]))


def _format_shares(budget: Mapping[str, Any]) -> list[str]:
    """Dollars spent, held and left. They sum to the amount where all prices are known."""
    names = ("spent", "held_known", "left_at_most")
    return format_parts(budget["amount"], [budget[name] for name in names])


def _describe_scope(scope: Mapping[str, Any]) -> str:
    said = [f"{name} {value}" for name, value in scope.items() if value is not None]
    return clean_text(", ".join(said)) or "everything"


def _describe_action(budget: Mapping[str, Any]) -> str:
    if budget["deletes_at"] is not None:
        return f"deletes at {format_time(budget['deletes_at'])}"
    if budget["on_exceeded"] == "delete":
        return f"delete after {format_span(budget['grace_seconds'])}"
    return str(budget["on_exceeded"])


def _describe_notification(note: Mapping[str, Any]) -> str:
    if note["sent_at"] is not None:
        what = "sent"
    elif note["next_try_at"] is not None:
        what = f"retry at {format_time(note['next_try_at'])}"
    else:
        what = "given up"
    why = f": {note['last_error']}" if note["last_error"] else ""
    return f"{format_time(note['created_at'])}  {note['subject']}, {note['channel']}, {what}{why}"
