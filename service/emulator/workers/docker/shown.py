"""A container in the formats of `docker ps` and `docker inspect`, with its options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import Container, ContainerRefused, State
from service.emulator.workers.docker.formats import format_age, format_moment
from service.emulator.workers.docker.images import image_of
from service.emulator.workers.docker.log import SIZE, UNITS
from service.emulator.workers.options import Options, is_set, last_value, log_options

PS = "table {{.ID}}\t{{.Image}}\t{{.Command}}\t{{.RunningFor}}\t{{.Status}}\t{{.Ports}}\t{{.Names}}"
COMMAND_LENGTH = 20
SHM_SIZE = "64m"


def check_options(options: Options) -> None:
    """Raise ContainerRefused for options that docker refuses. Valid options are only shown."""
    for mount in options.get("mount", []):
        _format_mount(mount)
    for limit in options.get("ulimit", []):
        _parse_ulimit(limit)
    for device in options.get("device", []):
        path, ours = Path(device.partition(":")[0]), os.environ.get("EMULATOR_DEVICES", "")
        if ours and path.is_relative_to(ours) and not path.exists():
            raise ContainerRefused(
                f'error gathering device information while adding custom device "{path}": no such'
                " file or directory"
            )
    _parse_size(last_value(options, "shm-size", SHM_SIZE))


def format_row(container: Container, state: State, *, whole: bool) -> dict[str, Any]:
    """Return one row of `ps`; with `whole` nothing is shortened."""
    command = " ".join(container.command)
    if not whole and len(command) > COMMAND_LENGTH:
        command = f"{command[: COMMAND_LENGTH - 1]}…"
    match state.status:
        case "running":
            status = f"Up {format_age(now() - state.started)}"
        case "exited":
            status = f"Exited ({state.exit_code}) {format_age(now() - state.finished)} ago"
        case _:
            status = "Created"
    return {
        "ID": container.id if whole else container.short_id,
        "Image": container.image,
        "Command": f'"{command}"',
        "CreatedAt": format_moment(container.created),
        "RunningFor": f"{format_age(now() - container.created)} ago",
        "Status": status,
        "State": state.status,
        "Ports": "",
        "Names": container.name,
        "Labels": ",".join(f"{key}={value}" for key, value in container.labels.items()),
        "LabelMap": container.labels,
        "Mounts": "",
        "Networks": "host",
        "Size": "0B",
    }


def build_document(container: Container, state: State) -> dict[str, Any]:
    options = container.options
    entrypoint = options.get("entrypoint", [])[-1:]
    return {
        "Id": container.id,
        "Created": format_moment(container.created),
        "Path": container.command[0] if container.command else "",
        "Args": container.command[1:],
        "State": {
            "Status": state.status,
            "Running": state.is_running,
            "Paused": False,
            "Restarting": False,
            "OOMKilled": state.oom_killed,
            "Dead": False,
            "Pid": state.pid if state.is_running else 0,
            "ExitCode": state.exit_code,
            "Error": state.error,
            "StartedAt": format_moment(state.started),
            "FinishedAt": format_moment(state.finished),
        },
        "Image": f"sha256:{image_of(container.image).id}",
        "Name": f"/{container.name}",
        "RestartCount": container.restarts,
        "Platform": "linux",
        "HostConfig": {
            "AutoRemove": container.auto_remove,
            "Binds": options.get("volume"),
            "Devices": [_parse_device(device) for device in options.get("device", [])],
            "LogConfig": {
                "Type": last_value(options, "log-driver", "json-file"),
                "Config": log_options(options),
            },
            "Mounts": [_parse_mount(mount) for mount in options.get("mount", [])],
            "NetworkMode": (options.get("network") or options.get("net") or ["default"])[-1],
            "Privileged": is_set(options, "privileged"),
            "ShmSize": _parse_size(last_value(options, "shm-size", SHM_SIZE)),
            "Ulimits": [_parse_ulimit(limit) for limit in options.get("ulimit", [])],
        },
        "Mounts": [_format_mount(mount) for mount in options.get("mount", [])],
        "Config": {
            "Hostname": container.short_id,
            "Env": [f"{key}={value}" for key, value in container.env.items()],
            "Entrypoint": entrypoint or None,
            "Cmd": container.command[len(entrypoint) :],
            "Image": container.image,
            "Labels": container.labels,
        },
    }


def _parse_device(text: str) -> dict[str, str]:
    host, _, rest = text.partition(":")
    inside, _, rights = rest.partition(":")
    return {
        "PathOnHost": host,
        "PathInContainer": inside or host,
        "CgroupPermissions": rights or "rwm",
    }


def _format_mount(text: str) -> dict[str, Any]:
    asked = _parse_mount(text)
    return {
        "Type": asked["Type"],
        "Source": asked["Source"],
        "Destination": asked["Target"],
        "Mode": "",
        "RW": not asked["ReadOnly"],
        "Propagation": "rprivate",
    }


def _parse_mount(text: str) -> dict[str, Any]:
    """Return the mount of `--mount`. Raises ContainerRefused."""
    given: Mapping[str, str] = {
        key.lower(): value if equals else "true"
        for key, equals, value in (pair.partition("=") for pair in text.split(","))
    }
    target = given.get("target") or given.get("destination") or given.get("dst") or ""
    if not target:
        raise ContainerRefused(f'invalid argument "{text}" for "--mount" flag: target is required')
    return {
        "Type": given.get("type", "volume"),
        "Source": given.get("source") or given.get("src") or "",
        "Target": target,
        "ReadOnly": (given.get("readonly") or given.get("ro") or "false") in {"true", "1"},
    }


def _parse_ulimit(text: str) -> dict[str, Any]:
    """Return the limits of `--ulimit name=soft[:hard]`. Raises ContainerRefused."""
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    try:
        return {"Name": name, "Hard": int(hard or soft), "Soft": int(soft)}
    except ValueError:
        raise ContainerRefused(
            f'invalid argument "{text}" for "--ulimit" flag: invalid ulimit argument: {text}'
        ) from None


def _parse_size(text: str) -> int:
    """Return a size in bytes. Raises ContainerRefused."""
    size = SIZE.fullmatch(text)
    if size is None:
        raise ContainerRefused(
            f'invalid argument "{text}" for "--shm-size" flag: invalid size: \'{text}\''
        )
    return int(size[1]) * UNITS[size[2].lower()]
