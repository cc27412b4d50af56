"""Nodes of ours without a record, as after a restored database: somebody adopts every other one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from service.application.orphans import Adopter, OrphanService
from service.domain.errors import StewardError
from service.domain.nodes.node import Node
from service.domain.orphans.orphan import OrphanKind
from service.emulator.errors import ApiError
from service.emulator.world.bill import Transition
from tests.simulation.clock import Agenda
from tests.simulation.cloud_faults import PARENT, ZONES, CloudFaults
from tests.simulation.invariants import Invariants
from tests.simulation.replica import INSTALL

LOOK_AGAIN_SECONDS = 60


@dataclass
class Orphans:
    """They come to be at some time, and are adopted some time after they were noticed."""

    agenda: Agenda
    weather: CloudFaults
    truth: Invariants
    orphans: OrphanService
    luck: Random
    adopted: list[Node] = field(default_factory=list)
    _wanted_gone: set[str] = field(default_factory=set)

    def begin(self) -> None:
        self.weather.world.observers.append(self._see)
        fortune = self.weather.fortune
        for number in range(fortune.castaways):
            when = self.luck.uniform(0, fortune.hours * 1800)
            self.agenda.after(when, partial(self._wash_up, number))
        if fortune.castaways:
            self.agenda.after(self.luck.uniform(60, 900), self._find)

    def let_go(self) -> None:
        """Have those that nobody adopted deleted."""
        for orphan in self.orphans.list_all(kind=OrphanKind.OURS):
            if orphan.orphan.shown.labels.get("castaway"):
                self._wanted_gone.add(orphan.orphan.shown.path)
                self.orphans.delete(orphan.orphan.id, confirm=orphan.orphan.shown.path)

    def _wash_up(self, number: int) -> None:
        node = {
            "accelerator_type": self.luck.choice(["v5litepod-4", "v5litepod-8"]),
            "runtime_version": "v2-alpha-tpuv5-lite",
            "labels": {
                "steward-id": f"lost-{number}",
                "steward-install": INSTALL,
                "castaway": ("welcome", "shunned")[number % 2],
            },
        }
        parent = PARENT.format(zone=self.luck.choice(ZONES))
        with suppress(ApiError):  # a storm is on
            self.weather.ask("CreateNode", parent=parent, node_id=f"castaway-{number}", node=node)

    def _see(self, transition: Transition) -> None:
        """None is deleted by itself: in the books, running work that a restored database has
        forgotten looks just like this."""
        name = transition.name
        is_one = name.rpartition("/")[2].startswith("castaway")
        if transition.after != "DELETING" or not is_one or transition.uid in self.truth.since:
            return
        if name not in self._wanted_gone | self.weather.meddled:
            self.truth.violations.append(f"{name} was deleted, and nobody wanted that")

    def _find(self) -> None:
        """Adopt what is there and can be; look again for the others, until the weather is fair:
        from then on all is to go."""
        if self.weather.fair:
            return
        for orphan in self.orphans.list_all(kind=OrphanKind.OURS):
            shown = orphan.orphan.shown
            if shown.labels.get("castaway") != "welcome":
                continue
            with suppress(StewardError):  # not READY, or gone: later, or never
                node = self.orphans.adopt(orphan.orphan.id, Adopter())
                self.truth.adopted(int(shown.uid), node.id, self.agenda.seconds())
                self.adopted.append(node)
        self.agenda.after(self.luck.uniform(1, 2) * LOOK_AGAIN_SECONDS, self._find)
