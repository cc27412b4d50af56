"""What a container does: it lasts, writes lines, keeps the chips busy, and exits with a code."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TextIO

from service.emulator.workers.docker import worker
from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import (
    Container,
    State,
    forget,
    put_state,
    read,
    state_of,
)

# One part of a tag; several are joined by hyphens: `train:90s-busy-70-exit-3`.
LASTS = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MAX_LINES = 100_000
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Whoever waits for a container that removes itself must be able to read its exit code.
FAREWELL_SECONDS = 0.2


@dataclass(frozen=True)
class Plan:
    """All that a container will do; seconds are those of the emulated cloud."""

    seconds: float = 60.0
    exit_code: int = 0
    duty_cycle: float = 90.0
    tensorcore: float = 45.0
    cpu: float = 30.0
    lines: int = 6
    every: float = 10.0
    stop_seconds: float = 0.0
    """How long it takes to end once it is told to."""
    deaf: bool = False
    """Whether it ignores what it is told."""
    text: str = ""
    """What it writes at once."""


def plan_of(container: Container) -> Plan:
    """Read a plan off the image's tag, its command and its environment, the last word counting.

    Raises ValueError for an environment that makes no sense.
    """
    plan = _of_command(container.command, _of_tag(container.image.rpartition(":")[2]))
    env = container.env
    plan = replace(
        plan,
        seconds=_number(env, "EMULATOR_DURATION_SECONDS", plan.seconds),
        exit_code=int(_number(env, "EMULATOR_EXIT_CODE", plan.exit_code)) % 256,
        duty_cycle=min(_number(env, "EMULATOR_DUTY_CYCLE", plan.duty_cycle), 100.0),
        tensorcore=min(_number(env, "EMULATOR_TENSORCORE", plan.tensorcore), 100.0),
        cpu=_number(env, "EMULATOR_CPU", plan.cpu),
        stop_seconds=_number(env, "EMULATOR_STOP_SECONDS", plan.stop_seconds),
        deaf=env.get("EMULATOR_IGNORE_SIGTERM", "") in {"1", "true"},
    )
    return _with_lines(plan, env)


def _with_lines(plan: Plan, env: Mapping[str, str]) -> Plan:
    """Spread a number of lines over the time, or write one every so often, or both."""
    every = _number(env, "EMULATOR_LOG_EVERY_SECONDS", 0.0)
    lines = _number(env, "EMULATOR_LOG_LINES", -1.0)
    if lines < 0:
        every = every or plan.every
        lines = math.floor(plan.seconds / every)
    elif not every:
        every = plan.seconds / max(lines, 1.0)
    return replace(plan, lines=int(min(lines, MAX_LINES)), every=every)


def _of_tag(tag: str) -> Plan:
    plan = Plan()
    parts = tag.split("-")
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        lasts = LASTS.fullmatch(part)
        if lasts is not None:
            plan = replace(plan, seconds=float(lasts[1]) * UNITS[lasts[2]])
        elif part == "busy" and following.isdecimal():
            plan = replace(plan, duty_cycle=min(float(following), 100.0))
        elif part == "exit" and following.isdecimal():
            plan = replace(plan, exit_code=int(following) % 256)
        elif part == "idle":
            plan = replace(plan, duty_cycle=0.0, tensorcore=0.0)
    return plan


def _of_command(command: list[str], plan: Plan) -> Plan:
    """Play the few commands whose outcome is known without running them."""
    idle = replace(plan, duty_cycle=0.0, tensorcore=0.0, cpu=0.0, seconds=0.0)
    match command:
        case ["true"]:
            return replace(idle, exit_code=0)
        case ["false"]:
            return replace(idle, exit_code=1)
        case ["echo", *words]:
            return replace(idle, exit_code=0, text=" ".join(words))
        case ["sleep", seconds] if re.fullmatch(r"\d+(\.\d+)?", seconds):
            return replace(idle, exit_code=0, seconds=float(seconds))
        case _:
            return plan


def _number(env: Mapping[str, str], key: str, default: float) -> float:
    text = env.get(key, "")
    if not text:
        return default
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise ValueError(f"{key} must be a number from 0: {text}")


class Told(Exception):
    """A signal that says to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def play(container: Container, log: TextIO) -> int:
    """Do it all, faster by the speed of the emulator, and give the exit code."""
    try:
        plan = plan_of(container)
    except ValueError as error:
        _say(log, str(error), "stderr")
        return 1
    if plan.text:
        _say(log, plan.text)
    speed = worker.speed()
    try:
        _listen(deaf=plan.deaf)
        _last(container, plan, log, speed)
    except Told as told:
        _listen(deaf=True)
        time.sleep(plan.stop_seconds / speed)
        return 128 + told.number
    return plan.exit_code


def _last(container: Container, plan: Plan, log: TextIO, speed: float) -> None:
    began = time.monotonic()
    what = container.image.rpartition("/")[2]
    for number in range(1, plan.lines + 1):
        _sleep_until(began + min(number * plan.every, plan.seconds) / speed)
        _say(log, f"{what}: line {number} of {plan.lines}")
    _sleep_until(began + plan.seconds / speed)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _say(log: TextIO, line: str, stream: str = "stdout") -> None:
    log.write(json.dumps({"at": now(), "stream": stream, "line": line}) + "\n")
    log.flush()


def _listen(*, deaf: bool) -> None:
    def hear(number: int, _: FrameType | None) -> None:
        raise Told(number)

    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN if deaf else hear)
    # They were held back since before this process began.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def report(directory: Path) -> None:
    """Tell the emulator what all containers of the worker keep busy now."""
    busy: dict[str, float] = {"duty_cycle": 0.0, "tensorcore": 0.0, "cpu": 0.0}
    for each in directory.parent.iterdir():
        container = read(each)
        if container is None or not state_of(each).running:
            continue
        try:
            plan = plan_of(container)
        except ValueError:
            continue
        busy = {key: max(value, getattr(plan, key)) for key, value in busy.items()}
    worker.tell(busy)


def live(directory: Path) -> None:
    """Be a container from its start to its end."""
    container = read(directory)
    if container is None:
        return
    state = State("running", os.getpid(), started=now())
    put_state(directory, state)
    report(directory)
    with (directory / "log").open("a") as log:
        code = play(container, log)
    put_state(directory, replace(state, status="exited", exit_code=code, finished=now()))
    report(directory)
    if container.auto_remove and container.detached:
        time.sleep(FAREWELL_SECONDS)
        forget(directory, container.name)


def main() -> None:
    live(Path(sys.argv[1]))
