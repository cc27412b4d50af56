"""A month of a small lab, told hour by hour, that daemons of any pace live through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine

from service.application.nodes.nodes import NodeChange, NodeService
from service.application.pricing.prices import PriceService
from service.application.pricing.reservations import ReservationService
from service.cloud.google.channel import legacy_client, tpu_client
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.legacy import LegacyTpus
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace as Rate
from service.controllers.base import Controller
from service.controllers.inventory.audit_log import EvidenceController
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Reattribution
from service.domain.metering.reservation import Reservation
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.driver_vm import UserVm
from service.domain.pricing.price_book import Price
from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.clock import Act, Agenda

PROJECT = "lab"
DAYS = 30


@dataclass(frozen=True)
class Pace:
    """How often the daemon does what, in seconds, in which zone its machine stands, and on which
    days it dies and begins anew."""

    looks: int
    meters: int
    zone: str = "UTC"
    dies_on: frozenset[int] = frozenset()


@dataclass
class Month:
    """The lab's callers do the same at the same hours, whatever the daemon's pace is."""

    engine: Engine
    pace: Pace
    agenda: Agenda = field(default_factory=Agenda)
    nodes: dict[str, Node] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = build_world(seed=7, clock=lambda: self.agenda.now)
        self.units = Units(self.engine)
        shared = self.units, PriceBookCache(), self.agenda.seconds
        self.service = NodeService(*shared, [PROJECT])
        self.prices = PriceService(*shared)
        self.purchases = ReservationService(*shared, [PROJECT])
        self.start = self.agenda.seconds()

    def live(self) -> None:
        """Thirty days and the ones until the month is closed, hour by hour."""
        daemon = self._daemon()
        script = self._script()
        for elapsed in range(0, DAYS * DAY + 1, self.pace.looks):
            self.agenda.pass_(self.start + elapsed - self.agenda.now)
            for act in script.pop(elapsed, ()):
                act()
            if elapsed % DAY == 0 and elapsed // DAY in self.pace.dies_on:
                daemon = self._daemon()
            for period, controller in daemon:
                if elapsed % period == 0:
                    self._tick(controller)
        assert not script, "all that was to happen has happened"

    def _tick(self, controller: Controller) -> None:
        with self.units() as unit:
            lease = unit.leases.take(PROJECT, "daemon", 40 * DAY)
        assert lease is not None
        controller.tick(lease)

    def _script(self) -> dict[int, list[Act]]:
        """What callers and Google do, by the seconds since the beginning; all on full hours, where
        every daemon has a turn."""
        spot, reserved = ProvisioningModel.SPOT, ProvisioningModel.RESERVED
        told: Sequence[tuple[int, Act]] = (
            (1, lambda: self._ask("train", "vision")),
            (2, lambda: self._ask("sweep", "nlp", provisioning_model=spot)),
            (30, lambda: self._ask("serve", "speech", accelerator_type="v5litepod-4")),
            (50, lambda: self.service.stop(self.nodes["serve"].id)),
            (60, lambda: self._buy("block", "vision", from_hour=72, days=7)),
            (77, lambda: self.service.start(self.nodes["serve"].id)),
            (
                90,
                lambda: self._ask("tune", "nlp", provisioning_model=reserved, reservation="block"),
            ),
            (100, lambda: self._pass_on("train", "nlp")),
            (120, lambda: self._ask_for_a_legacy_one("old", "speech")),
            (131, lambda: self.service.delete(self.nodes["tune"].id)),
            (150, lambda: self._price(1_137_000_001, "on_demand")),
            (151, lambda: self._price(433_333_333, "spot")),
            (200, lambda: self._preempt("sweep")),
            (230, lambda: self._ask("sweep-2", "nlp", provisioning_model=spot)),
            (260, lambda: self.service.delete(self.nodes["old"].id)),
            (300, lambda: self.service.delete(self.nodes["train"].id)),
            (500, lambda: self.service.delete(self.nodes["sweep-2"].id)),
            (611, lambda: self._ask("late", "vision")),
            (640, lambda: self.service.delete(self.nodes["late"].id)),
        )
        script: dict[int, list[Act]] = {}
        for hour, act in told:
            script.setdefault(hour * HOUR, []).append(act)
        return script

    def _ask(self, name: str, team: str, **changes: object) -> None:
        request = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", **changes}
        asked = RequestedNode(project=PROJECT, name=name, team=team, **request)  # type: ignore[arg-type]
        self.nodes[name] = self.service.request(asked).node

    def _ask_for_a_legacy_one(self, name: str, team: str) -> None:
        """With a machine of its owner's that drives it."""
        self._ask(
            name,
            team,
            accelerator_type="v2-8",
            zone="us-central1-b",
            architecture=Architecture.NODE,
            vm=UserVm("n1-standard-8", ProvisioningModel.ON_DEMAND),
        )

    def _buy(self, name: str, team: str, from_hour: int, days: int) -> None:
        """Sixteen chips by the calendar."""
        start = self.start + from_hour * HOUR
        bought = Reservation(
            id="",
            name=name,
            project=PROJECT,
            zone="us-west4-a",
            generation="v5e",
            chips=16,
            start=start,
            end=start + days * DAY,
            team=team,
        )
        self.reservations[name] = self.purchases.record(bought).shown.reservation

    def _pass_on(self, name: str, team: str) -> None:
        self.service.update(self.nodes[name].id, NodeChange(Reattribution(team=team)))

    def _price(self, nanos: int, model: str) -> None:
        self.prices.add(Price("", "v5e", model, "chip_hour", "us-west4", nanos, 0, "a new list"))

    def _preempt(self, name: str) -> None:
        """Ten minutes and a bit after the hour, between the looks of every daemon."""
        path = self.service.get(self.nodes[name].id).place.path
        self.agenda.after(617, lambda: control.preempt_node(self.world, {"name": path}))

    def _daemon(self) -> Sequence[tuple[int, Controller]]:
        """A daemon with nothing in its memory, and how often each part of it has its turn."""
        channel = LocalChannel(self.world, self.agenda.pass_)
        legacy = LegacyTpus(legacy_client(channel), ONCE)
        cloud = GoogleTpus(tpu_client(channel), Rate(lambda: self.agenda.now), ONCE, legacy=legacy)
        history = GoogleHistory(logging_client(channel), ONCE)
        prices = PriceBookCache()
        shared = self.units, cloud, prices, self.agenda.seconds
        steps = Steps(StepContext(*shared, Installation("sim", self.pace.looks)))
        lifecycle = LifecycleController(*shared, steps)
        lifecycle.workers = 1
        return (
            (self.pace.looks, InventoryController(*shared)),
            (
                self.pace.looks,
                EvidenceController(self.units, cloud, history, prices, self.agenda.seconds),
            ),
            (self.pace.looks, lifecycle),
            (self.pace.meters, MeteringController(self.units, prices, self.agenda.seconds)),
        )
