"""Clients that follow jobs: one reader a job, a fair share for each, and always an end."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

import pytest
from structlog.testing import capture_logs

from service.api.jobs.follow import LogFollowers
from service.application.jobs.logs import JobLogService
from service.application.services import Services
from service.cloud.rate_limit import LogReader, ReadPace
from service.domain.catalog.images import Framework
from service.domain.errors import CloudUnavailable, NotAllowed, RateLimited
from service.domain.jobs.job import JobSpec, JobState, Reason
from service.domain.jobs.log import LogLine, build_page
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.domain.jobs.submission import Submission
from service.domain.nodes.request import RequestedNode
from service.store.unit import Units
from tests.fake_jobs import FakeLogs
from tests.hands import NOON

END = b"event: end\ndata: {}\n\n"


class Timeline:
    """Virtual time: it passes only when a test lets it, from one end of a sleep to the next."""

    def __init__(self) -> None:
        self.now = float(NOON)
        self._sleeps: list[tuple[float, int, asyncio.Future[None]]] = []
        self._begun = 0
        self._ended = 0
        self._asleep = asyncio.Event()

    def clock(self) -> int:
        return int(self.now)

    async def sleep(self, seconds: float) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun += 1
        heapq.heappush(self._sleeps, (self.now + seconds, self._begun, ended))
        self._asleep.set()
        await ended

    def wake(self) -> None:
        """Let the time pass to the end of the next sleep."""
        self.now, _, ended = heapq.heappop(self._sleeps)
        self._ended += 1
        if not ended.done():
            ended.set_result(None)

    async def pass_(self, seconds: float, sleepers: int = 1) -> None:
        """Let seconds pass for so many who sleep, do something and sleep again."""
        until = self.now + seconds
        while True:
            while self._begun - self._ended < sleepers:
                self._asleep.clear()
                await asyncio.wait_for(self._asleep.wait(), 10)
            if self._sleeps[0][0] > until:
                self.now = until
                return
            self.wake()


class PacedLogs(FakeLogs):
    """A log that may be read at the pace of the service. A job in `floods` always has more."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline
        self.pace = ReadPace(lambda: timeline.now)
        self.floods: set[str] = set()
        self.times: dict[str, list[float]] = defaultdict(list)
        self._numbers = count()

    def read_page(self, project, job, since, limit):
        for _ in range(1 + limit // 1_000 if job in self.floods else 1):
            self.pace.count_call(project, LogReader.JOBS)
        self.times[job].append(self._timeline.now)
        if job not in self.floods:
            return super().read_page(project, job, since, limit)
        at = int(self._timeline.now * 10**9)
        lines = [LogLine(at, 0, 1, "flood", f"f{next(self._numbers)}") for _ in range(limit)]
        return replace(build_page(since, lines, limit, more=False), more=True)

    def longest_gap(self, job: str) -> float:
        times = self.times[job]
        return max(later - earlier for earlier, later in pairwise(times))


@dataclass
class House:
    """A service, its followers, and the jobs that they may follow."""

    services: Services
    units: Units
    timeline: Timeline = field(default_factory=Timeline)

    def __post_init__(self) -> None:
        self.log = PacedLogs(self.timeline)
        self.service = JobLogService(self.units, self.log, self.timeline.clock)
        self.followers = LogFollowers(self.service, lambda: self.timeline.now, self.timeline.sleep)

    def submit(self) -> str:
        request = RequestedNode(
            accelerator_type="v5litepod-8", zone="us-west4-a", framework=Framework.JAX
        )
        wanted = Submission(JobSpec("lab/jax:7"), node_request=request)
        return self.services.jobs.submit(wanted).shown.job.id

    def end(self, job_id: str, tail: str = "") -> None:
        """The job ends now; its worker reported that its log was refused, and its last output."""
        with self.units() as unit:
            job, now = unit.jobs.get(job_id), self.timeline.clock()
            unit.jobs.save(job.with_end(JobState.FAILED, Reason.PROGRAM_FAILED, "", now))
            (attempt,) = unit.jobs.list_attempts(job_id)
            report = SupervisorReport(
                seq=1,
                attempt=attempt.id,
                state=WorkerState.EXITED,
                log_error="403 denied",
                tail=tail,
                seen_at=now,
            )
            unit.jobs.save_attempt(replace(attempt, reports={"0": report}))

    def follow(self, job_id: str) -> Follower:
        return Follower(self, job_id)


class Follower:
    """One client that follows a job."""

    def __init__(self, house: House, job_id: str) -> None:
        self.events: list[bytes] = []
        begin = house.service.start_cursor(job_id)
        self._stream = house.followers.follow_job(job_id, begin, None)
        self._task = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        async for event in self._stream:
            self.events.append(event)

    async def leave(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._stream.aclose()

    async def ended(self) -> list[str]:
        await asyncio.wait_for(self._task, 10)
        return self.said()

    async def has(self, number: int) -> list[str]:
        """What was said, once so many lines or notes have come."""
        async with asyncio.timeout(10):
            while len(self.said()) < number:  # noqa: ASYNC110 - a thread reads
                await asyncio.sleep(0)
        return self.said()

    def said(self) -> list[str]:
        found = [json.loads(event[6:]) for event in self.events if event.startswith(b"data: ")]
        return [follower.get("text", follower.get("note")) for follower in found]


@pytest.fixture
def house(services, units):
    return House(services, units)


DENIED = NotAllowed("the service account lacks logging.logEntries.list")
TROUBLE = f"no more output can be shown: the log cannot be read: {DENIED}"
REFUSED = "attempt 1, worker 0: the log was not shipped: 403 denied"


def test_a_log_that_may_not_be_read_is_said_once_and_ends_after_the_job_with_its_tails(house):
    job = house.submit()
    house.log.error = DENIED

    async def followed():
        one = house.follow(job)
        assert await one.has(1) == [TROUBLE]
        await house.timeline.pass_(60)
        house.end(job, tail="last\nwords")
        await house.timeline.pass_(27)
        assert one.said() == [TROUBLE]
        house.timeline.wake()
        return await one.ended()

    assert asyncio.run(followed()) == [TROUBLE, "last", "words", REFUSED]


@pytest.mark.parametrize("error", [CloudUnavailable("no answer"), RateLimited("too many")])
def test_a_failure_that_passes_neither_ends_nor_repeats_anything(house, error):
    job = house.submit()
    house.log.write(NOON, "one")

    async def followed():
        one = house.follow(job)
        await one.has(1)
        house.log.error = error
        house.end(job)
        await house.timeline.pass_(90)
        house.log.error = None
        house.log.write(NOON + 1, "two")
        house.timeline.wake()
        return await one.ended()

    assert asyncio.run(followed()) == ["one", "two", REFUSED]


def test_a_log_that_gives_no_answer_for_long_ends_too(house):
    job = house.submit()
    house.log.error = CloudUnavailable("no answer")
    house.end(job)

    async def followed():
        one = house.follow(job)
        await house.timeline.pass_(117)
        assert one.said() == []
        house.timeline.wake()
        return await one.ended()

    said = "no more output can be shown: the log cannot be read: no answer"
    assert asyncio.run(followed()) == [said, REFUSED]


def test_an_unexpected_error_does_not_end_the_reader(house):
    job = house.submit()
    house.log.error = KeyError("a bug")
    house.log.write(NOON, "one")

    async def followed():
        one = house.follow(job)
        with capture_logs() as logged:
            await house.timeline.pass_(3)
        house.log.error = None
        await house.timeline.pass_(3)
        assert {entry["event"] for entry in logged} == {"logs.read_failed", "logs.not_read"}
        found = await one.has(1)
        await one.leave()
        return found

    assert asyncio.run(followed()) == ["one"]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("followed", "most"), [(1, 3), (2, 5), (3, 7.5), (4, 10), (10, 23), (20, 46)]
)
def test_followed_jobs_share_the_reads_so_that_none_waits_long(house, followed, most):
    jobs = [house.submit() for _ in range(followed)]

    async def follow_all():
        everyone = [house.follow(job) for job in jobs]
        page = asyncio.create_task(read_pages())
        await house.timeline.pass_(900, sleepers=followed + 1)
        page.cancel()
        for follower in everyone:
            await follower.leave()

    async def read_pages():
        """The dashboard reads now and then; it takes what is left, or nothing."""
        while True:
            with suppress(RateLimited):
                house.log.pace.count_call("lab", LogReader.JOBS)
            await house.timeline.sleep(30)

    asyncio.run(follow_all())
    assert max(house.log.longest_gap(job) for job in jobs) <= most


@pytest.mark.deep
def test_a_flood_of_lines_slows_no_other_job_down(house):
    flooded, quiet = house.submit(), house.submit()
    house.log.floods.add(flooded)

    async def follow_both():
        everyone = [house.follow(job) for job in (flooded, quiet)]
        await house.timeline.pass_(300, sleepers=2)
        for follower in everyone:
            await follower.leave()

    asyncio.run(follow_both())
    assert house.log.longest_gap(quiet) <= 4.3
    assert house.log.longest_gap(flooded) <= 30


def test_two_clients_share_one_reader_and_one_goes_on_when_the_other_leaves(house):
    job = house.submit()
    house.log.write(NOON, "one")

    async def followed():
        first = house.follow(job)
        await first.has(1)
        await house.timeline.pass_(6)
        second = house.follow(job)
        assert await second.has(1) == ["one"]
        await house.timeline.pass_(6)
        assert house.log.reads == 5
        await first.leave()
        house.log.write(NOON + 1, "two")
        await house.timeline.pass_(3)
        assert await second.has(2) == ["one", "two"]
        assert (house.log.reads, first.said()) == (6, ["one"])
        house.end(job)
        await house.timeline.pass_(27)
        house.timeline.wake()
        return await second.ended()

    assert asyncio.run(followed()) == ["one", "two", REFUSED]
