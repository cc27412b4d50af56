"""A charge: one entry of the ledger, with all that a bill says of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from service.domain.attribution import Attribution
from service.domain.pricing import Price
from service.domain.zones import region_of

OURS = ("user", "team", "job")
"""The tags that say who is charged; labels stand beside them."""


class Kind(StrEnum):
    """What can be charged for, as a bill calls it."""

    TPU_VM = "TPU VM"
    TPU_NODE = "TPU Node"
    MACHINE = "Virtual Machine"
    """The user's own, which drives a TPU Node."""

    RESERVATION = "TPU Reservation"
    """What of one, by the calendar, no node used."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What was charged for: a node, or one slice of it, in one placement; a machine; a reservation.

    `path` is Google's full name of it. That of a machine is not known: it says of which node it is
    the machine. `model` is the provisioning model, and `reservation` is the one that it was taken
    from, where it is known. `commitment` is the same where it is one by the calendar that is
    written down, to which its price is due. A machine has its type in place of generation and
    accelerator type, and a reservation has its generation in place of both.
    """

    path: str
    name: str
    kind: Kind
    project: str
    zone: str
    generation: str
    accelerator_type: str
    model: str
    reservation: str = ""
    commitment: str = ""

    def __hash__(self) -> int:
        """By its name, which hardly two share: it is asked for with every row of an export."""
        return hash(self.path)

    @property
    def region(self) -> str:
        """The region of its zone."""
        return region_of(self.zone)


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
