"""The timeline on the page of a job: its attempts with their phases, nodes and dollars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.application.jobs.cost import AttemptCost
from service.application.jobs.jobs import JobWithAttempts
from service.dashboard.kit.figures import format_duration, format_units, to_moment
from service.dashboard.kit.links import node_address
from service.dashboard.kit.time_bars import TimeBars, TimeSpan, draw_lane, draw_ticks
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.dashboard.pages.nodes.jobs import format_cost
from service.dashboard.pages.nodes.timeline import TimelineEntry
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.jobs.job import INFRASTRUCTURE
from service.domain.jobs.phases import Spent

ENTRIES_SHOWN = 50
"""Entries that are shown at once; older ones are shown on demand."""

_LOOKS: Mapping[Spent, str] = {
    Spent.BOOT: "coming",
    Spent.PULL: "coming",
    Spent.INIT: "coming",
    Spent.RUNNING: "up",
    Spent.LOST: "trouble",
    Spent.RECOVERY: "job",
    Spent.UNATTRIBUTED: "going",
}


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """The timeline, newest first. `phases` are the signs of the bar with their meanings, `total`
    is the cost of the job as shown: the amounts of the attempts add up to it."""

    bars: TimeBars
    phases: tuple[tuple[str, str], ...]
    entries: tuple[TimelineEntry, ...]
    older: tuple[TimelineEntry, ...]
    total: str


def build_job_timeline(whole: JobWithAttempts) -> JobTimeline:
    """The timeline of a job as of when its cost was counted."""
    job, cost = whole.shown.job, whole.shown.cost
    places = places_for(cost.cost)
    units = in_units([attempt.cost for attempt in whole.attempts], unit_for(places))
    dated = [_entry(job.created_at, "Request", "The job was submitted.")]
    if job.image_checked_at is not None:
        looked_up = "The image was looked up in its registry."
        dated.append(_entry(job.image_checked_at, "Image", looked_up))
    if job.cancel_requested_at is not None:
        dated.append(_entry(job.cancel_requested_at, "Request", "Cancellation requested."))
    for found, unit in zip(whole.attempts, units, strict=True):
        dated += _list_attempt_entries(found, format_units(unit, places))
    if job.ended_at is not None:
        text = escape_invisible(to_sentence(job.detail))
        dated.append(_entry(job.ended_at, "End", f"The job is {job.state}. {text}".strip()))
    dated.reverse()  # the sort keeps the order of equal times: the later entry comes first
    dated.sort(key=lambda entry: -entry[0])
    entries = [entry for _, entry in dated]
    by_look: dict[str, list[str]] = {}
    for spent, look in _LOOKS.items():
        if any(period.spent is spent for found in whole.attempts for period in found.periods):
            by_look.setdefault(look, []).append(spent)
    return JobTimeline(
        bars=_draw_attempts(whole),
        phases=tuple((look, ", ".join(names)) for look, names in by_look.items()),
        entries=tuple(entries[:ENTRIES_SHOWN]),
        older=tuple(entries[ENTRIES_SHOWN:]),
        total=format_cost(cost),
    )


def _list_attempt_entries(found: AttemptCost, amount: str) -> Iterator[tuple[int, TimelineEntry]]:
    """What happened in one attempt, first to last, as far as its workers reported it."""
    attempt, reports = found.attempt, found.attempt.own_reports
    name = escape_invisible(found.node_name)
    where = f" in {escape_invisible(attempt.zone)}" if attempt.zone else ""
    kind = f"Attempt {attempt.number}"
    yield (
        attempt.claimed_at,
        TimelineEntry(
            at=to_moment(attempt.claimed_at),
            kind=kind,
            text=f"The attempt began on node {name}{where}.",
            note="cost of the attempt",
            amount=amount,
            href=node_address(attempt.node_id),
            link="Node",
        ),
    )
    if attempt.ready_at is not None:
        yield _entry(attempt.ready_at, kind, "The node was READY.")
    for text, instants in (
        (
            "The first worker began to pull the image.",
            [report.pull_started_at for report in reports],
        ),
        ("The last worker had the image.", [report.pulled_at for report in reports]),
        ("The last container had started.", [report.started_at for report in reports]),
    ):
        known = [at for at in instants if at is not None]
        if known and (len(known) == len(instants) or "first" in text):
            yield _entry(min(known) if "first" in text else max(known), kind, text)
    # The newest step and the newest checkpoint.
    for noun, marks in (
        ("step", [(report.step, report.step_at) for report in reports]),
        ("checkpoint", [(report.checkpoint, report.checkpoint_at) for report in reports]),
    ):
        reached = [(at, number) for number, at in marks if number is not None and at is not None]
        if reached:
            at, number = max(reached)
            progress = f"step {number:,}" if noun == "step" else f"checkpoint at step {number:,}"
            yield _entry(at, kind, f"The newest {progress}.")
    if attempt.ended_at is not None:
        reason = str(attempt.reason).replace("_", " ").lower() or "no reason known"
        detail = escape_invisible(to_sentence(attempt.detail))
        is_loud = attempt.reason in INFRASTRUCTURE or any(attempt.exit_codes.values())
        text = f"The attempt ended: {reason}. {detail}".strip()
        yield _entry(attempt.ended_at, kind, text, loud=is_loud)


def _entry(at: int, kind: str, text: str, *, loud: bool = False) -> tuple[int, TimelineEntry]:
    return at, TimelineEntry(to_moment(at), kind, text, loud=loud)


def _draw_attempts(whole: JobWithAttempts) -> TimeBars:
    """The life of the job: its attempts, and the phases of each."""
    job = whole.shown.job
    start, now = job.created_at, whole.shown.cost.as_of
    end = max(start + 1, now if job.ended_at is None else job.ended_at)
    attempts, phases = list[TimeSpan](), list[TimeSpan]()
    for found in whole.attempts:
        attempt, name = found.attempt, escape_invisible(found.node_name)
        until = end if attempt.released_at is None else attempt.released_at
        hint = f"attempt {attempt.number} on {name}, {format_duration(until - attempt.claimed_at)}"
        label = f"attempt {attempt.number}"
        attempts.append(TimeSpan(attempt.claimed_at, until, "billed", label, hint))
        for period in found.periods:
            first = max(period.start, attempt.claimed_at)
            last = min(period.end, until)
            if first < last:
                words = f"{period.spent} for {format_duration(last - first)}"
                phases.append(TimeSpan(first, last, _LOOKS[period.spent], period.spent, words))
    count = len(whole.attempts)
    return TimeBars(
        title=f"Life of the job, {to_moment(start).full} to {to_moment(end).full}",
        words=f"{count:,} attempt{'' if count == 1 else 's'}. The list below has them in words.",
        lanes=(
            draw_lane("Attempts", attempts, start, end),
            draw_lane("Phases", phases, start, end),
        ),
        ticks=draw_ticks(start, end),
    )
