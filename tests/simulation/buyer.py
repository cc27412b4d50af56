"""The lab's buyer: reserves capacity by the calendar, and writes it down in time, late or wrongly.

What was bought holds from the beginning; what the service knows of it is another matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from service.application.pricing.reservations import ReservationService
from service.domain.clock import DAY, HOUR
from service.domain.metering.reservation import Reservation
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Violation
from tests.simulation.request_generator import OVERLOOKED

PLACES = (
    ("us-west4-a", "v5e"),
    ("us-west4-a", "v5e"),
    ("us-east5-a", "v6e"),
    ("us-east5-a", "v5e"),
)
"""Where it buys; what the last costs is in no price list."""
TEAMS = ("vision", "speech")
LONG_ENOUGH = 1.2
"""Hours of a run in which something can be written down after a full hour was charged."""


@dataclass
class Buyer:
    """It has luck of its own: a seed in which nothing is bought is as if nothing could be."""

    agenda: Agenda
    service: ReservationService
    luck: Random
    count: int
    hours: float
    bought: list[Reservation] = field(default_factory=list)
    """What was bought, as it should be written down."""
    written: list[Reservation] = field(default_factory=list)
    """Every record of it, also those that were withdrawn."""
    withdrawn: set[str] = field(default_factory=set)
    """Their ids."""

    def __post_init__(self) -> None:
        self.end = self.agenda.now + self.hours * HOUR
        for number in range(self.count):
            self.bought.append(self._deal(number))
        if self.count == 1 and self.hours > LONG_ENOUGH and self._by(0.8):
            self.bought = self._overlooked(self.bought[0])

    @property
    def standing(self) -> list[Reservation]:
        """The records that count."""
        return [purchase for purchase in self.written if purchase.id not in self.withdrawn]

    def capacity(self) -> dict[str, int]:
        """The chips that the cloud sets aside for it, by the keys of the cloud's configuration."""
        chips: dict[str, int] = {}
        for purchase in self.bought:
            key = f"{purchase.zone}/{purchase.generation}/reserved"
            chips[key] = chips.get(key, 0) + purchase.chips
        return chips

    def begin(self) -> None:
        """Have each written down some time while the fleet lives, some of them wrongly at first."""
        for purchase in self.bought:
            write = self._write_wrongly if self._by(0.4) else self._write
            when = self._when(purchase)
            if purchase.name == OVERLOOKED:
                when = self.luck.uniform(self.agenda.now + HOUR, self.end)
            elif self.bought[-1].name == OVERLOOKED:
                when = self.luck.uniform(self.agenda.now, self.agenda.now + HOUR / 6)
            self.agenda.at(when, partial(write, purchase))

    def _deal(self, number: int) -> Reservation:
        zone, generation = self.luck.choice(PLACES)
        if self.bought and self._by(0.5):
            zone, generation = self.bought[0].zone, self.bought[0].generation
        start, days = self._period()
        return Reservation(
            id="",
            name=f"block-{number}",
            project="lab",
            zone=zone,
            generation=generation,
            chips=self.luck.choice([8, 16, 32]),
            start=start,
            end=start + days * DAY,
            team=self.luck.choice(TEAMS),
        )

    def _overlooked(self, first: Reservation) -> list[Reservation]:
        """Two in one place: of the one that began sooner nobody thinks until an hour was charged.
        What ran in any of the two was charged to the other until then, and moves."""
        began = self.agenda.seconds() - self.luck.randint(1, HOUR)
        first = replace(first, start=began, end=began + 7 * DAY)
        began -= self.luck.randint(1, HOUR)
        return [first, replace(first, name=OVERLOOKED, start=began, end=began + 7 * DAY)]

    def _period(self) -> tuple[int, int]:
        """Its first second and its days: they begin before the run, end after it, or neither."""
        now, days = self.agenda.seconds(), self.luck.choice([1, 1, 7, 90])
        within = now + self.luck.randint(0, round(self.hours * HOUR))
        match self.luck.choice(["goes on", "goes on", "ends", "ends", "begins", "begins", "over"]):
            case "goes on":
                return now - self.luck.randint(1, min(days, 7) * DAY // 2), days
            case "ends":
                return within - DAY, 1
            case "begins":
                return within, days
            case _:
                return now - 2 * DAY - self.luck.randint(0, HOUR), 1

    def _when(self, one: Reservation) -> float:
        """When it is first written down: before it begins, soon, or hours later."""
        now = self.agenda.now
        if one.start > now and self._by(0.5):
            return self.luck.uniform(now, one.start)
        return self.luck.uniform(now, self.end if self._by(0.6) else now + 300)

    def _write(self, one: Reservation) -> Reservation:
        made = self.service.record(one)
        self.written.append(made.shown.reservation)
        if self._by(0.3):
            again = self.service.record(one)
            if again.created or again.shown.reservation.id != self.written[-1].id:
                raise Violation(f"{one.name} was written down twice")
        return self.written[-1]

    def _write_wrongly(self, one: Reservation) -> None:
        """Write down something else; some time later that is noticed."""
        hours = self.luck.choice([-5, 1, 3]) * HOUR
        elsewhere = "us-west4-b" if one.generation == "v5e" else "us-east5-b"
        wrong = self._write(
            self.luck.choice(
                [
                    replace(one, chips=2 * one.chips),
                    replace(one, name=f"{one.name}-x"),
                    replace(one, start=one.start + hours, end=one.end + hours),
                    replace(one, zone=elsewhere),
                ]
            )
        )
        self.agenda.at(self._later(), lambda: self._withdraw(wrong, one))

    def _withdraw(self, wrong: Reservation, one: Reservation) -> None:
        """Say that it is wrong, and write down what is right, at once, later or never."""
        self.service.withdraw(wrong.id, "a slip of the pen")
        self.withdrawn.add(wrong.id)
        if self._by(0.3):
            self.service.withdraw(wrong.id, "once more")
        if self._by(0.8):
            when = self.agenda.now if self._by(0.3) else self._later()
            self.agenda.at(when, lambda: self._write(one))

    def _later(self) -> float:
        return self.luck.uniform(self.agenda.now, self.end)

    def _by(self, chance: float) -> bool:
        return self.luck.random() < chance
