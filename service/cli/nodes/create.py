"""`nodes create`: its options, and the body of the request that they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.nodes import idle_terms
from service.cli.nodes.dry_run import show_dry_run
from service.cli.nodes.node_output import show_asked_for, show_node
from service.cli.nodes.wait import Goal, NodeWatch
from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.render import print_json
from service.domain.catalog.provisioning_modes import MAX_SLICES

Types = Annotated[
    list[str] | None,
    typer.Option(
        callback=options.require_name,
        metavar="TYPE",
        help="Accelerator type, such as v5litepod-8. Repeatable: any of them is accepted.",
    ),
]
Runtime = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Software image, instead of --framework.")
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        callback=options.require_name,
        metavar="NAME",
        help="Name of the node. Default: generated.",
    ),
]
Project = Annotated[
    str | None,
    typer.Option(
        callback=options.require_name,
        metavar="ID",
        help="Default: the first project of the service.",
    ),
]
Team = Annotated[str | None, typer.Option(metavar="NAME", help="Team that pays.")]
Owner = Annotated[str | None, typer.Option(metavar="NAME", help="Owner.")]
Ttl = Annotated[
    int | None,
    typer.Option(
        parser=options.parse_seconds,
        metavar="DURATION",
        help="Delete the node this long after READY.",
    ),
]
MaxWait = Annotated[
    int | None,
    typer.Option(
        parser=options.parse_seconds,
        metavar="DURATION",
        help="Give up if the node is not READY within this time.",
    ),
]
Recreate = Annotated[
    bool, typer.Option("--recreate-on-preemption", help="Recreate the node when it is preempted.")
]
Script = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", exists=True, dir_okay=False, help="Startup script of every worker."
    ),
]
Queued = Annotated[
    bool,
    typer.Option(
        "--queued",
        help="Wait in Google's queue for on_demand or spot; reserved, flex_start and --slices"
        " always do, preemptible cannot.",
    ),
]
Slices = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=MAX_SLICES, help="One node of this number of equal slices, queued."
    ),
]
Reservation = Annotated[
    str | None,
    typer.Option(
        callback=options.require_name,
        metavar="NAME",
        help="With --provisioning-model reserved. Default: any reservation of the project.",
    ),
]
ValidUntil = Annotated[
    str | None,
    typer.Option(
        parser=options.require_instant,
        metavar="TIME",
        help="Give up if the node is not READY by then, such as 2026-11-05T18:00:00Z.",
    ),
]
VmMachineType = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="With --architecture node: type of your VM, such as n1-standard-8. Its cost is"
        " included.",
    ),
]
VmSpot = Annotated[bool, typer.Option("--vm-spot", help="The VM is a spot VM.")]
Network = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the network at Google.")]
Subnetwork = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the subnetwork at Google.")
]
ExternalIp = Annotated[
    bool, typer.Option("--external-ip", help="Give the workers external addresses.")
]
Account = Annotated[
    str | None,
    typer.Option(metavar="E-MAIL", help="Service account of the node: an e-mail address."),
]
Metadata = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Metadata entry. Repeatable.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Show its cost and whether a budget refuses it; create nothing."
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        callback=options.require_key,
        metavar="TEXT",
        help="Idempotency key: a second request with it creates nothing.",
    ),
]


def create(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    accelerator_type: Types = None,
    generation: options.Generation = None,
    chips: options.Chips = None,
    topology: options.Topology = None,
    zone: options.Zones = None,
    region: options.Regions = None,
    framework: options.Framework = None,
    runtime_version: Runtime = None,
    architecture: options.Architecture = None,
    vm_machine_type: VmMachineType = None,
    vm_spot: VmSpot = False,
    provisioning_model: options.Model = None,
    spot: options.Spot = False,
    preemptible: options.Preemptible = False,
    flex_start: options.FlexStart = False,
    reservation: Reservation = None,
    queued: Queued = False,
    slices: Slices = None,
    name: Name = None,
    project: Project = None,
    team: Team = None,
    owner: Owner = None,
    label: options.Labels = None,
    ttl: Ttl = None,
    max_wait: MaxWait = None,
    valid_until: ValidUntil = None,
    recreate_on_preemption: Recreate = False,
    idle_after: idle_terms.IdleAfter = None,
    grace: idle_terms.Grace = None,
    action: idle_terms.Action = None,
    also: idle_terms.Also = None,
    startup_script: Script = None,
    network: Network = None,
    subnetwork: Subnetwork = None,
    external_ip: ExternalIp = False,
    service_account: Account = None,
    metadata: Metadata = None,
    idempotency_key: Key = None,
    dry_run: DryRun = False,
    wait: options.Wait = False,
    timeout: options.Timeout = options.PATIENCE,
    json: options.Json = False,
) -> None:
    """Create a node."""
    body = body_of(locals())
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    with open_client() as client:
        if dry_run:
            show_dry_run(client, body, json=json)
            return
        answer = client.send_request("POST", "/v1/nodes", body=body, headers=headers)
        if not json:
            show_asked_for(answer.value)
        if wait:
            answer = NodeWatch(client, answer.value["id"], timeout).wait_for(Goal.READY)
            if not json:
                show_node(answer.value)
    if json:
        print_json(answer)


_AS_TYPED = (
    *("generation", "chips", "topology", "runtime_version", "name", "project"),
    *("team", "owner", "recreate_on_preemption", "network", "subnetwork", "external_ip"),
    *("service_account", "architecture", "reservation", "queued", "slices", "valid_until"),
)


def body_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Body of the request. Options that were not typed are left out."""
    types = typed["accelerator_type"] or []
    options.check_hardware(next(iter(types), None), typed["generation"])
    body = {
        **{name: typed[name] for name in _AS_TYPED},
        **options.type_fields(types),
        **options.place_fields(typed["zone"], typed["region"]),
        "framework": options.parse_framework(typed["framework"]),
        "provisioning_model": options.choose_model(
            typed["provisioning_model"],
            **{name: typed[name] for name in ("spot", "preemptible", "flex_start")},
        ),
        "labels": options.parse_mapping(typed["label"], "--label"),
        "metadata": options.parse_mapping(typed["metadata"], "--metadata"),
        "ttl_seconds": typed["ttl"],
        "idle": idle_terms.as_own(
            idle_terms.build_policy(
                *(typed[name] for name in ("idle_after", "grace", "action", "also"))
            )
        )
        or None,
        "max_wait_seconds": typed["max_wait"],
        "startup_script": options.read_script(typed["startup_script"]),
    }
    if typed["vm_machine_type"] is not None:
        model = {"provisioning_model": "spot"} if typed["vm_spot"] else {}
        body["vm"] = {"machine_type": typed["vm_machine_type"], **model}
    elif typed["vm_spot"]:
        raise typer.BadParameter(
            "give the type of the VM: --vm-machine-type", param_hint="--vm-spot"
        )
    return {name: value for name, value in body.items() if value is not None and value is not False}
