"""Sets the clock of a process by the database's clock, so that all processes agree on the time."""

from __future__ import annotations

import threading

import structlog

from service.domain.database_clock import TOLERANCE_SECONDS, AgreedClock
from service.domain.errors import StewardError
from service.store.unit import Unit, Units

log = structlog.get_logger()

PERIOD_SECONDS = 10


class Timekeeper:
    """Reads the time from the database, and warns if this machine's clock is wrong."""

    def __init__(self, units: Units, clock: AgreedClock) -> None:
        self._units = units
        self._clock = clock
        self.ahead = 0.0
        """By how many seconds this machine's clock is ahead of the database's; 0 where that is
        nothing to mind."""

    def start(self, stop: threading.Event) -> threading.Thread:
        """Set the clock at once, and again every 10 seconds until `stop` is set, on a thread that
        ends with the process."""
        self.set_clock()
        thread = threading.Thread(
            target=self._run_loop, args=[stop], name="timekeeper", daemon=True
        )
        thread.start()
        return thread

    def set_clock(self) -> None:
        """Set the clock. Without an answer of the database, the last setting stays."""
        try:
            with self._units.reading() as unit:
                self.set_clock_in(unit)
        except StewardError as error:
            log.info("clock.not_set", reason=str(error))

    def set_clock_in(self, unit: Unit) -> None:
        """Use the database's clock from now on, and warn if this machine's clock is wrong. An
        answer that took too long is ignored."""
        asked = self._clock.monotonic()
        theirs = unit.leases.read_clock()
        if self._clock.monotonic() - asked > TOLERANCE_SECONDS:
            return
        ahead = self._clock.agree_with(theirs)
        if abs(ahead - self.ahead) > TOLERANCE_SECONDS:
            log.warning("clock.differs", seconds_ahead_of_the_database=round(ahead))
            self.ahead = ahead

    @property
    def warning(self) -> str:
        """What is wrong with this machine's clock; empty if nothing is."""
        seconds = round(self.ahead)
        if not seconds:
            return ""
        way = "ahead of" if seconds > 0 else "behind"
        return (
            f"the clock of this machine is {abs(seconds)} s {way} the database's; the clock"
            " of the database is used"
        )

    def _run_loop(self, stop: threading.Event) -> None:
        while not stop.wait(PERIOD_SECONDS):
            try:
                self.set_clock()
            except Exception:  # the thread lives on: no other thread sets the clock
                log.exception("clock.broke")
