"""What the emulated cloud offers: accelerator types, the zones that have them, runtime versions.

This table is independent of the service's own, so a difference between the two shows in tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product

OLD = ("v2", "v3", "v4")
ALL = ("v2", "v3", "v4", "v5e", "v5p", "v6e")
FLAT_SIZES = (1, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Accelerator:
    """One accelerator type; `config_type` is the number of `AcceleratorConfig.Type`."""

    name: str
    generation: str
    config_type: int
    cores: int
    chips: int
    hosts: int
    topology: str

    @property
    def single_host(self) -> bool:
        return self.hosts == 1


@dataclass(frozen=True)
class Generation:
    """How the types of one generation are named: by their cores, one or two on a chip."""

    prefix: str
    config_type: int
    cores_per_chip: int
    sizes: tuple[int, ...]


# Generations with a three-dimensional torus; the others have two dimensions.
SOLID = {"v4", "v5p"}
# The v5p sizes that Google's list leaves out of the multiples of 128.
V5P_GAPS = {8576, 9088, 9344, 10112, 10624, 11392}
V5P_SIZES = (8, 16, 32, 64, *(n for n in range(128, 12289, 128) if n not in V5P_GAPS))

GENERATIONS = {
    "v2": Generation("v2", 2, 2, (8, 32, 128, 256, 512)),
    "v3": Generation("v3", 4, 2, (8, 32, 64, 128, 256, 512, 1024, 2048)),
    "v4": Generation("v4", 7, 2, (8, 16, 32, 64, *range(128, 6145, 128))),
    "v5e": Generation("v5litepod", 9, 1, FLAT_SIZES),
    "v5p": Generation("v5p", 10, 2, V5P_SIZES),
    "v6e": Generation("v6e", 11, 1, FLAT_SIZES),
}

ZONES = {
    "v2": "asia-east1-c europe-west4-a us-central1-a us-central1-b us-central1-c us-central1-f",
    "v3": "europe-west4-a us-central1-a us-central1-b us-central1-f us-east1-d",
    "v4": "us-central2-b",
    "v5e": "asia-east1-a asia-east1-b asia-east1-c asia-northeast1-b asia-southeast1-b"
    " europe-north1-a europe-north1-c europe-west1-b europe-west1-c europe-west3-c europe-west4-a"
    " europe-west4-b northamerica-northeast1-b southamerica-west1-b southamerica-west1-c"
    " us-central1-a us-east1-b us-east1-c us-east4-b us-east5-a us-east5-b us-east5-c us-south1-a"
    " us-south1-b us-west1-c us-west4-a us-west4-b",
    "v5p": "europe-west1-b europe-west1-d europe-west4-b us-central1-a us-east1-d us-east5-a"
    " us-east5-b us-east5-c us-south1-a us-south1-b us-south1-c",
    "v6e": "asia-east1-c asia-northeast1-b asia-south1-b asia-south1-c asia-southeast1-b"
    " europe-west4-a southamerica-east1-c southamerica-west1-a us-central1-a us-central1-b"
    " us-central1-c us-central2-b us-east1-d us-east4-a us-east4-b us-east5-a us-east5-b"
    " us-east5-c us-south1-a us-south1-ai1b us-south1-c us-west1-c",
}

# Runtime versions that follow no rule, with the generations they were made for.
BASE_RUNTIMES = {
    "v2-alpha-tpuv6e": ("v6e",),
    "v2-alpha-tpuv5": ("v5p",),
    "v2-alpha-tpuv5-lite": ("v5e",),
    "tpu-ubuntu2204-base": OLD,
    "v2-tpuv5-litepod": ("v5e",),
    "tpu-vm-base": ("v2", "v3"),
    "tpu-vm-v4-base": ("v4",),
    "v2-alpha": ("v2", "v3"),
    "v2-alpha-tpuv4": ("v4",),
    "tpu-vm-pt-1.13": ("v2", "v3"),
    "tpu-vm-pt-2.0": ("v2", "v3"),
    "tpu-vm-v4-pt-2.0": ("v4",),
    "tpu-vm-v4-pt-1.13": ("v4",),
    "tpu-vm-tf-2.18.0-pjrt-v5p-and-below": (*OLD, "v5p"),
    "tpu-vm-tf-2.18.0-pjrt-v5e-and-v6": ("v5e", "v6e"),
    "tpu-vm-tf-2.18.0-pod-pjrt-v5e-and-v6": ("v5e", "v6e"),
    "tpu-vm-tf-2.18.0-se": OLD,
    "tpu-vm-tf-2.19.0-pod-pjrt": ("v5e", "v6e"),
    "tpu-vm-tf-nightly": OLD,
    "tpu-vm-tf-nightly-pod": OLD,
    "tpu-vm-tf-v5p-alpha-sc": ("v5p",),
    "tpu-vm-tf-2.8.4": ("v2", "v3"),
    "tpu-vm-tf-2.7.4": ("v2", "v3"),
    "tpu-vm-tf-2.6.5": ("v2", "v3"),
}

# TensorFlow images, single-host and `-pod`: (versions, suffix, generations).
TENSORFLOW_RUNTIMES = (
    ("2.15.0 2.15.1 2.16.1 2.16.2 2.17.0 2.17.1", "-pjrt", ALL),
    ("2.15.0 2.15.1 2.16.1 2.16.2 2.17.0 2.17.1", "-se", OLD),
    ("2.10.1 2.11.0 2.11.1 2.12.0 2.12.1 2.13.0 2.13.1 2.14.0 2.14.1", "", OLD),
    ("2.7.3 2.8.0 2.8.3 2.9.1 2.9.3 2.10.0", "", ("v2", "v3")),
    ("2.9.1 2.9.2 2.9.3 2.10.0", "-v4", ("v4",)),
)

# The generations that legacy TPU Nodes were made of; v4 and later come as TPU VMs only.
LEGACY = ("v2", "v3")
# What a legacy TPU Node can run, by the names of its `tensorflow_version`.
TENSORFLOW_VERSIONS = (
    "1.13 1.14 1.15 1.15.2 1.15.3 2.1 2.1.1 2.1.4 2.2 2.2.3 2.3.1 2.3.3 2.3.4 2.4.0 2.4.2 2.4.3"
    " 2.4.4 2.5.0 2.5.1 2.5.2 2.5.3 2.6.0 2.6.2 2.6.3 2.6.5 2.7.0 2.7.1 2.7.3 2.8.0 2.8.2 2.8.4"
    " 2.9.1 2.9.3 2.10.0 2.10.1 2.11.0 2.11.1 2.12.0 2.12.1 2.13.0 2.13.1 2.14.0 2.14.1 2.15.0"
    " 2.16.1 nightly nightly-2.x pytorch-1.5 pytorch-1.6 pytorch-1.7 pytorch-1.8 pytorch-1.9"
    " pytorch-1.10 pytorch-1.11 pytorch-1.12 pytorch-1.13 pytorch-2.0 pytorch-nightly"
)


@cache
def accelerators_by_name() -> dict[str, Accelerator]:
    """Return every accelerator type of the API by its name."""
    found = {}
    for generation, rule in GENERATIONS.items():
        for size in rule.sizes:
            name = f"{rule.prefix}-{size}"
            chips = size // rule.cores_per_chip
            # A flat slice is `axb` with a <= b and the smallest possible difference.
            width = 1 << ((chips.bit_length() - 1) // 2)
            flat_topology = f"{width}x{chips // width}"
            found[name] = Accelerator(
                name=name,
                generation=generation,
                config_type=rule.config_type,
                cores=size,
                chips=chips,
                # A host has four chips; v5e and v6e also have hosts of eight chips and of one.
                hosts=1 if chips <= 8 and rule.cores_per_chip == 1 else chips // 4,
                topology=_cubic_topology(chips) if generation in SOLID else flat_topology,
            )
    return found


@cache
def list_zones() -> tuple[str, ...]:
    """Return the names of all zones with TPUs, sorted."""
    return tuple(sorted({zone for named in ZONES.values() for zone in named.split()}))


@cache
def list_offered(zone: str) -> tuple[Accelerator, ...]:
    """Return the accelerator types of a zone, sorted by name."""
    here = {generation for generation, named in ZONES.items() if zone in named.split()}
    found = [kind for kind in accelerators_by_name().values() if kind.generation in here]
    return tuple(sorted(found, key=lambda kind: kind.name))


@cache
def list_legacy(zone: str) -> tuple[Accelerator, ...]:
    """Return the accelerator types of a zone that legacy TPU Nodes can have."""
    return tuple(kind for kind in list_offered(zone) if kind.generation in LEGACY)


@cache
def tensorflow_versions() -> tuple[str, ...]:
    """Return the TensorFlow versions of legacy TPU Nodes, which are the same in each zone."""
    return tuple(TENSORFLOW_VERSIONS.split())


@cache
def runtime_versions() -> dict[str, tuple[str, ...]]:
    """Return every runtime version with the generations it fits. Each zone lists all of them."""
    built = {
        f"tpu-vm-tf-{version}{pod}{suffix}": generations
        for versions, suffix, generations in TENSORFLOW_RUNTIMES
        for version, pod in product(versions.split(), ("", "-pod"))
    }
    return dict(sorted((BASE_RUNTIMES | built).items()))


def find_accelerator(
    among: Iterable[Accelerator], name: str, config_type: int, topology: str
) -> Accelerator | None:
    """Return the type with this name, short or full; without a name, with this configuration.

    None if there is no such type.
    """
    short = name.rpartition("/")[2]
    for kind in among:
        if kind.name == short or (
            not short and (kind.config_type, kind.topology) == (config_type, topology)
        ):
            return kind
    return None


def region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def _cubic_topology(chips: int) -> str:
    """Arrange chips as `axbxc`: cubes of 4x4x4, with the smallest possible sum of sides."""
    small = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4"}
    if chips in small:
        return small[chips]
    cubes = chips // 64
    sides = (
        (a, b, cubes // a // b)
        for a in range(1, cubes + 1)
        if cubes % a == 0
        for b in range(a, cubes // a + 1)
        if cubes // a % b == 0 and b <= cubes // a // b
    )
    return "x".join(str(4 * side) for side in min(sides, key=sum))
