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


def resolve_hardware(wish: RequestedNode, catalog: Catalog) -> AcceleratorType:
    """The accelerator type of a request, by its name or by generation and size."""
    by_size = wish.generation is not None or wish.chips is not None or wish.topology is not None
    if wish.accelerator_type is not None:
        if by_size:
            raise Rejected(
                "give either accelerator_type, or generation with chips or topology",
                field="accelerator_type",
            )
        return catalog.get_accelerator(wish.accelerator_type)
    if wish.generation is None:
        raise Rejected(
            "give the hardware: accelerator_type, accelerator_types (any of them will do), or"
            " generation with chips or topology",
            field="accelerator_type",
        )
    return catalog.choose_accelerator(wish.generation, chips=wish.chips, topology=wish.topology)


def candidate_zones(
    wish: RequestedNode, accelerator: AcceleratorType, catalog: Catalog
) -> tuple[str, ...]:
    """The zones in which a request allows the node to be created."""
    return catalog.candidate_zones(
        accelerator,
        zone=wish.zone,
        zones=wish.zones,
        regions=wish.regions,
        model=wish.provisioning_model,
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
    wish: RequestedNode,
    accelerator: AcceleratorType,
    zones: tuple[str, ...],
    *,
    cheapest_first: bool = False,
    warnings: tuple[str, ...] = (),
) -> ResolvedRequest:
    """The spec of a caller's request, with its zones in order; `warnings` follow its own. Raises
    Rejected if it cannot be met."""
    if wish.architecture is Architecture.NODE:
        plain = RequestedNode()
        values = {item.name: getattr(wish, item.name) for item in fields(wish)}
        filled = {name for name, value in values.items() if value and value != getattr(plain, name)}
        legacy.check_request(filled, accelerator, wish.provisioning_model)
    if wish.vm is not None:
        driver_vm.check_vm(wish.vm, wish.architecture)
    terms = provisioning_modes.ProvisioningTerms(
        model=wish.provisioning_model,
        queued=wish.queued,
        slices=wish.slices,
        reservation=wish.reservation,
        ttl_seconds=wish.ttl_seconds,
        architecture=wish.architecture,
    )
    queued, (ttl_seconds, told) = (
        provisioning_modes.is_queued(terms),
        provisioning_modes.run_limit(terms),
    )
    _check_details(wish, accelerator)
    runtime = _choose_runtime(wish, accelerator)
    spec = NodeSpec(
        project=wish.project,
        accelerator_type=accelerator.name,
        generation=accelerator.generation,
        chips=accelerator.chips * wish.slices,
        hosts=accelerator.hosts * wish.slices,
        zones=zones,
        cheapest_first=cheapest_first,
        runtime_version=runtime.version,
        provisioning_model=wish.provisioning_model,
        topology=accelerator.topology,
        network=wish.network,
        subnetwork=wish.subnetwork,
        external_ip=wish.external_ip,
        service_account=wish.service_account,
        data_disks=tuple(wish.data_disks),
        metadata=dict(wish.metadata),
        startup_script=wish.startup_script,
        ttl_seconds=ttl_seconds,
        max_wait_seconds=wish.max_wait_seconds,
        idle=wish.idle,
        recreate_on_preemption=wish.recreate_on_preemption,
        stoppable=is_stoppable(accelerator, wish.provisioning_model) and not queued,
        architecture=wish.architecture,
        queued=queued,
        slices=wish.slices,
        valid_until=wish.valid_until,
        reservation=wish.reservation,
        vm=wish.vm,
        supervisor=wish.supervisor and wish.architecture is Architecture.VM,
    )
    own = (*runtime.warnings, *_list_own_vm_duties(wish, runtime.version), *told)
    return ResolvedRequest(spec, (*own, *warnings), (runtime.why,))


def _check_details(wish: RequestedNode, accelerator: AcceleratorType) -> None:
    """Raise Rejected for a wrong topology, name, label, startup script or metadata."""
    if wish.topology is not None and wish.topology.strip().lower() != accelerator.topology:
        raise Rejected(
            f"{accelerator.name} is made as {accelerator.topology} only by this version",
            field="topology",
            topology=accelerator.topology,
        )
    if wish.name:
        check_name(wish.name)
    check_labels(wish.labels)
    values = {"startup_script": wish.startup_script, **wish.metadata}
    for name, value in values.items():
        if len(value.encode()) > MAX_SCRIPT_BYTES:
            raise Rejected(
                f"{name[:80]} is longer than 256 KiB, which Google refuses", field=name[:80]
            )
    if "\0" in "".join((*values, *values.values())):
        raise Rejected("metadata cannot hold a NUL character", field="metadata")
    if wish.startup_script and "startup-script" in wish.metadata:
        raise Rejected(
            "startup_script is given twice; give it either as startup_script or in metadata",
            field="startup_script",
        )


def _choose_runtime(wish: RequestedNode, accelerator: AcceleratorType) -> _Runtime:
    named = wish.runtime_version
    if named is not None:
        if wish.framework is not None:
            raise Rejected("give runtime_version or framework, not both", field="runtime_version")
        warnings = runtimes.check_runtime(named, accelerator, wish.architecture)
        return _Runtime(named, tuple(warnings), runtime_reasons.describe_named(named, accelerator))
    framework = wish.framework or _DEFAULT_FRAMEWORK[wish.architecture]
    found = runtimes.resolve_runtime(
        accelerator, framework, wish.framework_version, wish.architecture
    )
    version, by_default = found.runtime_version, wish.framework is None
    why = runtime_reasons.describe_chosen(version, framework, found.reasons, by_default=by_default)
    return _Runtime(version, found.warnings, why)


def _list_own_vm_duties(wish: RequestedNode, runtime_version: str) -> list[str]:
    """What the user's own VM for a legacy TPU Node must run, and how it is billed."""
    if wish.architecture is Architecture.VM:
        return []
    software = f"your own VM has to run {runtimes.vm_software(runtime_version)}"
    return [software, legacy.NOT_INCLUDED if wish.vm is None else legacy.VM_INCLUDED]
