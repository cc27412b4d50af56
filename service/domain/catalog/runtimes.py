"""Which runtime version a node needs, and whether the one that was named fits."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from service.domain.catalog import catalog, runtime_reasons
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.images import Framework, Image, images
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import Rejected, RuntimeMismatch

_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6}){0,3}(\.?[a-z+-][a-z0-9.+-]{0,19})?|nightly|alpha")


@dataclass(frozen=True, slots=True)
class Resolution:
    """The runtime version to use, with its reasons and warnings as sentences.

    `alternatives` are the other runtime versions that grant the same request, best first.
    `framework_version` is empty when the image pins none. `vm_software` is what the user's own
    virtual machine must run beside a legacy TPU Node; empty for a TPU VM.
    """

    runtime_version: str
    framework_version: str
    reasons: tuple[str, ...]
    alternatives: tuple[str, ...]
    warnings: tuple[str, ...]
    vm_software: str


def resolve(
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
        catalog.load().candidates(accelerator, zone=zone)
    found = [one for one in _fitting(accelerator, architecture) if one.has(framework, version)]
    if not found:
        raise _none_fits(accelerator, framework, version, architecture)
    best, *others = found
    return Resolution(
        runtime_version=best.name,
        framework_version=best.framework_version,
        reasons=runtime_reasons.why(best, others, accelerator, framework, version),
        alternatives=tuple(one.name for one in others),
        warnings=tuple(runtime_reasons.warnings(best, accelerator)),
        vm_software=runtime_reasons.vm_software(best),
    )


def check(
    runtime_version: str,
    accelerator: AcceleratorType,
    architecture: Architecture = Architecture.VM,
) -> list[str]:
    """What to mind about this runtime version on this hardware; empty when nothing.

    Raises RuntimeMismatch with the `compatible` ones, closest first, when it does not fit. The
    cloud may not: it was seen to create nodes on which no accelerator appears (jax-ml/jax#13260).
    """
    image = next((one for one in images() if one.name == runtime_version), None)
    if image is not None and image.fits(accelerator, architecture):
        return runtime_reasons.warnings(image, accelerator)
    raise RuntimeMismatch(
        runtime_reasons.why_not(runtime_version, image, accelerator, architecture),
        compatible=_closest(runtime_version, image, accelerator, architecture),
    )


def vm_software(runtime_version: str) -> str:
    """What the user's own VM must run beside a legacy TPU Node with that version; empty for the
    image of a TPU VM, and for one that is not known."""
    image = next((one for one in images() if one.name == runtime_version), None)
    return "" if image is None else runtime_reasons.vm_software(image)


def for_generation(
    generation: str | None = None,
    framework: Framework | None = None,
    architecture: Architecture | None = None,
) -> tuple[Image, ...]:
    """The images of a generation, framework and architecture (None: of all), best first."""
    return tuple(
        one
        for one in images()
        if (generation is None or generation in one.generations)
        and (framework is None or framework in one.frameworks)
        and architecture in {None, one.architecture}
    )


def _fitting(accelerator: AcceleratorType, architecture: Architecture) -> list[Image]:
    return [one for one in images() if one.fits(accelerator, architecture)]


def _none_fits(
    accelerator: AcceleratorType,
    framework: Framework,
    version: str | None,
    architecture: Architecture,
) -> RuntimeMismatch:
    """Compatible are other versions of the framework, on a TPU VM if a TPU Node has none."""
    known = [
        one for one in images() if one.architecture is architecture and one.has(framework, version)
    ]
    here = [one.name for one in _fitting(accelerator, architecture) if one.has(framework)]
    on_vm = [one.name for one in _fitting(accelerator, Architecture.VM) if one.has(framework)]
    return RuntimeMismatch(
        runtime_reasons.why_none(accelerator, framework, version, architecture, known),
        compatible=here or on_vm,
    )


def _closest(
    name: str, image: Image | None, accelerator: AcceleratorType, architecture: Architecture
) -> list[str]:
    """What fits instead: the same framework first, then the most parts of the name in common,
    then what looks most like it.
    """
    fitting = _fitting(accelerator, architecture) or _fitting(accelerator, Architecture.VM)
    frameworks = set(image.frameworks) if image else set()
    shown = name[: runtime_reasons.SHOWN]
    parts = set(shown.split("-"))
    look = difflib.SequenceMatcher(b=shown, autojunk=False)

    def distance(one: Image) -> tuple[bool, int, float]:
        look.set_seq1(one.name)
        return (
            frameworks.isdisjoint(one.frameworks),
            len(parts.symmetric_difference(one.name.split("-"))),
            -look.ratio(),
        )

    return [one.name for one in sorted(fitting, key=distance)]
