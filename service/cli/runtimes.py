"""`runtimes`: runtime versions, and the right one for a framework and hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import NOTHING
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import (
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)

app = typer.Typer(
    help="Find runtime versions (software images).", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def resolve(
    accelerator_type: Annotated[
        str, typer.Option(metavar="TYPE", help="Google's name, as in v5litepod-8.")
    ],
    framework: Annotated[
        str, typer.Option(metavar="NAME[=VERSION]", help="jax, pytorch or tensorflow.")
    ],
    zone: Annotated[
        str | None,
        typer.Option("--zone", metavar="ZONE", help="Also check that this zone offers it."),
    ] = None,
    architecture: options.Architecture = None,
    json: options.Json = False,
) -> None:
    """Choose a runtime version, with the reasons."""
    body = {
        "accelerator_type": accelerator_type,
        "framework": options.parse_framework(framework),
        "zone": zone,
        **({"architecture": architecture} if architecture else {}),
    }
    with open_client() as client:
        answer = client.send_request("POST", "/v1/runtimes:resolve", body=body)
    if json:
        print_json(answer)
    else:
        show_resolution(answer.value)


def show_resolution(found: Mapping[str, Any]) -> None:
    """Print the runtime version on a line of its own, then the reasons."""
    print_lines(found["runtime_version"], "")
    print_paragraphs(*(f"  {reason}" for reason in found["why"]))
    print_paragraphs(*(f"  Note: {warning}" for warning in found["warnings"]))
    more = [("  Beside it", found["vm_software"] or ""), ("  Or", ", ".join(found["alternatives"]))]
    if any(value for _, value in more):
        print_lines("")
        print_facts(more)


@app.command("list", cls=ListCommand)
def list_runtimes(
    generation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only for this generation.")
    ] = None,
    framework: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only for this framework.")
    ] = None,
    architecture: options.Architecture = None,
    json: options.Json = False,
) -> None:
    """List the known runtime versions, the best first."""
    asked = {"generation": generation, "framework": framework, "architecture": architecture}
    with open_client() as client:
        answer = client.get_all("/v1/catalog/runtimes", "runtimes", asked)
    if json:
        print_json(answer)
        return
    print_table(
        ["RUNTIME VERSION", "FRAMEWORK", "VERSION", "GENERATIONS", "HOSTS", "STANDING"],
        (
            [
                runtime["name"],
                ", ".join(runtime["frameworks"]),
                runtime["framework_version"] or NOTHING,
                ", ".join(runtime["generations"]),
                runtime["hosts"],
                runtime["standing"],
            ]
            for runtime in answer.value["runtimes"]
        ),
        spare=("HOSTS", "FRAMEWORK"),
    )
