"""`catalog`: accelerator types, zones, recent capacity and quotas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import NOTHING, format_age, format_time
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.printing import Output, current_printing
from service.cli.terminal.render import print_json, print_lines, print_paragraphs, print_table

app = typer.Typer(
    help="Show types, zones, capacity and quotas.", no_args_is_help=True, rich_markup_mode=None
)

Generation = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this generation, as in v5e.")
]


@app.command(cls=ListCommand)
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
    with open_client() as client:
        answer = client.get_all("/v1/catalog/accelerators", "accelerators", asked)
    if json:
        print_json(answer)
        return
    print_table(
        ["TYPE", "GENERATION", ">CHIPS", ">HOSTS", "TOPOLOGY", "MACHINE"],
        (
            [
                accelerator["name"],
                accelerator["generation"],
                f"{accelerator['chips']:,}",
                f"{accelerator['hosts']:,}",
                accelerator["topology"],
                accelerator["machine_type"],
            ]
            for accelerator in answer.value["accelerators"]
        ),
    )


@app.command(cls=ListCommand)
def zones(
    generation: Generation = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="REGION", help="Only this region.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the zones that have TPUs."""
    asked = {"generation": generation, "region": region}
    with open_client() as client:
        answer = client.get_all("/v1/catalog/zones", "zones", asked)
    if json:
        print_json(answer)
        return
    print_table(
        ["ZONE", "REGION", "GENERATIONS"],
        (
            [
                zone["name"],
                zone["region"],
                ", ".join(offer["generation"] for offer in zone["generations"]),
            ]
            for zone in answer.value["zones"]
        ),
    )


@app.command(cls=ListCommand)
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
        "provisioning_model": options.choose_model(model),
        "project": project,
    }
    with open_client() as client:
        answer = client.get_all("/v1/catalog/capacity", "capacity", asked)
    if json:
        print_json(answer)
    elif not answer.value["capacity"]:
        print_lines("no attempts in that time")
    else:
        places = answer.value["capacity"]
        is_wide = current_printing().output is Output.WIDE
        rows = (
            [
                *(place[name] for name in _PLACE),
                *(f"{place[name]:,}" for name in _COUNTS),
                _age_or_nothing(place["median_seconds_to_ready"]),
                f"{place['preempted']:,}",
                _age_or_nothing(place["median_seconds_lived"]),
                format_time(place["back_off_until"]),
                *((place["reason"] or NOTHING,) if is_wide else ()),
            ]
            for place in places
        )
        print_table([*_CAPACITY, "REASON"] if is_wide else _CAPACITY, rows, spare=_SPARE)
        reasons = [
            f"{', '.join(place[name] for name in _PLACE[:3])}: {place['reason']}"
            for place in places
            if place["reason"]
        ]
        if reasons and not is_wide:
            print_lines("")
            print_paragraphs(*reasons)


@app.command(cls=ListCommand)
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
    with open_client() as client:
        answer = client.get_all("/v1/catalog/quotas", "quotas", asked)
    found = answer.value["quotas"]
    if json:
        print_json(answer)
    elif not found:
        print_lines("no quota is held, and Google has not refused a request for lack of quota yet")
    else:
        print_table(
            _QUOTAS,
            (
                [
                    *(quota[name] for name in ("where", "generation", "tier", "size", "project")),
                    "not known" if quota["allowed"] is None else f"{quota['allowed']:,}",
                    _format_quota(quota, "used"),
                    _format_quota(quota, "held"),
                    format_time(quota["observed_at"]),
                    _OUTDATED.get(quota["standing"]) or format_time(quota["believed_until"]),
                    quota["id"] or NOTHING,
                ]
                for quota in found
            ),
            spare=("ID", "LEARNED (UTC)", "PROJECT", "SIZE", "REFUSES UNTIL (UTC)", "TIER"),
        )
        said = dict.fromkeys(
            f"{quota['where']}: {quota['said']}" for quota in found if quota["said"]
        )
        if any(quota["allowed"] is None for quota in found):
            said["Google has no API for these limits: a limit is known after the first refusal"] = (
                None
            )
        for quota in found:
            if quota["dead_chips"]:
                said[
                    f"{quota['where']}: {_format_quota(quota, 'dead')} is held by preempted nodes"
                    " and failed requests until they are deleted; see: tpu-steward orphans list"
                ] = None
        print_lines("")
        print_paragraphs(*said)


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
    with open_client() as client:
        answer = client.send_request("POST", f"/v1/catalog/quotas/{quota}:forget")
    if json:
        print_json(answer)
        return
    known = answer.value
    print_paragraphs(
        f"forgotten: {known['limit'] or 'a limit'} of {known['allowed']:,} in {known['where']};"
        " waiting nodes are retried within half an hour"
    )


_ID = re.compile(r"[0-9a-f]{32}")
_OUTDATED = {"old": "no longer: old", "contradicted": "no longer: more was granted"}
_QUOTAS = [
    *("WHERE", "GENERATION", "TIER", "SIZE", "PROJECT", ">ALLOWED", ">USED", ">HELD"),
    *("LEARNED (UTC)", "REFUSES UNTIL (UTC)", "ID"),
]


def _format_quota(quota: Mapping[str, Any], what: str) -> str:
    """Chips, and the cores too where their number differs."""
    chips, cores = quota[f"{what}_chips"], quota[f"{what}_cores"]
    return f"{chips:,}" if chips == cores else f"{chips:,} ({cores:,} cores)"


_CAPACITY = [
    *("ZONE", "TYPE", "MODEL", "PROJECT", ">TRIED", ">READY", ">STOCKOUT", ">QUOTA", ">DENIED"),
    *(
        ">FAILED",
        ">TIME TO READY",
        ">PREEMPTED",
        ">LIFETIME",
        "COOLDOWN UNTIL (UTC)",
    ),
]


_SPARE = (
    *("PROJECT", "DENIED", "FAILED", "QUOTA", "LIFETIME", "PREEMPTED"),
    *("COOLDOWN UNTIL (UTC)", "TIME TO READY"),
)

_PLACE = ("zone", "accelerator_type", "provisioning_model", "project")
_COUNTS = ("attempts", "ready", "stock_outs", "quota_refusals", "denied", "failed")


def _age_or_nothing(seconds: int | None) -> str:
    return NOTHING if seconds is None else format_age(seconds)
