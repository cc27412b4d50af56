"""Reservations, as the configuration has them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from service.emulator import catalog
from service.emulator.validation import (
    invalid_value,
    parse_integer,
    parse_mapping,
    parse_moment,
    require_known_keys,
)

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Reserved:
    """Chips of one generation in a zone, between two times in unix seconds; None for no bound."""

    name: str
    zone: str
    generation: str
    chips: int
    start: float | None = None
    end: float | None = None

    def state_at(self, now: float) -> str:
        """Return the state of the reservation, with the API's name."""
        if self.start is not None and now < self.start:
            return "APPROVED"
        return "EXPIRED" if self.end is not None and self.end <= now else "ACTIVE"


def reservations_of(raw: object, what: str) -> tuple[Reserved, ...]:
    """Parse a list of reservations; raises ApiError. The default name is `reservation-<index>`."""
    if not isinstance(raw, list | tuple):
        raise invalid_value(f"{what} must be a list")
    reservations = []
    for index, item in enumerate(raw):
        order = parse_mapping(item, "a reservation")
        require_known_keys(order, [key.name for key in fields(Reserved)], "reservation key")
        name = order.get("name", f"reservation-{index}")
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise invalid_value(f"the name of a reservation must match {NAME.pattern}: {name!r}")
        generations = tuple(catalog.GENERATIONS)
        reservations.append(
            Reserved(
                name=name,
                zone=_parse_name(catalog.list_zones(), order.get("zone"), "zone"),
                generation=_parse_name(generations, order.get("generation"), "generation"),
                chips=parse_integer(order.get("chips"), "chips of a reservation", 1, 2**31 - 1),
                start=_parse_bound(order.get("start"), "start"),
                end=_parse_bound(order.get("end"), "end"),
            )
        )
    places = [(reserved.zone, reserved.name) for reserved in reservations]
    if len(set(places)) < len(places):
        raise invalid_value(f"{what} must have different names within a zone")
    return tuple(reservations)


def _parse_name(known: tuple[str, ...], raw: object, what: str) -> str:
    if raw not in known:
        raise invalid_value(f"unknown {what} {raw!r} of a reservation; known: {', '.join(known)}")
    return str(raw)


def _parse_bound(raw: object, what: str) -> float | None:
    if raw is None:
        return None
    return parse_moment(raw, f"{what} of a reservation")
