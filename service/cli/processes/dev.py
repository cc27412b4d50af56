"""`dev`: the whole service on this machine, with the emulator as its cloud."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import typer

from service import logs
from service.cli.processes.migrate import apply_migrations
from service.cli.processes.serve import check_guarded
from service.cli.processes.subprocesses import (
    PARENT,
    Child,
    stop_all,
    stopped_by_signals,
)
from service.cli.terminal import configuration
from service.cli.terminal.address import Address, address_of
from service.cli.terminal.client import is_steward
from service.cli.terminal.errors import MISUSED, Failure
from service.cli.terminal.render import print_errors
from service.domain.jobs.startup import script_digest
from service.settings import Settings

GRPC = "127.0.0.1:9470"
REST = "127.0.0.1:9471"
PROJECT = "lab"
LOOK_SECONDS = 0.1
START_SECONDS = 60.0
RESTART_SECONDS = 1.0

WELCOME = """
TPU Steward is running.

  API        {web}/v1  (reference at {web}/docs)
  Manual     {web}/manual
  Emulator   gRPC {grpc}, REST {rest}
  Projects   {projects}
  Database   {database}
  Processes  {processes}

Jobs run their commands on this machine, as this user: submit only what you would run yourself.
{idle}

Try in another terminal:
  {program} nodes create --accelerator-type v5litepod-8 --zone us-west4-a --framework jax --wait

Ctrl-C stops everything, and so does: kill {process}
Dashboard: {web}/
"""


IDLE = """\
Idle nodes end sooner here than at Google. Idleness counts from {warmup} s after READY.
The newest {telemetry} s of signals do not count, and signals arrive {delay} s late at most.
The mode is {mode}, and the daemon ends no node in its first {start} s.
Without a policy, owners are only notified.
"""
IDLE_SETTINGS: Mapping[str, int | str] = {
    "idle_mode": "delete",
    "idle_warmup_seconds": 30,
    "idle_telemetry_seconds": 60,
    "idle_start_seconds": 15,
    "idle_seconds": 15,
}
"""Defaults of `dev` for the cleanup. They are short, so that an idle node is deleted soon."""

TELEMETRY_DELAY = 30
"""Largest delay of the emulator's metric points, in seconds. At Google it is four minutes."""


@dataclass(frozen=True, slots=True)
class DevPlan:
    """The addresses and settings of all processes. `idle` has the settings of the cleanup."""

    web: Address
    grpc: Address
    rest: Address
    projects: tuple[str, ...]
    speed: float
    database_url: str
    idle: Mapping[str, int | str]

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.web, self.grpc, self.rest

    def build_environment(self) -> dict[str, str]:
        """Environment variables of the children. No proxy is set: clients of an emulator need
        none."""
        return {
            **os.environ,
            "STEWARD_DATABASE_URL": self.database_url,
            "STEWARD_PROJECTS": ",".join(self.projects),
            "STEWARD_EMULATOR": str(self.grpc),
            "STEWARD_EMULATOR_REST": str(self.rest),
            "STEWARD_PORT": str(self.web.port),
            **idle_environment(self.idle),
            PARENT: str(os.getpid()),
        }

    def make_children(self) -> tuple[Child, Child, Child]:
        """The emulator, the daemon and the server. None of them is started."""
        environment = self.build_environment()
        emulator = [
            *("emulator", "--host", self.grpc.host, "--speed", str(self.speed)),
            *("--grpc-port", str(self.grpc.port), "--rest-port", str(self.rest.port)),
            *("--telemetry-delay", str(TELEMETRY_DELAY)),
        ]
        if self.grpc.is_local:  # what jobs run is run on this machine, as this user
            emulator += ["--run-startup-scripts-of", script_digest()]
        return (
            Child(emulator, environment),
            Child(["daemon"], environment),
            Child(["serve"], environment),
        )


def idle_environment(settings: Mapping[str, int | str]) -> dict[str, str]:
    """Settings of the cleanup as environment variables."""
    return {f"STEWARD_{name.upper()}": str(value) for name, value in settings.items()}


def dev() -> None:
    """Run everything on this machine, on the emulator."""
    settings = configuration.load_settings()
    check_guarded(settings, address_of(settings))
    plan = with_free_ports(plan_of(settings))
    typer.echo(f"Starting the emulator, the daemon and the API on {plan.web.url}, in some seconds.")
    logs.set_up()
    with stopped_by_signals() as stop:
        emulator, daemon, server = plan.make_children()
        needed = (emulator, server)
        try:
            emulator.start()
            apply_migrations(plan.database_url)
            server.start()  # while the emulator starts; the daemon calls the emulator at once
            wait_until(lambda: plan.rest.can_connect(1) and plan.grpc.can_connect(1), needed, stop)
            daemon.start()
            wait_until(lambda: is_ready(plan.web), needed, stop)
            if not stop.is_set():
                typer.echo(format_welcome(plan, (emulator, daemon, server)))
            watch_children(daemon, needed, stop)
        finally:
            stop_all((daemon, server))
            emulator.stop()


def plan_of(settings: Settings) -> DevPlan:
    """Plan of the settings. Raises Failure when they put the emulator on two hosts."""
    grpc = Address.from_text(settings.emulator or GRPC, "STEWARD_EMULATOR")
    rest = Address.from_text(settings.emulator_rest or REST, "STEWARD_EMULATOR_REST")
    if grpc.host != rest.host:
        raise Failure(
            "STEWARD_EMULATOR and STEWARD_EMULATOR_REST name different hosts;"
            " dev starts one emulator, on one host",
            code=MISUSED,
        )
    return DevPlan(
        web=address_of(settings),
        grpc=grpc,
        rest=rest,
        projects=settings.projects or (PROJECT,),
        speed=settings.emulator_speed,
        database_url=settings.database_url,
        idle={
            name: getattr(settings, name) if name in settings.model_fields_set else value
            for name, value in IDLE_SETTINGS.items()
        },
    )


def with_free_ports(plan: DevPlan) -> DevPlan:
    """The plan with a free port in place of each 0. Raises Failure with a line for each port that
    is taken."""
    found, problems = list[Address](), list[str]()
    for address in plan.addresses:
        host = "" if address.setting == "STEWARD_PORT" else f"{address.host}:"
        another = f"set {address.setting} to another port, or to {host}0 for any free one"
        try:
            with address.open_listener() as listener:
                found.append(replace(address, port=listener.getsockname()[1]))
        except Failure as failure:
            reason = f"{failure}; "
            if _is_steward_at(address):
                reason = f"TPU Steward already runs at {address.url}; stop it first, or "
            problems.append(reason + another)
    if problems:
        raise Failure(*problems)
    web, grpc, rest = found
    return replace(plan, web=web, grpc=grpc, rest=rest)


def _is_steward_at(address: Address) -> bool:
    """Whether TPU Steward answers at the address."""
    try:
        with httpx2.Client(base_url=address.url, timeout=2, trust_env=False) as http:
            return is_steward(http)
    except httpx2.HTTPError:
        return False


def watch_children(daemon: Child, needed: Sequence[Child], stop: threading.Event) -> None:
    """Start the daemon again whenever it has ended, until `stop` is set. Raises Failure when a
    needed child has ended."""
    while not stop.wait(LOOK_SECONDS):
        check_needed(needed)
        restart_if_ended(daemon, stop)


def wait_until(done: Callable[[], bool], needed: Sequence[Child], stop: threading.Event) -> None:
    """Return once `done` is true or `stop` is set. Raises Failure after START_SECONDS, and when a
    needed child has ended."""
    deadline = time.monotonic() + START_SECONDS
    while not done() and not stop.wait(LOOK_SECONDS):
        check_needed(needed)
        if time.monotonic() > deadline:
            raise Failure(f"the service was not ready after {START_SECONDS:.0f} s")


def check_needed(needed: Sequence[Child]) -> None:
    """Raise Failure when a needed child has ended."""
    for child in needed:
        if end := child.describe_end():
            raise Failure(f"{child.name} {end}; everything stops")


def restart_if_ended(daemon: Child, stop: threading.Event) -> None:
    """Start the daemon again when it has ended. Its whole state is in the database."""
    if end := daemon.describe_end():
        print_errors(f"{daemon.name} {end}; restarting it")
        if not stop.wait(RESTART_SECONDS):
            daemon.start()
            print_errors(f"{daemon.name} is process {daemon.pid} now")


def is_ready(web: Address) -> bool:
    """Whether the service at the address answers, with a daemon that works."""
    try:
        return httpx2.get(f"{web.url}/readyz", timeout=2, trust_env=False).status_code == 200
    except httpx2.HTTPError:
        return False


def format_welcome(plan: DevPlan, children: Sequence[Child]) -> str:
    """Addresses of all servers, and a first command to try. The dashboard comes last."""
    elsewhere = "" if plan.web.url == "http://127.0.0.1:8080" else f"STEWARD_URL={plan.web.url} "
    return WELCOME.format(
        web=plan.web.url,
        grpc=plan.grpc,
        rest=plan.rest.url,
        projects=", ".join(plan.projects),
        database=plan.database_url,
        processes=", ".join(f"{child.name} {child.pid}" for child in children),
        process=os.getpid(),
        idle=IDLE.format(
            warmup=plan.idle["idle_warmup_seconds"],
            telemetry=plan.idle["idle_telemetry_seconds"],
            delay=TELEMETRY_DELAY,
            start=plan.idle["idle_start_seconds"],
            mode=plan.idle["idle_mode"],
        ).rstrip(),
        program=elsewhere + program_command(),
    ).rstrip()


def program_command() -> str:
    """Command that runs this program from the current folder."""
    if shutil.which("tpu-steward"):
        return "tpu-steward"
    called = Path(sys.argv[0])
    return str(called) if called.name == "tpu-steward" else "python -m service.cli"
