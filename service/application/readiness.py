"""Whether the service can do its work."""

from __future__ import annotations

from collections.abc import Sequence

from service.application.timekeeping import Timekeeper
from service.store.probe import DatabaseProbe


class ReadinessService:
    """Checks whether requests can be answered now, without a call to the cloud."""

    def __init__(
        self, probe: DatabaseProbe, projects: Sequence[str], timekeeper: Timekeeper | None = None
    ) -> None:
        self._probe = probe
        self._projects = tuple(projects)
        self._timekeeper = timekeeper

    def check_ready(self) -> list[str]:
        """Problems that do not stop the API. Raises StoreUnavailable with the reason if the
        database cannot be read or written."""
        alone = self._probe.check_usable(self._projects)
        said = [] if self._timekeeper is None else [self._timekeeper.warning]
        if alone:
            said.append(
                f"no daemon holds the lease of {', '.join(alone)}: nothing is created, deleted or"
                " metered there; start one with: tpu-steward daemon"
            )
        return [problem for problem in said if problem]
