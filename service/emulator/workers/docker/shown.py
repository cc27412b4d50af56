"""A container as `docker ps` and `docker inspect` show it."""

from __future__ import annotations

from typing import Any

from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import Container, State
from service.emulator.workers.docker.formats import age, moment
from service.emulator.workers.docker.images import image_of

PS = "table {{.ID}}\t{{.Image}}\t{{.Command}}\t{{.RunningFor}}\t{{.Status}}\t{{.Ports}}\t{{.Names}}"
COMMAND_LENGTH = 20


def row(container: Container, state: State, *, whole: bool) -> dict[str, Any]:
    """Show one line of `ps`; `whole` leaves nothing out."""
    command = " ".join(container.command)
    if not whole and len(command) > COMMAND_LENGTH:
        command = f"{command[: COMMAND_LENGTH - 1]}…"
    return {
        "ID": container.id if whole else container.short_id,
        "Image": container.image,
        "Command": f'"{command}"',
        "CreatedAt": moment(container.created),
        "RunningFor": f"{age(now() - container.created)} ago",
        "Status": _status(state),
        "State": state.status,
        "Ports": "",
        "Names": container.name,
        "Labels": ",".join(f"{key}={value}" for key, value in container.labels.items()),
        "Mounts": "",
        "Networks": "host",
        "Size": "0B",
    }


def document(container: Container, state: State) -> dict[str, Any]:
    options = container.options
    return {
        "Id": container.id,
        "Created": moment(container.created),
        "Path": container.command[0] if container.command else "",
        "Args": container.command[1:],
        "State": {
            "Status": state.status,
            "Running": state.running,
            "Paused": False,
            "Restarting": False,
            "OOMKilled": False,
            "Dead": False,
            "Pid": state.pid if state.running else 0,
            "ExitCode": state.exit_code,
            "Error": "",
            "StartedAt": moment(state.started),
            "FinishedAt": moment(state.finished),
        },
        "Image": f"sha256:{image_of(container.image).id}",
        "Name": f"/{container.name}",
        "RestartCount": 0,
        "Platform": "linux",
        "HostConfig": {
            "AutoRemove": container.auto_remove,
            "Binds": options.get("volume"),
            "NetworkMode": (options.get("network") or options.get("net") or ["default"])[-1],
            "Privileged": "privileged" in options,
        },
        "Config": {
            "Hostname": container.short_id,
            "Env": [f"{key}={value}" for key, value in container.env.items()],
            "Cmd": container.command,
            "Image": container.image,
            "Labels": container.labels,
        },
    }


def _status(state: State) -> str:
    at = now()
    match state.status:
        case "running":
            return f"Up {age(at - state.started)}"
        case "exited":
            return f"Exited ({state.exit_code}) {age(at - state.finished)} ago"
        case _:
            return "Created"
