"""The task that a supervisor reads from the metadata of its node."""

from __future__ import annotations

import json
from collections.abc import Mapping

from service.domain.jobs.image import ImageReference
from service.domain.jobs.job import Attempt, Job, Workers
from service.domain.jobs.presets import environment
from service.domain.node import Node
from service.domain.zones import region_of

KEY = "steward-task"
"""The key in the metadata map of a node."""

NAMESPACE = "steward"
REPORT = "report"
"""The one guest attribute by which a worker answers."""

LOG_NAME = "tpu-steward-jobs"
DEVICE_WAIT_SECONDS = 120
PULL_SECONDS = 1_800
REPORT_SECONDS = 15


def hosts_of_slice(node: Node) -> int:
    """How many workers one slice of the node has."""
    return node.spec.hosts // node.spec.slices


def workers_of(job: Job, node: Node) -> tuple[int, ...]:
    """The numbers of the workers that run the container, over all slices."""
    if job.spec.workers is Workers.FIRST:
        return (0,)
    return tuple(range(node.spec.hosts))


def needs_barrier(job: Job, node: Node) -> bool:
    """Whether the start waits until every worker has pulled: one worker alone waits for none."""
    return len(workers_of(job, node)) > 1


def task_of(job: Job, attempt: Attempt, node: Node, number: int) -> str:
    """The task of one slice as a JSON text; `number` is that of the slice, from 0. The same
    attempt always gives the same text, so what is in the metadata can be compared with it."""
    spec, hosts = job.spec, hosts_of_slice(node)
    first = number * hosts
    document = {
        "v": 1,
        "generation": attempt.generation,
        "attempt": attempt.id,
        "action": attempt.action.value,
        "slice": number,
        "slices": node.spec.slices,
        "workers": [one - first for one in workers_of(job, node) if first <= one < first + hosts],
        "first_worker": first,
        "container": {
            "image": _image(job),
            "command": list(spec.command),
            "args": list(spec.args),
            "env": environment(job, attempt, node, number),
            "device_access": spec.device_access.value,
            "shm_size": spec.shm_size,
            "mounts": [
                {"source": one.source, "target": one.target, "read_only": one.read_only}
                for one in spec.mounts
            ],
        },
        "stop_grace_seconds": spec.stop_grace_seconds,
        "max_duration_seconds": spec.max_duration_seconds,
        "device_wait_seconds": DEVICE_WAIT_SECONDS,
        "pull_seconds": PULL_SECONDS,
        "log": {
            "project": job.project,
            "log": LOG_NAME,
            "labels": {"job": job.id, "attempt": str(attempt.number)},
            "budget_bytes": spec.log_budget,
        },
        "storage": _storage(job, node),
        "report_seconds": REPORT_SECONDS,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _image(job: Job) -> str:
    """The image by its digest where the registry named one, so that all workers and all attempts
    run the same."""
    image, digest = job.spec.image, job.image_digest
    return ImageReference.parse(image).pinned(digest) if digest else image


def _storage(job: Job, node: Node) -> Mapping[str, object]:
    written = [job.spec.checkpoint_dir] if job.spec.checkpoint_dir.startswith("gs://") else []
    return {
        "read": list(job.spec.data),
        "write": written,
        "region": region_of(node.zone) if node.zone else "",
    }
