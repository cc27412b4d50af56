"""Reserved capacity for the price book: its place and its time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def pool_of(project: str, zone: str, name: str = "") -> str:
    """Return the pool that purchased capacity comes from. It is a reservation by its name or full
    name, or with an empty name any reservation of the project in the zone."""
    return f"{project}/{zone}/{name.rpartition('/')[2]}"


@dataclass(frozen=True, slots=True)
class Purchase:
    """`generation` chips that are reserved in the whole UTC seconds [start, end); `id` is that of
    the record, `name` Google's name of the reservation."""

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

    def serves_pool(self, pool: str, generation: str) -> bool:
        """Whether capacity of this pool and generation may come from this purchase."""
        named = pool_of(self.project, self.zone, self.name)
        anyone = pool_of(self.project, self.zone)
        return generation == self.generation and pool in (named, anyone)


def find_purchase(
    purchases: Iterable[Purchase], pool: str, generation: str, instant: int
) -> Purchase | None:
    """Return the purchase that serves a pool at an instant: of several the first that began. None
    without one."""
    found = (
        purchase
        for purchase in purchases
        if purchase.start <= instant < purchase.end and purchase.serves_pool(pool, generation)
    )
    return min(
        found, key=lambda purchase: (purchase.start, purchase.name, purchase.id), default=None
    )
