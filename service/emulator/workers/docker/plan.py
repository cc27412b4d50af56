"""The plan of a played container, from its image's tag, its command and its environment."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from service.emulator.workers.docker.containers import Container

# A duration in a tag, whose parts are joined by hyphens: `train:90s-busy-70-exit-3`.
LASTS = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MAX_LINES = 100_000
YES = {"1", "true"}
STOP_CODE = "EMULATOR_STOP_CODE"
DISK = "EMULATOR_DISK_BYTES"
# Programs that keep no chip busy.
IDLE_PROGRAMS = {"true", "false", "echo", "sleep"}


@dataclass(frozen=True)
class ContainerPlan:
    """The behaviour of one container, in seconds of the emulated cloud."""

    seconds: float = 60.0
    exit_code: int = 0
    duty_cycle: float = 90.0
    tensorcore: float = 45.0
    cpu: float = 30.0
    lines: int = 6
    every: float = 10.0
    bytes_per_second: float = 0.0
    """Of output, in seconds of this machine."""
    stop_seconds: float = 0.0
    """The time from the stop signal to the end."""
    stop_code: int | None = None
    """The exit code after the stop signal; None for the signal's own code."""
    deaf: bool = False
    """Whether the container ignores the stop signal."""
    forks: bool = False
    """Whether the container leaves a process in its own session that ignores SIGTERM."""
    out_of_memory: bool = False
    """Whether the container ends like an OOM-killed one."""
    needs_privileged: bool = False
    hold_seconds: float = 0.0
    """How long the kernel holds the chips after the end."""
    steps: int = 0
    """The steps of a training, which then set the duration; 0 for no training."""
    step_seconds: float = 1.0
    devices: int = 0
    """The number of devices that the training prints; 0 to print none."""
    checkpoint_every: int = 0
    checkpoint_dir: str = ""


def plan_of(container: Container) -> ContainerPlan:
    """Return the plan of a container; the environment wins. Raises ValueError."""
    plan = _parse_tag(container.image.partition("@")[0])
    command, env = container.command, container.env
    if command and command[0].rpartition("/")[2] in IDLE_PROGRAMS:
        plan = replace(plan, duty_cycle=0.0, tensorcore=0.0, cpu=0.0)
    plan = replace(
        plan,
        seconds=_parse_number(env, "EMULATOR_DURATION_SECONDS", plan.seconds),
        exit_code=int(_parse_number(env, "EMULATOR_EXIT_CODE", plan.exit_code)) % 256,
        duty_cycle=min(_parse_number(env, "EMULATOR_DUTY_CYCLE", plan.duty_cycle), 100.0),
        tensorcore=min(_parse_number(env, "EMULATOR_TENSORCORE", plan.tensorcore), 100.0),
        cpu=_parse_number(env, "EMULATOR_CPU", plan.cpu),
        bytes_per_second=_parse_number(env, "EMULATOR_LOG_BYTES_PER_SECOND", 0.0),
        stop_seconds=_parse_number(env, "EMULATOR_STOP_SECONDS", plan.stop_seconds),
        stop_code=int(_parse_number(env, STOP_CODE, 0)) % 256 if STOP_CODE in env else None,
        deaf=env.get("EMULATOR_IGNORE_SIGTERM", "") in YES,
        forks=env.get("EMULATOR_FORK", "") in YES,
        out_of_memory=env.get("EMULATOR_OUT_OF_MEMORY", "") in YES,
        needs_privileged=env.get("EMULATOR_NEEDS_PRIVILEGED", "") in YES,
        hold_seconds=hold_seconds(env),
        steps=int(_parse_number(env, "EMULATOR_STEPS", 0.0)),
        step_seconds=_parse_number(env, "EMULATOR_STEP_SECONDS", plan.step_seconds),
        devices=int(_parse_number(env, "EMULATOR_DEVICE_COUNT", 0.0)),
        checkpoint_every=int(_parse_number(env, "EMULATOR_CHECKPOINT_EVERY", 0.0)),
        checkpoint_dir=env.get("STEWARD_CHECKPOINT_DIR", ""),
    )
    # The lines are a number spread over the duration, an interval, or both.
    every = _parse_number(env, "EMULATOR_LOG_EVERY_SECONDS", 0.0)
    lines = _parse_number(env, "EMULATOR_LOG_LINES", -1.0)
    if lines < 0:
        every = every or plan.every
        lines = math.floor(plan.seconds / every)
    elif not every:
        every = plan.seconds / max(lines, 1.0)
    return replace(plan, lines=int(min(lines, MAX_LINES)), every=every)


def hold_seconds(env: Mapping[str, str]) -> float:
    """Return how long the chips are held after the end. Raises ValueError."""
    return _parse_number(env, "EMULATOR_HOLD_DEVICE_SECONDS", 0.0)


def disk_bytes(env: Mapping[str, str]) -> int | None:
    """Return the size limit of a container's file, None for no limit. Raises ValueError."""
    return int(_parse_number(env, DISK, 0.0)) if env.get(DISK) else None


def _parse_tag(image: str) -> ContainerPlan:
    plan = ContainerPlan()
    parts = image.rpartition(":")[2].split("-")
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


def _parse_number(env: Mapping[str, str], key: str, default: float) -> float:
    text = env.get(key, "")
    if not text:
        return default
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise ValueError(f"{key} must be a number from 0: {text}")
