"""Zones and regions: where the cloud offers which generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ZoneOffer:
    """That a zone has a generation, and who says so.

    `api`: the Cloud TPU API lists it there. `documented`: Google's documentation does, for any
    product. `flex_start` and `calendar`: it can be bought that way there.
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
    def of(cls, row: Mapping[str, str]) -> ZoneOffer:
        """The offer that a row of `zones.csv` describes."""
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
    """The region of a zone: `us-central1-a` is in us-central1, `us-south1-ai1b` in us-south1."""
    return zone.rpartition("-")[0]
