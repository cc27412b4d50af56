"""Actions of the cleanup: apply a plan, pause it, resume it, and close a breaker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from service.application.cleanup.cleanup import CleanupStatus
from service.application.services import Services
from service.dashboard.actions.form import Form
from service.dashboard.actions.nodes import UNKNOWN_PRICE, ActionLink
from service.dashboard.actions.page import (
    ActionPage,
    ActionResult,
    ActionTable,
    Choice,
    Confirmation,
    Input,
)
from service.dashboard.kit.figures import Fact, format_count, format_money, to_moment
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.errors import Rejected

PAGE = "/cleanup"
CALLER = "caller"
MAX_REASON = 200
_BACK = (PAGE, "Cleanup")


def list_cleanup_actions(statuses: Sequence[CleanupStatus]) -> tuple[ActionLink, ...]:
    """The actions that are possible on the cleanup of these projects now."""
    choices = (
        (bool(statuses), "apply", "Plan and apply"),
        (any(not each.cleanup.is_paused for each in statuses), "pause", "Pause cleanup"),
        (any(each.cleanup.is_paused for each in statuses), "resume", "Resume cleanup"),
        (any(each.cleanup.breaker.is_open for each in statuses), "breaker", "Close the breaker"),
    )
    return tuple(
        ActionLink(f"{PAGE}/{name}", text) for is_possible, name, text in choices if is_possible
    )


def build_apply_page(services: Services, form: Form) -> ActionPage:
    """The page that makes a plan, and then the page that shows the plan and requests the number of
    its nodes. Raises Rejected for no project, NotFound for an unknown one."""
    if "project" not in form:
        return ActionPage(
            heading="Plan the cleanup",
            button="Make a plan",
            back=_BACK,
            sentences=(
                "A plan lists the idle nodes that would be stopped or deleted now, and the reason.",
                "No node is changed before you have seen the plan and applied it.",
            ),
            inputs=(_project_input(_list_projects(services)),),
        )
    plan = services.cleanup.make_plan(form.get_text("project"), CALLER)
    number = len(plan.entries)
    facts = [
        Fact("Project", plan.project),
        Fact("Nodes", f"{number:,}"),
        Fact("Saves per hour", f"{format_money(plan.saves_hourly)} an hour"),
    ]
    if plan.held_by:
        facts.append(Fact("Holds the daemon", ", ".join(plan.held_by).replace("_", " ")))
    ordered = sorted(plan.entries, key=lambda entry: (-(entry.hourly or 0), entry.node_id))
    rows = tuple(
        (
            escape_invisible(entry.name),
            entry.action,
            escape_invisible(entry.reason),
            UNKNOWN_PRICE if entry.hourly is None else format_money(entry.hourly),
        )
        for entry in ordered
    )
    heads = ("Node", "Action", "Reason", "Per hour")
    table = ActionTable("Nodes of the plan", heads, rows, frozenset({3}))
    return ActionPage(
        heading="Apply the plan?",
        button=f"Apply to {format_count(number, 'node')}",
        back=(f"{PAGE}/apply", "Another plan"),
        sentences=(
            "Deleted nodes and all data on their disks will be lost.",
            "The plan is applied as a whole at once.",
            "Safety limits (rails), grace and mode do not hold it back.",
        ),
        facts=tuple(facts),
        tables=(table,) if rows else (),
        hidden=(("project", plan.project), ("plan_id", plan.id)),
        confirmation=Confirmation("the number of nodes", str(number)),
        is_alarm=True,
        refusal="" if number else "No node would be stopped or deleted now.",
    )


def apply_plan(services: Services, form: Form) -> ActionResult:
    """Apply the plan that was shown, all of it."""
    plan = services.cleanup.apply_plan(form.get_text("plan_id"), CALLER)
    done = format_count(len(plan.entries), "node is", "nodes are")
    return ActionResult(PAGE, f"The plan is applied: {done} stopped or deleted.")


def build_pause_page(services: Services, _form: Form) -> ActionPage:
    """The form that pauses the cleanup."""
    return ActionPage(
        heading="Pause the cleanup",
        button="Pause the cleanup",
        back=_BACK,
        sentences=(
            "Until you resume it, no node is ended for idleness or its time to live.",
            "Idle nodes continue to cost money.",
        ),
        inputs=(_project_input(_list_projects(services), is_every=True), _reason_input()),
    )


def pause_cleanup(services: Services, form: Form) -> ActionResult:
    """Pause the cleanup of one project, or of every project."""
    services.cleanup.pause(form.get_text("project"), CALLER, _read_reason(form))
    return ActionResult(PAGE, f"The cleanup of {_name_project(form)} is paused.")


def build_resume_page(services: Services, _form: Form) -> ActionPage:
    """The form that ends a pause, with the reason of the pause."""
    facts = []
    for each in services.cleanup.list_statuses():
        row = each.cleanup
        if row.paused_at is not None:
            since = to_moment(row.paused_at).full
            pause = f"since {since}: {escape_invisible(row.pause_reason)}"
            facts.append(Fact(f"Project {row.project}", f"paused {pause}"))
    return ActionPage(
        heading="Resume the cleanup?",
        button="Resume the cleanup",
        back=_BACK,
        sentences=("Idle nodes are stopped or deleted again, as their policies say.",),
        facts=tuple(facts),
        inputs=(_project_input(_list_projects(services), is_every=True),),
        refusal="" if facts else "The cleanup is not paused.",
    )


def resume_cleanup(services: Services, form: Form) -> ActionResult:
    """End the pause of one project, or of every project."""
    services.cleanup.resume(form.get_text("project"))
    return ActionResult(PAGE, f"The cleanup of {_name_project(form)} is resumed.")


def build_breaker_page(services: Services, _form: Form) -> ActionPage:
    """The form that closes the breaker of a project, with the reason why it opened."""
    rows = [each.cleanup for each in services.cleanup.list_statuses()]
    opened = {row.project: row.breaker for row in rows if row.breaker.is_open}
    return ActionPage(
        heading="Close the breaker?",
        button="Close the breaker",
        back=_BACK,
        sentences=(
            "The breaker opens when many nodes become UNKNOWN or idle at once.",
            "The monitoring may have failed, so check first that the nodes are really idle.",
            "Once the breaker is closed, idle nodes are ended again.",
        ),
        facts=tuple(
            Fact(f"Project {project}", f"open: {escape_invisible(breaker.reason)}")
            for project, breaker in opened.items()
        ),
        inputs=(_project_input(opened), _reason_input()),
        refusal="" if opened else "No breaker is open.",
    )


def close_breaker(services: Services, form: Form) -> ActionResult:
    """Close the breaker of a project."""
    services.cleanup.close_breaker(form.get_text("project"), CALLER, _read_reason(form))
    return ActionResult(PAGE, f"The breaker of {_name_project(form)} is closed.")


def _list_projects(services: Services) -> Sequence[str]:
    return [each.cleanup.project for each in services.cleanup.list_statuses()]


def _project_input(projects: Iterable[str], *, is_every: bool = False) -> Input:
    choices = [Choice(name, name) for name in projects]
    if is_every:
        choices.insert(0, Choice("", "every project"))
    return Input("project", "Project", choices[0].value if choices else "", choices=tuple(choices))


def _reason_input() -> Input:
    return Input(
        "reason", "Reason", hint="Everyone sees it.", is_required=True, max_length=MAX_REASON
    )


def _read_reason(form: Form) -> str:
    """The reason of a form, as the API takes it. Raises Rejected for a long one."""
    reason = " ".join(form.get_text("reason").split())
    if len(reason) > MAX_REASON or not reason.isprintable():
        said = f"reason: should be one line of at most {MAX_REASON} characters"
        raise Rejected(said, field="reason")
    return reason


def _name_project(form: Form) -> str:
    project = form.get_text("project")
    return f"project {project}" if project else "every project"
