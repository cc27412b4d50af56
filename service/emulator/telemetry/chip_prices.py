"""Prices of a chip-hour in USD by generation and place: the emulator's own table.

The table is separate from the service's prices, so that a test finds differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

CITIES = {
    "asia-east1": "Taiwan",
    "asia-northeast1": "Tokyo",
    "asia-south1": "Mumbai",
    "asia-south2": "Delhi",
    "asia-southeast1": "Singapore",
    "europe-north1": "Finland",
    "europe-west1": "Belgium",
    "europe-west2": "London",
    "europe-west3": "Frankfurt",
    "europe-west4": "Netherlands",
    "northamerica-northeast1": "Montreal",
    "southamerica-east1": "Sao Paulo",
    "southamerica-west1": "Santiago",
    "us-central1": "Iowa",
    "us-central2": "Oklahoma",
    "us-east1": "South Carolina",
    "us-east4": "Northern Virginia",
    "us-east5": "Columbus",
    "us-south1": "Dallas",
    "us-west1": "Oregon",
    "us-west4": "Las Vegas",
}
# A SKU that is sold in several regions is named after the continent.
AMERICAS = "us-central1,us-east1,us-west1"


@dataclass(frozen=True)
class PriceStep:
    """A price in USD that starts at a moment in unix seconds."""

    at: float
    usd: str


@dataclass(frozen=True)
class Rate:
    """The prices of one generation in one place; `spot` is empty where it has no spot price."""

    generation: str
    regions: tuple[str, ...]
    on_demand: PriceStep
    spot: tuple[PriceStep, ...]

    @property
    def place(self) -> str:
        return CITIES[self.regions[0]] if len(self.regions) == 1 else "Americas"


# Generation, regions, on-demand price, and each spot price with its first day.
TABLE = f"""
v4  us-central2  2022-05-11 3.22  2024-05-02 0.97 2024-12-23 0.9215
v5e {AMERICAS}   2025-02-12 1.2  2025-06-19 0.21298 2026-01-23 0.24493 2026-05-07 0.29771
v5e us-east4     2026-01-23 1.2  2026-01-23 0.6
v5e us-east5     2024-05-02 1.2  2024-05-02 0.6
v5e us-south1    2024-05-02 1.416  2025-02-12 0.5664 2026-05-07 0.65419
v5e us-west4     2024-05-02 1.2  2026-01-23 0.48 2026-05-07 0.52536 2026-08-06 0.5779
v5e asia-east1   2025-06-19 1.38948  2026-01-23 0.55579 2026-05-07 0.47652
v5e asia-northeast1 2026-01-23 1.54104  2026-01-23 0.4244 2026-05-07 0.2534
v5e asia-south2  2026-06-14 1.44132
v5e asia-southeast1 2024-08-26 1.56  2025-02-12 0.78
v5e europe-north1 2025-06-19 1.32132  2025-06-19 0.66066
v5e europe-west1 2025-06-19 1.32132  2025-02-12 0.66066 2026-01-23 0.52853
v5e europe-west3 2026-01-23 1.416  2026-01-23 0.38997 2026-05-07 0.23284
v5e europe-west4 2024-05-02 1.56  2025-06-19 0.44261 2026-01-23 0.44498 2026-05-07 0.51011
v5e northamerica-northeast1 2026-01-23 1.32132  2026-01-23 0.36389 2026-05-07 0.21727
v5e southamerica-west1 2026-01-23 1.716  2026-01-23 0.47259 2026-05-07 0.28217
v5p us-central1,us-east1 2025-02-12 4.2  2025-06-19 1.68 2026-05-07 0.78049
v5p us-east5     2024-05-02 4.2  2025-06-19 1.56009 2026-01-23 1.68 2026-05-07 1.29995
v5p us-south1    2024-05-02 4.779  2026-01-23 1.31614 2026-05-07 0.78584
v5p asia-south2  2026-06-14 4.2
v5p europe-west1 2025-02-12 4.459455  2025-06-19 1.78378 2026-05-07 1.60986
v5p europe-west4 2024-05-02 4.2525  2025-06-19 1.34849 2026-05-07 1.04344
v5p southamerica-east1 2026-06-14 6.430995
v6e {AMERICAS}   2025-02-12 2.7  2025-06-19 0.64833 2026-01-23 0.54421 2026-05-07 0.59266
v6e us-east4     2025-02-12 2.7  2025-06-19 0.85833 2026-01-23 0.57766 2026-05-07 0.34491
v6e us-east5     2025-02-12 2.7  2026-01-23 1.215 2026-05-07 1.27575 2026-08-07 1.4033
v6e us-south1    2025-02-12 2.7  2026-01-23 1.35 2026-05-07 1.21838
v6e asia-northeast1 2025-02-12 3.24  2025-06-19 1.076815 2026-01-23 0.94352 2026-05-07 1.45707
v6e asia-south1  2025-06-19 3.24  2025-06-19 2.27 2026-05-07 1.38895
v6e asia-southeast1 2025-02-12 2.97  2026-01-23 0.36292 2026-05-07 0.2673
v6e europe-west4 2025-02-12 2.97  2026-01-23 1.03748 2026-05-07 1.782
v6e southamerica-west1 2026-01-23 2.7
v7  {AMERICAS}   2026-03-31 12
v7  europe-west2 2026-03-31 13.2
"""

# The older service sells devices of eight cores (four chips), and calls spot "preemptible".
# Description, regions, and each price with its first day.
LEGACY = """
TPU-v2 Accelerator USA|us-central1|2018-10-09 4.5
TPU-v2 Accelerator Europe|europe-west4|2022-01-01 4.95
TPU-v2 Accelerator APAC|asia-east1|2022-01-01 5.22
Preemptible TPU-v2 Accelerator USA|us-central1|2024-05-02 1.35
Preemptible TPU-v2 Accelerator Europe|europe-west4|2024-05-02 1.485 2026-01-23 1.26225
Preemptible TPU-v2 Accelerator APAC|asia-east1|2024-05-02 1.566
Tpu-v2 Pod Accelerator USA|us-central1|2024-06-11 6
Tpu-v2 Pod Accelerator Europe|europe-west4|2024-12-23 6
Tpu-v2 Pod Accelerator APAC|asia-east1|2024-06-11 5.22
Tpu-v2 Pod Preemptible Accelerator USA|us-central1|2024-12-23 1.53
Tpu-v2 Pod Preemptible Accelerator Europe|europe-west4|2024-12-23 1.53
Tpu-v3 Accelerator USA|us-central1,us-east1|2022-01-01 8
Tpu-v3 Accelerator Europe|europe-west4|2022-01-01 8.8
Preemptible Tpu-v3 Accelerator USA|us-central1,us-east1|2024-05-02 2.4 2026-01-23 2.04
Preemptible Tpu-v3 Accelerator Europe|europe-west4|2024-05-02 2.64 2026-01-23 2.244
Tpu-v3 Pod Accelerator USA|us-central1|2019-07-01 8
Tpu-v3 Pod Accelerator Europe|europe-west4|2019-07-28 8
Tpu-v3 Pod Preemptible Accelerator Europe|europe-west4|2024-12-23 2.64
Tpu-v4 Pod Accelerator USA|us-central2|2022-05-11 12.88
Tpu-v4 Pod Preemptible Accelerator USA|us-central2|2024-12-23 3.686
"""

# Flex-start (DWS) prices of a chip-hour, the same in every region.
FLEX_START = {"v5e": "0.6", "v5p": "2.1", "v6e": "1.35", "v7": "6"}


def parse_rates() -> Iterator[Rate]:
    for line in TABLE.strip().splitlines():
        generation, regions, *prices = line.split()
        on_demand, *spot = _parse_steps(prices)
        yield Rate(generation, tuple(regions.split(",")), on_demand, tuple(spot))


def parse_legacy_rates() -> Iterator[tuple[str, tuple[str, ...], tuple[PriceStep, ...]]]:
    """Yield the description, regions and prices of each device."""
    for line in LEGACY.strip().splitlines():
        description, regions, prices = line.split("|")
        yield description, tuple(regions.split(",")), tuple(_parse_steps(prices.split()))


def _parse_steps(words: list[str]) -> list[PriceStep]:
    return [
        PriceStep(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp(), usd)
        for day, usd in zip(words[::2], words[1::2], strict=True)
    ]
