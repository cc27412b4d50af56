"""Zones in trouble: what is asked of them is lost and done later, or refused, minutes on end.

Each alone is in the storms. Together, and for the same node, they are what hurts: a create without
an answer, the next one refused, and then the first takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from service.cloud.ports import Order
from service.domain.errors import CloudError, CloudUnavailable
from service.emulator.surfaces import control
from service.emulator.world.world import World
from tests.simulation.clock import Agenda

LOST, REFUSED = 0.45, 0.4
"""What becomes of the creates that are sent into one; the others come through."""
SOONEST, LATEST = 15.0, 110.0
"""Seconds until a lost create takes effect. With the minute for which an intent may be sent, that
is within the horizon after which the service takes absence for an answer."""
REFUSALS: tuple[dict[str, Any], ...] = (
    {"action": "stockout"},
    {"action": "stockout"},
    {"action": "fail_operation", "code": "INTERNAL"},
    {"action": "quota"},
    {"action": "error", "code": "PERMISSION_DENIED"},
)


@dataclass
class ZoneOutages:
    """Where there is trouble now, and what it does to a create. It has luck of its own, so that a
    seed without squalls is as it would be if there were none in the world."""

    agenda: Agenda
    world: World
    luck: Random
    zones: tuple[str, ...]
    per_hour: float
    named_a_quota: bool = False
    """Whether one has named a limit that is none: it is believed for hours."""
    _until: dict[str, float] = field(default_factory=dict)
    _over: bool = False

    def begin(self) -> None:
        """Let them come from now on."""
        if self.per_hour > 0:
            self.agenda.after(self.luck.expovariate(self.per_hour / 3600), self._come)

    def clear_up(self) -> None:
        """No more come, and those that were are over."""
        self._over = True
        self._until.clear()

    def meet(self, order: Order, work: Callable[[], Any]) -> None:
        """Let a create meet what is in its zone: raises CloudUnavailable where it is lost."""
        if self.agenda.now >= self._until.get(order.place.zone, 0.0):
            return
        fate = self.luck.random()
        if fate < LOST:
            self._lose(work)
        elif fate < LOST + REFUSED:
            self._refuse(order)

    def _come(self) -> None:
        if self._over:
            return
        zone, until = self.luck.choice(self.zones), self.agenda.now + self.luck.uniform(60, 300)
        self._until[zone] = until
        self.agenda.fog.cover(self.agenda.now, until + LATEST)
        self.begin()

    def _lose(self, work: Callable[[], Any]) -> None:
        def land() -> None:
            try:
                work()
            except CloudError:
                """The cloud's answer reaches nobody."""

        self.agenda.after(self.luck.uniform(SOONEST, LATEST), land)
        self.agenda.pass_(self.luck.choice([0.2, 0.2, 10, 60]))
        raise CloudUnavailable("nothing was heard of it any more")

    def _refuse(self, order: Order) -> None:
        """Have the cloud itself say no, to this one."""
        rpc = "CreateQueuedResource" if order.spec.queued else "CreateNode"
        once = {"match": {"zone": order.place.zone}, "times": 1, "for_seconds": 1}
        refusal = self.luck.choice(REFUSALS)
        self.named_a_quota |= refusal["action"] == "quota"
        control.add_fault(self.world, {"rpc": rpc, **refusal, **once})
