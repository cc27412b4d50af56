"""The user's own virtual machine, which drives a legacy TPU Node and is paid for besides. Pure.

Google bills it as any machine of Compute Engine, from its start to its stop; nothing here sees
that. It is charged, as a line of its own, for the seconds in which its TPU is.
"""

from __future__ import annotations

import re

from service.domain.errors import Rejected
from service.domain.node import Architecture, ProvisioningModel, UserVm
from service.domain.pricing import Sku

MODELS = (ProvisioningModel.ON_DEMAND, ProvisioningModel.SPOT)
"""How Compute Engine sells a machine, as far as anybody needs it here."""

_MACHINE_TYPE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+){1,4}")
_LONGEST = 63


def check(vm: UserVm, architecture: Architecture) -> None:
    """Raise Rejected for what cannot be a machine of Compute Engine, or drives nothing."""
    if architecture is not Architecture.NODE:
        raise Rejected(
            "a TPU VM is a machine of its own, and its price includes that; vm goes with"
            " architecture node alone",
            field="vm",
        )
    if not _MACHINE_TYPE.fullmatch(vm.machine_type) or len(vm.machine_type) > _LONGEST:
        raise Rejected(
            f"{vm.machine_type[:80]!r} is no machine type; write it as n1-standard-8",
            field="vm.machine_type",
        )
    if vm.provisioning_model not in MODELS:
        raise Rejected(
            f"a virtual machine is sold {' or '.join(MODELS)} here, not {vm.provisioning_model}",
            field="vm.provisioning_model",
            models=list(MODELS),
        )


def sku_of(vm: UserVm, region: str) -> Sku:
    """What of it is priced, in a region."""
    return Sku(vm.machine_type, vm.provisioning_model, region, is_vm=True)
