"""The hardware, models and units that can have a price. Pure."""

from __future__ import annotations

from service.domain.catalog import catalog
from service.domain.catalog.runtime_reasons import NODE_GENERATIONS
from service.domain.errors import Rejected
from service.domain.ids import is_machine_type
from service.domain.pricing import driver_vm
from service.domain.pricing.price_book import CALENDAR, CHIP_HOUR, VM_HOUR, Price


def check_named(name: str) -> None:
    """Raise Rejected for a name of hardware that is not sellable. It is neither a TPU generation
    nor in the form of a machine type."""
    known = catalog.load_catalog()
    if name in known.accelerators:
        raise Rejected(
            f"{name} is an accelerator type; prices are those of its generation,"
            f" {known.accelerators[name].generation}",
            field="generation",
        )
    if not is_machine_type(name):
        known.get_generation(name)


def check_sold(price: Price) -> None:
    """Raise Rejected, naming the field, for a price of a product that is not sellable."""
    is_tpu = price.generation in catalog.load_catalog().generations
    if price.unit == VM_HOUR:
        if is_tpu:
            raise Rejected(
                f"{price.generation} is a generation of TPUs, priced per {CHIP_HOUR}; {VM_HOUR} is"
                " for a machine type, as in n1-standard-8",
                field="unit",
            )
        driver_vm.check_machine_type(price.generation, "generation")
        driver_vm.check_model(price.model, "provisioning_model")
        return
    check_named(price.generation)
    if not is_tpu:
        raise Rejected(
            f"{price.generation} is a machine type, priced per {VM_HOUR}, not per {price.unit}",
            field="unit",
        )
    if price.model == CALENDAR and price.generation in NODE_GENERATIONS:
        raise Rejected(
            f"{price.generation} has no calendar-mode reservations: Google offers v5e and later so",
            field="provisioning_model",
        )


def check_discounted(generation: str, model: str) -> None:
    """Raise Rejected, naming the field, for a discount on a product that is not sellable. Both may
    be empty: any TPU, any model. `model` is a series of prices."""
    if not generation:
        return
    check_named(generation)
    if model and is_machine_type(generation):
        driver_vm.check_model(model, "provisioning_model")
