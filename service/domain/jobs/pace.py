"""How often a job is looked at. Seconds.

Google allows ten queries of guest attributes a minute for each machine, reading and writing
together (reference/jobs.md J2). The supervisor takes fewer than five, so four are left for us.
"""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.jobs.job import Attempt, Job, Phase
from service.domain.nodes.node import Node, NodeState

READ_SECONDS = 15
"""Between two looks at the reports of an attempt in transition: four a minute."""

READ_RUNNING_SECONDS = 60
"""The same while it runs: one a minute."""

ASSERT_SECONDS = 30
"""Between two looks at whether the metadata still holds the task that no worker has answered."""

CLAIM_SECONDS = 15
"""Between two looks of the job that is next on a node."""

QUEUE_SECONDS = 300
"""Between two looks of a job with others before it: whoever ends wakes the next one."""

FOLLOW_SECONDS = 3.0
"""Between two reads of the log of a job that people follow, while few jobs are followed."""

FOLLOW_READS = 28
"""Calls of entries.list in a minute for all jobs that are followed; the API may make 30, and the
rest is for pages of the dashboard (`service.cloud.rate_limit.ReadPace`)."""

TURN_SECONDS = 60 / FOLLOW_READS
"""Between two reads of the logs of any two jobs that people follow."""

_ROUNDING = 0.001


def pause_between_reads(followed: int, calls: int = 1) -> float:
    """Seconds until a job's log is read again, so that all `followed` jobs of this process have an
    equal share. `calls` is how many calls the read before took: a flood of lines takes several.

    Four followed jobs are each read every 8.6 s, ten every 21.4 s.
    """
    return max(FOLLOW_SECONDS, TURN_SECONDS * followed * calls)


def free_turn(taken: Iterable[float], earliest: float) -> float:
    """The first instant from `earliest` on that is TURN_SECONDS away from all that are taken, on
    any clock in seconds. Reads that come one by one never meet the limit together."""
    turn = earliest
    for other in sorted(taken):
        if other - turn > TURN_SECONDS - _ROUNDING:
            break
        turn = max(turn, other + TURN_SECONDS)
    return turn


def is_read_due(attempt: Attempt, now: int) -> bool:
    """Whether the reports may be read again."""
    return attempt.read_at is None or now - attempt.read_at >= _between(attempt)


def _between(attempt: Attempt) -> int:
    calm = attempt.phase is Phase.RUNNING and attempt.echoed
    return READ_RUNNING_SECONDS if calm else READ_SECONDS


def is_delivery_due(attempt: Attempt, node: Node, now: int) -> bool:
    """Whether the metadata has to be looked at: Google takes changes while a node is READY."""
    if attempt.placement == 0 or attempt.echoed or node.state != NodeState.READY:
        return False
    return attempt.written_at is None or now - attempt.written_at >= ASSERT_SECONDS


def next_look(job: Job, attempt: Attempt, now: int, period: int) -> int:
    """When there may be something to do for an attempt that goes on."""
    if job.cancel_requested_at is not None and attempt.phase is not Phase.STOPPING:
        return now
    if attempt.placement == 0:
        return now + period
    if attempt.read_at is None or attempt.written_at is None:
        return now + min(period, READ_SECONDS)
    return max(now + 1, min(attempt.read_at + _between(attempt), now + READ_SECONDS))


def claim_again_at(now: int, period: int, *, is_next: bool) -> int:
    """When a job that waits for its turn looks again."""
    return now + max(period, CLAIM_SECONDS if is_next else QUEUE_SECONDS)
