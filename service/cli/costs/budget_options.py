"""The options of `budgets create` and `budgets edit`, and the body of the request they make."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.terminal import options

_THRESHOLD = re.compile(r"(forecast:)?(\d{1,4})%?")

Period = Annotated[
    str | None,
    typer.Option("--period", metavar="PERIOD", help="day, week, month, quarter, year or custom."),
]
Tz = Annotated[str | None, typer.Option(metavar="ZONE", help="Time zone, such as Europe/Berlin.")]
Scope = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE", help="Scope: project, team, owner, job or label:KEY. Repeatable."
    ),
]
Thresholds = Annotated[
    list[str] | None,
    typer.Option(metavar="PERCENT", help="Alert at 80 percent, or at forecast:100. Repeatable."),
]
OnExceeded = Annotated[str | None, typer.Option(metavar="ACTION", help="notify, refuse or delete.")]
Grace = Annotated[
    int | None,
    typer.Option(
        "--grace",
        parser=options.parse_seconds,
        metavar="DURATION",
        help="With delete: time between the notification and the deletion.",
    ),
]
BurnRate = Annotated[
    int | None,
    typer.Option(metavar="TIMES", help="Alert when the spend is this many times too fast."),
]
Start = Annotated[str | None, typer.Option(metavar="TIME", help="Start of the budget.")]
End = Annotated[str | None, typer.Option(metavar="TIME", help="End of the budget.")]
Webhook = Annotated[str | None, typer.Option(metavar="URL", help="URL of the webhook to notify.")]
Emails = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="E-mail address to notify. Repeatable."),
]

_AS_TYPED = (
    *("name", "amount", "period", "tz", "on_exceeded"),
    *("burn_rate", "start", "end", "webhook"),
)
_RESETS = {
    "scope": "scope",
    "tz": "tz",
    "threshold": "thresholds",
    "on-exceeded": "on_exceeded",
    "grace": "grace_seconds",
    "burn-rate": "burn_rate",
    "start": "start",
    "end": "end",
    "webhook": "webhook",
    "email": "emails",
}
"""The options that --reset accepts, with the field of each. Null restores the default."""


def build_body(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a budget, with a scope such as `["team=vision", "label:run=17"]`. Options that were
    not typed are left out. Raises BadParameter for a key of the scope that is given twice."""
    scope: dict[str, str] = {}
    for key, value in options.parse_pairs(typed["scope"], "--scope"):
        name, colon, label = key.partition(":")
        if name in scope:
            raise typer.BadParameter(f"{name} was given twice", param_hint="--scope")
        scope[name] = f"{label}:{value}" if colon else value
    thresholds: list[dict[str, object]] = []
    for text in typed["threshold"] or ():
        match = _THRESHOLD.fullmatch(text.strip())
        if match is None:
            raise typer.BadParameter(
                f"{text!r} is not a threshold; write 80, or forecast:100", param_hint="--threshold"
            )
        of = "forecast" if match[1] else "actual"
        thresholds.append({"percent": int(match[2]), "of": of})
    fields = {
        **{name: typed[name] for name in _AS_TYPED},
        "scope": None if typed["scope"] is None else scope,
        "thresholds": thresholds,
        "grace_seconds": typed["grace"],
        "emails": typed["email"],
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def read_resets(names: Sequence[str], given: Collection[str]) -> dict[str, None]:
    """Fields that get their default back, from the names of their options. Raises BadParameter for
    an option without a default, and for a field that is also `given` a value."""
    for name in names:
        if name not in _RESETS:
            raise typer.BadParameter(
                f"{name!r} has no default; use one of: {', '.join(_RESETS)}", param_hint="--reset"
            )
        if _RESETS[name] in given:
            raise typer.BadParameter(
                f"give --{name} or --reset {name}, not both", param_hint="--reset"
            )
    fields = {_RESETS[name]: None for name in names}
    return fields | ({"webhook_secret": None} if "webhook" in fields else {})
