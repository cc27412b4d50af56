"""`emulator`: a Cloud TPU API on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service import logs
from service.cli import parent
from service.cli.failure import FAILED, Failure

if TYPE_CHECKING:
    from service.emulator.app import Emulator

Port = Annotated[int, typer.Option(min=0, max=65_535)]

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

TPU Steward
  export STEWARD_EMULATOR={grpc} STEWARD_EMULATOR_REST={bare_rest}

What it holds: {rest}/_emulator/state    Its bill: {rest}/_emulator/bill
Ctrl-C ends it, and forgets everything."""


def emulator(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    grpc_port: Port = 9470,
    rest_port: Port = 9471,
    speed: Annotated[
        float,
        typer.Option(min=0.001, max=1_000_000, help="How many times faster than real things go."),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same ids again.")] = 0,
) -> None:
    """Be a Cloud TPU API, for developing and testing without Google."""
    logs.set_up()
    parent.watch()

    from service.emulator.app import PortTaken, run  # noqa: PLC0415 - costs a second

    try:
        run(host, grpc_port, rest_port, speed, seed, on_ready=_direct)
    except PortTaken as error:
        option = "--rest-port" if error.port == rest_port else "--grpc-port"
        raise Failure(f"{error}; choose another with {option}", code=FAILED) from None


def _direct(running: Emulator) -> None:
    typer.echo(
        DIRECTIONS.format(
            grpc=running.grpc_address,
            rest=running.rest_url,
            bare_rest=running.rest_url.removeprefix("http://"),
        )
    )
