"""Container registries: what an image is, by the OCI distribution API."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

from service.domain.errors import CloudError, CloudUnavailable, ImageDenied, ImageNotFound
from service.domain.jobs.image import HUB, ImageFacts, ImageReference, check_platform
from service.outbound import Dial, NotPublic, dial, target_of

TIMEOUT_SECONDS = 10.0
"""For one image in all: names, tokens, redirects and manifests."""
MAX_BYTES = 1_000_000
MAX_REDIRECTS = 2
HUB_HOST = "registry-1.docker.io"

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = {"Accept": ", ".join((*_INDEXES, *_MANIFESTS)), "User-Agent": "tpu-steward"}
_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"')
_REDIRECTS = {301, 302, 303, 307, 308}
_DENIED = {401, 403}


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class OciRegistry:
    """`service.cloud.ports.Registry` over https, to public addresses.

    `access_token` answers Google's token for Google's own registries. With `base`, all registries
    are asked for under that address, with their host as the first part of the name: the emulator.
    """

    def __init__(
        self,
        dial: Dial = dial,
        access_token: Callable[[], str] | None = None,
        base: str = "",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._dial = dial
        self._access_token = access_token
        self._base = base
        self._timeout = timeout

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """The digest and the platforms of an image, which has `linux/{architecture}` if it says."""
        reference = ImageReference.parse(image)
        visit = _Visit(self._dial, reference, self._url(reference), self._timeout)
        facts = visit.facts(self._token(reference))
        check_platform(reference, facts, architecture)
        return facts

    def _url(self, image: ImageReference) -> str:
        if self._base:
            return f"{self._base}/{image.name}"
        host = HUB_HOST if image.registry == HUB else image.registry
        return f"https://{host}/v2/{image.repository}"

    def _token(self, image: ImageReference) -> str:
        """Google's token; empty for the registries of others, and where there is none to be had."""
        if self._access_token is None or not image.is_googles or self._base:
            return ""
        try:
            return self._access_token()
        except CloudError:
            return ""  # the image may be public


class _Visit:
    """All that is asked of one registry about one image, until the time is up."""

    def __init__(self, dial: Dial, image: ImageReference, url: str, seconds: float) -> None:
        self._dial = dial
        self._image = image
        self._url = url
        self._ends_at = time.monotonic() + seconds
        self._headers = dict(_ACCEPT)

    def facts(self, token: str) -> ImageFacts:
        """What the registry says. Raises ImageNotFound, ImageDenied, CloudUnavailable."""
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        answer = self._get(f"{self._url}/manifests/{self._image.reference}")
        if answer.status == 401 and not token:
            self._sign_in(answer.headers.get("www-authenticate", ""))
            answer = self._get(f"{self._url}/manifests/{self._image.reference}")
        self._check(answer)
        manifest = self._json(answer.body)
        return ImageFacts(self._digest(answer), self._platforms(manifest))

    def _sign_in(self, challenge: str) -> None:
        """Take an anonymous token where the registry says (distribution, token authentication)."""
        given = dict(_PARAMETER.findall(challenge))
        if not challenge.lower().startswith("bearer ") or "realm" not in given:
            raise self._denied()
        scope = given.get("scope", f"repository:{self._image.repository}:pull")
        query = urlencode({"service": given.get("service", ""), "scope": scope})
        answer = self._get(f"{given['realm']}?{query}")
        if answer.status in _DENIED:
            raise self._denied()
        told = self._json(answer.body) if answer.status == 200 else {}
        token = told.get("token") or told.get("access_token")
        if not isinstance(token, str):
            raise self._unavailable(f"answers {answer.status} to a request for a token")
        self._headers["Authorization"] = f"Bearer {token}"

    def _check(self, answer: _Answer) -> None:
        if answer.status == 404:
            raise ImageNotFound(
                f"the registry {self._image.registry} has no image {self._image}: correct the name,"
                " the tag or the digest, or push the image",
                field="image",
                image=str(self._image),
            )
        if answer.status in _DENIED:
            raise self._denied()
        if answer.status != 200:
            raise self._unavailable(f"answers {answer.status}")

    def _digest(self, answer: _Answer) -> str:
        """The digest of the body, by which the registry and the caller have to call it too."""
        found = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        named = (answer.headers.get("docker-content-digest", ""), self._image.digest)
        if any(name.startswith("sha256:") and name != found for name in named):
            raise self._unavailable("answers with a manifest of another digest")
        return found

    def _platforms(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        listed = manifest.get("manifests")
        if isinstance(listed, list):
            found = [one.get("platform") for one in listed if isinstance(one, dict)]
            return _named(found)
        config = manifest.get("config")
        digest = config.get("digest") if isinstance(config, dict) else None
        if not isinstance(digest, str) or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise self._unavailable("answers with something that is no manifest")
        return _named([self._config(digest)])

    def _config(self, digest: str) -> object:
        """The configuration of an image of one platform; None where the registry keeps it elsewhere
        (many do), or where it is larger than what is read."""
        try:
            answer = self._get(f"{self._url}/blobs/{digest}")
            whole = answer.status == 200 and hashlib.sha256(answer.body).hexdigest() == digest[7:]
            return self._json(answer.body) if whole else None
        except CloudUnavailable:
            return None

    def _get(self, url: str) -> _Answer:
        """GET, and where the same host redirects to itself, from there. Raises CloudUnavailable."""
        for _ in range(1 + MAX_REDIRECTS):
            answer = self._ask(url)
            if answer.status not in _REDIRECTS:
                return answer
            there = urljoin(url, answer.headers.get("location", ""))
            if urlsplit(there)[:2] != urlsplit(url)[:2]:
                raise self._unavailable("redirects to another host")
            url = there
        raise self._unavailable("redirects without end")

    def _ask(self, url: str) -> _Answer:
        try:
            parts = self._secure(url)
            own = urlsplit(self._url).netloc == parts.netloc
            headers = self._headers if own else _ACCEPT
            left = self._ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError
            with self._dial(parts, left) as caller:
                caller.request("GET", target_of(parts), None, {"Host": parts.netloc, **headers})
                with caller.getresponse() as answer:
                    body = answer.read(MAX_BYTES + 1)
                    found = {name.lower(): value for name, value in answer.getheaders()}
        except NotPublic:
            raise self._unavailable("leads to an address that is not public") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unavailable(f"cannot be reached: {type(error).__name__}") from None
        if len(body) > MAX_BYTES:
            raise self._unavailable(f"answers with more than {MAX_BYTES} bytes")
        return _Answer(answer.status, found, body)

    def _secure(self, url: str) -> SplitResult:
        """The parts of a URL. Raises ValueError unless it is https, or below the base address."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not url.startswith(f"{self._url}/"):
            raise ValueError("not https")
        return parts

    def _json(self, body: bytes) -> Mapping[str, Any]:
        try:
            read = json.loads(body)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise self._unavailable("answers with something that is no JSON object")
        return read

    def _denied(self) -> ImageDenied:
        remedy = (
            "grant roles/artifactregistry.reader on the repository to the accounts of the service"
            " and of the nodes"
            if self._image.is_googles
            else "make it public, or copy it to Artifact Registry"
        )
        return ImageDenied(
            f"the registry {self._image.registry} does not show the image {self._image}, or has no"
            f" such image: {remedy}",
            field="image",
            image=str(self._image),
        )

    def _unavailable(self, what: str) -> CloudUnavailable:
        return CloudUnavailable(f"the registry {self._image.registry} {what}")


def _named(platforms: list[object]) -> tuple[str, ...]:
    """`os/architecture` of what says both; attestations are for `unknown/unknown`."""
    found = {
        f"{one.get('os')}/{one.get('architecture')}" for one in platforms if isinstance(one, dict)
    }
    return tuple(sorted(name[:100] for name in found - {"unknown/unknown", "None/None"}))
