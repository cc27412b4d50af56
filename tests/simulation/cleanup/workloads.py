"""What the nodes of a run truly do, second by second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from service.emulator.errors import ApiError
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.surfaces import control
from service.emulator.world.world import World
from tests.simulation.clock import Agenda

LOOK_SECONDS = 10
AT_WORK = {"duty_cycle": 80, "tensorcore": 40, "cpu": 60}
ONE_CORE = {"cpu": 30}
AT_REST = {"duty_cycle": 0, "tensorcore": 0, "cpu": 1}


class Workload(StrEnum):
    """What runs on a node from each of its boots on."""

    IDLE = "idle"
    """Nothing ever."""
    DONE = "done"
    """Work for some minutes, and then nothing any more."""
    BUSY = "busy"
    PAUSING = "pausing"
    """Work, and rests that are shorter than the idle time."""
    BURSTING = "bursting"
    """Seconds of work, minutes of rest."""
    HANGING = "hanging"
    """A container that holds the device and does nothing."""
    HOST = "host"
    """One core at work for ever, and no device."""
    LOOPING = "looping"
    """A container that crashes and starts again."""


WASTE = frozenset({Workload.HANGING, Workload.LOOPING})
RESTS = frozenset({Workload.IDLE, Workload.DONE})


@dataclass
class Life:
    """One node: its workload, and the spans of true seconds in which its device was at work; the
    last one is open while it is."""

    workload: Workload
    idle_after: int
    work: list[list[float]] = field(default_factory=list)
    booted_at: float = 0.0
    boots: int = 0
    first_booted_at: float = 0.0

    def works_within(self, start: float, end: float) -> bool:
        """Whether its device was at work at any time of [start, end)."""
        return any(first < end and last > start for first, last in self.work)

    def rests_since(self, up: float | None = None) -> float:
        """The end of its last work, or its boot; `up` takes the place of the last boot."""
        began = self.booted_at if up is None else up
        return max([began, *(last for _, last in self.work)])


class Fleet:
    """Has each node do its work, whenever its machines are up."""

    def __init__(self, agenda: Agenda, world: World, luck: Random) -> None:
        self._agenda = agenda
        self._world = world
        self._luck = luck
        self.lives: dict[str, Life] = {}
        """By the id of our node."""

    def begin(self) -> None:
        self._agenda.after(LOOK_SECONDS, self._look)

    def records(self) -> Iterator[tuple[Life, NodeRecord]]:
        """The machines that are up, with what runs on them."""
        for record in list(self._world.nodes.values()):
            life = self.lives.get(record.message.labels.get("steward-id", ""))
            if life is not None and record.state == "READY":
                yield life, record

    def _look(self) -> None:
        for life, record in self.records():
            started = record.activity.runs[-1].start
            if started > life.booted_at:
                self._end_work(life)
                life.booted_at, life.boots = started, life.boots + 1
                life.first_booted_at = life.first_booted_at or started
                self._boot(life, record)
        self._agenda.after(LOOK_SECONDS, self._look)

    def _boot(self, life: Life, record: NodeRecord) -> None:
        workload = life.workload
        if workload is Workload.HANGING:
            self._tell(record, {"held": 1, "containers": 1})
        elif workload is Workload.LOOPING:
            self._tell(record, {"held": 1, "containers": 1, "restarts": 9, "cpu": 50})
        elif workload is Workload.HOST:
            self._tell(record, ONE_CORE)
            life.work.append([self._agenda.now, float("inf")])
        elif workload is not Workload.IDLE:
            self._turn(life, record, life.boots, works=False)

    def _turn(self, life: Life, record: NodeRecord, boot: int, *, works: bool) -> None:
        """Begin to work or to rest; a machine that went down does nothing more."""
        if life.boots != boot or record.state != "READY":
            self._end_work(life)
            return
        self._end_work(life)
        if not works:
            self._tell(record, AT_WORK)
            life.work.append([self._agenda.now, float("inf")])
        else:
            self._tell(record, AT_REST)
            if life.workload is Workload.DONE:
                return
        seconds = self._rest(life) if works else self._work(life)
        self._agenda.after(seconds, lambda: self._turn(life, record, boot, works=not works))

    def _end_work(self, life: Life) -> None:
        if life.work and life.work[-1][1] > self._agenda.now:
            life.work[-1][1] = self._agenda.now

    def _work(self, life: Life) -> float:
        if life.workload is Workload.BURSTING:
            return self._luck.uniform(5, 25)
        longest = 1e9 if life.workload is Workload.BUSY else 1_500
        return longest if life.workload is Workload.BUSY else self._luck.uniform(120, longest)

    def _rest(self, life: Life) -> float:
        if life.workload is Workload.BURSTING:
            return self._luck.uniform(60, 240)
        return self._luck.uniform(0.3, 0.8) * life.idle_after

    def _tell(self, record: NodeRecord, changes: dict[str, Any]) -> None:
        with suppress(ApiError):
            control.set_activity(self._world, {"name": record.name, **changes})
