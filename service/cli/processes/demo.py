"""`demo`: a lab with a month of history, lived through at the start, which goes on in real time."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service import logs
from service.cli.processes.dev import (
    DevPlan,
    is_ready,
    plan_of,
    program_command,
    wait_until,
    watch_children,
    with_free_ports,
)
from service.cli.processes.migrate import apply_migrations
from service.cli.processes.serve import check_guarded
from service.cli.processes.subprocesses import Child, stop_all, stopped_by_signals
from service.cli.terminal import configuration
from service.cli.terminal.address import address_of
from service.cli.terminal.errors import Failure
from service.domain.clock import DAY, precise_clock
from service.settings import Settings

if TYPE_CHECKING:
    from service.emulator.world.world import World

FOLDER = Path("var/demo")
CATCH_UP_SECONDS = 10
"""How far the past may be behind the present at its end. The servers do what is left."""

IDLE_SETTINGS: Mapping[str, int | str] = {
    "idle_mode": "delete",
    "idle_warmup_seconds": 1_800,
    "idle_telemetry_seconds": 240,
    "idle_start_seconds": 60,
    "idle_seconds": 60,
}
"""Settings of the cleanup: the usual ones, but that it may delete, and soon after the start."""

WELCOME = """
The demo is running. {days} days of a lab took {seconds} s, and now it goes on in real time.

  API        {web}/v1  (reference at {web}/docs)
  Manual     {web}/manual
  Emulator   gRPC {grpc}, REST {rest}
  Messages   {inbox}  (what budgets and policies sent)
  Database   {database}
  Processes  {processes}

Jobs are simulated: nothing that you submit is run on this machine.

Try in another terminal:
  {program} nodes list

Ctrl-C stops everything, and so does: kill {process}
Dashboard: {web}/
"""


class _Stopped(Exception):
    """A signal came while the past was lived through."""


def demo(
    days: Annotated[
        int, typer.Option(min=2, max=60, help="Days of history. Fewer take less time.")
    ] = 30,
) -> None:
    """Show a lab with 30 days of history, on the emulator."""
    settings = configuration.load_settings()
    check_guarded(settings, address_of(settings))
    plan = replace(
        with_free_ports(plan_of(settings)),
        projects=("lab",),
        database_url=f"sqlite:///{FOLDER}/steward.db",
        idle=IDLE_SETTINGS,
    )
    typer.echo(f"Living through {days} days of a lab. Each takes one to three seconds.")
    logs.set_up()
    with stopped_by_signals() as stop, _fresh_folder():
        try:
            _live_and_serve(settings, plan, days, stop)
        except _Stopped:
            typer.echo("Stopped.")


@contextmanager
def _fresh_folder() -> Iterator[None]:
    """An empty folder for the state. Raises Failure while another demo uses it."""
    FOLDER.mkdir(0o700, parents=True, exist_ok=True)
    with (FOLDER.parent / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f"another demo runs in {FOLDER}; stop it first") from None
        shutil.rmtree(FOLDER)
        FOLDER.mkdir(0o700)
        yield


def _live_and_serve(settings: Settings, plan: DevPlan, days: int, stop: threading.Event) -> None:
    from service.cli.demo.inbox import open_inbox  # noqa: PLC0415 - costs what others need not pay

    apply_migrations(plan.database_url)
    of_past: Mapping[str, object] = {
        **plan.idle,
        "database_url": plan.database_url,
        "projects": plan.projects,
        "webhook_allow_private": True,
        "public_url": plan.web.url,
        "smtp_url": None,  # no address of the demo exists
    }
    with open_inbox() as inbox:
        began = time.monotonic()
        with _logs_in_file(FOLDER / "past.log"):
            world = _live_past(settings.model_copy(update=of_past), inbox.url, days, stop)
        seconds = f"{time.monotonic() - began:.0f}"
        shown = {"inbox": inbox.url, "days": str(days), "seconds": seconds}
        _serve_world(world, plan, stop, shown)


def _live_past(settings: Settings, inbox: str, days: int, stop: threading.Event) -> World:
    """Live through the days up to now. Returns the world, whose clock is the wall clock then."""
    from service.cli.demo.month import Month  # noqa: PLC0415 - likewise
    from service.cli.demo.virtual_clock import VirtualClock  # noqa: PLC0415 - costs seconds

    gc.collect()
    gc.freeze()  # imported modules stay: no collection scans them again
    clock = VirtualClock(int(precise_clock()) - days * DAY)
    month = Month(settings, clock, inbox, days)
    start, shown = month.story.start, 0

    def show_day() -> None:
        nonlocal shown
        if stop.is_set():
            raise _Stopped
        day = min(int(clock.seconds() - start) // DAY + 1, days)
        if day != shown and sys.stdout.isatty():
            typer.echo(f"\rday {day} of {days}", nl=day == days)
        shown = day

    try:
        month.live(show_day)
        while (now := precise_clock()) - clock.seconds() > CATCH_UP_SECONDS:
            month.past.live_until(now, show_day)
    finally:
        month.past.close()
    clock.go_live(precise_clock)
    return month.past.world


@contextmanager
def _logs_in_file(path: Path) -> Iterator[None]:
    """Write the log to a file in the meantime: a month's log is long."""
    root = logging.getLogger()
    before = root.handlers[:]
    handler = logging.FileHandler(path)
    handler.setFormatter(before[0].formatter)
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        root.handlers[:] = before
        handler.close()


def _serve_world(world: World, plan: DevPlan, stop: threading.Event, shown: dict[str, str]) -> None:
    """Serve the world from this process, with the daemon and the API as children, until `stop`."""
    from service.emulator.app import PortTaken, run_in_thread  # noqa: PLC0415 - costs a second

    environment = {
        **plan.build_environment(),
        "STEWARD_WEBHOOK_ALLOW_PRIVATE": "true",
        "STEWARD_PUBLIC_URL": plan.web.url,
    }
    daemon, server = Child(["daemon"], environment), Child(["serve"], environment)
    try:
        with run_in_thread(world, plan.grpc.host, plan.grpc.port, plan.rest.port):
            try:
                server.start()
                daemon.start()
                wait_until(lambda: is_ready(plan.web), (server,), stop)
                if not stop.is_set():
                    usual = plan.web.url == "http://127.0.0.1:8080"
                    elsewhere = "" if usual else f"STEWARD_URL={plan.web.url} "
                    welcome = WELCOME.format(
                        web=plan.web.url,
                        grpc=plan.grpc,
                        rest=plan.rest.url,
                        database=plan.database_url,
                        processes=f"{daemon.name} {daemon.pid}, {server.name} {server.pid}",
                        process=os.getpid(),
                        program=elsewhere + program_command(),
                        **shown,
                    )
                    typer.echo(welcome.rstrip())
                watch_children(daemon, (server,), stop)
            finally:
                stop_all((daemon, server))
    except PortTaken as error:
        raise Failure(f"{error}; it was free before the past was lived through") from None
