"""Somebody else stops nodes of ours and starts them again, mostly while no daemon looks.

Each is down for longer than a minute, as with Google: what comes back within one is not asked
about by a daemon that looks more often than that.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random

from service.emulator.errors import ApiError
from service.emulator.nodes.nodes import NodeRecord
from tests.simulation.clock import Agenda
from tests.simulation.cloud_faults import CloudFaults
from tests.simulation.replica import Replica

UNSEEN = 0.7
"""How many of them fall into a time in which all daemons are away."""
SHORTEST, LONGEST = 60, (120, 600, 3_600)
"""Seconds from the stop to the start."""
COMING_UP_SECONDS = 15


@dataclass
class ExternalRestarts:
    """They have luck of their own, so that a seed without them is as if there were none."""

    agenda: Agenda
    weather: CloudFaults
    replicas: list[Replica]
    luck: Random
    per_hour: float

    def begin(self) -> None:
        """Let them come from now on, until the weather is fair."""
        if self.per_hour > 0:
            self.agenda.after(self.luck.expovariate(self.per_hour / 3600), self._turn)

    def _turn(self) -> None:
        if self.weather.fair:
            return
        self.weather.world.run_due_events()
        ours = [name for name, record in sorted(self.weather.world.nodes.items()) if _can(record)]
        if ours:
            self._restart(self.luck.choice(ours))
        self.begin()

    def _restart(self, name: str) -> None:
        stop = self.luck.uniform(0, 20)
        start = stop + self.luck.uniform(SHORTEST, self.luck.choice(LONGEST))
        if self.luck.random() < UNSEEN:
            for replica in self.replicas:
                replica.leave(start + self.luck.uniform(COMING_UP_SECONDS, 120))
        self.agenda.after(stop, lambda: self._ask("StopNode", name))
        self.agenda.after(start, lambda: self._ask("StartNode", name))

    def _ask(self, rpc: str, name: str) -> None:
        """Whatever comes of it: a storm may be on, or the node no more what it was."""
        if self.weather.fair:
            return
        with suppress(ApiError):
            self.weather.ask(rpc, name=name)


def _can(record: NodeRecord) -> bool:
    """Whether the cloud would stop it, and it is ours."""
    return (
        record.state == "READY"
        and "steward-id" in record.message.labels
        and record.accelerator.single_host
        and record.provisioning_model == "on_demand"
        and not record.queued_resource
    )
