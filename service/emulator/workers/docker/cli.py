"""The command line of the stand-in for docker: its commands, and its errors for the others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from pathlib import Path

from service.emulator.workers.docker import ending, listing
from service.emulator.workers.docker.containers import ContainerRefused, Store
from service.emulator.workers.docker.formats import BadTemplate, fill_template
from service.emulator.workers.docker.image_commands import (
    inspect_image,
    list_images,
    pull_image,
    remove_image,
)
from service.emulator.workers.docker.run import DAEMON_ERROR, run_container
from service.emulator.workers.options import (
    Misuse,
    Usage,
    declare_options,
    is_set,
    last_value,
    parse_options,
)

VERSION = "27.3.1"
API_VERSION = "1.47"
NO_DAEMON = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon"
    " running?"
)
# Commands of docker that the stand-in does not play.
REAL = {
    *("attach", "build", "buildx", "builder", "commit", "compose", "context", "cp", "create"),
    *("diff", "events", "export", "history", "import", "load", "network", "pause", "plugin"),
    *("port", "push", "rename", "restart", "save", "search", "secret", "service", "stack"),
    *("start", "stats", "swarm", "tag", "top", "unpause", "update", "volume"),
}

Command = Callable[[Store, list[str]], int]


def log_in(_: Store, args: list[str]) -> int:
    options = parse_options(
        args, declare_options("password-stdin", "username password", "u=username p=password")
    )[0]
    if is_set(options, "password-stdin"):
        sys.stdin.read()
    sys.stdout.write("Login Succeeded\n")
    return 0


def show_version(_: Store, args: list[str]) -> int:
    options = parse_options(args, declare_options("", "format", "f=format"))[0]
    parts = {"Version": VERSION, "ApiVersion": API_VERSION, "Os": "linux", "Arch": "amd64"}
    about = {"Client": parts, "Server": parts}
    default = "Client:\n Version: {{.Client.Version}}\n\nServer:\n Version: {{.Server.Version}}"
    sys.stdout.write(f"{fill_template(last_value(options, 'format', default), about)}\n")
    return 0


def show_info(store: Store, args: list[str]) -> int:
    options = parse_options(args, declare_options("", "format", "f=format"))[0]
    running = sum(store.read_state(container).is_running for container in store.list_all())
    about = {
        "ServerVersion": VERSION,
        "Containers": len(store.list_all()),
        "ContainersRunning": running,
        "OSType": "linux",
        "Architecture": "x86_64",
        "DockerRootDir": str(store.root),
    }
    default = (
        "Server:\n Containers: {{.Containers}}\n  Running: {{.ContainersRunning}}\n"
        " Server Version: {{.ServerVersion}}\n Operating System: a stand-in of the TPU emulator"
    )
    sys.stdout.write(f"{fill_template(last_value(options, 'format', default), about)}\n")
    return 0


def prune_nothing(_: Store, __: list[str]) -> int:
    sys.stdout.write("Total reclaimed space: 0B\n")
    return 0


COMMANDS: dict[str, Command] = {
    "run": run_container,
    "ps": listing.list_containers,
    "logs": listing.show_logs,
    "wait": ending.wait_for_containers,
    "inspect": listing.inspect_containers,
    "stop": ending.stop_containers,
    "kill": ending.kill_containers,
    "rm": ending.remove_containers,
    "exec": ending.exec_command,
    "pull": pull_image,
    "images": list_images,
    "rmi": remove_image,
    "login": log_in,
    "logout": lambda _, __: 0,
    "version": show_version,
    "info": show_info,
}
GROUPS: dict[str, dict[str, Command]] = {
    "container": {
        **COMMANDS,
        "ls": listing.list_containers,
        "list": listing.list_containers,
        "prune": prune_nothing,
    },
    "image": {
        "inspect": inspect_image,
        "ls": list_images,
        "pull": pull_image,
        "rm": remove_image,
        "prune": prune_nothing,
    },
    "system": {"info": show_info, "prune": prune_nothing},
}


def command_of(args: list[str]) -> tuple[str, Command | None, list[str]]:
    """Return a command's name, function and arguments; None for a command that is not played."""
    name, *rest = args
    group = GROUPS.get(name)
    if group is not None:
        inner = rest[0] if rest else ""
        return f"{name} {inner}".strip(), group.get(inner), rest[1:]
    return name, COMMANDS.get(name), rest


def carry_out(args: list[str], store: Store | None) -> int:
    """Carry out a command line, and return its exit code."""
    if not args or args[0] in {"help", "--help", "-h"}:
        sys.stdout.write(f"Usage: docker COMMAND\n\nCommands: {', '.join(sorted(COMMANDS))}\n")
        return 0
    if args[0] in {"--version", "-v"}:
        sys.stdout.write(f"Docker version {VERSION}, build emulator\n")
        return 0
    name, command, rest = command_of(args)
    if command is None:
        if name.partition(" ")[0] in REAL | GROUPS.keys():
            text = f"docker: the emulator's stand-in does not play 'docker {name}'"
        elif name.startswith("-"):
            text = f"unknown flag: {name}\nSee 'docker --help'."
        else:
            text = f"docker: '{name}' is not a docker command.\nSee 'docker --help'"
        sys.stderr.write(f"{text}\n")
        return DAEMON_ERROR if name.startswith("-") else 1
    if store is None:
        sys.stderr.write(f"{'docker: ' if command is run_container else ''}{NO_DAEMON}\n")
        return DAEMON_ERROR if command is run_container else 1
    return _run_command(name, command, store, rest)


def _run_command(name: str, command: Command, store: Store, args: list[str]) -> int:
    try:
        return command(store, args)
    except Misuse as error:
        sys.stderr.write(f"{error}\nSee 'docker {name} --help'.\n")
        return DAEMON_ERROR
    except (Usage, BadTemplate) as error:
        sys.stderr.write(f"{error}\nSee 'docker {name} --help'.\n")
        return 1
    except (ContainerRefused, OSError, ValueError) as error:
        sys.stderr.write(f"Error response from daemon: {error}\n")
        return 1


def main(settings: Mapping[str, str] | None = None) -> None:
    """Carry out the command line of this process.

    `settings` override the environment, which has the variables for a container.
    """
    caller = dict(os.environ)
    os.environ.update(settings or {})
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, TextIOWrapper)
        # Arguments that are no UTF-8 are written with the same bytes.
        stream.reconfigure(errors="surrogateescape")
    root = os.environ.get("EMULATOR_DOCKER")
    store = Store(Path(root), os.environ.get("EMULATOR_BOOT", ""), caller) if root else None
    sys.exit(carry_out(sys.argv[1:], store))
