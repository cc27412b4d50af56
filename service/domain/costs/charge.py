"""A charge: one entry of the ledger, with all that a bill says of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from service.domain.catalog.zones import region_of
from service.domain.metering.attribution import Attribution
from service.domain.pricing.price_book import Price

OURS = ("user", "team", "job")
"""The tags that say who is charged; labels stand beside them."""


class ChargeKind(StrEnum):
    """What can be charged for, as a bill calls it."""

    TPU_VM = "TPU VM"
    TPU_NODE = "TPU Node"
    MACHINE = "Virtual Machine"
    """The user's own, which drives a TPU Node."""

    RESERVATION = "TPU Reservation"
    """What of one, by the calendar, no node used."""

    COMMITMENT = "TPU Commitment"
    """The fee of a committed-use discount, and the part of it that covers nothing."""


class Status(StrEnum):
    """What a charge has to do with the commitment that it names."""

    PAID = ""
    """The charge is the fee itself."""

    USED = "Used"
    """The commitment covers the charge."""

    UNUSED = "Unused"
    """The charge is the part of the fee that covers nothing."""


@dataclass(frozen=True, slots=True)
class CommittedUse:
    """A committed-use discount, as a charge names it: Google's full name, its name, its type."""

    id: str
    name: str
    type: str
    status: Status


@dataclass(frozen=True, slots=True)
class Resource:
    """What was charged for: a node, or one slice of it, in one placement; a machine; a reservation.

    `path` is Google's full name of it. That of a machine is not known: it says of which node it is
    the machine. `model` is the provisioning model, and `reservation` is the one that it was taken
    from, where it is known. `commitment` is the same where it is one by the calendar that is
    written down, to which its price is due. A machine has its type in place of generation and
    accelerator type, and a reservation has its generation in place of both. `committed` is the
    committed-use discount that the charge is due to; a fee has no zone, and is `in_region`.
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
        """By its name, which hardly two share: it is asked for with every row of an export."""
        return hash(self.path)

    @property
    def region(self) -> str:
        """The region that it is in, or that its zone is in."""
        return self.in_region or region_of(self.zone)


class Charge(NamedTuple):
    """One entry of the ledger; a tuple, as there are millions of them.

    Instants are whole UTC seconds, amounts nano-dollars. `quantity` is chip-seconds and prices are
    nano-dollars per chip-hour; of a machine they are its seconds, and its hour. `number` is 0 for
    usage and counts the adjustments of it from 1 on. `period` is the first second of the month that
    it is billed in where that is not the month of the charge, which was closed by then.
    `list_price` and `list_amount` are None where no list price was known, `price` is None where the
    price book knows no price of that id any more. `tags` are those of `tags_of`.
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
    """Whether it may not have been in use for a part of the time."""

    effective: int | None = None
    """The amortised cost in nano-dollars; None where it is the amount."""

    usage_id: str = ""
    since: int = 0
    """The interval of usage, and the instant from which on it is charged to whom it is."""


def tags_of(whose: Attribution) -> str:
    """Who is charged and the labels, as one flat JSON object with its keys in order; empty when
    there is nothing to say. A label that bears the name of one of ours is `label/team`."""
    ours = dict(zip(OURS, (whose.owner, whose.team, whose.job), strict=True))
    found = {key: value for key, value in ours.items() if value}
    for key in sorted(whose.labels):
        name = key
        while name in OURS or name in found:
            name = f"label/{name}"
        found[name] = whose.labels[key]
    return flat_json(found) if found else ""


def flat_json(values: dict[str, str]) -> str:
    """One JSON object in ASCII, its keys in order; nothing in it can be taken for a line break."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))
