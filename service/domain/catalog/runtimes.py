"""Chooses the runtime version of a node, and checks a named one."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from service.domain.catalog import catalog, images, runtime_reasons
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.images import Framework, Image, list_images
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import Rejected, RuntimeMismatch

_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6}){0,3}(\.?[a-z+-][a-z0-9.+-]{0,19})?|nightly|alpha")


@dataclass(frozen=True, slots=True)
class Resolution:
    """The runtime version to use, with its reasons and warnings as sentences.

    `alternatives` are the other runtime versions that fit the same request, best first.
    `framework_version` is empty when the image pins none. `vm_software` is the software of the
    user's own virtual machine for a legacy TPU Node; empty for a TPU VM.
    """

    runtime_version: str
    framework_version: str
    reasons: tuple[str, ...]
    alternatives: tuple[str, ...]
    warnings: tuple[str, ...]
    vm_software: str


def resolve_runtime(
    accelerator: AcceleratorType,
    framework: Framework,
    version: str | None = None,
    architecture: Architecture = Architecture.VM,
    zone: str | None = None,
) -> Resolution:
    """The best runtime version for this hardware and framework; `2.15` means the newest 2.15.

    Raises RuntimeMismatch with the `compatible` ones when none fits, and NotOffered when `zone`
    lacks the hardware. Rules: docs.cloud.google.com/tpu/docs/supported-tpu-versions.
    """
    if version is not None and not _VERSION.fullmatch(version):
        raise Rejected(
            f"{version[: runtime_reasons.SHOWN]!r} is no version", field="framework.version"
        )
    if zone is not None:
        catalog.load_catalog().candidate_zones(accelerator, zone=zone)
    fitting = _list_fitting(accelerator, architecture)
    found = [image for image in fitting if image.has_framework(framework, version)]
    if not found:
        known = [
            image
            for image in list_images()
            if image.architecture is architecture and image.has_framework(framework, version)
        ]
        # The error lists other versions that fit, those for a TPU VM if a TPU Node has none.
        here, on_vm = (
            [
                image.name
                for image in _list_fitting(accelerator, where)
                if image.has_framework(framework)
            ]
            for where in (architecture, Architecture.VM)
        )
        raise RuntimeMismatch(
            runtime_reasons.why_none(accelerator, framework, version, architecture, known),
            compatible=here or on_vm,
        )
    best, *others = found
    return Resolution(
        runtime_version=best.name,
        framework_version=best.framework_version,
        reasons=runtime_reasons.explain_choice(best, others, accelerator, framework, version),
        alternatives=tuple(image.name for image in others),
        warnings=tuple(runtime_reasons.list_warnings(best, accelerator)),
        vm_software=images.vm_software(best),
    )


def check_runtime(
    runtime_version: str,
    accelerator: AcceleratorType,
    architecture: Architecture = Architecture.VM,
) -> list[str]:
    """Check that the runtime version fits this hardware, and return the warnings about it. Empty if
    there are none.

    Raises RuntimeMismatch with the `compatible` ones, closest first, when it does not fit. The
    cloud may accept it and create a node on which no accelerator appears (jax-ml/jax#13260).
    """
    image = next((image for image in list_images() if image.name == runtime_version), None)
    if image is not None and image.can_run_on(accelerator, architecture):
        return runtime_reasons.list_warnings(image, accelerator)
    raise RuntimeMismatch(
        runtime_reasons.why_not(runtime_version, image, accelerator, architecture),
        compatible=_list_compatible(runtime_version, image, accelerator, architecture),
    )


def vm_software(runtime_version: str) -> str:
    """The software for the user's own VM beside the runtime version of a legacy TPU Node.

    Empty for the image of a TPU VM, and for an unknown version.
    """
    image = next((image for image in list_images() if image.name == runtime_version), None)
    return "" if image is None else images.vm_software(image)


def for_generation(
    generation: str | None = None,
    framework: Framework | None = None,
    architecture: Architecture | None = None,
) -> tuple[Image, ...]:
    """The runtime versions for a generation, framework and architecture (None: all), as images,
    best first."""
    return tuple(
        image
        for image in list_images()
        if (generation is None or generation in image.generations)
        and (framework is None or framework in image.frameworks)
        and architecture in {None, image.architecture}
    )


def _list_fitting(accelerator: AcceleratorType, architecture: Architecture) -> list[Image]:
    return [image for image in list_images() if image.can_run_on(accelerator, architecture)]


def _list_compatible(
    name: str, image: Image | None, accelerator: AcceleratorType, architecture: Architecture
) -> list[str]:
    """The fitting versions: the same framework first, then most common parts of the name, then the
    most similar spelling.
    """
    here = _list_fitting(accelerator, architecture)
    fitting = here or _list_fitting(accelerator, Architecture.VM)
    frameworks = set(image.frameworks) if image else set()
    shown = name[: runtime_reasons.SHOWN]
    parts = set(shown.split("-"))
    look = difflib.SequenceMatcher(b=shown, autojunk=False)

    def distance_of(other: Image) -> tuple[bool, int, float]:
        look.set_seq1(other.name)
        return (
            frameworks.isdisjoint(other.frameworks),
            len(parts.symmetric_difference(other.name.split("-"))),
            -look.ratio(),
        )

    return [other.name for other in sorted(fitting, key=distance_of)]
