"""Provisioning models and architectures: how hardware is bought, and how it is reached."""

from __future__ import annotations

from enum import StrEnum


class ProvisioningModel(StrEnum):
    """How the hardware is bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    PREEMPTIBLE = "preemptible"
    RESERVED = "reserved"
    FLEX_START = "flex_start"


class Architecture(StrEnum):
    """`vm` is the TPU VM; `node` the legacy TPU Node that the user's own VM reaches over gRPC."""

    VM = "vm"
    NODE = "node"
