"""A month of the lab from its first to its last second."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from service.cli.demo.past import Past
from service.cli.demo.story import LAST_SECONDS, Story
from service.cli.demo.virtual_clock import VirtualClock
from service.domain.clock import DAY, HOUR, MINUTE
from service.settings import Settings

SEED = 11
DAYS = 30

_QUICK = {"inventory_seconds": 30, "lifecycle_seconds": 30}
UNWATCHED: Mapping[str, int | str] = {
    **_QUICK,
    "metering_seconds": 24 * HOUR,
    "idle_seconds": 24 * HOUR,
    "idle_mode": "observe",
}
"""Periods while Cloud Monitoring cannot be read."""
WATCHED: Mapping[str, int | str] = {**_QUICK, "metering_seconds": 2 * HOUR, "idle_seconds": 900}
LAST: Mapping[str, int | str] = {**_QUICK, "metering_seconds": 600, "idle_seconds": 300}
"""Periods of the last hour, in which idle nodes are close to their end."""
USUAL: Mapping[str, int | str] = {**_QUICK, "idle_seconds": 60}
"""Periods of the last minutes: the daemon that goes on in real time has the same signals."""
USUAL_SECONDS = 10 * MINUTE


class Month:
    """The days before the demo. `past` has the world and the services, `story` the nodes' ids."""

    def __init__(
        self, settings: Settings, clock: VirtualClock, inbox: str, days: int = DAYS
    ) -> None:
        self._settings = settings
        self.past = Past(settings, clock, SEED)
        self.story = Story(self.past, inbox, days * DAY, SEED)

    def live(self, on_step: Callable[[], None] = lambda: None) -> None:
        """Live through all of it."""
        story = self.story
        story.tell()
        for periods, until in (
            (UNWATCHED, story.watched_from),
            (WATCHED, story.end - LAST_SECONDS),
            (LAST, story.end - USUAL_SECONDS),
            (USUAL, story.end),
        ):
            self.past.start_daemon(self._settings.model_copy(update=dict(periods)))
            self.past.live_until(until, on_step)
