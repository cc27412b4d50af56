"""Accelerator types and generations, with their numbers of chips, hosts and cores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.reference_tables import parse_number, split_cell

TAKEN_BACK = frozenset({ProvisioningModel.SPOT, ProvisioningModel.PREEMPTIBLE})
"""Provisioning models whose hardware Google may take back at any time."""

_SPELLING = re.compile(r"(?:cloud-?)?(?:tpu-?)?(v?\d[a-z]*|trillium|ironwood)-?(\d{1,6})")
_FAMILIES = {
    "v5e": "v5litepod",
    "v5lite": "v5litepod",
    "v6": "v6e",
    "trillium": "v6e",
    "7": "tpu7x",
    "7x": "tpu7x",
    "v7": "tpu7x",
    "v7x": "tpu7x",
    "ironwood": "tpu7x",
}


@dataclass(frozen=True, slots=True)
class Generation:
    """The figures of one generation, per chip; None if no source states them.

    `served` says whether the Cloud TPU API has it. HBM in GiB and GB/s, speeds in TFLOPs and TOPs.
    """

    name: str
    google_name: str
    served: bool
    tensorcores_per_chip: int
    hbm_gib: int
    hbm_gb_per_second: int
    bf16_tflops: int
    int8_tops: int | None
    fp8_tflops: int | None
    pod_chips: int
    largest_type: str
    interconnect: str
    release_year: int
    disagreements: str
    source: str

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Generation:
        """The generation in a row of `generations.csv`."""
        return cls(
            name=row["generation"],
            google_name=row["google_name"],
            served=row["tpu_api"] == "yes",
            tensorcores_per_chip=int(row["tensorcores_per_chip"]),
            hbm_gib=int(row["hbm_gib"]),
            hbm_gb_per_second=int(row["hbm_gb_per_second"]),
            bf16_tflops=int(row["bf16_tflops"]),
            int8_tops=parse_number(row["int8_tops"]),
            fp8_tflops=parse_number(row["fp8_tflops"]),
            pod_chips=int(row["pod_chips"]),
            largest_type=row["largest_type"],
            interconnect=row["interconnect"],
            release_year=int(row["release_year"]),
            disagreements=row["disagreements"],
            source=row["source"],
        )


@dataclass(frozen=True, slots=True)
class AcceleratorType:
    """One accelerator type as the Cloud TPU API sees it.

    `topology` is the cloud's default; `topologies` are all that exist for this number of chips.
    `served` says whether the Cloud TPU API has the type.
    """

    name: str
    generation: str
    cores: int
    chips: int
    hosts: int
    chips_per_host: int
    topology: str
    topologies: tuple[str, ...]
    machine_type: str
    host_vcpus: int | None
    host_ram_gb: int | None
    served: bool
    note: str
    source: str

    @property
    def single_host(self) -> bool:
        """Whether one virtual machine has all the chips."""
        return self.hosts == 1

    @property
    def family(self) -> str:
        """The name without its size: `v5litepod` for v5litepod-16."""
        return self.name.rpartition("-")[0]

    @property
    def size(self) -> int:
        """The number in the name: TensorCores for v2, v3, v4 and v5p, chips for the others."""
        return int(self.name.rpartition("-")[2])

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> AcceleratorType:
        """The type in a row of `accelerators.csv`."""
        return cls(
            name=row["accelerator_type"],
            generation=row["generation"],
            cores=int(row["cores"]),
            chips=int(row["chips"]),
            hosts=int(row["hosts"]),
            chips_per_host=int(row["chips_per_host"]),
            topology=row["topology"],
            topologies=split_cell(row["topologies"]),
            machine_type=row["machine_type"],
            host_vcpus=parse_number(row["host_vcpus"]),
            host_ram_gb=parse_number(row["host_ram_gb"]),
            served=row["tpu_api"] == "yes",
            note=row["note"],
            source=row["source"],
        )


def normalize_name(name: str) -> str:
    """Google's spelling of an accelerator type: `v5e-16` and `v5litepod16` become v5litepod-16.

    Text without a family and a size is returned in lower case.
    """
    text = name.strip().lower().replace("_", "-")
    match = _SPELLING.fullmatch(text)
    if match is None:
        return text
    family, size = match.groups()
    return f"{_FAMILIES.get(family, family)}-{int(size)}"
