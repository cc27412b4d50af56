"""What a supervisor reports of its worker: a claim by a process on that machine, never proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_BYTES = 256 * 1024
"""Google's limit for a metadata value; a longer report is not one of a supervisor."""

_LONGEST_TEXT = 500
_LONGEST_TAIL = 64 * 1024
_MAX_INT = 2**53


class WorkerState(StrEnum):
    """What a worker does for the attempt."""

    IDLE = "IDLE"
    PULLING = "PULLING"
    PULLED = "PULLED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    EXITED = "EXITED"
    UNAVAILABLE = "UNAVAILABLE"


FINAL = frozenset({WorkerState.EXITED, WorkerState.UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Report:
    """One document of a supervisor. Instants are whole UTC seconds by the worker's clock.

    `seq` grows with every report of a worker, `boot` names the start of its machine. `generation`
    and `attempt` are those of the task that it acts on. `reason` is the supervisor's own word.
    """

    seq: int
    boot: str = ""
    generation: int = 0
    attempt: str = ""
    state: WorkerState = WorkerState.IDLE
    reason: str = ""
    detail: str = ""
    exit_code: int | None = None
    boot_at: int | None = None
    pull_started_at: int | None = None
    pulled_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    image_digest: str = ""
    access: str = ""
    done_at: int | None = None
    checkpoint: int | None = None
    checkpoint_at: int | None = None
    step: int | None = None
    step_at: int | None = None
    devices: int | None = None
    preempted_at: int | None = None
    maintenance: str = ""
    log_error: str = ""
    shipped_bytes: int = 0
    shipped_lines: int | None = None
    """Lines that are in Cloud Logging by now; None of a supervisor that does not count them."""
    dropped_bytes: int = 0
    tail: str = ""
    startup_script: str = ""
    startup_exit_code: int | None = None
    warnings: tuple[str, ...] = ()
    task_error: str = ""
    sent_at: int = 0
    """When the supervisor wrote it, by its clock, and no later than it was read."""
    seen_at: int = 0
    """When this service read it."""
    caught_up_at: int | None = None
    """When the attempt had come as far as those before it; set by this service, as a worker
    reports its newest step alone."""

    @property
    def runs_startup_script(self) -> bool:
        """Whether the supervisor waits for the end of the caller's startup script."""
        return self.startup_script == "running" and self.state is WorkerState.IDLE

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the attempt on this worker."""
        return self.state in FINAL


def parse(text: str, now: int) -> Report | None:
    """Read a report; None for anything that a supervisor does not write. Never an exception: any
    process on the worker can write this text."""
    if len(text) > MAX_BYTES:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("v") != 1:
        return None
    state, seq = document.get("state"), _whole(document, "seq")
    if seq is None or not isinstance(state, str) or state not in WorkerState.__members__:
        return None
    return _report(document, WorkerState(state), seq, now)


def _report(document: Mapping[str, Any], state: WorkerState, seq: int, now: int) -> Report:
    logs, script = _object(document, "logs"), _object(document, "startup_script")
    return Report(
        seq=seq,
        boot=_text(document, "boot", 80),
        generation=_whole(document, "generation") or 0,
        attempt=_text(document, "attempt", 80),
        state=state,
        reason=_text(document, "reason", 80),
        detail=_text(document, "detail"),
        exit_code=_exit_code(document, "exit_code"),
        boot_at=_instant(document, "boot_at", now),
        pull_started_at=_instant(document, "pull_started_at", now),
        pulled_at=_instant(document, "pulled_at", now),
        started_at=_instant(document, "started_at", now),
        ended_at=_instant(document, "ended_at", now),
        image_digest=_text(document, "image_digest", 100),
        access=_text(document, "access", 20),
        done_at=_instant(document, "done_at", now),
        checkpoint=_whole(document, "checkpoint"),
        checkpoint_at=_instant(document, "checkpoint_at", now),
        step=_whole(document, "step"),
        step_at=_instant(document, "step_at", now),
        devices=_whole(document, "devices"),
        preempted_at=_instant(document, "preempted_at", now),
        maintenance=_text(document, "maintenance", 80),
        log_error=_text(logs, "error"),
        shipped_bytes=_whole(logs, "shipped") or 0,
        shipped_lines=_whole(logs, "lines"),
        dropped_bytes=_whole(logs, "dropped") or 0,
        tail=_text(document, "tail", _LONGEST_TAIL, lines=True),
        startup_script=_text(script, "state", 20),
        startup_exit_code=_exit_code(script, "exit_code"),
        warnings=_texts(document, "warnings"),
        task_error=_text(document, "task_error"),
        sent_at=_instant(document, "at", now) or 0,
        seen_at=now,
    )


def is_newer(report: Report, before: Report | None) -> bool:
    """Whether a report says more than the one that is known: a higher `seq`. The supervisor keeps
    `seq` on disk, so it grows over reboots as well."""
    return before is None or report.seq > before.seq


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _text(
    document: Mapping[str, Any], name: str, longest: int = _LONGEST_TEXT, *, lines: bool = False
) -> str:
    """A text that can be stored and shown: valid Unicode, without NUL, and short."""
    value = document.get(name)
    if not isinstance(value, str):
        return ""
    cut = value[-longest:] if lines else value[:longest]
    clean = cut.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean if lines else " ".join(clean.split())


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name)
    if not isinstance(value, list):
        return ()
    return tuple(_text({"text": one}, "text") for one in value[:20] if isinstance(one, str))


def _whole(document: Mapping[str, Any], name: str) -> int | None:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_INT else None


def _instant(document: Mapping[str, Any], name: str, now: int) -> int | None:
    """An instant that is not later than now: a clock ahead of ours cannot move charges ahead."""
    value = _whole(document, name)
    return None if value is None else min(value, now)


def _exit_code(document: Mapping[str, Any], name: str) -> int | None:
    value = _whole(document, name)
    return value if value is not None and value <= 255 else None
