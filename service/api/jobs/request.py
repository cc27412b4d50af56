"""The request body of a job."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.schemas import Body, Flag, Line, Name, Text
from service.api.nodes.node_request import NodeRequest
from service.domain.catalog.images import Framework
from service.domain.jobs.job import DeviceAccess, JobSpec, Mount, Retries, Workers
from service.domain.jobs.submission import Submission

WEEKS_SECONDS = 28 * 86_400

Words = Annotated[tuple[Text, ...], Field(max_length=1_000)]
Positive = Annotated[int, Field(strict=True, ge=1, le=2**53)]


class RetriesRequest(Body):
    """How often an attempt is followed by another."""

    preemption: Annotated[int, Field(strict=True, ge=0, le=1_000)] = Field(
        default=10, description="After lost hardware.", examples=[10]
    )
    failure: Annotated[int, Field(strict=True, ge=0, le=1_000)] = Field(
        default=0, description="After a failure of the program.", examples=[1]
    )
    exit_codes: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=1, le=255)], ...], Field(max_length=255)
    ] = Field(
        default=(),
        description="Only these exit codes count as a failure to retry; any by default.",
        examples=[[42]],
    )


class MountRequest(Body):
    """A directory of the worker's disk inside the container."""

    source: Line = Field(examples=["/mnt/data"])
    target: Line = Field(examples=["/data"])
    read_only: Flag = Field(default=False)


class JobFramework(Body):
    """What the training code is written with, and what starts it."""

    name: Framework
    version: Name | None = Field(default=None, examples=[None])
    launcher: Name | None = Field(
        default=None,
        description="jax, torch_xla, lightning, accelerate, tensorflow, keras or fastai.",
        examples=["torch_xla"],
    )


class JobRequest(Body):
    """A container to run on every worker of a node."""

    image: Annotated[Text, Field(max_length=600)] = Field(
        description="An image reference; its digest is pinned at the first attempt.",
        examples=["us-docker.pkg.dev/lab/train/jax:7"],
    )
    command: Words | None = Field(
        default=None, description="Instead of the image's entrypoint.", examples=[["python"]]
    )
    args: Words | None = Field(
        default=None, description="Instead of the image's arguments.", examples=[["train.py"]]
    )
    env: Annotated[dict[Text, Text], Field(max_length=2_000)] | None = Field(
        default=None,
        description="The environment of the container; no place for secrets. STEWARD_* is set by"
        " the service.",
        examples=[{"BATCH": "1024"}],
    )
    node: Name | None = Field(
        default=None,
        description="The id or name of a node that is there; it runs one job at a time.",
        examples=[None],
    )
    node_spec: NodeRequest | None = Field(
        default=None,
        description="A node to make for the job, and to delete after it.",
        examples=[{"accelerator_type": "v5litepod-16", "provisioning_model": "spot"}],
    )
    project: Name | None = Field(default=None, examples=[None])
    framework: JobFramework | None = Field(default=None, examples=[{"name": "jax"}])
    workers: Workers = Field(default=Workers.ALL, description="Which workers run it.")
    device_access: DeviceAccess = Field(
        default=DeviceAccess.AUTO,
        description="auto tries the devices first, then a privileged container.",
    )
    shm_size: Name | None = Field(default=None, description="Of /dev/shm.", examples=["16g"])
    mounts: Annotated[tuple[MountRequest, ...], Field(max_length=50)] | None = Field(
        default=None, examples=[None]
    )
    data: Annotated[tuple[Line, ...], Field(max_length=50)] | None = Field(
        default=None,
        description="Addresses in Cloud Storage that have to be readable before it starts; handed"
        " over as STEWARD_DATA.",
        examples=[["gs://lab-data/imagenet"]],
    )
    checkpoint_dir: Line | None = Field(
        default=None,
        description="Has to be writable before it starts; handed over as STEWARD_CHECKPOINT_DIR,"
        " the same for every attempt.",
        examples=["gs://lab-checkpoints/run-17"],
    )
    max_duration_seconds: Annotated[int, Field(strict=True, ge=1, le=WEEKS_SECONDS)] = Field(
        default=86_400, description="Of one attempt, from the start of its containers."
    )
    stop_grace_seconds: Annotated[int, Field(strict=True, ge=0, le=600)] = Field(
        default=25, description="Between SIGTERM and SIGKILL."
    )
    retries: RetriesRequest | None = Field(default=None)
    run_name: Name | None = Field(
        default=None, description="STEWARD_RUN_NAME; made from the id by default.", examples=["r17"]
    )
    global_batch: Positive | None = Field(
        default=None, description="Checked against the number of devices.", examples=[1024]
    )
    examples: Positive | None = Field(
        default=None, description="In one epoch of the data.", examples=[1_281_167]
    )
    steps_per_epoch: Positive | None = Field(default=None, examples=[None])
    log_budget: Annotated[int, Field(strict=True, ge=0, le=2**40)] = Field(
        default=1_073_741_824,
        description="Bytes of output that each worker ships to Cloud Logging in one attempt.",
    )
    owner: Line | None = Field(default=None, examples=["ada"])
    team: Line | None = Field(default=None, examples=["vision"])
    labels: dict[Text, Text] | None = Field(default=None, examples=[{"run": "17"}])
    dry_run: Flag = Field(default=False, description="Check everything, and record nothing.")

    def to_submission(self) -> Submission:
        """The submission in terms of the domain."""
        framework, retries = self.framework, self.retries
        spec = JobSpec(
            image=self.image,
            command=self.command or (),
            args=self.args or (),
            env=self.env or {},
            workers=self.workers,
            device_access=self.device_access,
            shm_size=self.shm_size or "",
            mounts=tuple(Mount(**mount.model_dump()) for mount in self.mounts or ()),
            data=self.data or (),
            checkpoint_dir=self.checkpoint_dir or "",
            max_duration_seconds=self.max_duration_seconds,
            stop_grace_seconds=self.stop_grace_seconds,
            retries=Retries() if retries is None else Retries(**retries.model_dump()),
            run_name=self.run_name or "",
            global_batch=self.global_batch,
            examples=self.examples,
            steps_per_epoch=self.steps_per_epoch,
            log_budget=self.log_budget,
            framework=None if framework is None else framework.name,
            framework_version=(framework.version or "") if framework else "",
            launcher=(framework.launcher or "") if framework else "",
        )
        return Submission(
            spec=spec,
            project=self.project or "",
            owner=self.owner or "",
            team=self.team or "",
            labels=self.labels or {},
            node=self.node or "",
            node_request=None if self.node_spec is None else self.node_spec.to_request(),
        )
