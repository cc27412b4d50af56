"""`emulator`: a Cloud TPU API on this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service import logs
from service.cli.processes.subprocesses import end_with_parent
from service.cli.terminal.errors import FAILED, MISUSED, Failure
from service.domain.network import LAST_PORT

if TYPE_CHECKING:
    from service.emulator.app import Emulator
    from service.emulator.world.world import World

Port = Annotated[int, typer.Option(min=0, max=LAST_PORT)]

DIRECTIONS = """\
The Cloud TPU emulator listens: gRPC on {grpc}, REST on {rest}

gcloud
  export CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU={rest}/
  export CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true CLOUDSDK_CORE_PROJECT=lab
  gcloud compute tpus tpu-vm list --zone=us-west4-a

google-cloud-tpu over gRPC
  channel = grpc.insecure_channel("{grpc}")
  client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))

google-cloud-tpu over REST
  client = tpu_v2.TpuClient(transport="rest", credentials=AnonymousCredentials(),
                            client_options={{"api_endpoint": "{rest}"}})

google-api-python-client
  service = discovery.build("tpu", "v2", credentials=AnonymousCredentials(),
                            client_options={{"api_endpoint": "{rest}/"}})

Terraform
  provider "google-beta" {{
    project                = "lab"
    access_token           = "none"
    tpu_v2_custom_endpoint = "{rest}/v2/"
  }}

TPU Steward
  export STEWARD_EMULATOR={grpc} STEWARD_EMULATOR_REST={bare_rest}

What it holds: {rest}/    Its bill: {rest}/_emulator/bill
Ctrl-C ends it, and forgets everything."""


def emulator(  # noqa: PLR0913, PLR0917 - its options
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    grpc_port: Port = 9470,
    rest_port: Port = 9471,
    speed: Annotated[
        float,
        typer.Option(
            min=0.001, max=1_000_000, help="Speed: this many times faster than real time."
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same ids and failures.")] = 0,
    scenario: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Scenario of failures: a TOML file."),
    ] = None,
    telemetry_delay: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=86_400,
            help="Largest delay of metric points. Default 180.",
        ),
    ] = None,
    run_startup_scripts: Annotated[
        bool,
        typer.Option(
            "--run-startup-scripts",
            help="Run the startup scripts of nodes with bash ON THIS MACHINE, AS THIS USER:"
            " anyone who can create a node can then run any command as you.",
        ),
    ] = False,
    run_startup_scripts_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIGEST",
            help="Run only startup scripts with this SHA-256 digest, on this machine, as this user."
            " What such a script starts for others, as a job's command, runs as this user too."
            " Repeat the option for several.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Answer REST calls to this host name too. Addresses and names without a dot are"
            " answered anyway; with scripts, only names of this machine. Repeat it for several.",
        ),
    ] = None,
) -> None:
    """Run an emulator of the Cloud TPU API."""
    logs.set_up()
    end_with_parent()
    scripts = run_startup_scripts or _parse_digests(run_startup_scripts_of or [])

    from service.emulator.surfaces.guard import is_loopback  # noqa: PLC0415 - costs a second

    if scripts and not is_loopback(host):
        option = "--run-startup-scripts" if run_startup_scripts else "--run-startup-scripts-of"
        raise Failure(
            f"{option} is for this machine only, and {host} is reachable by others",
            "leave --host out, or the scripts",
            code=MISUSED,
        )

    from service.emulator.app import PortTaken, build_world, run  # noqa: PLC0415 - costs a second
    from service.emulator.errors import ApiError  # noqa: PLC0415
    from service.emulator.incidents.scenario import read_file, start_scenario  # noqa: PLC0415

    world = build_world(speed=speed, seed=seed)
    if scenario is not None:
        try:
            start_scenario(world, read_file(scenario))
        except (ApiError, OSError) as error:
            raise Failure(f"--scenario: {error}", code=MISUSED) from None
    if telemetry_delay is not None:
        _change_config(world, {"telemetry": {"delay_seconds": telemetry_delay}})
    if (
        run_startup_scripts_of
    ):  # a laptop cannot run all workers: those of further nodes are simulated
        _change_config(world, {"played_workers": "overflow"})
    try:
        run(
            world,
            host,
            grpc_port,
            rest_port,
            on_ready=_print_directions,
            run_startup_scripts=scripts,
            allowed_hosts=allow_host or (),
        )
    except PortTaken as error:
        option = "--rest-port" if error.port == rest_port else "--grpc-port"
        raise Failure(f"{error}; choose another with {option}", code=FAILED) from None


def _parse_digests(texts: list[str]) -> frozenset[str]:
    for text in texts:
        if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
            raise Failure(
                f"--run-startup-scripts-of: {text} is not a SHA-256 digest",
                "give 64 hexadecimal digits, as sha256sum prints them",
                code=MISUSED,
            )
    return frozenset(text.lower() for text in texts)


def _change_config(world: World, changes: Mapping[str, object]) -> None:
    from service.emulator.config.config import patched_config  # noqa: PLC0415 - costs a second

    world.set_config(patched_config(world.config, changes))


def _print_directions(running: Emulator) -> None:
    typer.echo(
        DIRECTIONS.format(
            grpc=running.grpc_address,
            rest=running.rest_url,
            bare_rest=running.rest_url.removeprefix("http://"),
        )
    )
