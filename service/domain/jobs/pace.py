"""How often the service reads the state of a job. Seconds.

Google allows ten queries of guest attributes a minute for each machine, reading and writing
together (reference/jobs.md J2). The supervisor takes fewer than five, so four are left for us.
"""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.jobs.job import Attempt, Job, Phase
from service.domain.nodes.node import Node, NodeState

READ_SECONDS = 15
"""Between two reads of the reports of an attempt in transition: four a minute."""

READ_RUNNING_SECONDS = 60
"""Between two reads of the reports of a running attempt: one a minute."""

OUTAGE_SECONDS = 300
"""Without an answer of the cloud for longer than this, the answers before and after are not one
series: five reads of a running attempt failed, or this service was down."""

ASSERT_SECONDS = 30
"""Between two checks that the metadata still holds the task that no worker has answered."""

CLAIM_SECONDS = 15
"""Between two attempts of the job that is next on a node to claim it."""

QUEUE_SECONDS = 300
"""Between two attempts of a job with others before it. The end of a job wakes the next job."""

FOLLOW_SECONDS = 3.0
"""Between two reads of a followed job's log, while few jobs are followed."""

FOLLOW_READS = 28
"""Calls of entries.list a minute for all followed jobs. The API may make 30 calls, and the rest is
for pages of the dashboard (`service.cloud.rate_limit.ReadPace`)."""

TURN_SECONDS = 60 / FOLLOW_READS
"""Between two reads of the logs of any two followed jobs."""

_ROUNDING = 0.001


def pause_between_reads(followed: int, calls: int = 1) -> float:
    """Return the pace of the reads of a job's log: the seconds until the next read. All `followed`
    jobs of this process have an equal share. `calls` is the number of calls of the previous read: a
    flood of lines takes several calls.

    Four followed jobs are each read every 8.6 s, ten every 21.4 s.
    """
    return max(FOLLOW_SECONDS, TURN_SECONDS * followed * calls)


def free_turn(taken: Iterable[float], earliest: float) -> float:
    """Return the first free turn for a read of a log, from `earliest` on. It is TURN_SECONDS away
    from all taken instants, on any clock in seconds. So the reads of all jobs together stay below
    the limit."""
    turn = earliest
    for other in sorted(taken):
        if other - turn > TURN_SECONDS - _ROUNDING:
            break
        turn = max(turn, other + TURN_SECONDS)
    return turn


def is_read_due(attempt: Attempt, now: int) -> bool:
    """Whether the pace allows another read of an attempt's reports."""
    return attempt.read_at is None or now - attempt.read_at >= _read_period(attempt)


def _read_period(attempt: Attempt) -> int:
    calm = attempt.phase is Phase.RUNNING and attempt.echoed
    return READ_RUNNING_SECONDS if calm else READ_SECONDS


def is_delivery_due(attempt: Attempt, node: Node, now: int) -> bool:
    """Whether an attempt's metadata is checked now, by the pace of such checks. Google takes
    changes only while a node is READY."""
    if attempt.placement == 0 or attempt.echoed or node.state != NodeState.READY:
        return False
    return attempt.written_at is None or now - attempt.written_at >= ASSERT_SECONDS


def next_look(job: Job, attempt: Attempt, now: int, period: int) -> int:
    """Return when an open attempt may need a step, by the pace at which its state is read."""
    if job.cancel_requested_at is not None and attempt.phase is not Phase.STOPPING:
        return now
    if attempt.placement == 0:
        return now + period
    if attempt.read_at is None or attempt.written_at is None:
        return now + min(period, READ_SECONDS)
    return max(now + 1, min(attempt.read_at + _read_period(attempt), now + READ_SECONDS))


def claim_again_at(now: int, period: int, *, is_next: bool) -> int:
    """Return when a waiting job tries the claim again, by the pace of its tries."""
    return now + max(period, CLAIM_SECONDS if is_next else QUEUE_SECONDS)
