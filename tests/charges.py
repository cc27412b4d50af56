"""Charges with sensible fields, and the files that are made of them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

from service.domain.attribution import Attribution
from service.domain.charge import Charge, Resource, tags_of
from service.domain.focus import Account, Version, header, lines
from tests import factories
from tests.hands import NOON

ACCOUNT = Account.of("012345-6789AB-CDEF01", "steward")


def resource(**changes: Any) -> Resource:
    """A node of eight v5e chips, on demand."""
    base = Resource(
        path="projects/lab/locations/us-west4-a/nodes/trainer-3d6c2a11",
        name="trainer",
        legacy=False,
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
        chip_seconds=8 * 3_600,
        price_id="test/0",
        price=factories.price(),
        unit_price=1_200_000_000,
        amount=9_600_000_000,
        currency="USD",
        list_price=1_200_000_000,
        list_amount=9_600_000_000,
    )
    return base._replace(**changes)


def focus(*charges: Charge, version: Version = Version.V1_4) -> str:
    """The file of these charges."""
    return "".join([header(version), *lines(ACCOUNT, charges)])


def read(text: str) -> list[dict[str, str]]:
    """The rows of a file by the names of their columns."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def only(charge: Charge, version: Version = Version.V1_4) -> dict[str, str]:
    """The one row of one charge."""
    (row,) = read(focus(charge, version=version))
    return row
