"""The database's bad days: it is out of reach for minutes, and answers to COMMIT get lost.

Nobody dies of that, which is what makes it worse than a kill: a daemon goes on with all that it has
in memory, and has to find out from the database what became of what it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from service.domain.errors import StoreUnavailable
from tests.simulation.clock import Agenda

LONGEST_SECONDS = 600


@dataclass
class DatabaseOutages:
    """What befalls the database for all who use it; `calm` when nothing does any more."""

    agenda: Agenda
    luck: Random
    failing: float
    """The share of the commits that do not come about, and of those whose answer is lost."""
    per_hour: float
    calm: bool = False
    _until: float = field(default=0.0, init=False)

    def begin(self) -> None:
        if self.per_hour:
            self.agenda.after(self._pause(), self._break_down)

    def reach(self) -> None:
        """Begin a transaction; raises StoreUnavailable while the database is out."""
        if not self.calm and self.agenda.now < self._until:
            raise StoreUnavailable("the database does not answer")

    def commit(self) -> None:
        """End one: raises StoreUnavailable where nothing is kept of it."""
        self.reach()
        if self._happens():
            raise StoreUnavailable("the database was gone before the commit")

    def committed(self) -> None:
        """Hear of it: raises StoreUnavailable where all is kept, and the answer lost."""
        if self._happens():
            raise StoreUnavailable("the answer to the commit was lost")

    def _happens(self) -> bool:
        happens = not self.calm and self.failing > 0 and self.luck.random() < self.failing
        if happens:
            self.agenda.fog.cover(self.agenda.now, self.agenda.now)
        return happens

    def _break_down(self) -> None:
        self._until = self.agenda.now + self.luck.uniform(1, LONGEST_SECONDS)
        self.agenda.fog.cover(self.agenda.now, self._until)
        self.agenda.after(self._pause(), self._break_down)

    def _pause(self) -> float:
        return self.luck.expovariate(self.per_hour / 3600)
