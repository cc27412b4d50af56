"""`catalog`: which hardware there is, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import connected
from service.cli.terminal.failure import Failure
from service.cli.terminal.formatting import NOTHING, age, moment
from service.cli.terminal.render import as_json, echo, table

app = typer.Typer(
    help="Show types, zones, capacity and quotas.", no_args_is_help=True, rich_markup_mode=None
)

Generation = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this generation, as in v5e.")
]


@app.command()
def accelerators(
    generation: Generation = None,
    zone: Annotated[
        str | None, typer.Option("--zone", metavar="ZONE", help="Only what this zone has.")
    ] = None,
    chips: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only with this number of chips.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the accelerator types."""
    asked = {"generation": generation, "zone": zone, "chips": chips}
    with connected() as client:
        answer = client.pages("/v1/catalog/accelerators", "accelerators", asked)
    if json:
        as_json(answer)
        return
    table(
        ["TYPE", "GENERATION", ">CHIPS", ">HOSTS", "TOPOLOGY", "MACHINE"],
        (
            [
                one["name"],
                one["generation"],
                f"{one['chips']:,}",
                f"{one['hosts']:,}",
                one["topology"],
                one["machine_type"],
            ]
            for one in answer.value["accelerators"]
        ),
    )


@app.command()
def zones(
    generation: Generation = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="REGION", help="Only this region.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the zones that have TPUs."""
    asked = {"generation": generation, "region": region}
    with connected() as client:
        answer = client.pages("/v1/catalog/zones", "zones", asked)
    if json:
        as_json(answer)
        return
    table(
        ["ZONE", "REGION", "GENERATIONS"],
        (
            [
                one["name"],
                one["region"],
                ", ".join(each["generation"] for each in one["generations"]),
            ]
            for one in answer.value["zones"]
        ),
    )


@app.command()
def capacity(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    zone: Annotated[
        str | None, typer.Option("--zone", metavar="ZONE", help="Only this zone.")
    ] = None,
    accelerator_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Only this type, as in v5litepod-8.")
    ] = None,
    generation: Generation = None,
    model: options.Model = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Only this project.")] = None,
    window: Annotated[
        str,
        typer.Option("--window", metavar="WINDOW", help="Window: 7d, 24h, today, mtd, or A,B."),
    ] = "7d",
    json: options.Json = False,
) -> None:
    """Show recent capacity by zone, and current cooldowns."""
    asked = {
        "window": window,
        "zone": zone,
        "accelerator_type": accelerator_type,
        "generation": generation,
        "provisioning_model": options.model(model),
        "project": project,
    }
    with connected() as client:
        answer = client.pages("/v1/catalog/capacity", "capacity", asked)
    if json:
        as_json(answer)
    elif not answer.value["capacity"]:
        echo("no attempts in that time")
    else:
        table(_CAPACITY, map(_tried, answer.value["capacity"]))


@app.command()
def quotas(
    region: Annotated[
        str | None,
        typer.Option("--region", metavar="REGION", help="Only this region and its zones."),
    ] = None,
    generation: Generation = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Only this project.")] = None,
    json: options.Json = False,
) -> None:
    """Show used and held quota, and the limits known from Google."""
    asked = {"region": region, "generation": generation, "project": project}
    with connected() as client:
        answer = client.pages("/v1/catalog/quotas", "quotas", asked)
    found = answer.value["quotas"]
    if json:
        as_json(answer)
    elif not found:
        echo("no quota is held, and Google has not refused a request for lack of quota yet")
    else:
        table(_QUOTAS, map(_limit, found))
        said = dict.fromkeys(f"{one['where']}: {one['said']}" for one in found if one["said"])
        if any(one["allowed"] is None for one in found):
            said["Google has no API for these limits: a limit is known after the first refusal"] = (
                None
            )
        for one in found:
            if one["dead_chips"]:
                said[
                    f"{one['where']}: {_amount(one, 'dead')} is held by preempted nodes and"
                    " failed requests until they are deleted; see:"
                    " tpu-steward orphans list"
                ] = None
        echo("", *said)


@app.command("forget-quota")
def forget_quota(
    quota: Annotated[
        str, typer.Argument(metavar="ID", help="Its id, as `catalog quotas` shows it.")
    ],
    json: options.Json = False,
) -> None:
    """Forget a quota limit after Google has raised it."""
    if not _ID.fullmatch(quota):
        raise Failure(f"{quota[:80]!r} is not the id of a quota; see: tpu-steward catalog quotas")
    with connected() as client:
        answer = client.ask("POST", f"/v1/catalog/quotas/{quota}:forget")
    if json:
        as_json(answer)
        return
    one = answer.value
    echo(
        f"forgotten: {one['limit'] or 'a limit'} of {one['allowed']:,} in {one['where']};"
        " waiting nodes are retried within half an hour"
    )


_ID = re.compile(r"[0-9a-f]{32}")
_QUOTAS = [
    *("WHERE", "GENERATION", "TIER", "SIZE", "PROJECT", ">ALLOWED", ">USED", ">HELD"),
    *("LEARNED (UTC)", "REFUSES UNTIL (UTC)", "ID"),
]


def _limit(one: Mapping[str, Any]) -> list[str]:
    refuses = {"old": "no longer: old", "contradicted": "no longer: more was granted"}
    return [
        *(one[name] for name in ("where", "generation", "tier", "size", "project")),
        "not known" if one["allowed"] is None else f"{one['allowed']:,}",
        _amount(one, "used"),
        _amount(one, "held"),
        moment(one["observed_at"]),
        refuses.get(one["standing"]) or moment(one["believed_until"]),
        one["id"] or NOTHING,
    ]


def _amount(one: Mapping[str, Any], what: str) -> str:
    """Chips, and cores where those are not as many."""
    chips, cores = one[f"{what}_chips"], one[f"{what}_cores"]
    return f"{chips:,}" if chips == cores else f"{chips:,} ({cores:,} cores)"


_CAPACITY = [
    *("ZONE", "TYPE", "MODEL", "PROJECT", ">TRIED", ">READY", ">STOCKOUT", ">QUOTA", ">DENIED"),
    *(
        ">FAILED",
        ">TIME TO READY",
        ">PREEMPTED",
        ">LIFETIME",
        "COOLDOWN UNTIL (UTC)",
        "REASON",
    ),
]


def _tried(one: Mapping[str, Any]) -> list[str]:
    return [
        *(one[name] for name in ("zone", "accelerator_type", "provisioning_model", "project")),
        *(
            f"{one[name]:,}"
            for name in ("attempts", "ready", "stock_outs", "quota_refusals", "denied", "failed")
        ),
        _time(one["median_seconds_to_ready"]),
        f"{one['preempted']:,}",
        _time(one["median_seconds_lived"]),
        moment(one["back_off_until"]),
        one["reason"] or NOTHING,
    ]


def _time(seconds: int | None) -> str:
    return NOTHING if seconds is None else age(seconds)
