"""What callers wish for: TPU VMs asked for directly and through the queue, and legacy TPU Nodes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from service.domain.node import Architecture, ProvisioningModel
from service.domain.wish import Wish
from tests.simulation.weather import LEGACY_ZONES, ZONES

PROJECT = "lab"
TYPES = ("v5litepod-4", "v5litepod-8", "v5litepod-16")
LEGACY_VERSIONS = ("2.12.0", "2.11.0")


def direct(luck: Random) -> Wish:
    """A wish for a TPU VM."""
    zones = luck.sample(ZONES, luck.randint(1, len(ZONES)))
    model = luck.choice([ProvisioningModel.ON_DEMAND, ProvisioningModel.SPOT])
    return Wish(
        project=PROJECT,
        accelerator_type=luck.choice(TYPES),
        zones=tuple(zones),
        provisioning_model=model,
        recreate_on_preemption=luck.random() < 0.5,
        ttl_seconds=luck.choice([None, None, 900, 3600]),
        max_wait_seconds=luck.choice([None, None, 1800]),
    )


def otherwise(wish: Wish, luck: Random, queued: float) -> Wish:
    """The same through the queue for a share of the wishes, or with a choice of the hardware."""
    if luck.random() < queued:
        wish = replace(wish, queued=True, slices=luck.choice([1, 1, 2, 3]))
    if luck.random() < 0.25:
        any_of = luck.sample(TYPES, 2)
        wish = replace(wish, accelerator_type=None, accelerator_types=tuple(any_of))
    return wish


def legacy(wish: Wish, luck: Random) -> Wish:
    """A legacy TPU Node instead, as patient and for as long."""
    return replace(
        wish,
        architecture=Architecture.NODE,
        accelerator_type="v2-8",
        accelerator_types=(),
        zones=tuple(luck.sample(LEGACY_ZONES, luck.randint(1, len(LEGACY_ZONES)))),
        runtime_version=luck.choice(LEGACY_VERSIONS),
        provisioning_model=luck.choice(
            [ProvisioningModel.ON_DEMAND, ProvisioningModel.PREEMPTIBLE]
        ),
        queued=None,
        slices=1,
    )
