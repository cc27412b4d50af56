"""Books with one of everything that is charged: a node, a legacy node with its machine, and a
reservation by the calendar that nodes ran in for a while."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from service.application.pricing.reservations import ReservationService
from service.domain.catalog.provisioning import Architecture
from service.domain.clock import DAY, HOUR, Clock
from service.domain.metering.meter import Evidence
from service.domain.metering.reservation import Reservation
from service.domain.metering.usage import start_usage, with_end
from service.domain.nodes.node import Node, NodeState
from service.domain.pricing.driver_vm import UserVm
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.hands import NOON
from tests.purchases import metered, ran_reserved

START = NOON - 96 * HOUR
"""The first of November 2026, noon."""

TPU_HOUR, MACHINE_HOUR = 4_500_000_000, 379_998_000
"""What a v2-8 and an n1-standard-8 cost in us-central1, in nano-dollars."""

CHIP_HOUR = 840_000_000
"""What a v5e chip costs in a reservation in us-west4."""


@dataclass(frozen=True, slots=True)
class Books:
    """What is in them. `first` and `second` ran in the reservation, one after the other."""

    plain: Node
    legacy: Node
    first: Node
    second: Node
    bought: Reservation


def reservation(units: Units, clock: Clock, **changes: Any) -> Reservation:
    """Eight v5e chips that are written down as bought for a day."""
    base = Reservation(
        id="",
        name="march",
        project=factories.PROJECT,
        zone=factories.ZONE,
        generation="v5e",
        chips=8,
        start=START,
        end=START + DAY,
        team="infra",
        labels={"order": "4711"},
    )
    service = ReservationService(units, PriceBookCache(), clock, [factories.PROJECT])
    return service.record(replace(base, **changes)).shown.reservation


def ran(units: Units, start: int, end: int, **changes: Any) -> Node:
    """A node that was READY then. What it costs is not posted yet."""
    node = factories.node(state=NodeState.DELETED, ended_at=end, **changes)
    usage = with_end(
        start_usage(node, start, start, Evidence.OPERATION), end, end, Evidence.OPERATION
    )
    with units() as unit:
        unit.nodes.add(node)
        usage = unit.usage.save(usage)
        unit.usage_versions.add(usage, start)
    return node


def legacy(units: Units, start: int, end: int, **changes: Any) -> Node:
    """A legacy TPU Node with the machine that drives it."""
    fields: dict[str, Any] = {
        "architecture": Architecture.NODE,
        "accelerator_type": "v2-8",
        "generation": "v2",
        "chips": 4,
        "zone": "us-central1-b",
        "cloud_id": "old-1",
        "name": "old",
        "vm": UserVm("n1-standard-8"),
    }
    return ran(units, start, end, **(fields | changes))


def kept(units: Units, clock: Clock) -> Books:
    """Some hours of each, all of them posted. The first node in the reservation began 17 seconds
    late; the second began before the first is known to have ended, so that five seconds are
    charged twice and a line of what nobody used is less than nothing."""
    bought = reservation(units, clock)
    late, over = START + 3 * HOUR, START + 5 * HOUR
    books = Books(
        plain=ran(units, START + 60, over, name="plain", cloud_id="plain-1"),
        legacy=legacy(units, START + 60, over),
        first=ran_reserved(units, START + 17, late + 5, name="first", cloud_id="first-1"),
        second=ran_reserved(units, late, late + HOUR, name="second", cloud_id="second-1"),
        bought=bought,
    )
    metered(units, clock)
    return books
