"""The commands on existing containers: wait, stop, kill, rm, exec."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf

from service.emulator.workers.docker import worker
from service.emulator.workers.docker.containers import (
    LOOK_SECONDS,
    Container,
    ContainerRefused,
    Store,
)
from service.emulator.workers.docker.shim import program_of, report_activity
from service.emulator.workers.options import (
    declare_options,
    is_set,
    last_value,
    parse_options,
    require_argument,
)

STOP_SECONDS = 10.0
STOP_OPTIONS = declare_options("", "time timeout signal", "t=timeout s=signal")
KILL_OPTIONS = declare_options("", "signal", "s=signal")
RM_OPTIONS = declare_options("force volumes link", "", "f=force v=volumes l=link")
EXEC_OPTIONS = declare_options(
    "detach interactive tty privileged",
    "env env-file user workdir detach-keys",
    "d=detach i=interactive t=tty e=env u=user w=workdir",
    leading=True,
)


def wait_for_containers(store: Store, args: list[str]) -> int:
    _, names = parse_options(args, declare_options())
    require_argument(names, "wait")
    return _for_each(names, lambda name: store.wait_for_exit(store.get_container(name)))


def stop_containers(store: Store, args: list[str]) -> int:
    """Send each container its stop signal, and kill it after a grace.

    The emulator's speed shortens the grace of a played container, but not of a real process.
    """
    options, names = parse_options(args, STOP_OPTIONS)
    require_argument(names, "stop")
    asked = last_value(options, "timeout", last_value(options, "time"))

    def stop_container(name: str) -> str:
        container = store.get_container(name)
        own = last_value(container.options, "stop-timeout", str(STOP_SECONDS))
        word = last_value(options, "signal", last_value(container.options, "stop-signal", "TERM"))
        speed = 1.0 if program_of(container) else worker.read_speed()
        _send_signal(store, container, _parse_signal(word))
        grace = float(asked or own)
        over = time.monotonic() + (inf if grace < 0 else grace / speed)  # below 0: no limit
        while store.read_state(container).is_running and time.monotonic() < over:
            time.sleep(LOOK_SECONDS)
        _end_container(store, container)
        return name

    return _for_each(names, stop_container)


def kill_containers(store: Store, args: list[str]) -> int:
    options, names = parse_options(args, KILL_OPTIONS)
    require_argument(names, "kill")
    number = _parse_signal(last_value(options, "signal", "KILL"))

    def kill_container(name: str) -> str:
        container = store.get_container(name)
        if not store.read_state(container).is_running:
            raise ContainerRefused(
                f"cannot kill container: {name}: container {container.id} is not running"
            )
        if number == signal.SIGKILL:
            _end_container(store, container)
        else:
            _send_signal(store, container, number)
        return name

    return _for_each(names, kill_container)


def remove_containers(store: Store, args: list[str]) -> int:
    options, names = parse_options(args, RM_OPTIONS)
    require_argument(names, "rm")

    def remove_container(name: str) -> str:
        try:
            container = store.get_container(name)
        except ContainerRefused:
            if is_set(options, "force"):
                return name
            raise
        if store.read_state(container).is_running and not is_set(options, "force"):
            raise ContainerRefused(
                f'cannot remove container "/{container.name}": container is running: stop the'
                " container before removing or force remove"
            )
        store.wait_for_start(container)
        _end_container(store, container)
        store.remove(container)
        return name

    return _for_each(names, remove_container)


def exec_command(store: Store, args: list[str]) -> int:
    """Succeed for a running container without running the command."""
    _, words = parse_options(args, EXEC_OPTIONS)
    container = store.get_container(require_argument(words, "exec"))
    if not store.read_state(container).is_running:
        raise ContainerRefused(f"container {container.id} is not running")
    return 0


def _for_each(names: list[str], act: Callable[[str], object]) -> int:
    """Call `act` with each name and print its result; an error does not end the loop."""
    failed = 0
    for name in names:
        try:
            sys.stdout.write(f"{act(name)}\n")
        except ContainerRefused as error:
            failed = 1
            sys.stderr.write(f"Error response from daemon: {error}\n")
        sys.stdout.flush()
    return failed


def _send_signal(store: Store, container: Container, number: int) -> None:
    state = store.read_state(container)
    if state.is_running:
        with suppress(ProcessLookupError):
            os.kill(state.pid, number)


def _end_container(store: Store, container: Container) -> None:
    """Kill a running container, wait for its end, and report the activity of the worker."""
    if not store.read_state(container).is_running:
        return
    _send_signal(store, container, signal.SIGKILL)
    store.wait_for_exit(container)
    report_activity(store.directory_of(container))


def _parse_signal(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < signal.NSIG:
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    try:
        return signal.Signals[name]
    except KeyError:
        raise ContainerRefused(f"Invalid signal: {text}") from None
