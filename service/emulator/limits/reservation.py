"""Hardware set aside for its owner, as it is ordered in the configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from service.emulator import catalog
from service.emulator.clock import LAST_MOMENT, parse
from service.emulator.errors import ApiError, Code

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
        raise _refusal(f"{what} must be a list")
    found = tuple(_reserved(each, f"reservation-{number}") for number, each in enumerate(raw))
    places = [(each.zone, each.name) for each in found]
    if len(set(places)) < len(places):
        raise _refusal(f"{what} must have different names within a zone")
    return found


def _reserved(raw: object, name: str) -> Reserved:
    if not isinstance(raw, Mapping):
        raise _refusal("a reservation must be a JSON object")
    known = ("name", "zone", "generation", "chips", "start", "end")
    strangers = sorted(str(each) for each in set(raw) - set(known))
    if strangers:
        raise _refusal(f"unknown reservation key {', '.join(strangers)}; known: {', '.join(known)}")
    return Reserved(
        name=_name(raw.get("name", name)),
        zone=_one_of(catalog.zones(), raw.get("zone"), "zone"),
        generation=_one_of(tuple(catalog.GENERATIONS), raw.get("generation"), "generation"),
        chips=_chips(raw.get("chips")),
        start=_moment(raw.get("start"), "start"),
        end=_moment(raw.get("end"), "end"),
    )


def _name(raw: object) -> str:
    if not isinstance(raw, str) or NAME.fullmatch(raw) is None:
        raise _refusal(f"the name of a reservation must match {NAME.pattern}: {raw!r}")
    return raw


def _one_of(known: tuple[str, ...], raw: object, what: str) -> str:
    if raw not in known:
        raise _refusal(f"unknown {what} {raw!r} of a reservation; known: {', '.join(known)}")
    return str(raw)


def _chips(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 < raw < 2**31:
        raise _refusal("chips of a reservation must be a whole number, at least 1")
    return raw


def _moment(raw: object, what: str) -> float | None:
    if raw is None:
        return None
    try:
        moment = parse(str(raw))
    except (ValueError, OverflowError):
        moment = math.inf
    if not 0 <= moment <= LAST_MOMENT:
        raise _refusal(f"{what} of a reservation must be unix seconds or RFC 3339: {raw!r}")
    return moment


def _refusal(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, text)
