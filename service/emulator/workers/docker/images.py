"""The images of a worker, and docker's output of a pull."""

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
from service.emulator.workers.docker.containers import ContainerRefused

REFERENCE = re.compile(
    r"(?P<name>(?:[A-Za-z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*?)(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
# The failure of a pull, by a word in the image's name or tag.
WORDS = {
    "missing": "missing",
    "noimage": "missing",
    "denied": "denied",
    "nopull": "unavailable",
    "nospace": "no-space",
}
LONGEST_SECONDS = 86_400.0
"""Of a pull."""
SLOW = re.compile(r"(?:^|[/:_.-])slowpull-(\d+(?:\.\d+)?)s(?=$|[/:_.-])")


@dataclass(frozen=True)
class WorkerImage:
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
    def repo_digest(self) -> str:
        """The name by content, as in `RepoDigests`."""
        return f"{self.name}@{self.digest or f'sha256:{self.id}'}"

    @property
    def words(self) -> list[str]:
        return re.split(r"[/:_.-]", f"{self.name}:{self.tag}")

    @property
    def path(self) -> str:
        """The repository as its registry names it."""
        return self.name if "/" in self.name else f"library/{self.name}"


def image_of(reference: str) -> WorkerImage:
    """Return the image of a reference. Raises ContainerRefused with docker's text."""
    name, colon, tag = reference.partition("@")[0].rpartition(":")
    if not colon or "/" in tag:
        name, tag = reference.partition("@")[0], ""
    remote = name.partition("/")[2] or name  # the host of a registry may have capitals
    if remote != remote.lower():
        raise ContainerRefused(
            f"invalid reference format: repository name ({name}) must be lowercase"
        )
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ContainerRefused("invalid reference format")
    return WorkerImage(name, tag or "latest", match["digest"] or "")


class Images:
    def __init__(self, root: Path) -> None:
        self._root = root / "images"
        self._root.mkdir(parents=True, exist_ok=True)

    def list_all(self) -> list[tuple[WorkerImage, float]]:
        """Return the present images with the time of their pull, newest first."""
        found = [json.loads(path.read_text()) for path in self._root.iterdir()]
        pairs = [(image_of(content["reference"]), float(content["at"])) for content in found]
        return sorted(pairs, key=lambda pair: -pair[1])

    def has_image(self, image: WorkerImage) -> bool:
        return (self._root / image.id).exists()

    def save(self, image: WorkerImage, repo_digest: str) -> None:
        content = {"reference": image.reference, "at": now(), "repo_digest": repo_digest}
        (self._root / image.id).write_text(json.dumps(content))

    def repo_digest(self, image: WorkerImage) -> str:
        """Return the name by content of a present image."""
        content = json.loads((self._root / image.id).read_text())
        return str(content["repo_digest"])

    def delete(self, image: WorkerImage) -> None:
        if not self.has_image(image):
            raise ContainerRefused(f"No such image: {image.reference}")
        (self._root / image.id).unlink()


@dataclass(frozen=True)
class Pull:
    """A planned pull: its duration, its failure, and its digest."""

    seconds: float = 0.0
    fails: str = ""
    """A kind of failure, or docker's text; empty for success."""
    digest: str = ""
    """The digest behind the tag, `sha256:…`; empty for a digest made from the name."""


def plan_pull(image: WorkerImage, env: Mapping[str, str], told: Mapping[str, object]) -> Pull:
    """Return the plan of a pull: the configuration overrides the environment, then the name."""
    slow = SLOW.search(f"{image.name}:{image.tag}")
    by_name = next((WORDS[word] for word in image.words if word in WORDS), "")
    fails = env.get("EMULATOR_PULL_FAILS", "") or by_name
    fails = {"0": "", "false": "", "1": "missing", "true": "missing"}.get(fails, fails)
    by_tag = float(slow[1]) if slow else 0.0
    seconds = _parse_seconds(env.get("EMULATOR_PULL_SECONDS", ""), by_tag)
    return Pull(
        _parse_seconds(str(told.get("pull_seconds", "")), seconds),
        str(told.get("pull_fails", fails)),
        str(told.get("digest", "")),
    )


def describe_failure(image: WorkerImage, fails: str) -> str:
    """Return docker's text for a failure."""
    match fails:
        case "denied":
            return (
                f"pull access denied for {image.name}, repository does not exist or may require"
                " 'docker login': denied: requested access to the resource is denied"
            )
        case "missing":
            return f"manifest for {image.reference} not found: manifest unknown: manifest unknown"
        case "unavailable":
            host = image.name.partition("/")[0]
            return (
                f'Get "https://{host}/v2/": received unexpected HTTP status: 503 Service'
                " Unavailable"
            )
        case "no-space":
            return "failed to register layer: write /usr/lib/libtpu.so: no space left on device"
        case _:
            return fails


def fetch_image(images: Images, image: WorkerImage, env: Mapping[str, str]) -> list[str]:
    """Pull an image after its delay, and return docker's output. Raises ContainerRefused."""
    known = images.has_image(image)
    plan = plan_pull(image, env, worker.read_image_settings(image.name))
    time.sleep(plan.seconds / worker.read_speed())
    if plan.fails:
        raise ContainerRefused(describe_failure(image, plan.fails))
    moved = f"{image.name}@{plan.digest}" if plan.digest and not image.digest else ""
    images.save(image, moved or image.repo_digest)
    status = "Image is up to date" if known else "Downloaded newer image"
    return [
        f"{image.tag}: Pulling from {image.path}",
        f"Digest: {images.repo_digest(image).rpartition('@')[2]}",
        f"Status: {status} for {image.reference}",
    ]


def _parse_seconds(text: str, other: float) -> float:
    """The seconds of a text; `other` where the text is no number of seconds within a day."""
    try:
        seconds = float(text)
    except ValueError:
        return other
    return seconds if 0 <= seconds <= LONGEST_SECONDS else other
