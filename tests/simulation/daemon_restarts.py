"""Daemons that are told to stop, as for an update, and that are started again."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulation.clock import Agenda
from tests.simulation.replica import Replica


@dataclass
class DaemonRestarts:
    """Now and then one of them gives its leases back, and what it is about is given up."""

    agenda: Agenda
    replicas: list[Replica]
    luck: Random
    per_hour: float

    def begin(self) -> None:
        """Let them come from now on, until there are none `per_hour`."""
        if self.per_hour:
            self.agenda.after(self.luck.expovariate(self.per_hour / 3600), self._stop)

    def _stop(self) -> None:
        if self.per_hour:
            self.luck.choice(self.replicas).end()
            self.begin()
