"""Names of container images, and a registry's facts about an image."""

from __future__ import annotations

import re
from dataclasses import dataclass

from service.domain.errors import NoSuchPlatform, Rejected

HUB = "docker.io"
"""The registry of a name without a registry, as Docker reads such names."""
MAX_NAME = 255
"""Characters of registry and repository together (the grammar of distribution/reference)."""
SHORTEST_SHOWN = 100

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """The name of an image, read by the grammar of the OCI distribution specification."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @staticmethod
    def parse(text: str) -> ImageReference:
        """Parse `[registry/]repository[:tag][@digest]`. Raises Rejected for any other text."""
        rest, at, digest = text.partition("@")
        head, slash, last = rest.rpartition("/")
        last, colon, tag = last.partition(":")
        # As Docker reads a name: a registry has a dot or a port.
        name = f"{head}{slash}{last}"
        first, divider, inside = name.partition("/")
        registry, repository = HUB, name
        if divider and (set(".:") & set(first) or first == "localhost"):
            # Docker Hub has a second name, and repositories of its own without a directory.
            registry, repository = (HUB if first == "index.docker.io" else first), inside
        if registry == HUB and "/" not in repository:
            repository = f"library/{repository}"
        problem = (
            (at and not _DIGEST.fullmatch(digest) and "its digest is not sha256:<64 hex digits>")
            or (colon and not _TAG.fullmatch(tag) and "its tag is not valid")
            or (
                len(registry) + 1 + len(repository) > MAX_NAME
                and f"it is longer than {MAX_NAME} characters"
            )
            or (not _REGISTRY.fullmatch(registry) and "its registry is not a host name")
            or (
                not all(map(_COMPONENT.fullmatch, repository.split("/")))
                and "a repository has lower-case letters, digits and . _ - between them"
            )
        )
        if problem:
            raise Rejected(
                f"{text[:SHORTEST_SHOWN]!r} is not the name of an image: {problem}; write it as"
                " us-docker.pkg.dev/project/repository/image:tag",
                field="image",
            )
        return ImageReference(registry, repository, tag, digest)

    @property
    def reference(self) -> str:
        """The reference of a manifest: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def is_googles(self) -> bool:
        """Whether the registry takes Google's access tokens."""
        host = self.registry
        return host == "gcr.io" or host.endswith((".gcr.io", ".pkg.dev"))

    def pinned_name(self, digest: str) -> str:
        """Return the name of the image with this digest."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}{f'@{self.digest}' if self.digest else ''}"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """A registry's facts about an image: the digest of its manifest (of its index where it has one)
    and its platforms, such as `linux/amd64`. No platforms means that they are unknown."""

    digest: str
    platforms: tuple[str, ...]


def check_platform(image: ImageReference, facts: ImageFacts, architecture: str) -> None:
    """Raise NoSuchPlatform when the container image is known not to be built for an architecture.
    The platform is linux on `amd64` or `arm64`."""
    wanted = f"linux/{architecture}"
    if facts.platforms and wanted not in facts.platforms:
        raise NoSuchPlatform(
            f"the image {image} is built for {', '.join(facts.platforms)}, but the nodes need"
            f" {wanted}: build it with `docker buildx build --platform {wanted}`, or request"
            " nodes of the other architecture",
            field="image",
            wanted=wanted,
            platforms=list(facts.platforms),
        )
