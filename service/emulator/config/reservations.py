"""Hardware set aside for its owner, as it is ordered in the configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from service.emulator import catalog
from service.emulator.validation import known_only, mapping, moment, refusal, whole

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Reserved:
    """Chips of one generation in a zone, from one moment to another; None for no bound."""

    name: str
    zone: str
    generation: str
    chips: int
    start: float | None = None
    end: float | None = None

    def state(self, now: float) -> str:
        """Name the state of the reservation as the API has it."""
        if self.start is not None and now < self.start:
            return "APPROVED"
        return "EXPIRED" if self.end is not None and self.end <= now else "ACTIVE"


def reservations_of(raw: object, what: str) -> tuple[Reserved, ...]:
    """Check a list of reservations; raises ApiError. One without a name is called by its number."""
    if not isinstance(raw, list | tuple):
        raise refusal(f"{what} must be a list")
    found = tuple(_reserved(each, f"reservation-{number}") for number, each in enumerate(raw))
    places = [(each.zone, each.name) for each in found]
    if len(set(places)) < len(places):
        raise refusal(f"{what} must have different names within a zone")
    return found


def _reserved(raw: object, name: str) -> Reserved:
    order = mapping(raw, "a reservation")
    known_only(order, [each.name for each in fields(Reserved)], "reservation key")
    return Reserved(
        name=_name(order.get("name", name)),
        zone=_one_of(catalog.zones(), order.get("zone"), "zone"),
        generation=_one_of(tuple(catalog.GENERATIONS), order.get("generation"), "generation"),
        chips=whole(order.get("chips"), "chips of a reservation", 1, 2**31 - 1),
        start=_moment(order.get("start"), "start"),
        end=_moment(order.get("end"), "end"),
    )


def _name(raw: object) -> str:
    if not isinstance(raw, str) or NAME.fullmatch(raw) is None:
        raise refusal(f"the name of a reservation must match {NAME.pattern}: {raw!r}")
    return raw


def _one_of(known: tuple[str, ...], raw: object, what: str) -> str:
    if raw not in known:
        raise refusal(f"unknown {what} {raw!r} of a reservation; known: {', '.join(known)}")
    return str(raw)


def _moment(raw: object, what: str) -> float | None:
    if raw is None:
        return None
    return moment(raw, f"{what} of a reservation")
