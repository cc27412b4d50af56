"""The options of idle policies, and policies as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.formatting import format_age

IdleAfter = Annotated[
    int | None,
    typer.Option(
        "--idle-after",
        parser=options.parse_seconds,
        metavar="DURATION",
        help="How long a node must be quiet to be idle.",
    ),
]
Grace = Annotated[
    int | None,
    typer.Option(
        "--grace",
        parser=options.parse_seconds,
        metavar="DURATION",
        help="Time between the notification and the action.",
    ),
]
Action = Annotated[
    str | None,
    typer.Option("--action", metavar="ACTION", help="What to do: observe, notify, stop or delete."),
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WASTE",
        help="Also end crash_loop or no_progress nodes; may be repeated; none ends neither.",
    ),
]

_SETTINGS = ("idle_after_seconds", "grace_seconds", "action", "also")


def build_policy(
    idle_after: int | None, grace: int | None, action: str | None, also: Sequence[str] | None
) -> dict[str, Any]:
    """Policy for a request, from the options. Options that were not typed are left out."""
    waste = None if also is None else [name for name in also if name != "none"]
    said = {
        "idle_after_seconds": idle_after,
        "grace_seconds": grace,
        "action": action,
        "also": waste,
    }
    return {name: value for name, value in said.items() if value is not None}


def as_own(said: Mapping[str, Any]) -> dict[str, Any]:
    """A policy in the form of a node's own policy: `after_seconds` for `idle_after_seconds`."""
    found = {name: said[name] for name in _SETTINGS if name in said}
    if "idle_after_seconds" in found:
        found["after_seconds"] = found.pop("idle_after_seconds")
    return found


def settings_of(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a policy of an answer, to be sent again."""
    return {name: policy[name] for name in _SETTINGS}


def describe_rule(policy: Mapping[str, Any]) -> str:
    """`delete after 1h00m with 15m00s of grace, also crash_loop`."""
    also = f", also {' and '.join(policy['also'])}" if policy["also"] else ""
    after, grace = format_age(policy["idle_after_seconds"]), format_age(policy["grace_seconds"])
    return f"{policy['action']} after {after} with {grace} of grace{also}"


def describe_recipients(recipients: Sequence[Mapping[str, Any]]) -> str:
    """Webhooks and e-mail addresses in a row. Empty without recipients."""
    return ", ".join(
        target
        for recipient in recipients
        for target in filter(None, [recipient["webhook"], *recipient["emails"]])
    )
