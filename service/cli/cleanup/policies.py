"""`cleanup policies`: idle policies of the installation, of projects and of teams."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer

from service.cli.nodes import idle_terms
from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import NOTHING, format_age, format_time
from service.cli.terminal.lists import ListGroup
from service.cli.terminal.render import print_facts, print_json, print_lines, print_table

app = typer.Typer(
    cls=ListGroup,
    help="Manage idle policies by scope.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

ROOT = "/v1/cleanup/policies"

Scope = Annotated[
    str,
    typer.Argument(
        callback=options.require_name, metavar="SCOPE", help="default, project:NAME or team:NAME."
    ),
]


@app.callback()
def list_policies(context: typer.Context, json: options.Json = False) -> None:
    """Manage idle policies by scope. Without a command, lists them."""
    if context.invoked_subcommand is not None:
        return
    with open_client() as client:
        answer = client.get_all(ROOT, "policies")
    if json:
        print_json(answer)
        return
    print_table(
        ["SCOPE", ">IDLE AFTER", ">GRACE", "ACTION", "ALSO", "NOTIFIES"],
        [
            (
                policy["scope"],
                format_age(policy["idle_after_seconds"]),
                format_age(policy["grace_seconds"]),
                policy["action"],
                ", ".join(policy["also"]) or NOTHING,
                idle_terms.describe_recipients(policy["recipients"]) or "nobody",
            )
            for policy in answer.value["policies"]
        ],
    )


@app.command()
def show(scope: Scope, json: options.Json = False) -> None:
    """Show the policy of a scope."""
    with open_client() as client:
        answer = client.get(_policy_path(scope))
    if json:
        print_json(answer)
    else:
        _print_policy(answer.value)


@app.command("set")
def set_(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    scope: Scope,
    idle_after: idle_terms.IdleAfter = None,
    grace: idle_terms.Grace = None,
    action: idle_terms.Action = None,
    also: idle_terms.Also = None,
    email: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Notify this address; may be repeated."),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Notify this address with signed JSON.")
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="STEWARD_WEBHOOK_SECRET",
            help="Key of the signature. Default: generated, and shown once.",
        ),
    ] = None,
    slack: Annotated[
        str | None, typer.Option(metavar="URL", help="Notify this incoming webhook of Slack.")
    ] = None,
    tell_nobody: Annotated[
        bool, typer.Option("--tell-nobody", help="Remove all recipients.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Set the policy of a scope. Options that are left out keep their value.

    In a new policy they have the defaults: 1h, 15m, notify. New recipients replace all present
    ones.
    """
    made_up = secrets.token_urlsafe(32) if webhook and not webhook_secret else None
    recipients = _build_recipients(email, webhook, webhook_secret or made_up, slack)
    if recipients and tell_nobody:
        raise typer.BadParameter(
            "cannot be combined with --email, --webhook or --slack", param_hint="--tell-nobody"
        )
    said = idle_terms.build_policy(idle_after, grace, action, also)
    if recipients or tell_nobody:
        said["recipients"] = recipients
    if not said:
        raise typer.BadParameter("give at least one option", param_hint="--idle-after, ...")
    with open_client() as client:
        known = client.get_all(ROOT, "policies").value["policies"]
        before = next((policy for policy in known if policy["scope"] == scope), None)
        settings = {} if before is None else idle_terms.settings_of(before)
        headers = {} if before is None else {"If-Match": f'"{before["version"]}"'}
        body = {**settings, **said}
        answer = client.send_request("PUT", _policy_path(scope), body=body, headers=headers)
    if json:
        print_json(answer)
    else:
        _print_policy(answer.value)
    if made_up:
        typer.echo(f"the secret of the webhook, not shown again: {made_up}", err=True)


@app.command()
def delete(scope: Scope, json: options.Json = False) -> None:
    """Delete the policy of a scope. The scope inherits from then on."""
    with open_client() as client:
        answer = client.send_request("DELETE", _policy_path(scope))
    if json:
        print_json(answer)
    else:
        print_lines(f"{answer.value['scope']} has no policy of its own now")


def _policy_path(scope: str) -> str:
    return f"{ROOT}/{quote(scope, safe=':')}"


def _build_recipients(
    emails: Sequence[str] | None, webhook: str | None, secret: str | None, slack: str | None
) -> list[dict[str, Any]]:
    """Recipients for the request."""
    found: list[dict[str, Any]] = []
    if webhook:
        found.append({"webhook": webhook, "secret": secret})
    if slack:
        found.append({"webhook": slack, "format": "slack"})
    if emails:
        found.append({"emails": list(emails)})
    return found


def _print_policy(policy: Mapping[str, Any]) -> None:
    print_facts(
        [
            ("Scope", policy["scope"]),
            ("Rule", idle_terms.describe_rule(policy)),
            ("Notifies", idle_terms.describe_recipients(policy["recipients"]) or "nobody"),
            ("Written", f"{format_time(policy['updated_at'])} UTC" if policy["updated_at"] else ""),
        ]
    )
