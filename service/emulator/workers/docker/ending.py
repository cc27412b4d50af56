"""The commands on existing containers: wait, stop, kill, rm, exec."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from service.emulator.workers.docker import worker
from service.emulator.workers.docker.containers import (
    LOOK_SECONDS,
    Container,
    ContainerRefused,
    Store,
)
from service.emulator.workers.docker.shim import program_of, report
from service.emulator.workers.options import is_set, known, last, parse, required

STOP_SECONDS = 10.0
STOP_OPTIONS = known("", "time timeout signal", "t=timeout s=signal")
KILL_OPTIONS = known("", "signal", "s=signal")
RM_OPTIONS = known("force volumes link", "", "f=force v=volumes l=link")
EXEC_OPTIONS = known(
    "detach interactive tty privileged",
    "env env-file user workdir detach-keys",
    "d=detach i=interactive t=tty e=env u=user w=workdir",
    leading=True,
)


def wait(store: Store, args: list[str]) -> int:
    _, names = parse(args, known())
    required(names, "wait")
    return _for_each(names, lambda name: store.wait(store.find(name)))


def stop(store: Store, args: list[str]) -> int:
    """Send each container its stop signal, and kill it after a grace.

    The emulator's speed shortens the grace of a played container, but not of a real process.
    """
    options, names = parse(args, STOP_OPTIONS)
    required(names, "stop")
    asked = last(options, "timeout", last(options, "time"))

    def stop_container(name: str) -> str:
        container = store.find(name)
        own = last(container.options, "stop-timeout", str(STOP_SECONDS))
        word = last(options, "signal", last(container.options, "stop-signal", "TERM"))
        speed = 1.0 if program_of(container) else worker.speed()
        _send_signal(store, container, _parse_signal(word))
        over = time.monotonic() + max(float(asked or own), 0) / speed
        while store.state(container).running and time.monotonic() < over:
            time.sleep(LOOK_SECONDS)
        _end_container(store, container)
        return name

    return _for_each(names, stop_container)


def kill(store: Store, args: list[str]) -> int:
    options, names = parse(args, KILL_OPTIONS)
    required(names, "kill")
    number = _parse_signal(last(options, "signal", "KILL"))

    def kill_container(name: str) -> str:
        container = store.find(name)
        if not store.state(container).running:
            raise ContainerRefused(
                f"cannot kill container: {name}: container {container.id} is not running"
            )
        if number == signal.SIGKILL:
            _end_container(store, container)
        else:
            _send_signal(store, container, number)
        return name

    return _for_each(names, kill_container)


def remove(store: Store, args: list[str]) -> int:
    options, names = parse(args, RM_OPTIONS)
    required(names, "rm")

    def remove_container(name: str) -> str:
        try:
            container = store.find(name)
        except ContainerRefused:
            if is_set(options, "force"):
                return name
            raise
        if store.state(container).running and not is_set(options, "force"):
            raise ContainerRefused(
                f'cannot remove container "/{container.name}": container is running: stop the'
                " container before removing or force remove"
            )
        store.wait_begun(container)
        _end_container(store, container)
        store.remove(container)
        return name

    return _for_each(names, remove_container)


def execute(store: Store, args: list[str]) -> int:
    """Succeed for a running container without running the command."""
    _, words = parse(args, EXEC_OPTIONS)
    container = store.find(required(words, "exec"))
    if not store.state(container).running:
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
    state = store.state(container)
    if state.running:
        with suppress(ProcessLookupError):
            os.kill(state.pid, number)


def _end_container(store: Store, container: Container) -> None:
    """Kill a running container, wait for its end, and report the activity of the worker."""
    if not store.state(container).running:
        return
    _send_signal(store, container, signal.SIGKILL)
    store.wait(container)
    report(store.directory(container))


def _parse_signal(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < signal.NSIG:
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    try:
        return signal.Signals[name]
    except KeyError:
        raise ContainerRefused(f"Invalid signal: {text}") from None
