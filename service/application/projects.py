"""The projects of this service, and which of them a caller means."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.errors import Rejected


def choose_project(named: str, projects: Sequence[str]) -> str:
    """The project that a caller means: the first one if none is named. Raises Rejected for an
    unknown project, or if there are no projects."""
    if not projects:
        raise Rejected("no project is set; set STEWARD_PROJECTS", field="project")
    return choose_projects(named, projects)[0]


def choose_projects(named: str, projects: Sequence[str]) -> tuple[str, ...]:
    """The projects that a caller means: all of them if none is named. Raises Rejected for an
    unknown project."""
    if named and named not in projects:
        raise Rejected(
            f"{named[:80]!r} is not a project of this service; STEWARD_PROJECTS lists them",
            field="project",
            projects=list(projects),
        )
    return (named,) if named else tuple(projects)
