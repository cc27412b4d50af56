"""A charge: one entry of the ledger, with everything that a bill states about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from service.domain.catalog.zones import region_of
from service.domain.metering.attribution import Attribution
from service.domain.pricing.price_book import Price

OURS = ("user", "team", "job")
"""The tags that say who is charged; labels are added to them."""


class ChargeKind(StrEnum):
    """The kind of resource that is charged for, by its name on a bill."""

    TPU_VM = "TPU VM"
    TPU_NODE = "TPU Node"
    MACHINE = "Virtual Machine"
    """The user's own VM, which drives a TPU Node."""

    RESERVATION = "TPU Reservation"
    """The part of a calendar-mode reservation that no node used."""

    COMMITMENT = "TPU Commitment"
    """The fee of a committed-use discount, and the part of it that covers nothing."""


class Status(StrEnum):
    """The relation of a charge to the commitment that it names."""

    PAID = ""
    """The charge is the fee itself."""

    USED = "Used"
    """The commitment covers the charge."""

    UNUSED = "Unused"
    """The charge is the part of the fee that covers nothing."""


@dataclass(frozen=True, slots=True)
class CommittedUse:
    """A committed-use discount on a charge: `id` is Google's full name of the discount."""

    id: str
    name: str
    type: str
    status: Status


@dataclass(frozen=True, slots=True)
class Resource:
    """What is charged for: a node or a slice of it in one placement, a machine, a reservation.

    `path` is Google's full name of the resource. The full name of a machine is unknown: its `path`
    names the node that the machine drives. `model` is the provisioning model. `reservation` is the
    reservation that the capacity was taken from, if known. `commitment` is the same reservation if
    it is a recorded calendar-mode reservation, whose price applies. For a machine, `generation` and
    `accelerator_type` are the machine type; for a reservation, both are the generation.
    `committed` is the committed-use discount that applies to the charge. A fee has no zone; its
    region is `in_region`.
    """

    path: str
    name: str
    kind: ChargeKind
    project: str
    zone: str
    generation: str
    accelerator_type: str
    model: str
    reservation: str = ""
    commitment: str = ""
    committed: CommittedUse | None = None
    in_region: str = ""

    def __hash__(self) -> int:
        """The hash of the path, which is nearly unique; every row of an export needs the hash."""
        return hash(self.path)

    @property
    def region(self) -> str:
        """The region of the fee, or of the zone."""
        return self.in_region or region_of(self.zone)


class Charge(NamedTuple):
    """One entry of the ledger; a tuple, because there are millions of entries.

    Instants are whole UTC seconds, amounts nano-dollars. `quantity` is chip-seconds and prices are
    nano-dollars per chip-hour; for a machine, seconds and nano-dollars per hour. `number` is 0 for
    usage and counts the adjustments of the usage from 1 on. `period` is the first second of the
    billing month if the month of the charge was already closed; else None. `list_price` and
    `list_amount` are None if no list price was known, `price` is None if the price book no longer
    has the price. `tags` are made by `tags_of`.
    """

    resource: Resource
    tags: str
    start: int
    end: int
    number: int
    quantity: int
    price_id: str
    price: Price | None
    unit_price: int
    amount: int
    currency: str
    period: int | None = None
    list_price: int | None = None
    list_amount: int | None = None
    is_uncertain: bool = False
    """Whether the resource may have been out of use for a part of the time."""

    effective: int | None = None
    """The amortised cost in nano-dollars; None if it equals the amount."""

    usage_id: str = ""
    since: int = 0
    """The interval of usage, and the instant since which its attribution is in force."""


def tags_of(whose: Attribution) -> str:
    """The tags of a charge: its attribution and labels as one flat JSON object; empty if all are.
    The keys are sorted.

    A label with the name of a tag in OURS becomes `label/team`.
    """
    ours = dict(zip(OURS, (whose.owner, whose.team, whose.job), strict=True))
    found = {key: value for key, value in ours.items() if value}
    for key in sorted(whose.labels):
        name = key
        while name in OURS or name in found:
            name = f"label/{name}"
        found[name] = whose.labels[key]
    return flat_json(found) if found else ""


def flat_json(values: dict[str, str]) -> str:
    """Values of a charge as one JSON object in ASCII with sorted keys, without line breaks."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))
