"""A caller's submission, its checks, and the job that is made of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from service.domain.catalog.images import Framework, list_images
from service.domain.catalog.provisioning import Architecture
from service.domain.catalog.runtimes import for_generation
from service.domain.errors import Conflict, Rejected, RuntimeMismatch
from service.domain.ids import check_labels
from service.domain.jobs import secrets
from service.domain.jobs.image import ImageReference
from service.domain.jobs.job import Job, JobSpec
from service.domain.jobs.presets import LAUNCHERS, batch_warnings
from service.domain.nodes.connection import connection_to
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.nodes.recipes import devices_expected
from service.domain.nodes.request import RequestedNode

FUSE_SECONDS = 1_800
"""Seconds by which a node made for a job outlives `max_duration_seconds` at most, even if this
service is down."""

MAX_TEXT_BYTES = 120_000
"""For command, arguments and environment together. They are sent in the metadata, together with a
startup script, and the metadata of a node holds 256 KiB."""

MAX_ONE_TEXT_BYTES = 100_000
"""For each argument or variable. Linux takes at most 128 KiB."""

RESERVED_PREFIX = "STEWARD_"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE = re.compile(r"[1-9][0-9]{0,17}[bkmgBKMG]?")
_BUCKET_PATH = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/\S*)?")
_PATH = re.compile(r"/[^\0,\"\n\r]*")
_SHARED = "tmp"


@dataclass(frozen=True, slots=True)
class Submission:
    """A caller's request for a job. `node` names an existing node; `node_request` requests a new
    node."""

    spec: JobSpec
    project: str = ""
    owner: str = ""
    team: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    node_request: RequestedNode | None = None


def check_submission(submission: Submission) -> Submission:
    """Return the submission with its node request completed. All checks that need no node are done.

    Raises Rejected with the field and the remedy.
    """
    spec = submission.spec
    if bool(submission.node) == (submission.node_request is not None):
        raise Rejected("give exactly one of node and node_spec", field="node_spec")
    ImageReference.parse(spec.image)
    _check_texts(spec)
    _check_environment(spec.env)
    _check_sizes(spec)
    _check_storage(spec)
    _check_framework(spec)
    check_labels(submission.labels)
    if submission.node_request is None:
        return submission
    request = _complete_node_request(submission, submission.node_request)
    return replace(submission, node_request=request)


def _check_texts(spec: JobSpec) -> None:
    texts = {"command": spec.command, "args": spec.args, "env": tuple(spec.env.values())}
    total = sum(len(name.encode()) for name in spec.env)
    for name, values in texts.items():
        for text in values:
            size = len(text.encode())
            total += size
            if "\0" in text:
                raise Rejected(f"{name} cannot hold a NUL character", field=name)
            if size > MAX_ONE_TEXT_BYTES:
                raise Rejected(
                    f"one value of {name} has {size} bytes; at most {MAX_ONE_TEXT_BYTES} are"
                    " possible",
                    field=name,
                )
    if total > MAX_TEXT_BYTES:
        raise Rejected(
            f"command, args and env have {total} bytes together; at most {MAX_TEXT_BYTES} fit into"
            " the metadata of a node. Put the rest into a file in Cloud Storage",
            field="env",
        )
    if spec.command and not spec.command[0]:
        raise Rejected("the first word of command is the program; it is empty", field="command")
    for text in (*spec.command, *spec.args):
        secrets.check_values({"an argument": text}, "args")


def _check_environment(env: Mapping[str, str]) -> None:
    for name in env:
        if not _VARIABLE.fullmatch(name):
            raise Rejected(
                f"{name[:80]!r} is no name of a variable: it starts with a letter or an underscore"
                " and goes on with letters, digits and underscores",
                field="env",
            )
        if name.startswith(RESERVED_PREFIX):
            raise Rejected(
                f"{name[:80]} is set by the service: variables that start with {RESERVED_PREFIX}"
                " are reserved",
                field="env",
            )
    secrets.check_values(env, "env")


def _check_sizes(spec: JobSpec) -> None:
    if spec.shm_size and not _SIZE.fullmatch(spec.shm_size):
        raise Rejected(
            f"{spec.shm_size[:40]!r} is no size: write bytes, or a number with k, m or g, such as"
            " 16g",
            field="shm_size",
        )
    for mount in spec.mounts:
        for path in (mount.source, mount.target):
            if not _PATH.fullmatch(path) or "/../" in f"{path}/":
                raise Rejected(
                    f"{path[:80]!r} is no absolute path that can be mounted", field="mounts"
                )
        if mount.source.split("/")[1] in {"", _SHARED}:
            raise Rejected(
                f"{mount.source[:80]!r} cannot be mounted: a shared /tmp leaves lock files of the"
                " TPU behind. Take another directory",
                field="mounts",
            )


def _check_storage(spec: JobSpec) -> None:
    for address in spec.data:
        if not _BUCKET_PATH.fullmatch(address):
            raise Rejected(
                f"{address[:80]!r} is no address in Cloud Storage, such as gs://bucket/folder",
                field="data",
            )
    place = spec.checkpoint_dir
    if place and not (_BUCKET_PATH.fullmatch(place) or _PATH.fullmatch(place)):
        raise Rejected(
            f"{place[:80]!r} is neither gs://bucket/folder nor an absolute path",
            field="checkpoint_dir",
        )


def _check_framework(spec: JobSpec) -> None:
    if not spec.launcher:
        return
    known = LAUNCHERS.get(spec.launcher)
    if known is None:
        raise Rejected(
            f"{spec.launcher[:40]!r} is no launcher that is known",
            field="framework.launcher",
            launchers=sorted(LAUNCHERS),
        )
    if spec.framework is not known[0]:
        raise Rejected(
            f"{spec.launcher} starts programs of {known[0].label}, not of"
            f" {spec.framework.label if spec.framework else 'no framework'}",
            field="framework.launcher",
        )


def _complete_node_request(submission: Submission, wanted: RequestedNode) -> RequestedNode:
    """The request for the node of a job: with the job's owner and a TTL, and without recreation."""
    spec = submission.spec
    if wanted.architecture is Architecture.NODE:
        raise Conflict(LEGACY)
    if not wanted.supervisor:
        raise Rejected(
            "a node without supervisor cannot run a job; leave out node_spec.supervisor",
            field="node_spec.supervisor",
        )
    if wanted.recreate_on_preemption:
        raise Rejected(
            "a job makes a node for each attempt; leave out node_spec.recreate_on_preemption and"
            " set retries.preemption",
            field="node_spec.recreate_on_preemption",
        )
    fuse = spec.max_duration_seconds + FUSE_SECONDS
    by_framework = wanted.framework is None and wanted.runtime_version is None
    return replace(
        wanted,
        project=wanted.project or submission.project,
        owner=wanted.owner or submission.owner,
        team=wanted.team or submission.team,
        labels=wanted.labels or submission.labels,
        ttl_seconds=wanted.ttl_seconds or fuse,
        framework=spec.framework if by_framework else wanted.framework,
        framework_version=(spec.framework_version or None)
        if by_framework
        else wanted.framework_version,
    )


LEGACY = (
    "a legacy TPU Node cannot run a container: run it on your own VM beside the node."
    " Create the node with POST /v1/nodes; GET /v1/nodes/{id}/connection then shows the docker"
    " command and what each framework needs"
)


def _format_docker_run(node: Node, spec: JobSpec) -> str:
    first = connection_to(node).workers[0]
    address = f"{first.ip}:{first.port}"
    env = {"XRT_TPU_CONFIG": f"tpu_worker;0;{address}", "COLAB_TPU_ADDR": address}
    if node.spec.hosts > 1:
        env = {"TPU_NAME": node.cloud_id}
    words = ["docker", "run", "--rm", "--shm-size", spec.shm_size or "16g"]
    for name, value in {**env, **spec.env}.items():
        words += ["-e", f"{name}={value}"]
    if spec.command:
        words += ["--entrypoint", spec.command[0]]
    return shlex.join([*words, spec.image, *spec.command[1:], *spec.args])


def check_node(node: Node, spec: JobSpec) -> None:
    """Refuse the submission of a job to a node that cannot run it, with the remedy. So no job waits
    for ever.

    Raises Conflict for the state or the kind of the node, RuntimeMismatch for its software. For a
    legacy TPU Node that is READY, the error has the command line for the user's own VM.
    """
    if node.spec.architecture is Architecture.NODE:
        legacy = f"node {node.name} is a legacy TPU Node, which cannot run a container"
        if node.state != NodeState.READY or not node.endpoints:
            raise Conflict(
                f"{legacy}: submit again when it is READY to see the line for your own VM"
            )
        raise Conflict(
            f"{legacy}: run the container on your own VM beside the node, with the line in"
            f" type_on_your_vm. GET /v1/nodes/{node.id}/connection says what each framework needs",
            type_on_your_vm=[_format_docker_run(node, spec)],
        )
    if node.has_ended or node.asked is Asked.ABSENT:
        raise Conflict(f"node {node.name} is {node.state}; name a live node, or a node_spec")
    if not node.spec.supervisor:
        raise Conflict(
            f"node {node.name} has no supervisor: it was made by an older version, adopted, or"
            " requested with supervisor false. Create a new node, or submit with node_spec"
        )
    check_software(node.spec.runtime_version, node.spec.generation, spec)


def check_software(runtime_version: str, generation: str, spec: JobSpec) -> None:
    """Refuse a submission with a framework that the runtime version is not made for. Raises
    RuntimeMismatch with the compatible runtime versions."""
    image = next((image for image in list_images() if image.name == runtime_version), None)
    framework, version = spec.framework, spec.framework_version or None
    if image is None or framework is None or image.has_framework(framework, version):
        return
    made_for = for_generation(generation, framework, Architecture.VM)
    fitting = [image.name for image in made_for if image.has_framework(framework, version)]
    wanted = f"{framework.label} {version}" if version else framework.label
    advice = f"{fitting[0]} is" if fitting else "no runtime version of this generation is"
    raise RuntimeMismatch(
        f"{runtime_version} is not made for {wanted}; {advice}", compatible=fitting
    )


def build_job(submission: Submission, job_id: str, project: str, now: int) -> Job:
    """Return the record of the job that a submission makes."""
    request = submission.node_request
    spec = submission.spec
    return Job(
        id=job_id,
        project=project,
        spec=spec if spec.run_name else replace(spec, run_name=f"job-{job_id[-8:]}"),
        created_at=now,
        owner=submission.owner or (request.owner if request else ""),
        team=submission.team or (request.team if request else ""),
        labels=submission.labels or (request.labels if request else {}),
        own_node=request is not None,
        state_since=now,
        next_try_at=now,
    )


def warnings_of(spec: JobSpec, node: Node) -> tuple[str, ...]:
    """Return the warnings for the submission of a job to this node."""
    found = list(
        batch_warnings(
            devices_expected(node), spec.global_batch, spec.examples, spec.steps_per_epoch
        )
    )
    if not node.spec.service_account:
        found.append(
            "the node has no service_account of its own: any container on it can use the access"
            " token of the project's default account"
        )
    if spec.launcher:
        found.append(f"{spec.launcher}: {LAUNCHERS[spec.launcher][1]}")
    if spec.framework is Framework.TENSORFLOW and node.spec.hosts > 1:
        found.append(
            "TensorFlow on several workers: TPUClusterResolver('local') drives one worker; use"
            " MultiWorkerMirroredStrategy, or JAX or PyTorch/XLA"
        )
    return tuple(found)
