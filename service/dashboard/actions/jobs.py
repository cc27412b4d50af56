"""The cancellation of a job."""

from __future__ import annotations

from service.application.services import Services
from service.dashboard.actions.form import Form
from service.dashboard.actions.nodes import ActionLink
from service.dashboard.actions.page import ActionPage, ActionResult
from service.dashboard.kit.figures import Fact, format_money
from service.dashboard.kit.links import job_address, node_address
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.jobs.job import Job


def list_job_actions(job: Job) -> tuple[ActionLink, ...]:
    """The actions that are possible on a job now."""
    if _find_end(job):
        return ()
    return (ActionLink(f"{job_address(job.id)}/cancel", "Cancel the job", is_alarm=True),)


def build_cancel_page(services: Services, _form: Form, job_id: str) -> ActionPage:
    """The page that says what a cancellation means. Raises NotFound."""
    shown = services.jobs.get(job_id)
    job = shown.job
    name = escape_invisible(job.spec.run_name) or job.id
    facts = [
        Fact("Job", f"{name} ({job.id})", href=job_address(job.id)),
        Fact("State", job.state),
        Fact("Cost so far", format_money(shown.cost.cost)),
        Fact("Owner", escape_invisible(job.owner) or "nobody"),
        Fact("Team", escape_invisible(job.team) or "none"),
    ]
    if job.node_id:
        facts.append(
            Fact(
                "Node",
                escape_invisible(shown.node_name) or job.node_id,
                href=node_address(job.node_id),
            )
        )
    fate = "The node of the job is deleted with it." if job.own_node else "Its node stays."
    return ActionPage(
        heading=f"Cancel job {name}?",
        button="Cancel the job",
        back=(job_address(job.id), name),
        sentences=(
            "What ran after the last checkpoint is lost.",
            "The containers get SIGTERM, the grace period, then SIGKILL.",
            fate,
        ),
        facts=tuple(facts),
        is_alarm=True,
        refusal=_find_end(job),
    )


def cancel_job(services: Services, _form: Form, job_id: str) -> ActionResult:
    """Request the end of a job."""
    job = services.jobs.cancel(job_id).job
    name = escape_invisible(job.spec.run_name) or job.id
    return ActionResult(job_address(job.id), f"The cancellation of job {name} is requested.")


def _find_end(job: Job) -> str:
    """Why the job cannot be cancelled any more. Empty if it can."""
    if job.ended:
        return f"This job has ended: it is {job.state}."
    if job.cancel_requested_at is not None:
        return "The cancellation of this job is already requested."
    return ""
