"""What callers request: TPU VMs, directly, through the queue or out of a reservation,
and legacy TPU Nodes with and without the VM that drives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.metering.reservation import Reservation
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.driver_vm import UserVm
from tests.simulation.cloud_faults import LEGACY_ZONES, ZONES

PROJECT = "lab"
TYPES = ("v5litepod-4", "v5litepod-8", "v5litepod-16")
OVERLOOKED = "block-overlooked"
"""A reservation that nobody names, as nobody thinks of it."""
RESERVED_TYPES = {"v5e": TYPES, "v6e": ("v6e-4", "v6e-8")}
LEGACY_VERSIONS = ("2.12.0", "2.11.0")
FLEXIBLE_TYPES = {"us-west4-a": TYPES, "us-east5-a": ("v6e-4", "v6e-8")}
"""By the zones that sell them so."""
PAYING = ("vision", "vision", "nlp", "")
MACHINES = ("n1-standard-8", "n1-standard-8", "n2-standard-8")
"""The price list that ships knows the first, on demand, and not the other."""


def direct(luck: Random) -> RequestedNode:
    """A request for a TPU VM."""
    zones = luck.sample(ZONES, luck.randint(1, len(ZONES)))
    model = luck.choice([ProvisioningModel.ON_DEMAND, ProvisioningModel.SPOT])
    return RequestedNode(
        project=PROJECT,
        accelerator_type=luck.choice(TYPES),
        zones=tuple(zones),
        provisioning_model=model,
        recreate_on_preemption=luck.random() < 0.5,
        ttl_seconds=luck.choice([None, None, 900, 3600]),
        max_wait_seconds=luck.choice([None, None, 1800]),
    )


def otherwise(request: RequestedNode, luck: Random, queued: float) -> RequestedNode:
    """The same through the queue for a share of the requests, or with a choice of the hardware."""
    if luck.random() < queued:
        request = replace(request, queued=True, slices=luck.choice([1, 1, 2, 3]))
    if luck.random() < 0.25:
        any_of = luck.sample(TYPES, 2)
        request = replace(request, accelerator_type=None, accelerator_types=tuple(any_of))
    return request


def legacy(request: RequestedNode, luck: Random) -> RequestedNode:
    """A legacy TPU Node instead, as patient and for as long."""
    return replace(
        request,
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


def reserved(request: RequestedNode, luck: Random, bought: Sequence[Reservation]) -> RequestedNode:
    """Capacity that was bought instead: of that reservation, or of any that is in the zone."""
    one = luck.choice(bought)
    name = "" if one.name == OVERLOOKED else one.name
    others = [zone for zone in ZONES if zone != one.zone] if one.generation == "v5e" else []
    beside = luck.sample(others, 1) if others and luck.random() < 0.25 else []
    return replace(
        request,
        accelerator_type=luck.choice(RESERVED_TYPES[one.generation]),
        accelerator_types=(),
        zones=(one.zone, *beside),
        provisioning_model=ProvisioningModel.RESERVED,
        reservation=luck.choice([name, name, ""]),
        slices=luck.choice([1, 1, 2]),
        queued=None,
    )


def flexible(request: RequestedNode, luck: Random) -> RequestedNode:
    """Flex-start capacity instead, which the cloud takes back when its time is over."""
    zone = luck.choice(tuple(FLEXIBLE_TYPES))
    return replace(
        request,
        accelerator_type=luck.choice(FLEXIBLE_TYPES[zone]),
        accelerator_types=(),
        zones=(zone,),
        provisioning_model=ProvisioningModel.FLEX_START,
        reservation="",
        ttl_seconds=luck.choice([300, 600, 1800, None]),
        slices=luck.choice([1, 1, 2]),
        queued=None,
    )


def paid(request: RequestedNode, luck: Random) -> RequestedNode:
    """The same, for somebody whose money it is."""
    return replace(
        request,
        team=luck.choice(PAYING),
        owner=luck.choice(["ada", "bob", ""]),
        labels=luck.choice([{}, {"run": "17"}, {"run": "17", "stage": "a"}, {"run": "18"}]),
        ttl_seconds=request.ttl_seconds or luck.choice([None, 600, 1800, 3600]),
    )


def brief(luck: Random) -> RequestedNode:
    """One of many that are asked for at once, for minutes each."""
    request = replace(direct(luck), accelerator_type=luck.choice(TYPES[:2]), zones=ZONES[:1])
    return replace(paid(request, luck), ttl_seconds=luck.choice([300, 900, 1800]))


def driven(request: RequestedNode, luck: Random) -> RequestedNode:
    """The same legacy TPU Node, and the machine of its owner that drives it."""
    model = luck.choice([ProvisioningModel.ON_DEMAND] * 3 + [ProvisioningModel.SPOT])
    return replace(request, vm=UserVm(luck.choice(MACHINES), model))
