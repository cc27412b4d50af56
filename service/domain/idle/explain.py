"""The state of each single signal of a node with its reason, for people and the evidence. Pure.

The rule of proof decides whether a signal is reliable; see `service.domain.idle.proof`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.domain.clock import to_rfc3339
from service.domain.idle.assess import IdleSubject, IdleTimes, evidence_of
from service.domain.idle.proof import (
    CRASHES,
    UNREAD,
    ActivityEvidence,
    Host,
    MetricFamily,
    coverage_of,
    heartbeat_activity,
    is_unread,
    job_activity,
    trouble_of,
)
from service.domain.idle.signals.signal import MONITORED, Kind, Level

OLD = "the newest report is too old; reports are read where they are needed"
HELD = "a process holds the device"
LOOPS = "a container that restarts repeatedly holds it"
UNHELD = "no process holds the device of any worker"
SCHEDULED = "says which chips the VM has, not what they do"


class Claim(StrEnum):
    """A signal of a node as a whole, which no worker measures."""

    JOB = "job"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class SignalState:
    """The state of one signal with its reason. `worker` and `value` are None for a claim. `at` is
    the end of the newest reading; None without a reading. `coverage` is the share of the policy's
    idle time in which the signal is quiet, in percent."""

    worker: int | None
    signal: Kind | Claim
    level: Level
    reason: str
    coverage: int = 0
    value: float | None = None
    at: int | None = None
    last_active_at: int | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    """The instant of an assessment, the instant up to which signals have to reach by then, and the
    policy's idle time, [start, until), without the ignored newest seconds."""

    now: int
    seen_by: int
    start: int
    until: int


def explain_signals(
    subject: IdleSubject,
    families: Mapping[Kind, MetricFamily],
    times: IdleTimes,
    now: int,
    until: int | None,
) -> tuple[SignalState, ...]:
    """Return the explained state of every signal of a node: by worker, then the job and heartbeat.

    `until` is the end of the proof, None without a proof. A metric that the project does not have
    is left out.
    """
    seen_by = now - times.telemetry
    end = seen_by if until is None else until
    span = _Span(now, seen_by, end - subject.applied.rule.idle_after_seconds, end)
    evidence = evidence_of(subject, families, times)
    states, job = [*_list_measured(evidence, span)], evidence.job
    if job is not None:
        at, said = job_activity(evidence, job, now)
        quiet = f"job {job.job_id} has made no progress since {to_rfc3339(job.progress_at)}"
        if at <= span.until < job.progress_at:
            quiet = f"job {job.job_id} makes steps, and {UNHELD}"
        elif job.failures >= CRASHES:
            quiet = f"{quiet}; {job.failures} of its attempts failed within the last hour"
        states.append(_build_claim(Claim.JOB, at, said, quiet, span))
    if evidence.heartbeat_until:
        at, said = heartbeat_activity(evidence.heartbeat_until, now)
        quiet = f"the newest heartbeat expired at {to_rfc3339(evidence.heartbeat_until)}"
        states.append(_build_claim(Claim.HEARTBEAT, at, said, quiet, span))
    return tuple(states)


def _list_measured(evidence: ActivityEvidence, span: _Span) -> Iterator[SignalState]:
    failed = [
        kind
        for kind in MONITORED
        if evidence.families.get(kind, MetricFamily.FAILED) is MetricFamily.FAILED
    ]
    unread = {(worker, kind) for worker in range(evidence.workers) for kind in failed}
    for worker, kind in sorted({*evidence.tracks, *unread}):
        if evidence.families.get(kind) is MetricFamily.ABSENT:
            continue
        track = evidence.tracks.get((worker, kind))
        unknown = _explain_unknown(evidence, worker, kind, span)
        if track is None:
            yield SignalState(worker, kind, Level.UNKNOWN, unknown)
            continue
        shown = "active" if track.level is Level.ACTIVE else "quiet"
        if track.level is not Level.ACTIVE and track.at_rest:
            shown = f"quiet since {to_rfc3339(track.at_rest[0][0])}"
        value, host = track.value, evidence.hosts.get(worker)
        if kind is Kind.DEVICE and track.level is Level.QUIET and host is not None and host.holder:
            value, shown = 1.0, LOOPS
        yield SignalState(
            worker,
            kind,
            Level.UNKNOWN if unknown else track.level,
            unknown or shown,
            coverage_of(track, span.start, span.until),
            value,
            track.end,
            None if kind is Kind.SCHEDULED_CHIPS else track.broken_at,
        )


def _explain_unknown(evidence: ActivityEvidence, worker: int, kind: Kind, span: _Span) -> str:
    """Why a signal is unknown; empty where its level is known."""
    track = evidence.tracks.get((worker, kind))
    trouble = trouble_of(evidence, kind, track, span.seen_by)
    if trouble or track is None:
        return trouble
    if kind is Kind.SCHEDULED_CHIPS:
        return SCHEDULED
    if kind not in MONITORED:
        if is_unread(evidence, span.now):
            return UNREAD
        if track.end < span.now - evidence.report_seconds:
            return OLD
    return describe_holder(evidence.hosts.get(worker)) if track.level is Level.UNKNOWN else ""


def describe_holder(host: Host | None) -> str:
    """Return why a device is held: `process 7 (python) holds /dev/vfio/0, since at least
    2026-11-05T12:00:00Z`."""
    if host is None or not host.holder:
        return HELD
    since = host.held_since
    return host.holder if since is None else f"{host.holder}, since at least {to_rfc3339(since)}"


def _build_claim(
    claim: Claim, active_until: int, said: str, quiet: str, span: _Span
) -> SignalState:
    """The state of a claim of work. As in a proof, it is active if it reaches into the ignored
    newest seconds; otherwise it is quiet since its end."""
    is_active = active_until > span.until
    at = min(active_until, span.now)
    rest = max(0, span.until - max(span.start, active_until))
    return SignalState(
        None,
        claim,
        Level.ACTIVE if is_active else Level.QUIET,
        said if is_active else quiet,
        100 * rest // max(1, span.until - span.start),
        at=at,
        last_active_at=at,
    )
