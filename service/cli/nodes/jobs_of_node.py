"""The job on a node, and the confirmation before the node is stopped."""

from __future__ import annotations

import typer

from service.cli.terminal.client import Client
from service.cli.terminal.errors import Failure
from service.cli.terminal.render import can_ask


def find_running_job(client: Client, node_id: str) -> str | None:
    """Id of a job that runs on a node. None if no job runs on it."""
    # Imported here: the import takes time that the other commands of nodes need not pay.
    from service.domain.jobs.job import ENDED_STATES, JobState  # noqa: PLC0415

    does_not_run = {*ENDED_STATES, JobState.QUEUED, JobState.PREEMPTED}
    jobs = client.get_all("/v1/jobs", "jobs", {"node_id": node_id}).value["jobs"]
    running = (
        str(job["id"])
        for job in jobs
        if job["node_id"] == node_id and job["state"] not in does_not_run
    )
    return next(running, None)


def check_jobs(client: Client, node_id: str, node: str, *, force: bool, json: bool) -> None:
    """Have the user confirm, at a terminal, that the job on the node may end.

    Raises Failure without a terminal, or when the user says no. With `force` there is no question.
    """
    if force:
        return
    job = find_running_job(client, node_id)
    if job is None:
        return
    question = f"{_describe_job(job, node)}. Go on?"
    if not json and can_ask() and typer.confirm(question, err=True):
        return
    raise make_refusal(job, node)


def make_refusal(job: str, node: str) -> Failure:
    """The failure of a command that would end a job."""
    return Failure(f"{_describe_job(job, node)}; cancel the job, or repeat with --force")


def _describe_job(job: str, node: str) -> str:
    return f"job {job} runs on node {node}, and ends with it"
