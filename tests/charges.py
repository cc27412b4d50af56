"""Charges with sensible fields, and the files that are made of them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

from service.domain.clock import DAY
from service.domain.costs.charge import Charge, ChargeKind, Resource, tags_of
from service.domain.costs.focus import Account, Version, format_header, format_lines
from service.domain.metering.attribution import Attribution
from service.domain.pricing.price_book import Price, with_reservation
from service.domain.pricing.purchases import Purchase
from tests import factories
from tests.hands import NOON

ACCOUNT = Account.from_settings("012345-6789AB-CDEF01", "steward")
MARCH = Purchase("r-1", "march", "lab", "us-west4-a", "v5e", 0, 2 * NOON)
RESERVED = with_reservation(factories.price(840_000_000, model="calendar", id="c/0"), MARCH)


def resource(**changes: Any) -> Resource:
    """A node of eight v5e chips, on demand."""
    base = Resource(
        path="projects/lab/locations/us-west4-a/nodes/trainer-3d6c2a11",
        name="trainer",
        kind=ChargeKind.TPU_VM,
        project="lab",
        zone="us-west4-a",
        generation="v5e",
        accelerator_type="v5litepod-8",
        model="on_demand",
    )
    return replace(base, **changes)


def tags(**changes: Any) -> str:
    """The tags of what is charged to ada of vision."""
    return tags_of(replace(Attribution("node-1", owner="ada", team="vision"), **changes))


def charge(**changes: Any) -> Charge:
    """A whole hour of that node from noon on, at its list price of 1.20 dollars."""
    base = Charge(
        resource=resource(),
        tags=tags(),
        start=NOON,
        end=NOON + 3_600,
        number=0,
        quantity=8 * 3_600,
        price_id="test/0",
        price=factories.price(),
        unit_price=1_200_000_000,
        amount=9_600_000_000,
        currency="USD",
        list_price=1_200_000_000,
        list_amount=9_600_000_000,
    )
    return base._replace(**changes)


def of_machine(**changes: Any) -> Charge:
    """An hour of the machine that drives a legacy node, at 0.379998 dollars."""
    price = factories.price(
        379_998_000, generation="n1-standard-8", region="us-central1", unit="vm_hour", id="vm/0"
    )
    of = resource(
        path="tpu-steward/vm-of/projects/lab/locations/us-central1-b/nodes/old-1",
        name="VM of old",
        kind=ChargeKind.MACHINE,
        zone="us-central1-b",
        generation="n1-standard-8",
        accelerator_type="n1-standard-8",
    )
    return _at(price, 1)._replace(resource=of)._replace(**changes)


def of_used(**changes: Any) -> Charge:
    """An hour of that node in a reservation, at 0.84 dollars."""
    of = resource(model="reserved", reservation=MARCH.path, commitment=MARCH.path)
    return _at(RESERVED, 8)._replace(resource=of)._replace(**changes)


def of_unused(**changes: Any) -> Charge:
    """An hour of eight chips in that reservation which nobody used."""
    of = resource(
        path=MARCH.path,
        name=MARCH.name,
        kind=ChargeKind.RESERVATION,
        accelerator_type="v5e",
        model="reserved",
        reservation=MARCH.path,
        commitment=MARCH.path,
    )
    return of_used()._replace(resource=of)._replace(**changes)


def _at(price: Price, units: int) -> Charge:
    return charge(
        quantity=units * 3_600,
        price=price,
        price_id=price.id,
        unit_price=price.nanos,
        amount=units * price.nanos,
        list_price=price.nanos,
        list_amount=units * price.nanos,
    )


def focus(
    *charges: Charge,
    version: Version = Version.V1_4,
    now: int = NOON + 90 * DAY,
    account: Account = ACCOUNT,
) -> str:
    """The file of these charges, long after their month was closed."""
    return "".join([format_header(version), *format_lines(account, charges, now)])


def read(text: str) -> list[dict[str, str]]:
    """The rows of a file by the names of their columns."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def only(charge: Charge, version: Version = Version.V1_4) -> dict[str, str]:
    """The one row of one charge."""
    (row,) = read(focus(charge, version=version))
    return row
