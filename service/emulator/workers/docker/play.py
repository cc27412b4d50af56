"""A played container: it writes lines or trains in steps for its duration, then exits."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from service.emulator.workers.docker import checkpoints, worker
from service.emulator.workers.docker.containers import Container
from service.emulator.workers.docker.plan import ContainerPlan, plan_of
from service.emulator.workers.options import is_set

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# The interval between writes, and the length of a line, at a given number of bytes a second.
FLOOD_SECONDS = 0.05
FLOOD_LINE = 100
NO_DEVICE = (
    "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed:"
    " open(/dev/vfio/0): Operation not permitted: Operation not permitted; Couldn't open iommu"
    " group /dev/vfio/0"
)


class Told(Exception):
    """A stop signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def play_container(container: Container, begun: Callable[[], None]) -> int:
    """Carry out the plan at the emulator's speed, and return the exit code.

    `begun` is called once signals are handled.
    """
    try:
        plan = plan_of(container)
    except ValueError as error:
        begun()
        _write_line(str(error), sys.stderr.fileno())
        return 1
    speed = worker.read_speed()
    try:
        _handle_signals(deaf=plan.deaf)
        begun()
        if plan.needs_privileged and not is_set(container.options, "privileged"):
            _write_line(NO_DEVICE, sys.stderr.fileno())
            return 1
        return _run_plan(container, plan, speed)
    except Told as told:
        _handle_signals(deaf=True)
        time.sleep(plan.stop_seconds / speed)
        return 128 + told.number if plan.stop_code is None else plan.stop_code


def _run_plan(container: Container, plan: ContainerPlan, speed: float) -> int:
    # An open device file means that the chips are in use, as by a training.
    devices = os.environ.get("EMULATOR_DEVICES", "")
    paths = [*Path(devices).glob("vfio/*"), *Path(devices).glob("accel*")] if devices else []
    held = [os.open(path, os.O_RDONLY) for path in paths]
    if plan.forks:
        _start_orphan()
    try:
        if plan.steps:
            _train_steps(plan, speed, container.env.get("STEWARD_WORKER", "0"))
        elif plan.bytes_per_second:
            _write_flood(plan, speed)
        else:
            began = time.monotonic()
            image = container.image.rpartition("/")[2]
            for number in range(1, plan.lines + 1):
                _sleep_until(began + min(number * plan.every, plan.seconds) / speed)
                _write_line(f"{image}: line {number} of {plan.lines}")
            _sleep_until(began + plan.seconds / speed)
    except checkpoints.CheckpointRefused as error:
        _write_line(str(error), sys.stderr.fileno())
        return 1
    finally:
        for device in held:
            os.close(device)
    if plan.out_of_memory:
        os.kill(os.getpid(), signal.SIGKILL)
    return plan.exit_code


def _train_steps(plan: ContainerPlan, speed: float, number: str) -> None:
    """Train from the newest checkpoint on; worker 0 of the job writes the job's checkpoints.

    Raises CheckpointRefused.
    """
    first = checkpoints.find_newest(plan.checkpoint_dir) if plan.checkpoint_dir else 0
    _write_line(f"training from step {first} of {plan.steps}")
    if plan.devices:
        _write_line(f"STEWARD_DEVICES {plan.devices}")
    began = time.monotonic()
    for step in range(first + 1, plan.steps + 1):
        _sleep_until(began + (step - first) * plan.step_seconds / speed)
        _write_line(f"STEWARD_STEP {step}")
        if plan.checkpoint_every and step % plan.checkpoint_every == 0:
            if plan.checkpoint_dir and number == "0":
                checkpoints.save(plan.checkpoint_dir, step)
            _write_line(f"STEWARD_CHECKPOINT {step}")
    _write_line("STEWARD_DONE")


def _write_flood(plan: ContainerPlan, speed: float) -> None:
    began = time.monotonic()
    written = 0
    while (gone := time.monotonic() - began) < plan.seconds / speed:
        due = int(plan.bytes_per_second * gone) - written
        lines = due // FLOOD_LINE
        if lines:
            _write_all(sys.stdout.fileno(), (b"x" * (FLOOD_LINE - 1) + b"\n") * lines)
            written += lines * FLOOD_LINE
        time.sleep(FLOOD_SECONDS)


def _start_orphan() -> None:
    """Start an orphan process that ignores all stop signals."""
    if os.fork() == 0:
        os.setsid()
        _handle_signals(deaf=True)
        if os.fork() == 0:
            while True:
                time.sleep(3600)
        os._exit(0)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _write_line(line: str, output: int = 1) -> None:
    _write_all(output, line.encode(errors="surrogateescape") + b"\n")


def _write_all(output: int, data: bytes) -> None:
    while data:
        data = data[os.write(output, data) :]


def _handle_signals(*, deaf: bool) -> None:
    def raise_told(number: int, _: FrameType | None) -> None:
        raise Told(number)

    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN if deaf else raise_told)
    # The parent blocked these signals before the fork.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
