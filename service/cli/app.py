"""The program: all commands, and the output of a command that fails."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import nullcontext
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service.cli.terminal.errors import FAILED, Failure, is_text
from service.cli.terminal.examples import add_examples
from service.cli.terminal.render import print_errors
from service.domain.errors import StewardError

GROUPS = {
    "Commands for work": {
        "nodes": "Create, watch, connect to and delete nodes.",
        "jobs": "Run containers on TPUs.",
        "plan": "Find hardware that fits a need, with its cost.",
        "estimate": "Estimate the cost of a node before you create it.",
        "runtimes": "Find runtime versions (software images).",
        "catalog": "Show types, zones, capacity and quotas.",
    },
    "Commands for money": {
        "costs": "Show what was spent.",
        "budgets": "Manage budgets and alerts.",
        "prices": "Show and add prices, and manage discounts.",
        "reservations": "Manage calendar-mode reservations.",
        "commitments": "Manage committed-use discounts.",
    },
    "Commands against waste": {
        "cleanup": "Clean up idle nodes: plan, apply, pause and history.",
        "orphans": "Find and delete what no record accounts for.",
    },
    "Commands that run the service": {
        "dev": "Run everything on this machine, on the emulator.",
        "demo": "Show a lab with 30 days of history, on the emulator.",
        "serve": "Serve the API and the dashboard.",
        "daemon": "Reconcile nodes with the cloud and meter their cost.",
        "emulator": "Run an emulator of the Cloud TPU API.",
        "migrate": "Upgrade the database schema.",
    },
}
"""The commands with their help, by the title under which `--help` lists them."""

HELP = {name: text for group in GROUPS.values() for name, text in group.items()}
"""The commands with their help. The module of a command is imported when the command is named:
importing all modules takes longer than most commands."""

ALONE = ("dev", "demo", "serve", "daemon", "emulator", "migrate")
"""The commands that run the service instead of calling it. Their errors keep their traceback."""

MODULES = {
    **{name: f"service.cli.processes.{name}" for name in ALONE},
    **{name: f"service.cli.{name}.{name}" for name in ("nodes", "jobs", "cleanup")},
    **{
        name: f"service.cli.costs.{name}"
        for name in (
            "estimate",
            "plan",
            "costs",
            "prices",
            "budgets",
            "reservations",
            "commitments",
        )
    },
    **{name: f"service.cli.{name}" for name in ("orphans", "runtimes", "catalog")},
}
"""The module of each command; the keys are those of `HELP`."""

TYPED = f"{__name__}.typed"
"""The key of the context's `meta` that holds the arguments as they were typed."""


class Modules(MutableMapping[str, Any]):
    """The commands by name. Each command is imported from its module at its first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._loaded:
            return self._loaded[name]
        if name not in HELP:
            raise KeyError(name)
        module = import_module(MODULES[name])
        parent = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        if group := getattr(module, "app", None):  # the module has several commands
            parent.add_typer(group, name=name)
        else:
            parent.command()(getattr(module, name))
        self._loaded[name] = typer.main.get_group(parent).commands[name]
        add_examples(self._loaded[name], name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(HELP)

    def __len__(self) -> int:
        return len(HELP)

    def __contains__(self, name: object) -> bool:
        return name in HELP


class Commands(TyperGroup):
    """A group whose commands fail in plain lines on stderr, never with a traceback."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Modules()

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """List the commands by what they are for, without loading them."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(group.items()))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command of the arguments. A full disk or a closed output ends in one line."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            from service.cli.terminal.crash import NO_ROOM, give_up  # noqa: PLC0415 - for few

            if error.errno not in NO_ROOM:
                raise
            give_up(error)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Usage error where an argument is not UTF-8."""
        for arg in args:
            if not is_text(arg):
                raise typer.BadParameter(f"{arg!r} is not UTF-8 text")
        ctx.meta[TYPED] = tuple(args)
        return list(super().parse_args(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        from service.cli.terminal.crash import explain_crashes  # noqa: PLC0415 - not for --version and --help

        typed = ctx.meta[TYPED]
        group: Any = self
        path = [ctx.info_name]  # with the names of the command: `tpu-steward nodes show`
        for word in typed:
            group = getattr(group, "commands", {}).get(word)
            if group is None:
                break
            path.append(word)
        alone = typed[0] in ALONE
        try:
            with nullcontext() if alone else explain_crashes(" ".join(path)):
                return super().invoke(ctx)
        except Failure as failure:
            print_errors(*failure.lines)
            raise typer.Exit(failure.code) from None
        except StewardError as error:
            print_errors(str(error))
            raise typer.Exit(FAILED) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version  # noqa: PLC0415 - costs what others need not pay

        typer.echo(f"tpu-steward {version('tpu-steward')}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Provision Cloud TPUs, and control what they cost."""
