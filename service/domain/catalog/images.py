"""The software images of runtime versions: their frameworks, and the hardware that they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import Architecture
from service.domain.reference_tables import read_rows, split_cell


class Framework(StrEnum):
    """What the training code is written with."""

    JAX = "jax"
    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"

    @property
    def label(self) -> str:
        """The official spelling of the name."""
        return _LABELS[self]


_LABELS = {
    Framework.JAX: "JAX",
    Framework.PYTORCH: "PyTorch",
    Framework.TENSORFLOW: "TensorFlow",
}


ENVIRONMENT: Mapping[Framework, Mapping[str, str]] = {
    # Without the platform named, JAX falls back to the CPU and trains at a hundredth of the speed.
    Framework.JAX: {"JAX_PLATFORMS": "tpu"},
    Framework.PYTORCH: {"PJRT_DEVICE": "TPU"},
    # No TPU_LOAD_LIBRARY=0: it keeps libtpu from being loaded, and belongs to a program that drives
    # other machines by the name of their TPU.
    Framework.TENSORFLOW: {"TPU_NAME": "local"},
}
"""With these variables, a program without a TPU fails instead of training on the CPU."""

TENSORFLOW_PJRT: Mapping[str, str] = {
    "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/lib/libtpu.so",
}
"""Further variables for TensorFlow on an image with the device API `pjrt`."""


class ImageStanding(StrEnum):
    """How sure it is that the cloud has the image, and how wise it is to take it; best first."""

    DOCUMENTED = "documented"
    OBSERVED = "observed"
    DROPPED = "dropped"
    DERIVED = "derived"
    LEGACY = "legacy"
    NIGHTLY = "nightly"
    UNOBSERVED = "unobserved"


class Hosts(StrEnum):
    """How many hosts an image is made for."""

    SINGLE = "single"
    MULTI = "multi"
    ANY = "any"


_BEST_FIRST = list(ImageStanding)
_PREFERENCE = {"pjrt": 0, "se": 1, "": 2}


@dataclass(frozen=True, slots=True)
class Image:
    """One runtime version. For a TPU Node it is the `tensorflow_version` of the v1 API.

    `framework_version` is empty when the image pins none. `device_api` is `pjrt`, `se` (stream
    executor) or empty. Users reported `report` for the generations in `reported_on`.
    """

    name: str
    architecture: Architecture
    frameworks: tuple[Framework, ...]
    framework_version: str
    generations: tuple[str, ...]
    hosts: Hosts
    device_api: str
    libtpu: str
    standing: ImageStanding
    reported_on: tuple[str, ...]
    report: str
    note: str
    source: str

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Image:
        """The image in a row of `runtime_versions.csv`."""
        return cls(
            name=row["runtime_version"],
            architecture=Architecture(row["architecture"]),
            frameworks=tuple(map(Framework, split_cell(row["frameworks"]))),
            framework_version=row["framework_version"],
            generations=split_cell(row["generations"]),
            hosts=Hosts(row["hosts"]),
            device_api=row["device_api"],
            libtpu=row["libtpu"],
            standing=ImageStanding(row["standing"]),
            reported_on=split_cell(row["reported_on"]),
            report=row["report"],
            note=row["note"],
            source=row["source"],
        )

    def made_for(self, accelerator: AcceleratorType) -> bool:
        """Whether the image is made for the number of hosts of the type."""
        match self.hosts:
            case Hosts.SINGLE:
                return accelerator.single_host
            case Hosts.MULTI:
                return not accelerator.single_host
            case Hosts.ANY:
                return True

    def can_run_on(self, accelerator: AcceleratorType, architecture: Architecture) -> bool:
        """Whether such a node can run the image."""
        return (
            architecture is self.architecture
            and accelerator.generation in self.generations
            and self.made_for(accelerator)
        )

    def has_framework(self, framework: Framework, version: str | None = None) -> bool:
        """Whether the image is for that framework and version: `2.15` means any 2.15 release.

        An image without a pinned version is for every version. PyTorch images are named by the
        minor release, so 1.13.1 is on the image of 1.13.
        """
        if framework not in self.frameworks:
            return False
        if version is None or not self.framework_version:
            return True
        asked = version.split(".")
        if framework is Framework.PYTORCH:
            asked = asked[:2]
        return self.framework_version.split(".")[: len(asked)] == asked


@cache
def list_images() -> tuple[Image, ...]:
    """All known software images of runtime versions, the best first: certain before doubtful, new
    before old."""
    return tuple(sorted(map(Image.from_row, read_rows("runtime_versions")), key=_preference_key))


def _preference_key(image: Image) -> tuple[int, list[int], int, str]:
    """The sort key; PJRT comes before the stream executor of the same release."""
    parts = image.framework_version.split(".")
    newest_first = [-int(part) for part in parts] if all(p.isdigit() for p in parts) else [1]
    return (
        _BEST_FIRST.index(image.standing),
        newest_first if image.framework_version else [-1_000],
        _PREFERENCE[image.device_api],
        image.name,
    )


def vm_software(image: Image) -> str:
    """The software for the user's own VM beside an image of a legacy TPU Node; empty otherwise."""
    if image.architecture is Architecture.VM:
        return ""
    version = image.framework_version
    label = image.frameworks[0].label
    if version == "nightly":
        return f"the {label} nightly build of the same day"
    if Framework.PYTORCH in image.frameworks:
        return (
            f"torch and torch_xla {version}, as in the images gcr.io/tpu-pytorch/xla:r{version}_*"
        )
    return f"{label} {version}"
