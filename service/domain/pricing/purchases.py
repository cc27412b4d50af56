"""What the price book knows of capacity that was bought: where it is, and from when to when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def pool_of(project: str, zone: str, name: str = "") -> str:
    """Where reserved capacity is taken from: a reservation by its name, or by its full name, or
    with an empty name any that the project has in the zone."""
    return f"{project}/{zone}/{name.rpartition('/')[2]}"


@dataclass(frozen=True, slots=True)
class Purchase:
    """`generation` chips that are reserved in the whole UTC seconds [start, end); `id` is that of
    the record, `name` what Google calls the reservation."""

    id: str
    name: str
    project: str
    zone: str
    generation: str
    start: int
    end: int

    @property
    def path(self) -> str:
        """Google's full name of the reservation, as a queued resource names it."""
        return f"projects/{self.project}/locations/{self.zone}/reservations/{self.name}"

    def serves(self, pool: str, generation: str) -> bool:
        """Whether what is taken from that pool may be taken from this."""
        named = pool_of(self.project, self.zone, self.name)
        anyone = pool_of(self.project, self.zone)
        return generation == self.generation and pool in (named, anyone)


def bought(
    purchases: Iterable[Purchase], pool: str, generation: str, instant: int
) -> Purchase | None:
    """What serves a pool at an instant: of several the one that began first."""
    found = (
        one for one in purchases if one.start <= instant < one.end and one.serves(pool, generation)
    )
    return min(found, key=lambda one: (one.start, one.name, one.id), default=None)
