"""All played workers of a world: their nodes, their boots, and their loss."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from itertools import chain
from random import Random

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.played.worker import PlayedWorker, death_code
from service.emulator.wire import Node
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

BOOT_SECONDS = 5.0
"""Time from READY to a running supervisor."""
REACTION_SECONDS = 1.0
"""Time from a change of the metadata until the supervisor reads it."""
LEGACY = {Node.ApiVersion.V1_ALPHA1, Node.ApiVersion.V1}


class Which(StrEnum):
    """The nodes whose workers are played."""

    NONE = "none"
    OVERFLOW = "overflow"
    """Nodes whose real workers this computer has no room for."""
    ALL = "all"


class Played:
    """Follows every READY node of a world, and writes its container runs to `world.runs`.

    If workers also run for real, `overflow` plays the nodes beyond `config.real_workers`.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._workers: dict[int, list[PlayedWorker]] = {}
        self._real: dict[int, int] = {}
        """Number of workers that run for real, by the node's number."""
        self._checkpoints: dict[str, int] = {}
        world.observers.append(self._follow_transition)
        world.on_metadata.append(self._look_soon)
        world.on_config.append(self._follow_config)
        for table in (self._workers, self._real, self._checkpoints):
            world.on_reset.append(table.clear)
        world.on_preemption_notice.append(self._notice_preemption)

    def workers_of(self, record: NodeRecord) -> list[PlayedWorker]:
        return self._workers.get(int(record.message.id), [])

    def _notice_preemption(
        self, record: NodeRecord, at: float, seconds: float, workers: Collection[int]
    ) -> None:
        """Send a preemption notice to some workers of a node, and let the others fail.

        All programs of the node's attempts fail within `seconds`: on its workers without a notice,
        and on the other slices.
        """
        for worker in self.workers_of(record):
            if worker.number in workers:
                worker.notice_preemption(at)
        containers = [worker.container for worker in self.workers_of(record)]
        attempts = {container.task.attempt for container in containers if container is not None}
        if not attempts:
            return
        for worker in chain.from_iterable(list(self._workers.values())):
            container = worker.container
            noticed = worker.node is record and worker.preempted_at is not None
            if container is not None and container.task.attempt in attempts and not noticed:
                # Drawn by worker and boot, independent of all other draws.
                random = Random(f"{self._world.seed}/{worker.boot_id}/death")  # noqa: S311
                self._schedule_death(worker, at + random.random() * seconds, death_code(random))

    def _schedule_death(self, worker: PlayedWorker, due: float, code: int) -> None:
        container = worker.container

        def die_if_running(at: float) -> None:
            if container is not None and worker.container is container:
                worker.fail_program(at, code)

        self._world.timeline.schedule_event(
            due, worker.node.name, "death", die_if_running, fate=True
        )

    def _follow_transition(self, transition: Transition) -> None:
        record = self._world.nodes.get(transition.name)
        if transition.after == "READY" and record is not None:
            self._bring_up(record, transition.at)
            return
        for worker in self._workers.get(transition.uid, ()):
            worker.power_off(transition.at)
        if not transition.after:
            self._workers.pop(transition.uid, None)
            self._real.pop(transition.uid, None)

    def _bring_up(self, record: NodeRecord, at: float) -> None:
        uid = int(record.message.id)
        if not record.is_played:
            which, hosts = Which(self._world.config.played_workers), record.accelerator.hosts
            if which is Which.NONE or uid in self._real or record.message.api_version in LEGACY:
                return
            room = self._world.config.real_workers if self._world.has_real_workers else 0
            if which is Which.OVERFLOW and sum(self._real.values()) + hosts <= room:
                # The workers of this node run for real, until its end.
                self._real[uid] = hosts
                return
            record.is_played = True
        workers = self._workers.setdefault(uid, [])
        if not workers:
            workers += [
                PlayedWorker(self._world, record, number, self._checkpoints)
                for number in range(record.accelerator.hosts)
            ]
        for worker in workers:
            self._boot_soon(worker, at)

    def _boot_soon(self, worker: PlayedWorker, at: float) -> None:
        boots = worker.boots

        def boot_if_ready(at: float) -> None:
            if worker.boots == boots and worker.node.state == "READY":
                worker.start_boot(at)

        due = at + BOOT_SECONDS / self._world.config.speed
        self._world.timeline.schedule_event(due, worker.node.name, "boot", boot_if_ready, fate=True)

    def _look_soon(self, record: NodeRecord, at: float) -> None:
        due = at + REACTION_SECONDS / self._world.config.speed
        for worker in self.workers_of(record):
            if worker.on:
                self._world.timeline.schedule_event(
                    due, record.name, "task", worker.act_on_task, fate=True
                )

    def _follow_config(self, at: float) -> None:
        """Boot the nodes that the configuration plays from now on; played nodes stay played."""
        for record in list(self._world.nodes.values()):
            if record.state == "READY" and not record.is_played:
                self._bring_up(record, at)
