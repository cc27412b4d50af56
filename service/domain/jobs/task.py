"""The task that a supervisor reads from the metadata of its node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

from service.domain.catalog.zones import region_of
from service.domain.jobs.image import ImageReference
from service.domain.jobs.job import Attempt, DeviceAccess, Job, JobSpec, Mount, Workers
from service.domain.jobs.presets import build_environment
from service.domain.nodes.node import Node

KEY = "steward-task"
"""The key in the metadata map of a node."""

NAMESPACE = "steward"
REPORT = "report"
"""The guest attribute in which a worker writes its report."""

LOG_NAME = "tpu-steward-jobs"
DEVICE_WAIT_SECONDS = 120
PULL_SECONDS = 1_800
REPORT_SECONDS = 15

DOCKER_OPTIONS = (
    *("--network", "host", "--ulimit", "memlock=-1:-1", "--log-driver", "json-file"),
    *("--log-opt", "max-size=50m", "--log-opt", "max-file=2"),
)
"""The options of every container: the network of its host, which frameworks need to address each
other, memory that a TPU can read, and at most 100 MB of output on the disk."""

NO_DEVICE = (
    r"(?i)/dev/(vfio|accel).*(not permitted|permission denied|no such file)"
    r"|no tpu (device|chip)s? (was |were )?found"
)
"""The output of a program that could not open the TPU device without privileges (J6)."""

PULL_FAILURES = (
    ("(?i)credential", ""),
    ("(?i)no space left", "DISK_FULL"),
    ("(?i)manifest.* (unknown|not found)|name unknown|no matching manifest", "IMAGE_NOT_FOUND"),
    ("(?i)invalid reference format|repository .* not found|/.*: not found", "IMAGE_NOT_FOUND"),
    ("(?i)denied|unauthorized|forbidden|no basic auth", "PULL_DENIED"),
)
"""Docker's messages of a pull that cannot succeed, with the reason of the end; the first match
counts. A credential helper that is not ready yet is no reason (J14)."""


_FORMS: Mapping[DeviceAccess, tuple[str, ...]] = {
    DeviceAccess.AUTO: ("device", "privileged"),
    DeviceAccess.DEVICE: ("device",),
    DeviceAccess.PRIVILEGED: ("privileged",),
}
"""How a container may access the TPU, in the order of the attempts."""


def hosts_of_slice(node: Node) -> int:
    """Return the number of workers in one slice of the node, which read the same task."""
    return node.spec.hosts // node.spec.slices


def workers_of(job: Job, node: Node) -> tuple[int, ...]:
    """Return the numbers of the workers that run the container of a task, over all slices."""
    if job.spec.workers is Workers.FIRST:
        return (0,)
    return tuple(range(node.spec.hosts))


def needs_barrier(job: Job, node: Node) -> bool:
    """Whether the task of a job starts only when every worker has pulled. A single worker does not
    wait."""
    return len(workers_of(job, node)) > 1


def task_of(job: Job, attempt: Attempt, node: Node, number: int) -> str:
    """Return the task of one slice as a JSON text; `number` is that of the slice, from 0. The same
    attempt always gives the same text, so the text can be compared with the metadata."""
    spec, hosts = job.spec, hosts_of_slice(node)
    first = number * hosts
    image = spec.image
    if job.image_digest:  # so that all workers and all attempts run the same image
        image = ImageReference.parse(image).pinned_name(job.image_digest)
    document = {
        "v": 1,
        "generation": attempt.generation,
        "attempt": attempt.id,
        "name": container_name(attempt.id),
        "action": attempt.action.value,
        "slice": number,
        "slices": node.spec.slices,
        "workers": [
            worker - first for worker in workers_of(job, node) if first <= worker < first + hosts
        ],
        "first_worker": first,
        "container": {
            "image": image,
            "command": list(spec.command[:1]),
            "args": [*spec.command[1:], *spec.args],
            "env": build_environment(job, attempt, node, number),
            "forms": _FORMS[spec.device_access],
            "options": docker_options(attempt.id, spec.shm_size, spec.mounts),
            "login": google_registry(spec.image),
        },
        "stop_grace_seconds": spec.stop_grace_seconds,
        "max_duration_seconds": spec.max_duration_seconds,
        "device_wait_seconds": DEVICE_WAIT_SECONDS,
        "pull_seconds": PULL_SECONDS,
        "pull_failures": PULL_FAILURES,
        "no_device": NO_DEVICE,
        "log": {
            "write": log_template(job.project, {"job": job.id, "attempt": str(attempt.number)}),
            "budget_bytes": spec.log_budget,
        },
        "storage": list(storage_checks(spec, region_of(node.zone) if node.zone else "")),
        "report_seconds": REPORT_SECONDS,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def container_name(attempt: str) -> str:
    """Return the name of the container of an attempt's task, on each of its workers."""
    return f"steward-{attempt}"


def docker_options(attempt: str, shm_size: str, mounts: Sequence[Mount]) -> list[str]:
    """Return the options of `docker run` in a task that do not depend on the worker. A supervisor
    finds the containers of all attempts by the label."""
    options = [
        "--detach",
        f"--name={container_name(attempt)}",
        f"--label=steward-attempt={attempt}",
    ]
    options += [*DOCKER_OPTIONS, *(["--shm-size", shm_size] if shm_size else [])]
    for mount in mounts:
        option = f"type=bind,source={mount.source},target={mount.target}"
        options += ["--mount", option + (",readonly" if mount.read_only else "")]
    return options


def google_registry(image: str) -> str:
    """Return the registry in a task that takes the worker's token. Empty for registries that are
    not Google's."""
    reference = ImageReference.parse(image)
    return reference.registry if reference.is_googles else ""


def log_template(project: str, labels: Mapping[str, str]) -> Mapping[str, object]:
    """Return the body of `entries:write` in a task, without the entries."""
    return {
        "logName": f"projects/{project}/logs/{LOG_NAME}",
        "resource": {"type": "global", "labels": {"project_id": project}},
        "labels": dict(labels),
        "partialSuccess": True,
    }


def storage_checks(spec: JobSpec, region: str) -> Iterator[Mapping[str, str]]:
    """Yield a task's checks of each gs:// address before the start, with the node's service
    account.

    `ask` is a path below Cloud Storage's `b/`. The result is the `field` of the answer, `nothing`
    without this field, or the status of a refusal. `denies` is the pattern of a result that ends
    the attempt, `fine` of a result that needs no warning. The right to write is checked for the
    whole bucket: a condition may grant more for a prefix.
    """
    written = [spec.checkpoint_dir] if spec.checkpoint_dir.startswith("gs://") else []
    for verb, url in [("read", url) for url in spec.data] + [("write", url) for url in written]:
        bucket, _, prefix = url.removeprefix("gs://").partition("/")
        path = quote(bucket, safe="")
        listed = urlencode({"prefix": prefix, "maxResults": 1, "fields": "items(name)"})
        granted = "iam/testPermissions?permissions=storage.objects.create"
        refused = "401|403|404" if verb == "read" else "401|403|404|nothing"
        yield {
            "says": f"{url}: storage answered a check of {verb} access with",
            "ask": f"{path}/o?{listed}" if verb == "read" else f"{path}/{granted}",
            "field": "items" if verb == "read" else "permissions",
            "denies": "404" if verb == "write" and prefix else refused,
            "fine": r"\[.+\]",
        }
        yield {
            "says": f"{url} is in another region",
            "ask": f"{path}?fields=location",
            "field": "location",
            "denies": "",
            "fine": "|".join([r"(?i)\d+", "nothing", *locations_near(region)]),
        }


def locations_near(region: str) -> list[str]:
    """Return patterns of bucket locations for a task's checks that are or contain a region, in
    lower case."""
    parts = region.split("-")
    near = ["-".join(parts[: count + 1]) for count in range(len(parts))] if region else [".*"]
    return [*near, *(["eu"] if parts[0] == "europe" else [])]
