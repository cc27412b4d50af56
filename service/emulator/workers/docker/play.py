"""What a played container does: it lasts, writes lines, trains in steps, and exits with a code."""

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
# How much is written at once where a number of bytes a second is asked for.
FLOOD_SECONDS = 0.05
FLOOD_LINE = 100
NO_DEVICE = (
    "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed:"
    " open(/dev/vfio/0): Operation not permitted: Operation not permitted; Couldn't open iommu"
    " group /dev/vfio/0"
)


class Told(Exception):
    """A signal that says to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def play(container: Container, begun: Callable[[], None]) -> int:
    """Do it all, faster by the speed of the emulator, and give the exit code.

    `begun` is called once signals are heard.
    """
    try:
        plan = plan_of(container)
    except ValueError as error:
        begun()
        _say(str(error), sys.stderr.fileno())
        return 1
    speed = worker.speed()
    try:
        _listen(deaf=plan.deaf)
        begun()
        return _acted(container, plan, speed)
    except Told as told:
        _listen(deaf=True)
        time.sleep(plan.stop_seconds / speed)
        return 128 + told.number if plan.stop_code is None else plan.stop_code


def _acted(container: Container, plan: ContainerPlan, speed: float) -> int:
    if plan.needs_privileged and not is_set(container.options, "privileged"):
        _say(NO_DEVICE, sys.stderr.fileno())
        return 1
    held = _open_devices()
    if plan.forks:
        _leave_behind()
    try:
        if plan.steps:
            _train(plan, speed, container.env.get("STEWARD_WORKER", "0"))
        elif plan.bytes_per_second:
            _flood(plan, speed)
        else:
            _last(container, plan, speed)
    except checkpoints.CheckpointRefused as error:
        _say(str(error), sys.stderr.fileno())
        return 1
    finally:
        for each in held:
            os.close(each)
    if plan.out_of_memory:
        os.kill(os.getpid(), signal.SIGKILL)
    return plan.exit_code


def _last(container: Container, plan: ContainerPlan, speed: float) -> None:
    began = time.monotonic()
    what = container.image.rpartition("/")[2]
    for number in range(1, plan.lines + 1):
        _sleep_until(began + min(number * plan.every, plan.seconds) / speed)
        _say(f"{what}: line {number} of {plan.lines}")
    _sleep_until(began + plan.seconds / speed)


def _train(plan: ContainerPlan, speed: float, number: str) -> None:
    """Go on after the newest checkpoint; worker 0 of the job writes the checkpoints of all.

    Raises Refused of `checkpoints`.
    """
    first = checkpoints.newest(plan.checkpoint_dir) if plan.checkpoint_dir else 0
    _say(f"training from step {first} of {plan.steps}")
    if plan.devices:
        _say(f"STEWARD_DEVICES {plan.devices}")
    began = time.monotonic()
    for step in range(first + 1, plan.steps + 1):
        _sleep_until(began + (step - first) * plan.step_seconds / speed)
        _say(f"STEWARD_STEP {step}")
        if plan.checkpoint_every and step % plan.checkpoint_every == 0:
            if plan.checkpoint_dir and number == "0":
                checkpoints.save(plan.checkpoint_dir, step)
            _say(f"STEWARD_CHECKPOINT {step}")
    _say("STEWARD_DONE")


def _flood(plan: ContainerPlan, speed: float) -> None:
    began = time.monotonic()
    written = 0
    while (gone := time.monotonic() - began) < plan.seconds / speed:
        due = int(plan.bytes_per_second * gone) - written
        lines = due // FLOOD_LINE
        if lines:
            _write(sys.stdout.fileno(), (b"x" * (FLOOD_LINE - 1) + b"\n") * lines)
            written += lines * FLOOD_LINE
        time.sleep(FLOOD_SECONDS)


def _open_devices() -> list[int]:
    """Hold the chips, as a training does."""
    devices = os.environ.get("EMULATOR_DEVICES", "")
    paths = [*Path(devices).glob("vfio/*"), *Path(devices).glob("accel*")] if devices else []
    return [os.open(path, os.O_RDONLY) for path in paths]


def _leave_behind() -> None:
    """Start a process that nobody waits for and that hears no signal."""
    if os.fork() == 0:
        os.setsid()
        _listen(deaf=True)
        if os.fork() == 0:
            while True:
                time.sleep(3600)
        os._exit(0)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _say(line: str, output: int = 1) -> None:
    _write(output, line.encode(errors="surrogateescape") + b"\n")


def _write(output: int, data: bytes) -> None:
    while data:
        data = data[os.write(output, data) :]


def _listen(*, deaf: bool) -> None:
    def hear(number: int, _: FrameType | None) -> None:
        raise Told(number)

    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN if deaf else hear)
    # They were held back since before this process began.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
