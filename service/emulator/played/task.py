"""The task that the service writes for a node's workers, parsed as a supervisor does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KEY = "steward-task"
ACTIONS = {"pull", "run", "stop", "release"}
ATTEMPT = re.compile(r"[a-z0-9-]{1,63}")
MOST = 1e12


class TaskError(ValueError):
    """An invalid task; the report has the reason."""


@dataclass(frozen=True)
class Task:
    """The order to the workers of one node for one attempt."""

    generation: int
    attempt: str
    action: str
    slice: int = 0
    workers: tuple[int, ...] = ()
    first_worker: int = 0
    image: str = ""
    words: tuple[str, ...] = ()
    """The command and its arguments; empty for the image's own command."""
    env: Mapping[str, str] = field(default_factory=dict)
    device_access: str = "device"
    """The form of the container that is tried first."""
    stop_grace_seconds: float = 25.0
    max_duration_seconds: float = 0.0
    pull_seconds: float = 1800.0
    report_seconds: float = 15.0
    project: str = ""
    log: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def task_of(text: str) -> Task:
    """Return a parsed task. Raises TaskError."""
    try:
        plain = json.loads(text)
        _require_valid(plain["v"] == 1, "v is not 1")
        _require_valid(ATTEMPT.fullmatch(plain["attempt"]), "attempt is no id")
        _require_valid(plain["action"] in ACTIONS, "action is unknown")
        container = plain.get("container") or {}
        if plain["action"] in {"pull", "run"}:
            _require_valid(isinstance(container["image"], str), "image is no text")
        log = (plain.get("log") or {}).get("write") or {}
        project, _, name = str(log.get("logName", "")).removeprefix("projects/").partition("/logs/")
        return Task(
            generation=int(_parse_number(plain, "generation", 0)),
            attempt=plain["attempt"],
            action=plain["action"],
            slice=int(_parse_number(plain, "slice", 0)),
            workers=tuple(int(number) for number in plain.get("workers", ())),
            first_worker=int(_parse_number(plain, "first_worker", 0)),
            image=container.get("image", ""),
            words=(*_parse_texts(container, "command"), *_parse_texts(container, "args")),
            env={str(key): str(value) for key, value in container.get("env", {}).items()},
            device_access=str((container.get("forms") or ["device"])[0]),
            stop_grace_seconds=_parse_number(plain, "stop_grace_seconds", 25),
            max_duration_seconds=_parse_number(plain, "max_duration_seconds", 0),
            pull_seconds=_parse_number(plain, "pull_seconds", 1800),
            report_seconds=_parse_number(plain, "report_seconds", 15),
            project=project,
            log=name,
            labels={str(key): str(value) for key, value in log.get("labels", {}).items()},
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{type(error).__name__}: {error}") from None


def _parse_number(plain: Mapping[str, Any], key: str, default: float) -> float:
    value = plain.get(key, default)
    _require_valid(isinstance(value, int | float) and 0 <= value < MOST, f"{key} is out of range")
    return float(value)


def _parse_texts(plain: Mapping[str, Any], key: str) -> tuple[str, ...]:
    words = plain.get(key) or []
    _require_valid(
        isinstance(words, list) and all(isinstance(word, str) for word in words), f"{key}"
    )
    return tuple(words)


def _require_valid(is_right: object, problem: str) -> None:
    if not is_right:
        raise TaskError(problem)
