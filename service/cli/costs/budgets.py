"""`budgets`: spending limits by scope, their spend and their alerts."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.costs import budget_options
from service.cli.terminal import options
from service.cli.terminal.client import ApiAnswer, Client, open_client
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import (
    NOTHING,
    format_parts,
    format_span,
    format_time,
    format_usd,
)
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import (
    Cell,
    clean_text,
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)

app = typer.Typer(
    help="Manage budgets and alerts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

GRACE: Any = "15m"
"""Default of --grace, as a user would type it."""

BudgetName = Annotated[
    str, typer.Argument(callback=options.require_name, metavar="BUDGET", help="Name or id.")
]


@app.command("list", cls=ListCommand)
def list_budgets(json: options.Json = False) -> None:
    """List the budgets with their spend and status."""
    with open_client() as client:
        answer = client.get_all("/v1/budgets", "budgets")
    if json:
        print_json(answer)
        return
    if not answer.value["budgets"]:
        print_lines("no budgets; create one with: tpu-steward budgets create NAME --amount USD")
        return
    rows: list[list[Cell]] = []
    for budget in answer.value["budgets"]:
        counts = budget["spent"] is not None
        spent, held, left = _format_shares(budget) if counts else (NOTHING, NOTHING, NOTHING)
        if budget["unpriced_nodes"]:
            held, left = f">={held}", f"<={left}"
        rows.append(
            [
                budget["name"],
                _describe_scope(budget["scope"]),
                budget["period"],
                format_usd(budget["amount"]),
                spent,
                f"{budget['percent']}%" if counts else NOTHING,
                held,
                left,
                _describe_action(budget),
            ]
        )
    amounts = (">AMOUNT", ">SPENT", ">USED", ">HELD", ">LEFT AT WORST")
    columns = ["NAME", "SCOPE", "PERIOD", *amounts, "WHEN EXCEEDED"]
    print_table(columns, rows, spare=("PERIOD", "HELD", "SCOPE"))


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
    notifications = []
    for note in answer.value["notifications"]:
        if note["sent_at"] is not None:
            outcome = "sent"
        elif note["next_try_at"] is not None:
            outcome = f"retry at {format_time(note['next_try_at'])}"
        else:
            outcome = "given up"
        reason = f": {note['last_error']}" if note["last_error"] else ""
        message = f"{note['subject']}, {note['channel']}, {outcome}{reason}"
        notifications.append(f"{format_time(note['created_at'])}  {message}")
    for title, lines in (("Refused", refusals), ("Notified", notifications)):
        if lines:
            print_paragraphs("", f"{title} lately:", *(f"  {line}" for line in lines))


@app.command()
def create(  # noqa: PLR0913, PLR0917 - options are no arguments that anybody counts
    name: Annotated[
        str,
        typer.Argument(callback=options.require_name, metavar="NAME", help="Name of the budget."),
    ],
    amount: Annotated[str, typer.Option(metavar="USD", help="Amount of each period, in dollars.")],
    period: budget_options.Period = "month",
    tz: budget_options.Tz = "UTC",
    scope: budget_options.Scope = None,
    threshold: budget_options.Thresholds = None,
    on_exceeded: budget_options.OnExceeded = "notify",
    grace: budget_options.Grace = GRACE,
    burn_rate: budget_options.BurnRate = None,
    start: budget_options.Start = None,
    end: budget_options.End = None,
    webhook: budget_options.Webhook = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="STEWARD_WEBHOOK_SECRET",
            help="Secret that signs the webhook. Default: generated, and shown once.",
        ),
    ] = None,
    email: budget_options.Emails = None,
    json: options.Json = False,
) -> None:
    """Create a budget."""
    body = {"scope": {}, **budget_options.build_body(locals())}
    made_up = secrets.token_urlsafe(32) if webhook and not webhook_secret else None
    if secret := webhook_secret or made_up:
        body["webhook_secret"] = secret
    with open_client() as client:
        answer = client.send_request("POST", "/v1/budgets", body=body)
    _show_change(answer, made_up, json=json)


@app.command()
def edit(  # noqa: PLR0913, PLR0917 - options are no arguments that anybody counts
    budget: BudgetName,
    name: Annotated[
        str | None,
        typer.Option("--name", callback=options.require_name, metavar="NAME", help="New name."),
    ] = None,
    amount: Annotated[
        str | None, typer.Option(metavar="USD", help="Amount of each period, in dollars.")
    ] = None,
    period: budget_options.Period = None,
    tz: budget_options.Tz = None,
    scope: budget_options.Scope = None,
    threshold: budget_options.Thresholds = None,
    on_exceeded: budget_options.OnExceeded = None,
    grace: budget_options.Grace = None,
    burn_rate: budget_options.BurnRate = None,
    start: budget_options.Start = None,
    end: budget_options.End = None,
    webhook: budget_options.Webhook = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Secret that signs the webhook. Default with --webhook: generated."
        ),
    ] = None,
    email: budget_options.Emails = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION", help="Restore the default of an option, as in burn-rate. Repeatable."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Change a budget. What is not given stays as it is."""
    body = budget_options.build_body(locals())
    body |= budget_options.read_resets(reset or (), body.keys())
    if webhook and not webhook_secret:
        webhook_secret = os.environ.get("STEWARD_WEBHOOK_SECRET")
    made_up = secrets.token_urlsafe(32) if webhook and not webhook_secret else None
    if secret := webhook_secret or made_up:
        body["webhook_secret"] = secret
    if not body:
        raise typer.BadParameter("give at least one option", param_hint="--amount / --reset / ...")
    with open_client() as client:
        path = f"/v1/budgets/{find_budget(client, budget)}"
        answer = client.send_request("PATCH", path, body=body)
    _show_change(answer, made_up, json=json)


def _show_change(answer: ApiAnswer, made_up: str | None, *, json: bool) -> None:
    """Print a budget after a change, and the generated secret of its webhook, if there is one."""
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


def _print_budget(budget: Mapping[str, Any]) -> None:
    """Print a budget, then its warnings."""
    often = "once" if budget["period"] == "custom" else f"a {budget['period']} ({budget['tz']})"
    facts: list[tuple[str, Cell]] = [
        ("Name", budget["name"]),
        ("Id", budget["id"]),
        ("Scope", _describe_scope(budget["scope"])),
        ("Amount", f"{format_usd(budget['amount'])} {often}"),
    ]
    if budget["spent"] is None:
        facts.append(("Now", "it is not active now"))
    else:
        start, end = format_time(budget["starts_at"]), format_time(budget["ends_at"])
        spent, held, left = _format_shares(budget)
        least, most = ("at least ", "at most ") if budget["unpriced_nodes"] else ("", "")
        unpriced = clean_text(", ".join(budget["unpriced"]))
        more = budget["unpriced_nodes"] - len(budget["unpriced"])
        over = Decimal(budget["spent"]) - Decimal(budget["amount"])
        forecast = budget["forecast"]
        facts += [
            ("Period", f"{start} to {end} UTC"),
            ("Spent", f"{spent}, {budget['percent']}%"),
            ("Over by", format_usd(str(over)) if over > 0 else ""),
            ("Held", f"{least}{held} for running and requested nodes"),
            ("Left at worst", f"{most}{left}"),
            ("No price", unpriced + (f" and {more} more" if more else "")),
            ("Forecast", "no forecast" if forecast is None else format_usd(forecast)),
        ]
    thresholds = (
        f"{threshold['percent']}%" + (" by forecast" if threshold["of"] == "forecast" else " spent")
        for threshold in budget["thresholds"]
    )
    fired = (f"{alert['kind']} ({format_time(alert['fired_at'])})" for alert in budget["alerts"])
    facts += [
        ("Thresholds", ", ".join(thresholds)),
        ("Burn rate", "" if budget["burn_rate"] is None else f"{budget['burn_rate']} times"),
        ("When exceeded", _describe_action(budget)),
        ("Fired", ", ".join(fired)),
        ("Notifies", ", ".join(filter(None, [budget["webhook"], *budget["emails"]]))),
    ]
    print_facts(facts)
    print_paragraphs(*(f"note: {warning}" for warning in budget["warnings"]))


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
