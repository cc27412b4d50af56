"""The bodies in which callers say what hardware they want, and what is to run on it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from service.api.runtimes import FrameworkRequest
from service.api.schemas import YEAR_SECONDS, Body, Flag, Line, Name, Seconds
from service.domain.node import Architecture, IdlePolicy, ProvisioningModel
from service.domain.wish import Wish

Places = Annotated[tuple[Name, ...], Field(max_length=100)]


class HardwareRequest(Body):
    """The hardware, by its name or by generation and size, and where it may be."""

    accelerator_type: Name | None = Field(
        default=None,
        description="Google's name; or say generation with chips or topology.",
        examples=["v5litepod-16"],
    )
    generation: Name | None = Field(default=None, examples=[None])
    chips: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None, examples=[None]
    )
    topology: Name | None = Field(default=None, examples=[None])
    zone: Name | None = Field(
        default=None,
        description="At most one of zone, zones and regions; anywhere it is offered by default.",
        examples=["us-west4-a"],
    )
    zones: Places | None = Field(default=None, description="Tried in this order.", examples=[None])
    regions: Places | None = Field(default=None, examples=[None])


class IdleRequest(Body):
    """When the node counts as idle, and what then."""

    after_seconds: Annotated[int, Field(strict=True, ge=60, le=YEAR_SECONDS)] = Field(
        default=3_600, description="Seconds of quiet.", examples=[3_600]
    )
    grace_seconds: Annotated[int, Field(strict=True, ge=0, le=YEAR_SECONDS)] = Field(
        default=900, description="Seconds between the warning and the action.", examples=[900]
    )
    action: Literal["observe", "notify", "delete"] = Field(default="notify")


class NodeRequest(HardwareRequest):
    """The wish for a node. What is left out, or null, is for the service to choose."""

    name: Name | None = Field(
        default=None,
        description="Lower-case letters, digits and hyphens, at most 49; unique among live nodes.",
        examples=["trainer"],
    )
    project: Name | None = Field(
        default=None, description="The first of STEWARD_PROJECTS by default.", examples=[None]
    )
    owner: Line | None = Field(default=None, examples=["ada"])
    team: Line | None = Field(default=None, examples=["vision"])
    labels: dict[str, str] | None = Field(default=None, examples=[{"run": "17"}])
    runtime_version: Name | None = Field(
        default=None, description="Or say the framework.", examples=[None]
    )
    framework: FrameworkRequest | None = Field(
        default=None, description="JAX by default.", examples=[{"name": "jax"}]
    )
    provisioning_model: ProvisioningModel | None = Field(
        default=None, description="on_demand by default.", examples=["spot"]
    )
    queued: Flag | None = Field(default=None, description="Not served by this version.")
    architecture: Architecture | None = Field(default=None, description="vm by default.")
    network: Line | None = Field(default=None, examples=[None])
    subnetwork: Line | None = Field(default=None, examples=[None])
    external_ip: Flag | None = Field(default=None, description="No by default.")
    service_account: Line | None = Field(
        default=None, description="Whose rights the workers have.", examples=[None]
    )
    data_disks: Annotated[tuple[Line, ...], Field(max_length=100)] | None = Field(
        default=None, examples=[None]
    )
    metadata: dict[str, str] | None = Field(
        default=None, description="At most 256 KiB a value; no place for secrets.", examples=[None]
    )
    startup_script: str | None = Field(
        default=None, description="Run by each worker as root at every start.", examples=[None]
    )
    ttl_seconds: Seconds | None = Field(
        default=None, description="Deleted so long after its first READY.", examples=[14_400]
    )
    idle: IdleRequest | None = Field(default=None, examples=[None])
    recreate_on_preemption: Flag | None = Field(default=None, description="No by default.")
    max_wait_seconds: Seconds | None = Field(
        default=None, description="Given up when not READY after so long.", examples=[3_600]
    )

    def to_wish(self) -> Wish:
        """The same in the words of the domain."""
        values = self.model_dump(exclude_none=True, exclude={"framework", "idle"})
        framework, idle = self.framework, self.idle
        return Wish(
            **values,
            framework=None if framework is None else framework.name,
            framework_version=None if framework is None else framework.version,
            idle=None if idle is None else IdlePolicy(**idle.model_dump()),
        )

    def digest(self) -> str:
        """The same for the same wish, in whatever order and spacing it was written."""
        said = self.model_dump(mode="json", exclude_unset=True)
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
