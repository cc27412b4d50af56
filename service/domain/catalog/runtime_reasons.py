"""Explains why a runtime version was chosen, its warnings, and why another does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.images import Framework, Hosts, Image, ImageStanding, vm_software
from service.domain.catalog.provisioning import Architecture

NODE_GENERATIONS = ("v2", "v3")
"""The generations of the legacy TPU Node."""

SHOWN = 80
"""Characters of a caller's text that are repeated in a message."""


def explain_choice(
    best: Image,
    others: Sequence[Image],
    accelerator: AcceleratorType,
    framework: Framework,
    version: str | None,
) -> tuple[str, ...]:
    """The reasons why a runtime version was chosen: `best` rather than `others`, which fit the same
    request."""
    if not best.framework_version:
        generation = accelerator.generation
        wanted = f"{framework.label} {version}" if version else framework.label
        return (
            f"Google's documentation names {best.name} for JAX and PyTorch on {generation}.",
            (
                f"The image pins no framework: install {wanted} on it with a libtpu that knows"
                f" {generation}, or run a container that brings both."
            ),
        )
    found = f"{framework.label} {best.framework_version}"
    if version == best.framework_version:
        first = f"{found} was requested, and {best.name} has it."
    else:
        known = "documented" if best.standing is ImageStanding.DOCUMENTED else "known"
        release = f"{version} release" if version else "version"
        first = f"{found} is the newest {known} {release} for {accelerator.generation}."
    if best.architecture is Architecture.NODE:
        return first, f"The user's own VM has to run the same: {vm_software(best)}."
    hosts = "The image is the same for one host and for many."
    match best.hosts:
        case Hosts.SINGLE:
            hosts = f"{accelerator.name} has one host, so the name is without -pod."
        case Hosts.MULTI:
            hosts = f"{accelerator.name} has {_format_hosts(accelerator)}, so the name says -pod."
        case Hosts.ANY:
            pass
    note = (f"Note that {best.note}.",) if best.note else ()
    return first, hosts, *note, *_why_this_api(best, others)


def describe_chosen(
    name: str, framework: Framework, why: Sequence[str], *, by_default: bool
) -> str:
    """A sentence of a node's events: the chosen runtime version, and the reasons `why`.

    `by_default` says that the caller named no framework.
    """
    chosen = f"{framework.label}, as no framework was named" if by_default else framework.label
    return f"chose {name} for {chosen}: {' '.join(why).removesuffix('.')}"


def describe_named(name: str, accelerator: AcceleratorType) -> str:
    """A sentence of a node's events: the runtime version that was named, and the reason it fits."""
    fits = f"it fits {_format_hosts(accelerator)} of {accelerator.generation}"
    return f"took {name}, which was requested by name: {fits}"


_DOUBTS = {
    ImageStanding.DOCUMENTED: "",
    ImageStanding.OBSERVED: "is not in Google's documentation; it was only seen in use",
    ImageStanding.DROPPED: (
        "is no longer in Google's documentation; the cloud may not have it any more"
    ),
    ImageStanding.DERIVED: "is a name that follows from others; it was never seen in use",
    ImageStanding.LEGACY: "is a legacy image, superseded for this hardware",
    ImageStanding.NIGHTLY: "changes every night, so two nodes may get different software",
    ImageStanding.UNOBSERVED: "was never seen in use; the cloud may not have it",
}
"""The warning about an image that Google's documentation does not recommend today."""


def list_warnings(image: Image, accelerator: AcceleratorType) -> list[str]:
    """The reasons to doubt the image of a runtime version that fits; empty if there are none."""
    doubt = _DOUBTS[image.standing]
    found = [f"{image.name} {doubt}."] if doubt else []
    if accelerator.generation in image.reported_on:
        found.append(f"Users reported: {image.report}. Try it before you rely on it.")
    return found


def why_none(
    accelerator: AcceleratorType,
    framework: Framework,
    version: str | None,
    architecture: Architecture,
    known: Sequence[Image],
) -> str:
    """The reason why no runtime version fits, given the `known` images of that framework, version
    and architecture."""
    wanted = f"{framework.label} {version}" if version else framework.label
    if architecture is Architecture.NODE and accelerator.generation not in NODE_GENERATIONS:
        return _no_node(accelerator)
    if not known:
        if architecture is Architecture.NODE:
            other = "request another framework or version, or use architecture vm"
            return f"no runtime version with {wanted} is known for a legacy TPU Node; {other}"
        return f"no runtime version with {wanted} is known for a TPU VM"
    have = sorted({generation for image in known for generation in image.generations})
    if accelerator.generation not in have:
        rule = "; v5e and newer need TensorFlow 2.15 or newer" if "v5e" not in have else ""
        return f"{wanted} is there for {', '.join(have)}, not for {accelerator.generation}{rule}"
    hosts = _format_hosts(accelerator)
    return f"{wanted} has no runtime version for {hosts} of {accelerator.generation}"


def why_not(
    name: str, image: Image | None, accelerator: AcceleratorType, architecture: Architecture
) -> str:
    """The reason why the named runtime version does not fit; `image` is None if the version is
    unknown."""
    if architecture is Architecture.NODE and accelerator.generation not in NODE_GENERATIONS:
        return _no_node(accelerator)
    if image is None:
        return f"no runtime version {name[:SHOWN]!r} is known"
    if image.architecture is not architecture:
        sort = "legacy TPU Nodes" if image.architecture is Architecture.NODE else "TPU VMs"
        return f"{name} is for {sort}, and architecture {architecture.value} was requested"
    if accelerator.generation not in image.generations:
        fits = ", ".join(image.generations)
        return f"{name} is for {fits}; {accelerator.name} is {accelerator.generation}"
    made = "one host" if image.hosts is Hosts.SINGLE else "slices of several hosts"
    return f"{name} is for {made}; {accelerator.name} has {_format_hosts(accelerator)}"


def _no_node(accelerator: AcceleratorType) -> str:
    return (
        f"the legacy TPU Node exists for {' and '.join(NODE_GENERATIONS)} only, not for"
        f" {accelerator.generation}; use architecture vm"
    )


def _format_hosts(accelerator: AcceleratorType) -> str:
    return "one host" if accelerator.single_host else f"{accelerator.hosts} hosts"


def _why_this_api(best: Image, others: Sequence[Image]) -> tuple[str, ...]:
    """Why the device API: PJRT is preferred, because newer generations have only PJRT."""
    if best.device_api == "se" and not best.name.endswith("-se"):
        return ("Before TensorFlow 2.15.0 there is only the stream executor; no name says so.",)
    same = [image for image in others if image.framework_version == best.framework_version]
    twin = next((image.name for image in same if image.device_api == "se"), None)
    if best.device_api != "pjrt":
        return ()
    if twin is None:
        return ("From TensorFlow 2.15.0 the name says the device API; here PJRT is the only one.",)
    return (
        (
            "From TensorFlow 2.15.0 the name says the device API; PJRT is preferred, because v5e"
            " and newer have nothing else."
        ),
        f"Take {twin} if the program uses the TPU embedding API: it needs the stream executor.",
    )
