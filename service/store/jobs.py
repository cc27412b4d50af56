"""Jobs and their attempts: one row each, guarded by its version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    bindparam,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from service.domain.errors import Conflict, NotFound, StaleVersion
from service.domain.jobs.job import (
    Attempt,
    Job,
    JobSpec,
    Phase,
    Reason,
    TaskAction,
)
from service.domain.jobs.report import SupervisorReport
from service.domain.nodes.request import RequestedNode
from service.store.json_columns import dumps, loads
from service.store.tables import job_attempts, jobs

_JOB = [jobs.c[field.name] for field in fields(Job)]
_ATTEMPT = [job_attempts.c[field.name] for field in fields(Attempt)]
_DUE = (
    select(jobs.c.id)
    .where(jobs.c.next_try_at <= bindparam("now"), jobs.c.project == bindparam("project"))
    .order_by(jobs.c.next_try_at, jobs.c.id)
    .limit(bindparam("most"))
)
_BY_ID = select(*_JOB).where(jobs.c.id == bindparam("id"))
_LATEST = (
    select(*_ATTEMPT)
    .where(job_attempts.c.job_id == bindparam("job"))
    .order_by(job_attempts.c.number)
)


# Built once: building a statement of forty columns takes longer than running it.
_SAVE = (
    update(jobs)
    .where(jobs.c.id == bindparam("row_id"), jobs.c.version == bindparam("row_version"))
    .values(
        {
            column.name: bindparam(column.name)
            for column in jobs.columns
            if column.name != "node_request"
        }
    )
)
_SAVE_ATTEMPT = (
    update(job_attempts)
    .where(job_attempts.c.id == bindparam("row_id"))
    .where(job_attempts.c.version == bindparam("row_version"))
    .values({column.name: bindparam(column.name) for column in job_attempts.columns})
)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are listed; None is any. `node_id` finds jobs that ever ran on the node, even if
    they moved to another."""

    state: str | None = None
    owner: str | None = None
    team: str | None = None
    node_id: str | None = None
    project: str | None = None


_RUNS = exists().where(
    job_attempts.c.job_id == jobs.c.id,
    job_attempts.c.node_id == jobs.c.node_id,
    job_attempts.c.released_at.is_(None),
)
_WAITING = (
    select(jobs.c.node_id, func.min(jobs.c.id))
    .where(jobs.c.ended_at.is_(None), jobs.c.node_id != "", ~_RUNS)
    .group_by(jobs.c.node_id)
)
"""The oldest job that waits for each node, and runs on none: a job for which a caller has named the
node, or a job between two attempts on its own node."""


class Jobs:
    """Every job ever submitted, and its attempts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, job: Job, node_request: RequestedNode | None) -> None:
        """Write a new job with the request for its nodes, None if the caller named a node."""
        request = "" if node_request is None else dumps(node_request)
        self._connection.execute(insert(jobs).values(**_job_row(job), node_request=request))

    def save(self, job: Job) -> Job:
        """Write a changed job; returns it with its new version. Raises StaleVersion if it was
        changed since it was read."""
        after = replace(job, version=job.version + 1)
        row = {**_job_row(after), "row_id": job.id, "row_version": job.version}
        self._save_row(_SAVE, row, f"job {job.id}")
        return after

    def get(self, job_id: str) -> Job:
        """The job; raises NotFound."""
        row = self._connection.execute(_BY_ID, {"id": job_id}).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no job {job_id[:80]!r}")
        return _job_from_row(row)

    def node_request(self, job_id: str) -> RequestedNode | None:
        """The request for the nodes of a job; None if the caller named a node."""
        statement = select(jobs.c.node_request).where(jobs.c.id == job_id)
        text = self._connection.execute(statement).scalar_one()
        return loads(text, RequestedNode) if text else None

    def list_page(self, only: JobFilter, before: str, limit: int) -> Sequence[Job]:
        """Jobs with ids below `before` (empty: all), the newest first."""
        statement = select(*_JOB).order_by(jobs.c.id.desc()).limit(limit)
        for name in ("state", "owner", "team", "project"):
            value = getattr(only, name)
            if value is not None:
                statement = statement.where(jobs.c[name] == value)
        if only.node_id is not None:
            ran = select(job_attempts.c.job_id).where(job_attempts.c.node_id == only.node_id)
            statement = statement.where((jobs.c.node_id == only.node_id) | jobs.c.id.in_(ran))
        if before:
            statement = statement.where(jobs.c.id < before)
        return [_job_from_row(row) for row in self._connection.execute(statement).mappings()]

    def list_due(self, project: str, now: int, limit: int) -> Sequence[str]:
        """The ids of jobs with something to do by now, the longest waiting first."""
        wanted = {"now": now, "project": project, "most": limit}
        return self._connection.execute(_DUE, wanted).scalars().all()

    def wake(self, job_id: str, now: int) -> None:
        """Have the controller look at a job at once. The version changes, so that a look in
        progress that found nothing to do cannot put the next look off."""
        self._connection.execute(
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.ended_at.is_(None))
            .values(next_try_at=now, version=jobs.c.version + 1)
        )

    def is_first_in_line(self, job: Job) -> bool:
        """Whether no older job waits for the same node."""
        return self.line_before(job) == ("", 0)

    def line_before(self, job: Job) -> tuple[str, int]:
        """The id of the oldest job that runs on or waits for the same caller's node, and how many
        jobs are older than `job`; an empty id if there is none."""
        older = (
            select(func.min(jobs.c.id), func.count())
            .where(jobs.c.node_id == job.node_id, jobs.c.ended_at.is_(None))
            .where(jobs.c.id < job.id)
            .where(jobs.c.own_node.is_(False))
        )
        first, number = self._connection.execute(older).one()
        return first or "", number

    def wake_next(self, job: Job, now: int) -> None:
        """Have the next job in the line of a caller's node look at once."""
        following = (
            select(func.min(jobs.c.id))
            .where(jobs.c.node_id == job.node_id, jobs.c.ended_at.is_(None))
            .where(jobs.c.own_node.is_(False), jobs.c.id != job.id)
        )
        next_id = self._connection.execute(following).scalar_one_or_none()
        if next_id is not None:
            self.wake(next_id, now)

    def add_attempt(self, attempt: Attempt) -> None:
        """Claim a node for an attempt. Raises Conflict if another attempt holds it."""
        try:
            with self._connection.begin_nested():
                self._connection.execute(insert(job_attempts).values(**_attempt_row(attempt)))
        except IntegrityError:
            raise Conflict(f"another job runs on node {attempt.node_id}") from None

    def save_attempt(self, attempt: Attempt) -> Attempt:
        """Write a changed attempt; returns it with its new version. Raises StaleVersion if it was
        changed since it was read."""
        after = replace(attempt, version=attempt.version + 1)
        row = {**_attempt_row(after), "row_id": attempt.id, "row_version": attempt.version}
        self._save_row(_SAVE_ATTEMPT, row, f"attempt {attempt.id}")
        return after

    def list_attempts(self, job_id: str) -> Sequence[Attempt]:
        """The attempts of a job, first to last."""
        rows = self._connection.execute(_LATEST, {"job": job_id}).mappings()
        return [_attempt_from_row(row) for row in rows]

    def list_attempts_of(self, ids: Iterable[str]) -> Mapping[str, Sequence[Attempt]]:
        """The attempts of several jobs, by job."""
        wanted, found = list(ids), dict[str, list[Attempt]]()
        for first in range(0, len(wanted), 500):
            statement = select(*_ATTEMPT).where(
                job_attempts.c.job_id.in_(wanted[first : first + 500])
            )
            for row in self._connection.execute(statement).mappings():
                found.setdefault(row["job_id"], []).append(_attempt_from_row(row))
        return found

    def find_claim(self, node_id: str) -> Attempt | None:
        """The attempt that holds a node; None if there is none."""
        statement = select(*_ATTEMPT).where(
            job_attempts.c.node_id == node_id, job_attempts.c.released_at.is_(None)
        )
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else _attempt_from_row(row)

    def find_last(self, node_id: str) -> Attempt | None:
        """The latest attempt that claimed a node; None if there is none."""
        statement = select(*_ATTEMPT).where(job_attempts.c.node_id == node_id)
        newest = statement.order_by(job_attempts.c.generation.desc()).limit(1)
        row = self._connection.execute(newest).mappings().one_or_none()
        return None if row is None else _attempt_from_row(row)

    def find_claims(self, project: str) -> Mapping[str, tuple[Job, Attempt]]:
        """The jobs that hold nodes of a project with their attempts, by node."""
        held = select(*_ATTEMPT).where(
            job_attempts.c.project == project, job_attempts.c.released_at.is_(None)
        )
        attempts = list(map(_attempt_from_row, self._connection.execute(held).mappings()))
        found = {}
        for first in range(0, len(attempts), 500):
            wanted = [attempt.job_id for attempt in attempts[first : first + 500]]
            statement = select(*_JOB).where(jobs.c.id.in_(wanted))
            for row in self._connection.execute(statement).mappings():
                found[row["id"]] = _job_from_row(row)
        return {attempt.node_id: (found[attempt.job_id], attempt) for attempt in attempts}

    def find_waiting(self, project: str) -> Mapping[str, str]:
        """The oldest job that waits for each node, by node: for a node that a caller has named, or
        for the next attempt on its own node. A running job does not wait."""
        statement = _WAITING.where(jobs.c.project == project)
        return dict(self._connection.execute(statement).all())

    def find_waiting_for(self, node_id: str, *, besides: str = "") -> str:
        """The id of the oldest job that waits for a node, `besides` one job; empty if there is
        none."""
        statement = _WAITING.where(jobs.c.node_id == node_id, jobs.c.id != besides)
        row = self._connection.execute(statement).first()
        return "" if row is None else row[1]

    def list_between_attempts(self, project: str, failures: int) -> Sequence[Job]:
        """The jobs that wait for their next attempt on the node of the last one, after so many
        failures or more."""
        statement = select(*_JOB).where(
            jobs.c.project == project,
            jobs.c.ended_at.is_(None),
            jobs.c.node_id != "",
            jobs.c.failures >= failures,
            ~_RUNS,
        )
        rows = self._connection.execute(statement.order_by(jobs.c.id)).mappings()
        return [_job_from_row(row) for row in rows]

    def last_generation(self, node_id: str) -> int:
        """The highest generation of a task that a node was given; 0 before the first."""
        newest = select(func.max(job_attempts.c.generation)).where(
            job_attempts.c.node_id == node_id
        )
        return self._connection.execute(newest).scalar_one() or 0

    def _save_row(self, statement: Any, row: Mapping[str, Any], what: str) -> None:
        if self._connection.execute(statement, row).rowcount != 1:
            raise StaleVersion(f"{what} was changed by someone else just now")


def _job_row(job: Job) -> dict[str, Any]:
    row = asdict(job)
    for name in ("labels", "exit_codes", "warnings"):
        row[name] = dumps(row[name])
    return {**row, "spec": dumps(job.spec)}


def _job_from_row(row: RowMapping) -> Job:
    return Job(
        **{
            **row,
            "spec": loads(row["spec"], JobSpec),
            "labels": loads(row["labels"], dict[str, str]),
            "exit_codes": loads(row["exit_codes"], dict[str, int | None]),
            "warnings": loads(row["warnings"], tuple[str, ...]),
            "reason": Reason(row["reason"]),
        }
    )


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    row = {field.name: getattr(attempt, field.name) for field in fields(attempt)}
    for name in ("reports", "evidence", "exit_codes"):
        row[name] = dumps(row[name])
    return row


def _attempt_from_row(row: RowMapping) -> Attempt:
    return Attempt(
        **{
            **row,
            "phase": Phase(row["phase"]),
            "action": TaskAction(row["action"]),
            "reports": loads(row["reports"], dict[str, SupervisorReport]),
            "stop_reason": Reason(row["stop_reason"]),
            "reason": Reason(row["reason"]),
            "evidence": loads(row["evidence"], tuple[str, ...]),
            "exit_codes": loads(row["exit_codes"], dict[str, int | None]),
        }
    )
