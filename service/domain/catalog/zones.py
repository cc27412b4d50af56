"""Zones and regions: the generations that the cloud offers in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ZoneOffer:
    """The offer of a generation in a zone, and its source.

    `api`: the Cloud TPU API lists it there. `documented`: Google's documentation lists it, for any
    product. `flex_start` and `calendar`: it is sold there with flex-start and in calendar mode.
    """

    generation: str
    zone: str
    api: bool
    documented: bool
    flex_start: bool
    calendar: bool
    source: str

    @property
    def region(self) -> str:
        """The region of the zone."""
        return region_of(self.zone)

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> ZoneOffer:
        """The offer in a row of `zones.csv`."""
        return cls(
            generation=row["generation"],
            zone=row["zone"],
            api=row["api"] == "yes",
            documented=row["documented"] == "yes",
            flex_start=row["flex_start"] == "yes",
            calendar=row["calendar"] == "yes",
            source=row["source"],
        )


def region_of(zone: str) -> str:
    """The region that a zone lies in, by the zone's name. `us-central1-a` is in us-central1,
    `us-south1-ai1b` in us-south1."""
    return zone.rpartition("-")[0]
