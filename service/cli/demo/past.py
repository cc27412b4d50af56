"""The past of the demo: the emulator's world and the daemon's controllers, on simulated time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

import structlog

from service import wiring
from service.application.services import Services
from service.cli.demo.virtual_clock import VirtualClock
from service.cloud.google.channel import legacy_client, tpu_client
from service.cloud.google.history import GoogleHistory, logging_client
from service.cloud.google.legacy import LegacyTpus
from service.cloud.google.prices import GooglePrices, catalog_client
from service.cloud.google.retries import ONCE
from service.cloud.google.telemetry import GoogleTelemetry, monitoring_client
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.controllers.base import Controller
from service.controllers.idle.readings import at_once
from service.domain.clock import DAY, MINUTE
from service.domain.errors import ImageNotFound, StewardError
from service.domain.ids import IdSource, ids_from
from service.domain.jobs.image import ImageFacts, ImageReference, check_platform
from service.domain.lease import Lease
from service.emulator.app import build_world
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world.bill import Transition
from service.emulator.world.world import World
from service.settings import Settings

STEP_SECONDS = 30
QUIET = 120
"""While nothing changes, periods below MINUTE are this many times longer."""
AWAKE_SECONDS = 60
"""How long after a change the periods are not stretched."""

log = structlog.get_logger()


@dataclass
class Task:
    """A controller with its period, and the time of its next tick."""

    controller: Controller
    period: int
    due: float = 0.0


class Past:
    """Lives through simulated time, with the controllers of the daemon in this thread.

    The daemon's timers and threads are replaced by a loop; every controller, every service and the
    emulator's world are those that the servers use afterwards.
    """

    def __init__(self, settings: Settings, clock: VirtualClock, seed: int) -> None:
        self.clock = clock
        self.world = build_world(seed=seed, clock=clock.seconds)
        self.base = wiring.open_foundation(settings, clock, clock.seconds)
        self.services: Services = wiring.build_services(self.base)
        self._cloud = connect_world(self.world, clock)
        self._luck = Random(f"{seed}/ids")  # noqa: S311 - repeatable on purpose, protects nothing
        self._awake_until = 0.0
        self._project = settings.projects[0]
        self._tasks: list[Task] = []
        self.world.observers.append(self.wake)

    def start_daemon(self, settings: Settings) -> None:
        """Start the controllers with these settings, in place of those that ran before."""
        pacing = wiring.Pacing(self.clock.seconds, at_once, has_threads=False)
        built = wiring.build_controllers(replace(self.base, settings=settings), self._cloud, pacing)
        self._tasks = [
            Task(controller, period)
            for period, controllers in sorted(built.items())
            for controller in controllers
        ]

    def live_until(self, end: float, on_step: Callable[[], None] = lambda: None) -> None:
        """Let time pass to an instant, with everything that is due in it."""
        own_ids = IdSource(self.clock.seconds, self._luck.getrandbits)
        with ids_from(own_ids), self._held_lease(end) as lease:
            while self.clock.seconds() < end:
                until = min(self.clock.seconds() + STEP_SECONDS, end)
                if self.clock.pass_to(until):
                    self.wake()
                self.world.run_due_events()
                ticks = [self._tick_if_due(task, lease) for task in self._tasks]
                if any(ticks) and self._is_node_due():
                    self.wake()
                on_step()

    def close(self) -> None:
        """Close the connections to the database."""
        self.base.engine.dispose()

    def wake(self, _: Transition | None = None) -> None:
        """Have the daemon look often for a while."""
        self._awake_until = self.clock.seconds() + AWAKE_SECONDS

    def _tick_if_due(self, task: Task, lease: Lease) -> bool:
        """Give a controller its turn, and say whether it had one."""
        now = self.clock.seconds()
        is_quick = task.period < MINUTE
        is_awake = now < self._awake_until
        if now < task.due and not (is_quick and is_awake):
            return False
        task.due = now + task.period * (QUIET if is_quick and not is_awake else 1)
        try:
            task.controller.tick(lease)
        except StewardError as error:  # as the daemon does: the next tick tries again
            log.warning("tick.failed", controller=task.controller.name, reason=str(error))
        return True

    def _is_node_due(self) -> bool:
        """Whether a node waits for its next step."""
        with self.base.units.reading() as unit:
            return bool(unit.nodes.list_due(self._project, self.clock(), 1))

    @contextmanager
    def _held_lease(self, end: float) -> Iterator[Lease]:
        seconds = int(end - self.clock.seconds()) + DAY
        with self.base.units() as unit:
            lease = unit.leases.take(self._project, "demo", seconds)
        assert lease is not None, "no other daemon uses this database"
        try:
            yield lease
        finally:
            with self.base.units() as unit:
                unit.leases.release(lease)


def connect_world(world: World, clock: VirtualClock) -> wiring.CloudPorts:
    """The ports of the daemon to a world in the same process: Google's own clients, no socket."""
    channel = LocalChannel(world, clock.sleep)
    return wiring.CloudPorts(
        tpus=GoogleTpus(
            tpu_client(channel),
            Pace(clock.seconds),
            ONCE,
            legacy=LegacyTpus(legacy_client(channel), ONCE),
        ),
        prices=GooglePrices(catalog_client(channel), ONCE),
        audit_log=GoogleHistory(logging_client(channel), ONCE),
        monitoring=GoogleTelemetry(monitoring_client(channel), ONCE),
        registry=LocalRegistry(world),
    )


@dataclass(frozen=True, slots=True)
class LocalRegistry:
    """`service.cloud.ports.Registry` over the emulated registries of a world."""

    world: World

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """The facts of an image. Raises ImageNotFound where the registries do not serve it."""
        reference = ImageReference.parse(image)
        found = self.world.manifests.serve_manifest(
            self.world.config.registry, reference.name, reference.reference
        )
        if found.status != 200:
            raise ImageNotFound(f"the registry has no image {reference}", field="image")
        platforms = [manifest["platform"] for manifest in json.loads(found.body)["manifests"]]
        facts = ImageFacts(
            found.digest, tuple(f"{each['os']}/{each['architecture']}" for each in platforms)
        )
        check_platform(reference, facts, architecture)
        return facts
