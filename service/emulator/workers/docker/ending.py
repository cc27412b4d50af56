"""The commands that act on containers: wait, stop, kill, rm, exec."""

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
    return _each(names, lambda name: store.wait(store.find(name)))


def stop(store: Store, args: list[str]) -> int:
    """Ask each container to end and kill it after a grace.

    The emulator's speed shortens the grace of what is played; a real process is no faster.
    """
    options, names = parse(args, STOP_OPTIONS)
    required(names, "stop")
    asked = last(options, "timeout", last(options, "time"))

    def end(name: str) -> str:
        container = store.find(name)
        own = last(container.options, "stop-timeout", str(STOP_SECONDS))
        word = last(options, "signal", last(container.options, "stop-signal", "TERM"))
        speed = 1.0 if program_of(container) else worker.speed()
        _signal(store, container, _signal_number(word))
        over = time.monotonic() + max(float(asked or own), 0) / speed
        while store.state(container).running and time.monotonic() < over:
            time.sleep(LOOK_SECONDS)
        _kill(store, container)
        return name

    return _each(names, end)


def kill(store: Store, args: list[str]) -> int:
    options, names = parse(args, KILL_OPTIONS)
    required(names, "kill")
    number = _signal_number(last(options, "signal", "KILL"))

    def end(name: str) -> str:
        container = store.find(name)
        if not store.state(container).running:
            raise ContainerRefused(
                f"cannot kill container: {name}: container {container.id} is not running"
            )
        if number == signal.SIGKILL:
            _kill(store, container)
        else:
            _signal(store, container, number)
        return name

    return _each(names, end)


def remove(store: Store, args: list[str]) -> int:
    options, names = parse(args, RM_OPTIONS)
    required(names, "rm")

    def end(name: str) -> str:
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
        _kill(store, container)
        store.remove(container)
        return name

    return _each(names, end)


def execute(store: Store, args: list[str]) -> int:
    """Run nothing in a container, successfully: there is nothing inside."""
    _, words = parse(args, EXEC_OPTIONS)
    container = store.find(required(words, "exec"))
    if not store.state(container).running:
        raise ContainerRefused(f"container {container.id} is not running")
    return 0


def _each(names: list[str], act: Callable[[str], object]) -> int:
    """Do something to each container and show what it gave; the rest goes on if one fails."""
    failed = 0
    for name in names:
        try:
            sys.stdout.write(f"{act(name)}\n")
        except ContainerRefused as error:
            failed = 1
            sys.stderr.write(f"Error response from daemon: {error}\n")
        sys.stdout.flush()
    return failed


def _signal(store: Store, container: Container, number: int) -> None:
    state = store.state(container)
    if state.running:
        with suppress(ProcessLookupError):
            os.kill(state.pid, number)


def _kill(store: Store, container: Container) -> None:
    """End a container for good, and let the emulator know."""
    if not store.state(container).running:
        return
    _signal(store, container, signal.SIGKILL)
    store.wait(container)
    report(store.directory(container))


def _signal_number(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < signal.NSIG:
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    try:
        return signal.Signals[name]
    except KeyError:
        raise ContainerRefused(f"Invalid signal: {text}") from None
