"""The controller's memory of a project between two ticks, which saves reads and writes."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from service.cloud.ports import Sample
from service.domain.idle.cleanup import REFRESH_SECONDS, WatchedNode
from service.domain.idle.readings import MeasuredValue
from service.domain.idle.rollup import UnwrittenUse
from service.domain.idle.signals.signal import COUNTED, Kind, Reading
from service.domain.nodes.node import Node
from service.store.idle_fleet import KnownFleet

COLLECTION_SECONDS = 1_800


class Collector:
    """Turns Python's cyclic garbage collector off during a round.

    The collector would walk over the measurements of a whole fleet again and again, which takes
    longer than the round itself, and a round makes almost no cycles. New objects join the oldest
    generation without a collection. The few cycles are collected twice an hour.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._collected_at = monotonic()
        self._is_frozen = gc.get_freeze_count() > 0  # by someone who wants that; slow to count

    @contextmanager
    def pause_gc(self) -> Iterator[None]:
        """Turn the collector off; afterwards it is on again if it was on before."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if not self._is_frozen:
                gc.freeze()
                gc.unfreeze()
            if was_on:
                gc.enable()
        if self._monotonic() - self._collected_at >= COLLECTION_SECONDS:
            gc.collect()
            self._collected_at = self._monotonic()


@dataclass(slots=True)
class IdleMemory:
    """Memory for one epoch of the lease: a new lease begins with an empty memory.

    `began_at` is when the first tick began, by the monotonic clock. `written` has the time at which
    the row of each node was written last. `samples` are those of the newest read of each metric.
    `deep` has the metrics whose read went back further than the rows. `lately` is the use of each
    node that is not in its stored hours yet.
    """

    epoch: int
    began_at: float = 0.0
    nodes: dict[str, Node] = field(default_factory=dict)
    courses: dict[str, WatchedNode] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    samples: dict[Kind, frozenset[Sample]] = field(default_factory=dict)
    deep: set[Kind] = field(default_factory=set)
    lately: dict[str, UnwrittenUse] = field(default_factory=dict)

    @property
    def known_fleet(self) -> KnownFleet:
        """Nodes and courses, for the next read of the project."""
        return KnownFleet(self.nodes, self.courses)

    @property
    def has_read(self) -> bool:
        """Whether the reads of all counted metrics went back further than the rows."""
        return self.deep.issuperset(COUNTED)

    def take_new(self, kind: Kind, samples: Sequence[Sample]) -> frozenset[Sample]:
        """The samples of a read that the previous read lacked. Reads overlap because points are
        late."""
        before = self.samples.get(kind, frozenset())
        self.samples[kind] = after = frozenset(samples)
        return after - before

    def offer_again(self, kind: Kind, samples: Iterable[MeasuredValue]) -> None:
        """Let the next read return these samples again, because their node is not known yet."""
        if strange := frozenset(samples):
            self.samples[kind] -= strange

    def add_readings(self, readings: Mapping[str, Sequence[Reading]]) -> None:
        """Keep new readings by node until their hours are written."""
        for node_id, readings_of_node in readings.items():
            lately = self.lately.get(node_id)
            if lately is None:
                lately = self.lately[node_id] = UnwrittenUse()
            for reading in readings_of_node:
                lately.add(reading)

    def is_due(self, node_id: str, now: int) -> bool:
        """Whether the row and the hours of a node are due even without a decision: at the latest
        five minutes after the last write. The nodes take turns."""
        written = self.written.get(node_id)
        if written is None:
            turn = zlib.crc32(node_id.encode()) % REFRESH_SECONDS
            written = self.written[node_id] = now - turn
        return now - written >= REFRESH_SECONDS

    def forget_nodes(self, ids: Iterable[str]) -> None:
        """Forget nodes that are no longer READY."""
        for node_id in ids:
            for known in (self.nodes, self.courses, self.written, self.lately):
                known.pop(node_id, None)
