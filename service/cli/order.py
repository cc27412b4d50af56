"""`nodes create`: what is typed, as the body of a request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli import options
from service.cli.client import connected
from service.cli.nodeview import show_asked_for, show_node
from service.cli.render import as_json
from service.cli.waiting import Goal, Patience

Runtime = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Instead of --framework: the image's name.")
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Made up when left out.")]
Project = Annotated[
    str | None, typer.Option(metavar="ID", help="The service's first when left out.")
]
Team = Annotated[str | None, typer.Option(metavar="NAME", help="Who pays for it.")]
Owner = Annotated[str | None, typer.Option(metavar="NAME", help="Who uses it.")]
Ttl = Annotated[
    int | None,
    typer.Option(parser=options.seconds, metavar="DURATION", help="Delete it so long after READY."),
]
MaxWait = Annotated[
    int | None,
    typer.Option(parser=options.seconds, metavar="DURATION", help="Give up trying after this."),
]
Recreate = Annotated[
    bool, typer.Option("--recreate-on-preemption", help="Make it anew when it is preempted.")
]
Script = Annotated[
    Path | None,
    typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Every worker runs it."),
]
Network = Annotated[str | None, typer.Option(metavar="NAME", help="As Google names it.")]
ExternalIp = Annotated[bool, typer.Option("--external-ip", help="Reachable from outside.")]
Account = Annotated[
    str | None, typer.Option(metavar="E-MAIL", help="As whom its programs act; an e-mail.")
]
Metadata = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="May be said again.")]
Key = Annotated[
    str | None, typer.Option(metavar="KEY", help="Asking twice with one key is asking once.")
]


def create(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    accelerator_type: options.AcceleratorType = None,
    generation: options.Generation = None,
    chips: options.Chips = None,
    topology: options.Topology = None,
    zone: options.Zones = None,
    region: options.Regions = None,
    framework: options.Framework = None,
    runtime_version: Runtime = None,
    provisioning_model: options.Model = None,
    spot: options.Spot = False,
    preemptible: options.Preemptible = False,
    name: Name = None,
    project: Project = None,
    team: Team = None,
    owner: Owner = None,
    label: options.Labels = None,
    ttl: Ttl = None,
    max_wait: MaxWait = None,
    recreate_on_preemption: Recreate = False,
    startup_script: Script = None,
    network: Network = None,
    subnetwork: Network = None,
    external_ip: ExternalIp = False,
    service_account: Account = None,
    metadata: Metadata = None,
    idempotency_key: Key = None,
    wait: options.Wait = False,
    timeout: options.Timeout = options.PATIENCE,
    json: options.Json = False,
) -> None:
    """Ask for a node."""
    body = body_of(locals())
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    with connected() as client:
        answer = client.ask("POST", "/v1/nodes", body=body, headers=headers)
        if not json:
            show_asked_for(answer.value)
        if wait:
            answer = Patience(client, answer.value["id"], timeout).until(Goal.READY)
            if not json:
                show_node(answer.value)
    if json:
        as_json(answer)


_AS_TYPED = (
    *("accelerator_type", "generation", "chips", "topology", "runtime_version", "name", "project"),
    *("team", "owner", "recreate_on_preemption", "network", "subnetwork", "external_ip"),
    "service_account",
)


def body_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the request; what was not typed is left to the service."""
    options.check_hardware(typed["accelerator_type"], typed["generation"])
    body = {
        **{name: typed[name] for name in _AS_TYPED},
        **options.places(typed["zone"], typed["region"]),
        "framework": options.framework(typed["framework"]),
        "provisioning_model": options.model(
            typed["provisioning_model"], spot=typed["spot"], preemptible=typed["preemptible"]
        ),
        "labels": options.mapping(typed["label"], "--label"),
        "metadata": options.mapping(typed["metadata"], "--metadata"),
        "ttl_seconds": typed["ttl"],
        "max_wait_seconds": typed["max_wait"],
        "startup_script": options.script(typed["startup_script"]),
    }
    return {name: value for name, value in body.items() if value is not None and value is not False}
