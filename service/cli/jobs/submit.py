"""`jobs submit`: its options, and the body of the request that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options

Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="The image to run.")]
Entrypoint = Annotated[
    list[str] | None, typer.Option(metavar="WORD", help="Replaces the image's entrypoint.")
]
Node = Annotated[
    str | None,
    typer.Option("--node", metavar="NODE", help="Run on this node instead of a new one."),
]
AcceleratorType = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Google's name, as in v5litepod-16.")
]
Launcher = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --framework: what starts the program, such as accelerate or lightning.",
    ),
]
Workers = Annotated[
    str | None, typer.Option(metavar="all|first", help="Which workers run it. Default all.")
]
Env = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A variable of the container. Repeat for several."),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="gs://...", help="Checked to be readable before the start. Repeat for several."
    ),
]
CheckpointDir = Annotated[
    str | None,
    typer.Option(metavar="gs://...", help="Checked to be writable, kept over retries."),
]
ShmSize = Annotated[str | None, typer.Option(metavar="SIZE", help="Size of /dev/shm, as in 16g.")]
DeviceAccess = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="auto, device or privileged. Default auto: the devices, then privileged.",
    ),
]
MaxDuration = Annotated[
    int | None,
    typer.Option(
        parser=options.parse_seconds, metavar="DURATION", help="Of one attempt. Default 24h."
    ),
]
StopGrace = Annotated[
    int | None,
    typer.Option(
        parser=options.parse_seconds,
        metavar="DURATION",
        help="Between SIGTERM and SIGKILL. Default 25s.",
    ),
]
Retries = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=1000, help="Retries after a failure of the program. Default 0."
    ),
]
RetryExitCodes = Annotated[
    list[int] | None,
    typer.Option(
        metavar="CODE",
        min=1,
        max=255,
        help="With --retries: only this exit code. Repeat for several.",
    ),
]
PreemptionRetries = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=1000, help="Retries after lost hardware. Default 10."),
]
RunName = Annotated[
    str | None, typer.Option(metavar="NAME", help="STEWARD_RUN_NAME. Made up when left out.")
]
GlobalBatch = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Examples in one step; checked against the devices."),
]
Examples = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Examples in one epoch of the data.")
]
StepsPerEpoch = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Checked against the two above.")
]
LogBudget = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES",
        min=0,
        help="Output that each worker ships in one attempt. Default 1 GiB.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, record nothing.")]

_AS_TYPED = (
    *("image", "node", "data", "checkpoint_dir", "shm_size", "workers", "device_access"),
    *("run_name", "global_batch", "examples", "steps_per_epoch", "log_budget"),
    *("project", "team", "owner"),
)
"""The fields of the request that are named like their options."""


def body_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `jobs submit` as the body of a request. Options that were not given are left
    out.

    Raises typer.BadParameter for options that contradict each other, or for no image.
    """
    if not asked["image"]:
        raise typer.BadParameter("name the image to run", param_hint="--image")
    retries = {
        "failure": asked["retries"],
        "exit_codes": asked["retry_exit_code"],
        "preemption": asked["preemption_retries"],
    }
    models = {name: asked[name] for name in ("spot", "preemptible", "flex_start")}
    wanted = {
        **{name: asked[name] for name in _AS_TYPED},
        "command": asked["entrypoint"],
        "args": asked["command"],
        "env": dict(options.parse_pairs(asked["env"], "--env")),
        "node_spec": None
        if asked["node"] is not None
        else _drop_empty(
            {
                "accelerator_type": asked["accelerator_type"],
                **options.place_fields(asked["zone"], asked["region"]),
                "provisioning_model": options.choose_model(asked["provisioning_model"], **models),
                "queued": asked["queued"] or None,
                "slices": asked["slices"],
                "service_account": asked["service_account"],
                "max_wait_seconds": asked["max_wait"],
            }
        ),
    }
    framework, launcher = options.parse_framework(asked["framework"]), asked["launcher"]
    if launcher is not None:
        if framework is None:
            raise typer.BadParameter("name the --framework as well", param_hint="--launcher")
        framework = {**framework, "launcher": launcher}
    wanted |= {
        "framework": framework,
        "max_duration_seconds": asked["max_duration"],
        "stop_grace_seconds": asked["stop_grace"],
        "retries": _drop_empty(retries),
        "labels": dict(options.parse_pairs(asked["label"], "--label")),
        "dry_run": asked["dry_run"] or None,
    }
    return _drop_empty(wanted)


def _drop_empty(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value not in (None, [], {})}
