"""The cloud's names of the workers of our nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from service.domain.idle.assess import IdleSubject
from service.domain.idle.readings import WorkerNames
from service.domain.idle.signals.signal import CPU_KINDS, DEVICE_KINDS, MONITORED, NETWORK_KINDS
from service.domain.nodes.slices import slice_as_node, slice_numbers


def workers_of(subjects: Iterable[IdleSubject]) -> WorkerNames:
    """Return the workers of nodes by their ids in metrics."""
    parts: dict[str, tuple[str, int]] = {}
    instances: dict[str, tuple[str, int]] = {}
    up_since: dict[str, int] = {}
    for subject in subjects:
        node = subject.node
        up_since[node.id] = max(node.state_since, node.up_since or 0)
        hosts = node.spec.hosts // node.spec.slices
        for index, number in enumerate(slice_numbers(node)):
            uid = slice_as_node(node, number).cloud_uid
            if uid:
                parts[uid] = (node.id, index * hosts)
        for worker, instance in subject.signals.instances.items():
            instances[instance] = (node.id, worker)
    return WorkerNames(parts, instances, up_since)


def is_covered(subject: IdleSubject, since: int) -> bool:
    """Whether Monitoring has shown every worker of a node since `since`. It has shown the device,
    CPU and network, so that no report of a supervisor is needed."""
    tracks = subject.signals.tracks
    for worker in range(subject.node.spec.hosts):
        for kinds in _SHOWN:
            for kind in kinds:
                track = tracks.get((worker, kind))
                if track is not None and track.end >= since:
                    break
            else:
                return False
    return True


_SHOWN = tuple(
    tuple(kind for kind in kinds if kind in MONITORED)
    for kinds in (DEVICE_KINDS, CPU_KINDS, NETWORK_KINDS)
)
