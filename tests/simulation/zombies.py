"""Queued resources of ours that are there again after their node has ended, as when Google carries
out a create of long ago. They create no node, and hold quota until the service collects them.

Their zone does not answer the list of queued resources for a while. What such a list lacks says
nothing, so nobody asks for each of them by name at every look."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from service.cloud.ports import Queue
from service.domain.nodes.node import Node, Place
from service.domain.nodes.ownership import labels_for
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from service.store.unit import Units
from tests.simulation.clock import Agenda
from tests.simulation.cloud_faults import CloudFaults
from tests.simulation.invariants import Invariants
from tests.simulation.replica import INSTALL

LOOK_AGAIN_SECONDS = 30
SEEN_SECONDS, SILENT_SECONDS = 150, 2_400
"""How long its zone answers after it has come back, and how long it is silent then."""
LISTS = 3
"""So many lists in a row must lack the answer of a zone: a daemon may die between one and its use.
"""
MOST_QUESTIONS = 12
"""A list that lied just before is reason to ask by name, and what fails is asked again."""


@dataclass
class Zombies:
    """Each comes back once a node that was queued has ended; `wanted` is how many do."""

    agenda: Agenda
    weather: CloudFaults
    truth: Invariants
    units: Units
    luck: Random
    wanted: int
    _silent: dict[str, deque[frozenset[str]]] = field(default_factory=dict)
    """By daemon: the zones without an answer in its last lists of queued resources."""
    _questions: Counter[str] = field(default_factory=Counter)

    def begin(self, nodes: Sequence[Node]) -> None:
        """Look now and then for a node, among those that are asked for, which has ended."""
        self._nodes = nodes
        if self.wanted:
            self.agenda.after(self.luck.uniform(60, 600), self._come_back)

    def answered(self, daemon: str, verb: str, answer: Any) -> None:
        """A daemon has got an answer from the cloud."""
        if verb == "queue" and isinstance(answer, Queue):
            self._silent.setdefault(daemon, deque(maxlen=LISTS)).append(answer.unreachable)

    def asked(self, daemon: str, verb: str, place: object) -> None:
        """A daemon is about to ask for something by its name."""
        if verb != "queued" or not isinstance(place, Place):
            return
        if place.queue_path not in self.truth.returned:
            return
        lists = self._silent.get(daemon, ())
        if len(lists) == LISTS and all({place.zone, "-"} & zones for zones in lists):
            self._questions[place.queue_path] += 1
            if self._questions[place.queue_path] == MOST_QUESTIONS:
                self.truth.wrong(
                    f"{place.queue_path} is asked for by name again and again, though its zone"
                    " does not answer lists"
                )

    def _come_back(self) -> None:
        if self.weather.fair or len(self.truth.returned) == self.wanted:
            return
        with self.units.reading() as unit:
            known = unit.nodes.find_many([node.id for node in self._nodes]).values()
        ended = [node for node in known if node.has_ended and node.spec.queued]
        single = [node for node in ended if node.spec.slices == 1 and node.sent_at is not None]
        if single:
            self._create(self.luck.choice(sorted(single, key=lambda node: node.id)))
        self.agenda.after(LOOK_AGAIN_SECONDS, self._come_back)

    def _create(self, node: Node) -> None:
        name = node.place.queue_path
        if name in self.truth.returned or name in self.weather.world.queue.records:
            return
        parent = f"projects/{node.spec.project}/locations/{node.zone}"
        fault = {"action": "fail_operation", "match": {"queued_resource_id": node.cloud_id}}
        control.add_fault(self.weather.world, {"rpc": "CreateQueuedResource", "times": 1, **fault})
        wanted = {
            "accelerator_type": node.spec.accelerator_type,
            "runtime_version": node.spec.runtime_version,
            "labels": labels_for(node, INSTALL),
        }
        tpu = {"node_spec": [{"parent": parent, "node_id": node.cloud_id, "node": wanted}]}
        self.truth.returned.add(name)
        try:
            self.weather.ask(
                "CreateQueuedResource",
                parent=parent,
                queued_resource_id=node.cloud_id,
                queued_resource={"tpu": tpu},
            )
        except ApiError:  # a storm is on
            self.truth.returned.discard(name)
            return
        with suppress(ApiError):
            control.add_fault(
                self.weather.world,
                {
                    "rpc": "ListQueuedResources",
                    "action": "partial_list",
                    "match": {"zone": node.zone},
                    "after_seconds": SEEN_SECONDS,
                    "for_seconds": SILENT_SECONDS,
                },
            )
