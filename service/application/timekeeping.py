"""Sets the clock of a process by the database's, so that all who share that tell the same time."""

from __future__ import annotations

import threading

import structlog

from service.domain.database_clock import TOLERANCE_SECONDS, AgreedClock
from service.domain.errors import StewardError
from service.store.unit import Unit, Units

log = structlog.get_logger()

PERIOD_SECONDS = 10


class Timekeeper:
    """Asks the database for the time, and warns where this machine's clock is wrong."""

    def __init__(self, units: Units, clock: AgreedClock) -> None:
        self._units = units
        self._clock = clock
        self.ahead = 0.0
        """By how many seconds this machine's clock is ahead of the database's; 0 where that is
        nothing to mind."""

    def begin(self, stop: threading.Event) -> threading.Thread:
        """Set the clock now, and then again and again until `stop` is set, on a thread that ends
        with the process at the latest."""
        self.look()
        thread = threading.Thread(target=self._go_on, args=[stop], name="timekeeper", daemon=True)
        thread.start()
        return thread

    def look(self) -> None:
        """Set the clock. Without an answer of the database it stays as it was set last."""
        try:
            with self._units.reading() as unit:
                self.set(unit)
        except StewardError as error:
            log.info("clock.not_set", reason=str(error))

    def set(self, unit: Unit) -> None:
        """Go by the database's clock from now on, and say so where this machine's is wrong. An
        answer that was long under way tells nothing."""
        asked = self._clock.monotonic()
        theirs = unit.leases.now()
        if self._clock.monotonic() - asked > TOLERANCE_SECONDS:
            return
        ahead = self._clock.agree(theirs)
        if abs(ahead - self.ahead) > TOLERANCE_SECONDS:
            log.warning("clock.differs", seconds_ahead_of_the_database=round(ahead))
            self.ahead = ahead

    @property
    def warning(self) -> str:
        """What is wrong with this machine's clock; empty where nothing is."""
        seconds = round(self.ahead)
        if not seconds:
            return ""
        way = "ahead of" if seconds > 0 else "behind"
        return (
            f"the clock of this machine is {abs(seconds)} s {way} the database's; the clock"
            " of the database is used"
        )

    def _go_on(self, stop: threading.Event) -> None:
        while not stop.wait(PERIOD_SECONDS):
            try:
                self.look()
            except Exception:  # the thread lives on: nobody else would set the clock again
                log.exception("clock.broke")
