"""`jobs`: submit containers, follow their output, show their cost, cancel them."""

from __future__ import annotations

import json as json_lines
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from service.cli.jobs import submit as joborder
from service.cli.nodes.create import Account, Key, MaxWait, Owner, Project, Queued, Slices, Team
from service.cli.terminal import options
from service.cli.terminal.client import Client, open_client, quote_segment
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import NOTHING, format_since, format_span, format_usd
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import (
    clean_text,
    print_errors,
    print_facts,
    print_json,
    print_lines,
    print_table,
    style_state,
)
from service.domain.clock import wall_clock
from service.domain.jobs.job import ENDED_STATES

app = typer.Typer(help="Run containers on TPUs.", no_args_is_help=True, rich_markup_mode=None)

LOOK_SECONDS = 2.0
EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/jsonl"

JobId = Annotated[str, typer.Argument(metavar="JOB", callback=options.require_name, help="Its id.")]
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND", help="The arguments of the container, behind --."),
]
View = Mapping[str, Any]


@app.command()
def submit(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    command: Command = None,
    image: joborder.Image = "",
    entrypoint: joborder.Entrypoint = None,
    node: joborder.Node = None,
    accelerator_type: joborder.AcceleratorType = None,
    zone: options.Zones = None,
    region: options.Regions = None,
    framework: options.Framework = None,
    launcher: joborder.Launcher = None,
    provisioning_model: options.Model = None,
    spot: options.Spot = False,
    preemptible: options.Preemptible = False,
    flex_start: options.FlexStart = False,
    queued: Queued = False,
    slices: Slices = None,
    service_account: Account = None,
    max_wait: MaxWait = None,
    workers: joborder.Workers = None,
    env: joborder.Env = None,
    data: joborder.Data = None,
    checkpoint_dir: joborder.CheckpointDir = None,
    shm_size: joborder.ShmSize = None,
    device_access: joborder.DeviceAccess = None,
    max_duration: joborder.MaxDuration = None,
    stop_grace: joborder.StopGrace = None,
    retries: joborder.Retries = None,
    retry_exit_code: joborder.RetryExitCodes = None,
    preemption_retries: joborder.PreemptionRetries = None,
    run_name: joborder.RunName = None,
    global_batch: joborder.GlobalBatch = None,
    examples: joborder.Examples = None,
    steps_per_epoch: joborder.StepsPerEpoch = None,
    log_budget: joborder.LogBudget = None,
    project: Project = None,
    team: Team = None,
    owner: Owner = None,
    label: options.Labels = None,
    dry_run: joborder.DryRun = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return at once instead of following the output.")
    ] = False,
    key: Key = None,
    json: options.Json = False,
) -> None:
    """Run a container on every worker of a TPU."""
    body = joborder.body_of(locals())
    headers = {} if key is None else {"Idempotency-Key": key}
    with open_client() as client:
        answer = client.send_request("POST", "/v1/jobs", body=body, headers=headers)
        job, follow = answer.value, not (detach or dry_run)
        if json and not follow:
            print_json(answer)
            return
        for warning in job["warnings"]:
            print_errors(f"warning: {warning}")
        if job["dry_run"]:
            print_lines("The job would be accepted; nothing was recorded.")
            return
        print_errors(f"Job {job['id']} on node {job['node_name']}")
        if not follow:
            return
        job = _follow_to_end(client, job)
        if json:
            print_json(client.get(f"/v1/jobs/{quote_segment(job['id'])}"))
        print_errors(f"{job['state']}: {job['detail']}", f"Cost: {_format_cost(job)}")
        if job["state"] != "SUCCEEDED":
            raise Failure(f"job {job['id']} is {job['state']} ({job['reason'] or 'no reason yet'})")


@app.command("list", cls=ListCommand)
def list_jobs(
    job_state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="Only this state.")
    ] = None,
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Only this team.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Only this owner.")] = None,
    json: options.Json = False,
) -> None:
    """List the jobs, newest first."""
    only = {"state": job_state.upper() if job_state else None, "team": team, "owner": owner}
    with open_client() as client:
        answer = client.get_all("/v1/jobs", "jobs", only)
    if json:
        print_json(answer)
    elif not answer.value["jobs"]:
        print_lines("No jobs. Submit one with: tpu-steward jobs submit --image IMAGE ...")
    else:
        now = wall_clock()
        print_table(
            ["JOB", "NAME", "STATE", ">AGE", ">COST", "TEAM", "OWNER", "NODE", ">ATTEMPTS"],
            [
                (
                    job["id"],
                    job["run_name"],
                    style_state(job["state"]),
                    format_since(job["created_at"], now),
                    format_usd(job["cost"]),
                    job["team"] or NOTHING,
                    job["owner"] or NOTHING,
                    job["node_name"],
                    str(job["attempts"]),
                )
                for job in answer.value["jobs"]
            ],
            spare=("ATTEMPTS", "OWNER", "NODE", "TEAM", "NAME", "COST"),
        )


@app.command()
def show(job: JobId, json: options.Json = False) -> None:
    """Show a job: its state, exit codes and cost."""
    with open_client() as client:
        answer = client.get(f"/v1/jobs/{quote_segment(job)}")
    if json:
        print_json(answer)
        return
    found = answer.value
    print_facts(
        [
            ("Job", found["id"]),
            ("State", style_state(found["state"])),
            ("Reason", found["reason"]),
            ("Detail", found["detail"]),
            ("Exit codes", _format_codes(found["exit_codes"]) if found["exit_codes"] else ""),
            ("Image", found["image"]),
            ("Command", " ".join([*found["command"], *found["args"]])),
            ("Node", found["node_name"]),
            ("Attempts", str(found["attempts"])),
            ("Waited", f"{format_span(found['waited_seconds'])}, not charged"),
            ("Cost", _format_cost(found)),
            (
                "Unpriced",
                format_span(found["unpriced_seconds"]) if found["unpriced_seconds"] else "",
            ),
            ("Logs", f"about {format_usd(found['logs_cost_estimate'])} extra for Cloud Logging"),
            ("Owner", found["owner"]),
            ("Team", found["team"]),
        ]
    )
    for warning in found["warnings"]:
        print_errors(f"warning: {warning}")


@app.command()
def attempts(job: JobId, json: options.Json = False) -> None:
    """Show the attempts of a job, and their cost by phase."""
    with open_client() as client:
        answer = client.get(f"/v1/jobs/{quote_segment(job)}/attempts")
    if json:
        print_json(answer)
        return
    for attempt in answer.value["attempts"]:
        zone, lost = attempt["zone"] or "no zone yet", attempt["work_lost_seconds"]
        failed_scripts = (
            f"worker {worker['worker']}: exit code {worker['startup_exit_code']}"
            for worker in attempt["workers"]
            if worker["startup_exit_code"]
        )
        print_lines(f"Attempt {attempt['number']} on {attempt['node_name']} ({zone})")
        print_facts(
            [
                ("Phase", attempt["phase"]),
                ("Reason", attempt["reason"]),
                ("Detail", attempt["detail"]),
                ("Evidence", "; ".join(attempt["evidence"])),
                ("Exit codes", _format_codes(attempt["exit_codes"])),
                ("Startup script", ", ".join(failed_scripts)),
                (
                    "Work lost",
                    "not known (the program reported no steps)"
                    if lost is None
                    else format_span(lost),
                ),
                ("Cost", format_usd(attempt["cost"])),
            ]
        )
        if attempt["phases"]:
            rows = [
                (p["phase"], format_span(p["seconds"]), format_usd(p["cost"]))
                for p in attempt["phases"]
            ]
            print_lines("")
            print_table(["SPENT ON", ">TIME", ">COST"], rows)
        print_lines("")


@app.command()
def logs(
    job: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stay until the job has ended.")
    ] = False,
    worker: Annotated[int | None, typer.Option(min=0, help="Of this worker alone.")] = None,
    json: options.Json = False,
) -> None:
    """Print what the containers of a job printed."""
    with open_client() as client:
        for line in _read_log(client, job, follow=follow, worker=worker):
            _print_line(line, json=json)


@app.command()
def cancel(job: JobId, json: options.Json = False) -> None:
    """Cancel a job: SIGTERM, its grace, SIGKILL."""
    with open_client() as client:
        answer = client.send_request("POST", f"/v1/jobs/{quote_segment(job)}:cancel")
    if json:
        print_json(answer)
    else:
        found = answer.value
        what = "has ended before" if found["ended_at"] else "is asked to end"
        print_lines(f"Job {found['id']} is {found['state']}: it {what}.")


def _read_log(
    client: Client, job: str, *, follow: bool, worker: int | None
) -> Iterator[dict[str, Any]]:
    """Lines of the log, each a JSON object. With `follow` they come from a stream of server-sent
    events; keepalives and empty events are dropped."""
    kind = EVENT_STREAM if follow else JSON_LINES
    params = {"follow": "true" if follow else None, "worker": worker}
    begun = b""
    pieces = client.read_stream(
        f"/v1/jobs/{quote_segment(job)}/logs", params, media_type=kind, beats=follow
    )
    for piece in pieces:
        *whole, begun = (begun + piece).split(b"\n")
        for line in whole:
            text = line.removeprefix(b"data: ")
            if text.startswith(b"{") and text != b"{}":
                yield json_lines.loads(text)


def _print_line(line: Mapping[str, Any], *, json: bool) -> None:
    if json:
        typer.echo(json_lines.dumps(line, ensure_ascii=False))
    elif "note" in line:
        print_errors(str(line["note"]))
    else:
        typer.echo(f"{line['worker']}: {clean_text(str(line['text']))}")
    sys.stdout.flush()


def _follow_to_end(client: Client, job: View) -> View:
    """Print each state until the job runs, then its output. Returns the job at its end."""
    before = ""
    path = f"/v1/jobs/{quote_segment(job['id'])}"
    while job["state"] not in {"RUNNING", "CLASSIFYING", "CANCELLING", *ENDED_STATES}:
        if job["state"] != before:
            before = job["state"]
            print_errors(f"{before}{': ' + job['detail'] if job['detail'] else ''}")
        time.sleep(LOOK_SECONDS)
        job = client.get(path).value
    for line in _read_log(client, job["id"], follow=True, worker=None):
        _print_line(line, json=False)
    return client.get(path).value  # type: ignore[no-any-return]


def _format_cost(job: View) -> str:
    """Cost of a job, marked "so far" until its node is deleted, even after the end of the job."""
    return format_usd(job["cost"]) + (" so far" if job["cost_estimated"] else "")


def _format_codes(codes: Mapping[str, int | None]) -> str:
    """Exit codes by worker. A code that all workers share is shown once."""
    different = set(codes.values())
    if len(different) == 1:
        (only,) = different
        return f"{'none' if only is None else only} (every worker)"
    return ", ".join(f"{worker}: {'none' if c is None else c}" for worker, c in codes.items())
