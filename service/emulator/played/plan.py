"""The plan of a played container, from its environment and its command."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from service.emulator.artifacts.registry import Registry, image_of
from service.emulator.played.task import Task

MAX_LINES = 1_000
SIGTERM_CODE, SIGKILL_CODE = 143, 137
DONE = "EMULATOR_DONE_SECONDS"
YES = {"1", "true"}
STATEMENT = re.compile(r"\s*(?:;|&&|\n)\s*")
EXIT_CODES = {"true": 0, ":": 0, "echo": 0, "false": 1}
"""Programs without an effect, and their exit codes."""
PULL_FAILURES = {"missing": "IMAGE_NOT_FOUND", "denied": "PULL_DENIED"}


@dataclass(frozen=True)
class PlayedPlan:
    """The behaviour of one worker's container; seconds are divided by the world's speed."""

    seconds: float = 60.0
    exit_code: int = 0
    pull_seconds: float = 5.0
    pull_fails: str = ""
    """The reason of a failed pull; empty for success."""
    start_fails: str = ""
    """The reason of a failed start; empty for success."""
    done_seconds: float | None = None
    """When the program prints that it is done, though it still runs; None for never."""
    every: float = 10.0
    """Seconds between two lines of output."""
    stop_seconds: float = 1.0
    """From SIGTERM to the end."""
    stop_code: int = SIGTERM_CODE
    """The exit code after SIGTERM; 0 for a program that saves its state first."""
    deaf: bool = False
    """Whether the program ignores SIGTERM."""
    out_of_memory: bool = False
    hangs: bool = False
    """Whether the program only holds the chips: no output, no steps, no end."""
    steps: int = 0
    """The steps of a training, which then set the duration; 0 for no training."""
    step_seconds: float = 1.0
    checkpoint_every: int = 0
    """Steps between two checkpoints; 0 for none."""


def plan_of(task: Task, worker: int, registry: Registry) -> PlayedPlan:
    """Return the plan of a worker (its number among all of the job); the environment wins.

    A value that is not a number from 0 on is ignored. The known commands are `true`, `false`,
    `sleep 5`, `exit 3`, and a shell with a script of only these.
    """
    env, words, plan = task.env, task.words, PlayedPlan()
    if len(words) >= 3 and words[0].rpartition("/")[2] in {"bash", "sh"} and words[1] == "-c":
        plan = _parse_script(words[2], plan)
    else:
        plan = _parse_statement(words, replace(plan, seconds=0.0)) or plan

    # A worker's own exit code comes before the code for all.
    exit_code = int(_parse_number(env, "EMULATOR_EXIT_CODE", plan.exit_code)) % 256
    codes = [code.strip() for code in env.get("EMULATOR_EXIT_CODES", "").split(",")]
    if worker < len(codes) and re.fullmatch(r"\d{1,3}", codes[worker]):
        exit_code = int(codes[worker]) % 256
    head, slash, last = task.image.partition("@")[0].rpartition("/")
    last, _, tag = last.partition(":")
    image = image_of(registry, f"{head}{slash}{last}", tag)

    plan = replace(
        plan,
        seconds=_parse_number(env, "EMULATOR_DURATION_SECONDS", plan.seconds),
        exit_code=exit_code,
        pull_seconds=_parse_number(env, "EMULATOR_PULL_SECONDS", plan.pull_seconds),
        pull_fails=env.get("EMULATOR_PULL_FAILS") or PULL_FAILURES.get(image.status, ""),
        start_fails=env.get("EMULATOR_START_FAILS", ""),
        done_seconds=_parse_number(env, DONE, 0) if DONE in env else None,
        every=max(_parse_number(env, "EMULATOR_LOG_EVERY_SECONDS", plan.every), 0.1),
        stop_seconds=_parse_number(env, "EMULATOR_STOP_SECONDS", plan.stop_seconds),
        stop_code=int(_parse_number(env, "EMULATOR_STOP_CODE", plan.stop_code)) % 256,
        deaf=env.get("EMULATOR_IGNORE_SIGTERM", "") in YES,
        out_of_memory=env.get("EMULATOR_OUT_OF_MEMORY", "") in YES,
        hangs=env.get("EMULATOR_HANGS", "") in YES,
        steps=int(_parse_number(env, "EMULATOR_STEPS", 0)),
        step_seconds=max(_parse_number(env, "EMULATOR_STEP_SECONDS", plan.step_seconds), 0.01),
        checkpoint_every=int(_parse_number(env, "EMULATOR_CHECKPOINT_EVERY", 0)),
    )
    if plan.out_of_memory:
        plan = replace(plan, exit_code=SIGKILL_CODE)
    return replace(plan, seconds=plan.steps * plan.step_seconds) if plan.steps else plan


def _parse_script(script: str, plan: PlayedPlan) -> PlayedPlan:
    done = replace(plan, seconds=0.0)
    for statement in STATEMENT.split(script.strip()):
        try:
            after = _parse_statement(tuple(shlex.split(statement)), done)
        except ValueError:
            after = None
        if after is None:
            return plan
        done = after
        if statement.startswith("exit"):
            break
    return done


def _parse_statement(words: tuple[str, ...], plan: PlayedPlan) -> PlayedPlan | None:
    """Return the plan with a command added; None for an unknown command."""
    name, number = (*words, "", "")[:2]
    if name in EXIT_CODES:
        return replace(plan, exit_code=EXIT_CODES[name])
    if name == "sleep" and re.fullmatch(r"\d{1,7}(\.\d+)?", number):
        return replace(plan, seconds=plan.seconds + float(number), exit_code=0)
    if name == "exit" and re.fullmatch(r"\d{0,3}", number):
        return replace(plan, exit_code=int(number or plan.exit_code) % 256)
    return None


def _parse_number(env: Mapping[str, str], key: str, default: float) -> float:
    with suppress(ValueError):
        if 0 <= float(env.get(key, "")) < math.inf:
            return float(env[key])
    return default
