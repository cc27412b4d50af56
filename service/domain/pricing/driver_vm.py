"""The user's own virtual machine, which drives a legacy TPU Node and is paid for besides. Pure.

Google bills it as any machine of Compute Engine, from its start to its stop; nothing here sees
that. It is charged, as a line of its own, for the seconds in which its TPU is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.domain.catalog import catalog
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.errors import Rejected
from service.domain.ids import is_machine_type
from service.domain.pricing.price_book import VM_HOUR, PriceBook, Sku


@dataclass(frozen=True, slots=True)
class UserVm:
    """The user's own virtual machine that drives a legacy TPU Node: a machine type of Compute
    Engine, such as `n1-standard-8`, and how it is sold."""

    machine_type: str
    provisioning_model: ProvisioningModel = ProvisioningModel.ON_DEMAND


MODELS = (ProvisioningModel.ON_DEMAND, ProvisioningModel.SPOT)
"""How Compute Engine sells a machine, as far as anybody needs it here."""


def check(vm: UserVm, architecture: Architecture) -> None:
    """Raise Rejected for what cannot be a machine of Compute Engine, or drives nothing."""
    if architecture is not Architecture.NODE:
        raise Rejected(
            "the price of a TPU VM includes its machine; use vm only with architecture node",
            field="vm",
        )
    check_machine_type(vm.machine_type, "vm.machine_type")
    check_model(vm.provisioning_model, "vm.provisioning_model")


def check_machine_type(name: str, field: str) -> None:
    """Raise Rejected, naming the field, for what is written as no machine type is, and for an
    accelerator type, which is written alike."""
    if name in catalog.load().accelerators:
        raise Rejected(
            f"{name} is an accelerator type, of TPUs; a machine type of Compute Engine is written"
            " as n1-standard-8",
            field=field,
        )
    if not is_machine_type(name):
        raise Rejected(
            f"{name[:80]!r} is not a machine type; write it as n1-standard-8",
            field=field,
        )


def check_model(model: str, field: str) -> None:
    """Raise Rejected, naming the field, for a model that no machine is sold by."""
    if model not in MODELS:
        raise Rejected(
            f"a virtual machine is sold {' or '.join(MODELS)} here, not {model}",
            field=field,
            models=list(MODELS),
        )


def sku_of(vm: UserVm, region: str) -> Sku:
    """What of it is priced, in a region."""
    return Sku(vm.machine_type, vm.provisioning_model, region, is_vm=True)


def unpriced(vm: UserVm, zones: Iterable[str], book: PriceBook, now: int) -> tuple[str, ...]:
    """A sentence where its price is not known in some regions of the zones: that it is in no
    figure there, and how to enter it."""
    regions = dict.fromkeys(region_of(zone) for zone in zones)
    unknown = [one for one in regions if book.at(sku_of(vm, one), now) is None]
    said = (
        f"no {vm.provisioning_model} price is known for {vm.machine_type} in"
        f" {', '.join(unknown)}. The cost of the VM is in no figure until you add the price:"
        f" POST /v1/prices with generation {vm.machine_type} and unit {VM_HOUR}"
    )
    return (said,) if unknown else ()
