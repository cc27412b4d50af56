"""What is in store for a run of the cleanup. The seed decides all of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

from service.domain.idle.policy import Action

THRONG_IDLE = 6
MASS, MASS_IDLE = 8, 6
"""Nodes of a run in which more than half, and more than five, are idle at once."""


@dataclass
class Fortune:
    """The rates, shares and flags of one run."""

    seed: int

    def __post_init__(self) -> None:
        self._draw(Random(f"{self.seed}/fortune"))
        self._draw_more(Random(f"{self.seed}/more fortune"))
        if self.is_throng:
            self._leave_in_peace()
        if self.is_mass:
            self._make_mass()

    def _draw(self, luck: Random) -> None:
        self.rates: Any = SimpleNamespace(
            kill=luck.choice([0, 0, 0.001, 0.004]), pause=0, late=0, oversleeps=0
        )
        self.gaps = luck.choice([0.0, 0.0, 0.03])
        self.late = luck.choice([0.0, 0.0, 0.05])
        self.outages = luck.choice([0, 0, 1, 1, 2])
        self.is_crowd = luck.random() < 0.1
        """Whether more nodes are idle at once than an hour lets go, and daemons die meanwhile."""
        self.most_idle = 6 if self.is_crowd else luck.choice([3, 3, 5])
        if self.is_crowd:
            self.rates.kill = 0.004
        self.cores = luck.choice([1, 1, 4])
        self.is_long = luck.random() < 0.1
        """Whether what is unknown stays so for hours."""
        self.is_throng = luck.random() < 0.03
        """Whether so many nodes live in peace that several may go in one look."""
        if self.is_throng:
            self.rates.kill, self.gaps, self.late, self.outages = 0, 0.0, 0.0, 0
            self.is_crowd, self.most_idle, self.cores = False, THRONG_IDLE, 1
        self.has_reports = luck.random() < 0.7
        self.has_monitoring = luck.random() < 0.8 or not self.has_reports or self.is_throng
        self.is_meddled = luck.random() < 0.15 and not self.is_throng
        """Whether people act all the time, the cloud takes what it can, and daemons die often."""
        if self.is_meddled:
            self.rates.kill = 0.01

    def _draw_more(self, luck: Random) -> None:
        """What came later has luck of its own, so that earlier seeds live much as they did."""
        self.has_beats = luck.random() < 0.2
        self.has_jobs = luck.random() < 0.2
        self.has_ttls = luck.random() < 0.25
        self.has_deleters = luck.random() < 0.2
        """Whether people delete and stop nodes."""
        self.has_clickers = luck.random() < 0.25
        """Whether people use *delete now* links."""
        self.has_budget = luck.random() < 0.08
        self.has_faults = luck.random() < 0.2
        """Whether reads of metrics and of reports fail, are slow, or come back empty."""
        weaker = luck.choice([Action.OBSERVE, Action.NOTIFY, Action.STOP])
        self.ceiling = weaker if luck.random() < 0.12 else Action.DELETE
        """The mode of the daemon."""
        self.is_mass = luck.random() < 0.04 and not self.is_throng

    def _leave_in_peace(self) -> None:
        self.has_beats = self.has_jobs = self.has_ttls = self.has_deleters = False
        self.has_clickers = self.has_budget = self.has_faults = False
        self.ceiling = Action.DELETE

    def _make_mass(self) -> None:
        self._leave_in_peace()
        self.rates.kill, self.gaps, self.late, self.outages = 0, 0.0, 0.0, 0
        self.is_crowd = self.is_meddled = self.is_long = False
        self.most_idle, self.has_monitoring = MASS_IDLE, True

    @property
    def is_clear(self) -> bool:
        """Whether the signals of every node are there all the time."""
        return not (self.outages or self.gaps or self.has_faults)
