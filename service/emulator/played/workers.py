"""All played workers of a world: which nodes they are, when they boot, and how they are lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from random import Random

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.played.worker import PlayedWorker, death_code
from service.emulator.wire import Node
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

BOOT_SECONDS = 5.0
"""From READY to a running supervisor."""
REACTION_SECONDS = 1.0
"""From a change of the metadata until its supervisor has read it."""
LEGACY = {Node.ApiVersion.V1_ALPHA1, Node.ApiVersion.V1}


class Which(StrEnum):
    """Which nodes have workers that are played."""

    NONE = "none"
    OVERFLOW = "overflow"
    """Those for which this computer has no room to run their workers for real."""
    ALL = "all"


class Played:
    """Follows every READY node of a world, and writes what its containers do to `world.runs`.

    Where others run workers for real, up to `config.real_workers` of them, `overflow` plays nodes
    once that many are in use.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._workers: dict[int, list[PlayedWorker]] = {}
        self._real: dict[int, int] = {}
        """By the number of a node whose workers run for real: how many they are."""
        self._checkpoints: dict[str, int] = {}
        world.observers.append(self._observe)
        world.on_metadata.append(self._changed)
        world.on_config.append(self._reconfigured)
        world.on_reset.append(self._clear)
        world.on_preemption_notice.append(self._announced)

    def workers(self, record: NodeRecord) -> list[PlayedWorker]:
        return self._workers.get(int(record.message.id), [])

    def _clear(self) -> None:
        for each in (self._workers, self._real, self._checkpoints):
            each.clear()

    def _announced(
        self, record: NodeRecord, at: float, seconds: float, workers: Collection[int]
    ) -> None:
        """Tell workers of a node that it is about to be preempted, and let the others fail."""
        for worker in self.workers(record):
            if worker.number in workers:
                worker.notice(at)
        self._lose(record, at, seconds)

    def _lose(self, record: NodeRecord, at: float, seconds: float) -> None:
        """Let every program that works with this node end within so many seconds, without a word:
        those on its workers that were given no notice, and those on the other slices."""
        containers = [each.container for each in self.workers(record) if each.container is not None]
        attempts = {container.task.attempt for container in containers}
        for worker in self._all() if attempts else ():
            container = worker.container
            told = worker.node is record and worker.preempted_at is not None
            if container is not None and container.task.attempt in attempts and not told:
                random = self._random(worker)
                self._doom(worker, at + random.random() * seconds, death_code(random))

    def _doom(self, worker: PlayedWorker, due: float, code: int) -> None:
        container = worker.container

        def die(at: float) -> None:
            if container is not None and worker.container is container:
                worker.die(at, code)

        self._world.timeline.schedule(due, worker.node.name, "death", die, fate=True)

    def _random(self, worker: PlayedWorker) -> Random:
        """The luck of a worker in this boot, whatever else is going on."""
        return Random(f"{self._world.seed}/{worker.boot_id}/death")  # noqa: S311 - repeatable

    def _all(self) -> Iterator[PlayedWorker]:
        for workers in list(self._workers.values()):
            yield from workers

    def _observe(self, transition: Transition) -> None:
        record = self._world.nodes.get(transition.name)
        if transition.after == "READY" and record is not None:
            self._up(record, transition.at)
            return
        for worker in self._workers.get(transition.uid, ()):
            worker.power_off(transition.at)
        if not transition.after:
            self._workers.pop(transition.uid, None)
            self._real.pop(transition.uid, None)

    def _up(self, record: NodeRecord, at: float) -> None:
        uid = int(record.message.id)
        if not record.is_played and not self._wants(record):
            return
        record.is_played = True
        workers = self._workers.setdefault(uid, []) or self._born(record)
        for worker in workers:
            self._boot_soon(worker, at)

    def _wants(self, record: NodeRecord) -> bool:
        """Decide once whether the workers of a node are played."""
        uid, hosts = int(record.message.id), record.accelerator.hosts
        which = Which(self._world.config.played_workers)
        if which is Which.NONE or uid in self._real or record.message.api_version in LEGACY:
            return False
        room = self._world.config.real_workers if self._world.has_real_workers else 0
        if which is Which.OVERFLOW and sum(self._real.values()) + hosts <= room:
            self._real[uid] = hosts
            return False
        return True

    def _born(self, record: NodeRecord) -> list[PlayedWorker]:
        workers = self._workers[int(record.message.id)]
        workers += [
            PlayedWorker(self._world, record, number, self._checkpoints)
            for number in range(record.accelerator.hosts)
        ]
        return workers

    def _boot_soon(self, worker: PlayedWorker, at: float) -> None:
        boots = worker.boots

        def boot(at: float) -> None:
            if worker.boots == boots and worker.node.state == "READY":
                worker.boot(at)

        due = at + BOOT_SECONDS / self._world.config.speed
        self._world.timeline.schedule(due, worker.node.name, "boot", boot, fate=True)

    def _changed(self, record: NodeRecord, at: float) -> None:
        due = at + REACTION_SECONDS / self._world.config.speed
        for worker in self.workers(record):
            if worker.on:
                self._world.timeline.schedule(due, record.name, "task", worker.look, fate=True)

    def _reconfigured(self, at: float) -> None:
        """Boot the nodes that are to be played from now on; those that are played stay so."""
        for record in list(self._world.nodes.values()):
            if record.state == "READY" and not record.is_played:
                self._up(record, at)
