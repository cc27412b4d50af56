"""Request bodies of nodes: their hardware, their software and their terms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from service.api.catalog.runtimes import FrameworkRequest
from service.api.http.schemas import Body, Flag, Instant, Line, Name, Seconds, Text
from service.application.nodes.nodes import NodeChange
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.catalog.provisioning_modes import MAX_SLICES
from service.domain.clock import parse_instant_or_date
from service.domain.idle.policy import MAX_SECONDS, Action, Waste
from service.domain.idle.terms import UNSAID, TermsChange
from service.domain.lifecycle.reimaging import Software
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.node import IdlePolicy
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.driver_vm import UserVm

Places = Annotated[tuple[Name, ...], Field(max_length=100)]
Slices = Annotated[int, Field(strict=True, ge=1, le=MAX_SLICES)]
"""A number of equal slices."""


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

    after_seconds: Annotated[int, Field(strict=True, ge=1, le=MAX_SECONDS)] = Field(
        default=3_600,
        description="Seconds the node must be quiet to be idle. The least follows"
        " from how late signals arrive; less is answered with it.",
        examples=[3_600],
    )
    grace_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_SECONDS)] = Field(
        default=900, description="Seconds between the warning and the action.", examples=[900]
    )
    action: Action = Field(
        default=Action.NOTIFY,
        description="The most that is done; STEWARD_IDLE_MODE may allow less.",
    )
    also: Annotated[tuple[Waste, ...], Field(max_length=len(Waste))] = Field(
        default=(),
        description="What else is stopped or deleted, although it looks busy.",
        examples=[[]],
    )

    def to_policy(self) -> IdlePolicy:
        """The same in the words of the domain."""
        also = tuple(sorted(set(self.also)))
        return IdlePolicy(self.after_seconds, self.grace_seconds, self.action, also)


class UserVmRequest(Body):
    """Your own virtual machine, which drives a legacy TPU Node."""

    machine_type: Annotated[Name, Field(min_length=1)] = Field(
        description="Compute Engine's name of it.", examples=["n1-standard-8"]
    )
    provisioning_model: Literal["on_demand", "spot"] | None = Field(
        default=None, description="on_demand by default.", examples=["on_demand"]
    )

    def to_vm(self) -> UserVm:
        """The same in the words of the domain."""
        if self.provisioning_model is None:
            return UserVm(self.machine_type)
        return UserVm(self.machine_type, ProvisioningModel(self.provisioning_model))


class NodeRequest(HardwareRequest):
    """The request for a node. What is left out, or null, is for the service to choose."""

    accelerator_types: Annotated[tuple[Name, ...], Field(max_length=20)] | None = Field(
        default=None,
        description="Instead of accelerator_type: any of these will do, the cheapest is first.",
        examples=[None],
    )

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
    labels: dict[Text, Text] | None = Field(default=None, examples=[{"run": "17"}])
    runtime_version: Name | None = Field(
        default=None, description="Or say the framework.", examples=[None]
    )
    framework: FrameworkRequest | None = Field(
        default=None, description="JAX by default.", examples=[{"name": "jax"}]
    )
    provisioning_model: ProvisioningModel | None = Field(
        default=None, description="on_demand by default.", examples=["spot"]
    )
    queued: Flag | None = Field(
        default=None,
        description="Ask through a queued resource and wait there for hardware. reserved,"
        " flex_start and several slices always do; preemptible never can.",
    )
    slices: Slices | None = Field(
        default=None,
        description="How many equal slices it is made of; 1 by default.",
        examples=[None],
    )
    reservation: Line | None = Field(
        default=None,
        description="With provisioning_model reserved: which one; any of the project's by default.",
        examples=[None],
    )
    valid_until: Instant | None = Field(
        default=None,
        description="Given up when not READY by then (RFC 3339); or say max_wait_seconds.",
        examples=[None],
    )
    architecture: Architecture | None = Field(
        default=None,
        description="vm by default; node is the legacy TPU Node of v2 and v3, which needs a VM of"
        " your own beside it.",
    )
    vm: UserVmRequest | None = Field(
        default=None,
        description="With architecture node: that VM. Compute Engine bills it; here it becomes a"
        " line of the node's cost, charged for the seconds in which the TPU is.",
        examples=[None],
    )
    network: Line | None = Field(default=None, examples=[None])
    subnetwork: Line | None = Field(default=None, examples=[None])
    external_ip: Flag | None = Field(default=None, description="No by default.")
    service_account: Line | None = Field(
        default=None, description="Whose rights the workers have.", examples=[None]
    )
    data_disks: Annotated[tuple[Line, ...], Field(max_length=100)] | None = Field(
        default=None, examples=[None]
    )
    metadata: dict[Text, Text] | None = Field(
        default=None, description="At most 256 KiB a value; no place for secrets.", examples=[None]
    )
    startup_script: Text | None = Field(
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
    supervisor: Flag | None = Field(
        default=None,
        description="Yes by default: the workers can run jobs. The startup script is then run by"
        " the supervisor, unchanged.",
    )

    def to_request(self) -> RequestedNode:
        """The same in the words of the domain."""
        apart = {"framework", "idle", "valid_until", "vm"}
        values = {name: said for name, said in self if said is not None and name not in apart}
        framework, idle, until = self.framework, self.idle, self.valid_until
        return RequestedNode(
            **values,
            valid_until=None if until is None else parse_instant_or_date(until),
            framework=None if framework is None else framework.name,
            framework_version=None if framework is None else framework.version,
            idle=None if idle is None else idle.to_policy(),
            vm=None if self.vm is None else self.vm.to_vm(),
        )


class ReimageRequest(Body):
    """The software for a legacy TPU Node: give exactly one of `runtime_version` and
    `framework`."""

    runtime_version: Name | None = Field(default=None, examples=["2.16.1"])
    framework: FrameworkRequest | None = Field(default=None, examples=[None])

    def to_software(self) -> Software:
        """The same in the words of the domain."""
        if self.framework is None:
            return Software(self.runtime_version)
        return Software(self.runtime_version, self.framework.name, self.framework.version)


class UpdateRequest(Body):
    """Who is charged for the node from now on, and on which terms it runs; what is left out stays
    as it is."""

    # Their defaults are never read: what is left out is not in `model_fields_set`.
    owner: Line = Field(default_factory=str, description="Empty for nobody.", examples=["grace"])
    team: Line = Field(default_factory=str, description="Empty for none.", examples=["nlp"])
    labels: dict[Text, Text | None] = Field(
        default_factory=dict,
        description="Merged into the labels that are there. Null as the value of a label removes"
        " that label.",
        examples=[{"run": "18", "draft": None}],
    )

    idle: IdleRequest | None = Field(
        default=None,
        description="The node's own idle policy, as a whole. Null removes it: the node inherits"
        " the policy of its team, its project or the default.",
        examples=[{"after_seconds": 3_600, "grace_seconds": 900, "action": "delete"}],
    )
    ttl_seconds: Seconds | None = Field(
        default=None,
        description="The node is deleted so long after its first READY. Null removes the time to"
        " live. Of a flex-start node Google knows it, and it stays.",
        examples=[14_400],
    )

    def to_change(self) -> NodeChange:
        """The same in the words of the domain."""
        said = self.model_fields_set
        own = None if self.idle is None else self.idle.to_policy()
        terms = TermsChange(
            own if "idle" in said else UNSAID,
            self.ttl_seconds if "ttl_seconds" in said else UNSAID,
        )
        owner = self.owner if "owner" in said else None
        team = self.team if "team" in said else None
        return NodeChange(Reattribution(owner, team, self.labels), terms)
