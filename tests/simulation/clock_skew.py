"""Clocks of the daemons' machines that are set wrong: each replica has one of its own."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from service.domain.clock import HOUR
from tests.simulation.clock import Agenda
from tests.simulation.replica import Replica

AHEAD = (0, 0, 1, -1, 7, -7, 20, -20, HOUR, -HOUR)


@dataclass
class ClockSkew:
    """Now and then a machine's clock is set, and never to what the cloud's says."""

    agenda: Agenda
    replicas: list[Replica]
    luck: Random
    per_hour: float

    def begin(self) -> None:
        if self.per_hour:
            self._turn()

    def clear_up(self) -> None:
        """From now on all are right."""
        self.per_hour = 0
        for replica in self.replicas:
            replica.skew = 0.0

    def _turn(self) -> None:
        if self.per_hour:
            self.luck.choice(self.replicas).skew = self.luck.choice(AHEAD)
            self.agenda.after(self.luck.expovariate(self.per_hour / 3600), self._turn)
