"""A supervisor's report about its worker: a claim by a process on that machine, never proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.domain import claims

MAX_BYTES = 256 * 1024
"""Google's limit for a metadata value. A supervisor writes no longer report."""

_LONGEST_TAIL = 64 * 1024


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
class SupervisorReport:
    """One document of a supervisor. Instants are whole UTC seconds by the worker's clock.

    `seq` grows with every report of a worker, `boot` identifies the boot of its machine.
    `generation` and `attempt` are those of the worker's current task. `reason` is the supervisor's
    own reason.
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
    """Lines that are in Cloud Logging; None where the supervisor does not count lines."""
    dropped_bytes: int = 0
    tail: str = ""
    startup_script: str = ""
    startup_exit_code: int | None = None
    warnings: tuple[str, ...] = ()
    task_error: str = ""
    sent_at: int = 0
    """When the supervisor wrote the report, by the worker's clock, but not after the read."""
    seen_at: int = 0
    """When this service read the report."""
    caught_up_at: int | None = None
    """When the attempt reached the highest step of the earlier attempts. Set by this service, as a
    worker reports its newest step alone."""

    @property
    def runs_startup_script(self) -> bool:
        """Whether the supervisor waits for the end of the caller's startup script."""
        return self.startup_script == "running" and self.state is WorkerState.IDLE

    @property
    def is_final(self) -> bool:
        """Whether the attempt has ended on this worker."""
        return self.state in FINAL


def parse_report(text: str, now: int) -> SupervisorReport | None:
    """Parse a supervisor's report; None for text that is not a supervisor's. Never raises: any
    process on the worker can write this text."""
    if len(text) > MAX_BYTES:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("v") != 1:
        return None
    state, seq = document.get("state"), claims.read_whole_number(document, "seq")
    if seq is None or not isinstance(state, str) or state not in WorkerState.__members__:
        return None
    return _build_report(document, WorkerState(state), seq, now)


def _build_report(
    document: Mapping[str, Any], state: WorkerState, seq: int, now: int
) -> SupervisorReport:
    logs, script = (
        claims.read_mapping(document, "logs"),
        claims.read_mapping(document, "startup_script"),
    )
    return SupervisorReport(
        seq=seq,
        boot=claims.read_text(document, "boot", 80),
        generation=claims.read_whole_number(document, "generation") or 0,
        attempt=claims.read_text(document, "attempt", 80),
        state=state,
        reason=claims.read_text(document, "reason", 80),
        detail=claims.read_text(document, "detail"),
        exit_code=_read_exit_code(document, "exit_code"),
        boot_at=claims.read_instant(document, "boot_at", now),
        pull_started_at=claims.read_instant(document, "pull_started_at", now),
        pulled_at=claims.read_instant(document, "pulled_at", now),
        started_at=claims.read_instant(document, "started_at", now),
        ended_at=claims.read_instant(document, "ended_at", now),
        image_digest=claims.read_text(document, "image_digest", 100),
        access=claims.read_text(document, "access", 20),
        done_at=claims.read_instant(document, "done_at", now),
        checkpoint=claims.read_whole_number(document, "checkpoint"),
        checkpoint_at=claims.read_instant(document, "checkpoint_at", now),
        step=claims.read_whole_number(document, "step"),
        step_at=claims.read_instant(document, "step_at", now),
        devices=claims.read_whole_number(document, "devices"),
        preempted_at=claims.read_instant(document, "preempted_at", now),
        maintenance=claims.read_text(document, "maintenance", 80),
        log_error=claims.read_text(logs, "error"),
        shipped_bytes=claims.read_whole_number(logs, "shipped") or 0,
        shipped_lines=claims.read_whole_number(logs, "lines"),
        dropped_bytes=claims.read_whole_number(logs, "dropped") or 0,
        tail=claims.read_text(document, "tail", _LONGEST_TAIL, lines=True),
        startup_script=claims.read_text(script, "state", 20),
        startup_exit_code=_read_exit_code(script, "exit_code"),
        warnings=claims.read_texts(document, "warnings"),
        task_error=claims.read_text(document, "task_error"),
        sent_at=claims.read_instant(document, "at", now) or 0,
        seen_at=now,
    )


def is_newer(report: SupervisorReport, before: SupervisorReport | None) -> bool:
    """Whether a supervisor's report has a higher `seq` than the known report. The supervisor keeps
    `seq` on disk, so it grows over reboots as well."""
    return before is None or report.seq > before.seq


def is_current(report: SupervisorReport, before: SupervisorReport | None) -> bool:
    """Whether a supervisor's report is the known report, or newer. An older report is of the
    previous boot, or guest attributes show it late."""
    is_same = before is not None and (report.boot, report.seq) == (before.boot, before.seq)
    return is_same or is_newer(report, before)


def _read_exit_code(document: Mapping[str, Any], name: str) -> int | None:
    value = claims.read_whole_number(document, name)
    return value if value is not None and value <= 255 else None
