"""What each signal of a node says by itself, and why, for people and for the evidence. Pure.

The rule of proof decides whether a signal can be relied on; see `service.domain.idle.proof`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.domain.clock import rfc3339
from service.domain.idle.assess import IdleSubject, IdleTimes, evidence_of
from service.domain.idle.proof import (
    UNREAD,
    ActivityEvidence,
    MetricFamily,
    coverage_of,
    heartbeat_activity,
    is_unread,
    job_activity,
    trouble_of,
)
from service.domain.idle.signal import MONITORED, Kind, Level, SignalTrack

OLD = "the newest report is too old; reports are read where they are needed"
HELD = "a process holds the device"
SCHEDULED = "says which chips the VM has, not what they do"


class Claim(StrEnum):
    """A signal of a node as a whole, which no worker measures."""

    JOB = "job"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class SignalState:
    """What one signal says, and why. `worker` is None for a claim, `value` too. `at` is the end of
    the newest reading; None where there is none. `coverage` is the share of the idle time of the
    policy in which the signal is known to be at rest, in percent."""

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
    """The instant of a look, until when signals have to reach by then, and the idle time of the
    policy, [start, until), up to the newest seconds that are ignored."""

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
    """Every signal of a node as a look at `now` found it: by worker, then the job and heartbeat.

    `until` is how far the proof reaches, None where nothing is proved. A metric that the project
    does not have is left out.
    """
    seen_by = now - times.telemetry
    end = seen_by if until is None else until
    span = _Span(now, seen_by, end - subject.applied.rule.idle_after_seconds, end)
    evidence = evidence_of(subject, families, times)
    return (*_measured(evidence, span), *_claimed(evidence, span))


def _measured(evidence: ActivityEvidence, span: _Span) -> Iterator[SignalState]:
    failed = [
        kind
        for kind in MONITORED
        if evidence.families.get(kind, MetricFamily.FAILED) is MetricFamily.FAILED
    ]
    unread = {(worker, kind) for worker in range(evidence.workers) for kind in failed}
    for worker, kind in sorted({*evidence.tracks, *unread}):
        if evidence.families.get(kind) is not MetricFamily.ABSENT:
            yield _state_of(evidence, worker, kind, span)


def _state_of(evidence: ActivityEvidence, worker: int, kind: Kind, span: _Span) -> SignalState:
    track = evidence.tracks.get((worker, kind))
    unknown = _unknown(evidence, worker, kind, span)
    if track is None:
        return SignalState(worker, kind, Level.UNKNOWN, unknown)
    return SignalState(
        worker,
        kind,
        Level.UNKNOWN if unknown else track.level,
        unknown or _shown(track),
        coverage_of(track, span.start, span.until),
        track.value,
        track.end,
        None if kind is Kind.SCHEDULED_CHIPS else track.broken_at,
    )


def _unknown(evidence: ActivityEvidence, worker: int, kind: Kind, span: _Span) -> str:
    """Why nothing is known by a signal; empty where something is."""
    track = evidence.tracks.get((worker, kind))
    trouble = trouble_of(evidence, kind, track, span.seen_by)
    if trouble or track is None:
        return trouble
    if kind is Kind.SCHEDULED_CHIPS:
        return SCHEDULED
    if kind not in MONITORED and (why := _unreported(evidence, track, span.now)):
        return why
    host = evidence.hosts.get(worker)
    holder = "" if host is None else host.holder
    return holder or HELD if track.level is Level.UNKNOWN else ""


def _unreported(evidence: ActivityEvidence, track: SignalTrack, now: int) -> str:
    """Why the newest report says nothing of now; empty where it does."""
    if is_unread(evidence, now):
        return UNREAD
    return OLD if track.end < now - evidence.report_seconds else ""


def _shown(track: SignalTrack) -> str:
    if track.level is Level.ACTIVE:
        return "at work"
    return f"at rest since {rfc3339(track.at_rest[0][0])}" if track.at_rest else "at rest"


def _claimed(evidence: ActivityEvidence, span: _Span) -> Iterator[SignalState]:
    job = evidence.job
    if job is not None:
        at, said = job_activity(job, span.now)
        quiet = f"job {job.job_id} has made no progress since {rfc3339(job.progress_at)}"
        yield _claim(Claim.JOB, at, said, quiet, span)
    if evidence.heartbeat_until:
        at, said = heartbeat_activity(evidence.heartbeat_until, span.now)
        quiet = f"the newest heartbeat expired at {rfc3339(evidence.heartbeat_until)}"
        yield _claim(Claim.HEARTBEAT, at, said, quiet, span)


def _claim(claim: Claim, active_until: int, said: str, quiet: str, span: _Span) -> SignalState:
    """What a claim of work says: as in a proof, it counts until the newest seconds that are
    ignored, and what came to an end before them is at rest since."""
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
