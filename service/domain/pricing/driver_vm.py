"""The user's own virtual machine, which drives a legacy TPU Node and has its own price. Pure.

Google bills the machine as any machine of Compute Engine, from its start to its stop, which this
service does not see. Here the machine is a separate line, for the billed seconds of its TPU.
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
    Engine, such as `n1-standard-8`, and its provisioning model."""

    machine_type: str
    provisioning_model: ProvisioningModel = ProvisioningModel.ON_DEMAND


MODELS = (ProvisioningModel.ON_DEMAND, ProvisioningModel.SPOT)
"""The provisioning models of machines that are supported."""


def check_vm(vm: UserVm, architecture: Architecture) -> None:
    """Raise Rejected for a driver VM that no request can have. Its name can be of no machine type,
    no machine is sold under its model, or it drives no TPU Node."""
    if architecture is not Architecture.NODE:
        raise Rejected(
            "the price of a TPU VM includes its machine; use vm only with architecture node",
            field="vm",
        )
    check_machine_type(vm.machine_type, "vm.machine_type")
    check_model(vm.provisioning_model, "vm.provisioning_model")


def check_machine_type(name: str, field: str) -> None:
    """Raise Rejected, naming the field, for a driver VM whose name is not a machine type. An
    accelerator type has the same form, and is refused."""
    if name in catalog.load_catalog().accelerators:
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
    """Raise Rejected, naming the field, for a model under which no driver VM is sold."""
    if model not in MODELS:
        raise Rejected(
            f"a virtual machine is sold {' or '.join(MODELS)} here, not {model}",
            field=field,
            models=list(MODELS),
        )


def sku_of(vm: UserVm, region: str) -> Sku:
    """Return the SKU of a driver VM in a region."""
    return Sku(vm.machine_type, vm.provisioning_model, region, is_vm=True)


def describe_unpriced(
    vm: UserVm, zones: Iterable[str], book: PriceBook, now: int
) -> tuple[str, ...]:
    """Return a message with the remedy if a driver VM has no known price in some region. Empty if
    the prices in the regions of all zones are known."""
    regions = dict.fromkeys(region_of(zone) for zone in zones)
    unknown = [region for region in regions if book.find_price(sku_of(vm, region), now) is None]
    message = (
        f"no {vm.provisioning_model} price is known for {vm.machine_type} in"
        f" {', '.join(unknown)}. The cost of the VM is in no figure until you add the price:"
        f" POST /v1/prices with generation {vm.machine_type} and unit {VM_HOUR}"
    )
    return (message,) if unknown else ()
