"""The page of jobs: the submitted jobs, the state of each, and its cost so far."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlencode

from service.application.jobs.cost import JobCost
from service.application.jobs.jobs import JobFilter, JobStatus
from service.application.services import Services
from service.dashboard.kit.banners import list_doubts
from service.dashboard.kit.figures import Moment, format_duration, format_money, to_moment
from service.dashboard.kit.links import FilterLink
from service.dashboard.kit.node_rows import NOT_KNOWN
from service.dashboard.kit.visible_text import escape_invisible
from service.domain.errors import Rejected
from service.domain.jobs.job import ENDED_STATES, JobState

JOBS = 50
"""Jobs on one page."""

_TOKEN = re.compile(r"[0-9a-f-]{1,36}")
_TONES: Mapping[str, str] = {
    JobState.QUEUED: "coming",
    JobState.WAITING_FOR_NODE: "coming",
    JobState.PULLING: "coming",
    JobState.STARTING: "coming",
    JobState.RUNNING: "up",
    JobState.CLASSIFYING: "going",
    JobState.CANCELLING: "going",
    JobState.PREEMPTED: "trouble",
    JobState.SUCCEEDED: "done",
    JobState.FAILED: "trouble",
    JobState.TIMED_OUT: "trouble",
    JobState.CANCELLED: "still",
}
_FILTERS = {"team": "team", "owner": "owner", "node_id": "node", "project": "project"}


@dataclass(frozen=True, slots=True)
class JobsAsked:
    """The jobs that the address asks for, in the parameters of the API; an empty one matches every
    job."""

    state: str = ""
    team: str = ""
    owner: str = ""
    node_id: str = ""
    project: str = ""
    after: str = ""

    @staticmethod
    def from_query(state: str, after: str, **others: str) -> JobsAsked:
        """The jobs of an address. Raises Rejected for an unknown state. An `after` that is no page
        token asks for the first page."""
        state = state.strip().upper()
        if state and state not in JobState.__members__:
            raise Rejected(
                f"{state[:80]!r} is not a state of a job; write one of {', '.join(JobState)}",
                field="state",
            )
        after = after if _TOKEN.fullmatch(after) else ""
        return JobsAsked(state, after=after, **{key: text.strip() for key, text in others.items()})

    @property
    def href(self) -> str:
        """The address of these jobs."""
        said = {name: text for name, text in asdict(self).items() if text}
        return f"/jobs?{urlencode(said)}" if said else "/jobs"

    @property
    def is_narrowed(self) -> bool:
        """Whether the address has a filter."""
        return replace(self, after="") != JobsAsked()

    def to_filter(self) -> JobFilter:
        """The filter as the application takes it."""
        return JobFilter(
            state=self.state or None,
            owner=self.owner or None,
            team=self.team or None,
            node_id=self.node_id or None,
            project=self.project or None,
        )


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job in words. `image` is the last part of `image_name`. `note` says why the job, or its
    last attempt, ended; empty while all is well. `tone` is the sign that goes with the state."""

    id: str
    name: str
    owner: str
    team: str
    image: str
    image_name: str
    node_id: str
    node_name: str
    state: str
    tone: str
    since: Moment
    note: str
    attempts: int
    created: Moment
    took: str
    ended: Moment | None
    cost: str
    estimated: bool


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Everything on the page. `first_use` is True if no job was ever submitted."""

    wanted: JobsAsked
    notices: tuple[str, ...]
    states: tuple[FilterLink, ...]
    filters: tuple[FilterLink, ...]
    rows: tuple[JobRow, ...]
    newest: str
    more: str
    first_use: bool
    as_of: Moment


def build_jobs_page(services: Services, wanted: JobsAsked) -> JobsPage:
    """The page as of now."""
    fleet = services.health.read_fleet()
    found, token = services.jobs.list_page(wanted.to_filter(), JOBS, wanted.after)
    rows = tuple(map(build_job_row, found))
    first = replace(wanted, after="")
    return JobsPage(
        wanted=wanted,
        notices=tuple(list_doubts(fleet)),
        states=tuple(
            FilterLink(
                format_state(state) or "all",
                replace(first, state=state).href,
                state == wanted.state,
            )
            for state in ("", *JobState)
        ),
        filters=tuple(
            FilterLink(f"{title}: {escape_invisible(text)}", replace(first, **{name: ""}).href)
            for name, title in _FILTERS.items()
            if (text := getattr(wanted, name))
        ),
        rows=rows,
        newest=first.href if wanted.after else "",
        more=replace(wanted, after=token).href if token else "",
        first_use=not (rows or wanted.after or wanted.is_narrowed),
        as_of=to_moment(fleet.as_of),
    )


def format_state(state: str) -> str:
    """A state in words: `waiting for node`."""
    return state.lower().replace("_", " ")


def tone_of_job(state: str) -> str:
    """The sign for a state of a job."""
    return _TONES.get(state, "unknown")


def build_job_row(shown: JobStatus) -> JobRow:
    """The row of a job. `took` ends when its cost was counted if the job goes on."""
    job, spec, cost = shown.job, shown.job.spec, shown.cost
    until = cost.as_of if job.ended_at is None else job.ended_at
    if job.state in {JobState.SUCCEEDED, JobState.CANCELLED}:
        note = ""
    elif job.state in ENDED_STATES or job.state == JobState.PREEMPTED:
        note = escape_invisible(job.detail)
    else:
        note = "cancellation requested" if job.cancel_requested_at is not None else ""
    return JobRow(
        id=job.id,
        name=escape_invisible(spec.run_name) or job.id,
        owner=escape_invisible(job.owner),
        team=escape_invisible(job.team),
        image=escape_invisible(shorten_image(spec.image)),
        image_name=escape_invisible(spec.image),
        node_id=job.node_id,
        node_name=escape_invisible(shown.node_name) or job.node_id,
        state=job.state,
        tone=tone_of_job(job.state),
        since=to_moment(job.state_since),
        note=note,
        attempts=job.attempt,
        created=to_moment(job.created_at),
        took=format_duration(until - job.created_at),
        ended=None if job.ended_at is None else to_moment(job.ended_at),
        cost=format_cost(cost),
        estimated=cost.estimated,
    )


def format_cost(cost: JobCost) -> str:
    """The cost of a job so far; `not known` if the price of all its usage is unknown."""
    return NOT_KNOWN if cost.unpriced_seconds and not cost.cost else format_money(cost.cost)


def shorten_image(image: str) -> str:
    """The last part of an image's name with its tag, and the first digits of a digest."""
    name, at, digest = image.rpartition("/")[2].partition("@")
    return f"{name}{at}{digest[:15]}"
