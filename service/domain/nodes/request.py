"""Resolves a caller's request into a spec: every open question is answered or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from service.domain.catalog import provisioning_modes, runtime_reasons, runtimes
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.catalog import Catalog
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.clock import to_rfc3339
from service.domain.errors import Rejected
from service.domain.ids import check_labels, check_name
from service.domain.nodes import legacy
from service.domain.nodes.node import IdlePolicy, NodeSpec
from service.domain.nodes.stop_rules import is_stoppable
from service.domain.pricing import driver_vm
from service.domain.pricing.driver_vm import UserVm

_DEFAULT_FRAMEWORK = {
    Architecture.VM: Framework.JAX,
    Architecture.NODE: Framework.TENSORFLOW,
}
"""The framework of the image if neither a runtime version nor a framework is named. JAX cannot
reach a legacy TPU Node, which was made for TensorFlow."""

MAX_SCRIPT_BYTES = 256 * 1024
"""Google's limit for one metadata value (Compute Engine documentation, custom metadata)."""


@dataclass(frozen=True, slots=True)
class RequestedNode:
    """A caller's request. The service chooses the fields that are None or empty."""

    project: str = ""
    name: str = ""
    owner: str = ""
    team: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    accelerator_type: str | None = None
    accelerator_types: Sequence[str] = ()
    generation: str | None = None
    chips: int | None = None
    topology: str | None = None
    zone: str | None = None
    zones: Sequence[str] = ()
    regions: Sequence[str] = ()
    runtime_version: str | None = None
    framework: Framework | None = None
    framework_version: str | None = None
    provisioning_model: ProvisioningModel = ProvisioningModel.ON_DEMAND
    queued: bool | None = None
    slices: int = 1
    reservation: str = ""
    valid_until: int | None = None
    architecture: Architecture = Architecture.VM
    network: str = ""
    subnetwork: str = ""
    external_ip: bool = False
    service_account: str = ""
    data_disks: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    startup_script: str = ""
    ttl_seconds: int | None = None
    max_wait_seconds: int | None = None
    idle: IdlePolicy | None = None
    recreate_on_preemption: bool = False
    vm: UserVm | None = None
    supervisor: bool = True


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """The spec of a request, with warnings and the reason for each possible runtime version."""

    spec: NodeSpec
    warnings: tuple[str, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Runtime:
    """A runtime version, its warnings, and the reason for it."""

    version: str
    warnings: tuple[str, ...]
    why: str


def resolve_hardware(request: RequestedNode, catalog: Catalog) -> AcceleratorType:
    """The accelerator type of a request, by its name or by generation and size."""
    by_size = (
        request.generation is not None or request.chips is not None or request.topology is not None
    )
    if request.accelerator_type is not None:
        if by_size:
            raise Rejected(
                "give either accelerator_type, or generation with chips or topology",
                field="accelerator_type",
            )
        return catalog.get_accelerator(request.accelerator_type)
    if request.generation is None:
        raise Rejected(
            "give the hardware: accelerator_type, accelerator_types (any of them will do), or"
            " generation with chips or topology",
            field="accelerator_type",
        )
    return catalog.choose_accelerator(
        request.generation, chips=request.chips, topology=request.topology
    )


def candidate_zones(
    request: RequestedNode, accelerator: AcceleratorType, catalog: Catalog
) -> tuple[str, ...]:
    """The zones in which a request allows the node to be created."""
    return catalog.candidate_zones(
        accelerator,
        zone=request.zone,
        zones=request.zones,
        regions=request.regions,
        model=request.provisioning_model,
    )


def check_times(valid_until: int | None, max_wait_seconds: int | None, now: int) -> None:
    """Raise Rejected for a request whose deadline is given twice, or has passed."""
    if valid_until is None:
        return
    if max_wait_seconds is not None:
        raise Rejected("give valid_until or max_wait_seconds, not both", field="valid_until")
    if valid_until <= now:
        raise Rejected(
            f"valid_until {to_rfc3339(valid_until)} has passed: it is {to_rfc3339(now)}",
            field="valid_until",
            now=to_rfc3339(now),
        )


def resolve_spec(
    request: RequestedNode,
    accelerator: AcceleratorType,
    zones: tuple[str, ...],
    *,
    cheapest_first: bool = False,
    warnings: tuple[str, ...] = (),
) -> ResolvedRequest:
    """The spec of a caller's request, with its zones in order; `warnings` follow its own. Raises
    Rejected if it cannot be met."""
    if request.architecture is Architecture.NODE:
        plain = RequestedNode()
        values = {item.name: getattr(request, item.name) for item in fields(request)}
        filled = {name for name, value in values.items() if value and value != getattr(plain, name)}
        legacy.check_request(filled, accelerator, request.provisioning_model)
    if request.vm is not None:
        driver_vm.check_vm(request.vm, request.architecture)
    terms = provisioning_modes.ProvisioningTerms(
        model=request.provisioning_model,
        queued=request.queued,
        slices=request.slices,
        reservation=request.reservation,
        ttl_seconds=request.ttl_seconds,
        architecture=request.architecture,
    )
    queued, (ttl_seconds, told) = (
        provisioning_modes.is_queued(terms),
        provisioning_modes.run_limit(terms),
    )
    _check_details(request, accelerator)
    runtime = _choose_runtime(request, accelerator)
    spec = NodeSpec(
        project=request.project,
        accelerator_type=accelerator.name,
        generation=accelerator.generation,
        chips=accelerator.chips * request.slices,
        hosts=accelerator.hosts * request.slices,
        zones=zones,
        cheapest_first=cheapest_first,
        runtime_version=runtime.version,
        provisioning_model=request.provisioning_model,
        topology=accelerator.topology,
        network=request.network,
        subnetwork=request.subnetwork,
        external_ip=request.external_ip,
        service_account=request.service_account,
        data_disks=tuple(request.data_disks),
        metadata=dict(request.metadata),
        startup_script=request.startup_script,
        ttl_seconds=ttl_seconds,
        max_wait_seconds=request.max_wait_seconds,
        idle=request.idle,
        recreate_on_preemption=request.recreate_on_preemption,
        stoppable=is_stoppable(accelerator, request.provisioning_model) and not queued,
        architecture=request.architecture,
        queued=queued,
        slices=request.slices,
        valid_until=request.valid_until,
        reservation=request.reservation,
        vm=request.vm,
        supervisor=request.supervisor and request.architecture is Architecture.VM,
    )
    own = (*runtime.warnings, *_list_own_vm_duties(request, runtime.version), *told)
    return ResolvedRequest(spec, (*own, *warnings), (runtime.why,))


def _check_details(request: RequestedNode, accelerator: AcceleratorType) -> None:
    """Raise Rejected for a wrong topology, name, label, startup script or metadata."""
    if request.topology is not None and request.topology.strip().lower() != accelerator.topology:
        raise Rejected(
            f"{accelerator.name} is made as {accelerator.topology} only by this version",
            field="topology",
            topology=accelerator.topology,
        )
    if request.name:
        check_name(request.name)
    check_labels(request.labels)
    values = {"startup_script": request.startup_script, **request.metadata}
    for name, value in values.items():
        if len(value.encode()) > MAX_SCRIPT_BYTES:
            raise Rejected(
                f"{name[:80]} is longer than 256 KiB, which Google refuses", field=name[:80]
            )
    if "\0" in "".join((*values, *values.values())):
        raise Rejected("metadata cannot hold a NUL character", field="metadata")
    if request.startup_script and "startup-script" in request.metadata:
        raise Rejected(
            "startup_script is given twice; give it either as startup_script or in metadata",
            field="startup_script",
        )


def _choose_runtime(request: RequestedNode, accelerator: AcceleratorType) -> _Runtime:
    named = request.runtime_version
    if named is not None:
        if request.framework is not None:
            raise Rejected("give runtime_version or framework, not both", field="runtime_version")
        warnings = runtimes.check_runtime(named, accelerator, request.architecture)
        return _Runtime(named, tuple(warnings), runtime_reasons.describe_named(named, accelerator))
    framework = request.framework or _DEFAULT_FRAMEWORK[request.architecture]
    found = runtimes.resolve_runtime(
        accelerator, framework, request.framework_version, request.architecture
    )
    version, by_default = found.runtime_version, request.framework is None
    why = runtime_reasons.describe_chosen(version, framework, found.reasons, by_default=by_default)
    return _Runtime(version, found.warnings, why)


def _list_own_vm_duties(request: RequestedNode, runtime_version: str) -> list[str]:
    """What the user's own VM for a legacy TPU Node must run, and how it is billed."""
    if request.architecture is Architecture.VM:
        return []
    software = f"your own VM has to run {runtimes.vm_software(runtime_version)}"
    return [software, legacy.NOT_INCLUDED if request.vm is None else legacy.VM_INCLUDED]
