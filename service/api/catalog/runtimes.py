"""Route that chooses the runtime version for a framework and hardware."""

from __future__ import annotations

from pydantic import Field

from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, View
from service.application import catalog
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture
from service.domain.catalog.runtimes import Resolution

router = Router(tags=["catalog"])


class FrameworkRequest(Body):
    """A framework, and the version that is wanted of it."""

    name: Framework = Field(examples=["tensorflow"])
    version: str | None = Field(
        default=None,
        max_length=40,
        description="`2.15` is the newest 2.15 release; null is the newest that is documented.",
        examples=["2.15"],
    )


class ResolveRequest(Body):
    """The hardware and the framework that have to go together."""

    accelerator_type: str = Field(max_length=80, examples=["v5litepod-16"])
    framework: FrameworkRequest
    architecture: Architecture = Field(
        default=Architecture.VM, description="`node` is the legacy TPU Node, for v2 and v3 only."
    )
    zone: str | None = Field(
        default=None,
        max_length=63,
        description="Refused when this zone does not have the accelerator type.",
        examples=["us-central1-a"],
    )


class ResolutionView(View):
    """The runtime version to use, and why."""

    runtime_version: str = Field(examples=["tpu-vm-tf-2.15.1-pod-pjrt"])
    framework_version: str | None = Field(
        description="What the image pins; null when it pins nothing.", examples=["2.15.1"]
    )
    why: tuple[str, ...] = Field(
        description="The reasons, as sentences.",
        examples=[["v5litepod-16 has 4 hosts, so the name says -pod."]],
    )
    alternatives: tuple[str, ...] = Field(
        description="The other runtime versions that grant the same request, best first.",
        examples=[["tpu-vm-tf-2.15.0-pod-pjrt"]],
    )
    warnings: tuple[str, ...] = Field(description="What to mind.", examples=[[]])
    vm_software: str | None = Field(
        description="What the user's own VM must run beside a legacy TPU Node; null for a TPU VM.",
        examples=[None],
    )

    @classmethod
    def from_resolution(cls, found: Resolution) -> ResolutionView:
        """The view of a resolution."""
        return cls(
            runtime_version=found.runtime_version,
            framework_version=found.framework_version or None,
            why=found.reasons,
            alternatives=found.alternatives,
            warnings=found.warnings,
            vm_software=found.vm_software or None,
        )


@router.post(
    "/v1/runtimes:resolve",
    operation_id="resolve_runtime",
    responses=may_answer(400, 413, 415, 422),
)
def resolve_runtime(body: ResolveRequest) -> ResolutionView:
    """Find the runtime version that fits the hardware and the framework, with the reason."""
    found = catalog.resolve_runtime(
        body.accelerator_type,
        body.framework.name,
        body.framework.version,
        body.architecture,
        body.zone,
    )
    return ResolutionView.from_resolution(found)
