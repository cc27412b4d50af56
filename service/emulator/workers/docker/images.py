"""The images of a worker: which there are, and what docker says when it pulls one."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from service.emulator.workers.docker import worker
from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import Refused

REFERENCE = re.compile(
    r"(?P<name>[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*?)(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
# A repository with one of these for a part of its name cannot be pulled.
MISSING = "missing"
DENIED = "denied"


@dataclass(frozen=True)
class Image:
    name: str
    tag: str
    digest: str = ""

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"

    @property
    def id(self) -> str:
        return hashlib.sha256(self.reference.encode()).hexdigest()

    @property
    def path(self) -> str:
        """Name it as its registry does."""
        return self.name if "/" in self.name else f"library/{self.name}"


def image_of(reference: str) -> Image:
    """Read a reference; raises Refused in docker's words."""
    name, colon, tag = reference.partition("@")[0].rpartition(":")
    if not colon or "/" in tag:
        name, tag = reference.partition("@")[0], ""
    if name != name.lower():
        raise Refused(f"invalid reference format: repository name ({name}) must be lowercase")
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise Refused("invalid reference format")
    return Image(name, tag or "latest", match["digest"] or "")


class Images:
    def __init__(self, root: Path) -> None:
        self._root = root / "images"
        self._root.mkdir(parents=True, exist_ok=True)

    def all(self) -> list[tuple[Image, float]]:
        """List what is here, with the time at which it came, the newest first."""
        found = [json.loads(path.read_text()) for path in self._root.iterdir()]
        pairs = [(image_of(each["reference"]), float(each["at"])) for each in found]
        return sorted(pairs, key=lambda pair: -pair[1])

    def has(self, image: Image) -> bool:
        return (self._root / image.id).exists()

    def keep(self, image: Image) -> None:
        content = {"reference": image.reference, "at": now()}
        (self._root / image.id).write_text(json.dumps(content))

    def drop(self, image: Image) -> None:
        if not self.has(image):
            raise Refused(f"No such image: {image.reference}")
        (self._root / image.id).unlink()


def check_pull(image: Image, fails: str) -> None:
    """Refuse what cannot be pulled, by its name or because we are told so; raises Refused."""
    parts = image.name.split("/")
    if fails and fails not in {"0", "1", "false", "true"}:
        raise Refused(fails)
    if DENIED in parts:
        raise Refused(
            f"pull access denied for {image.name}, repository does not exist or may require"
            " 'docker login': denied: requested access to the resource is denied"
        )
    if MISSING in parts or fails in {"1", "true"}:
        raise Refused(
            f"manifest for {image.reference} not found: manifest unknown: manifest unknown"
        )


def pulled(image: Image, *, known: bool) -> list[str]:
    """Give what docker says of a pull."""
    status = "Image is up to date" if known else "Downloaded newer image"
    return [
        f"{image.tag}: Pulling from {image.path}",
        f"Digest: sha256:{image.id}",
        f"Status: {status} for {image.reference}",
    ]


def pull(images: Images, image: Image, env: Mapping[str, str]) -> list[str]:
    """Let an image come, which takes its time, and give what docker says; raises Refused."""
    lines = pulled(image, known=images.has(image))
    check_pull(image, env.get("EMULATOR_PULL_FAILS", ""))
    time.sleep(_seconds(env.get("EMULATOR_PULL_SECONDS", "")) / worker.speed())
    images.keep(image)
    return lines


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0
