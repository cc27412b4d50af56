"""Container registries: reads the facts of an image with the OCI distribution API."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

from service.domain.errors import CloudError, CloudUnavailable, ImageDenied, ImageNotFound
from service.domain.jobs.image import HUB, ImageFacts, ImageReference, check_platform
from service.outbound import Dial, NotPublic, dial, request_target

TIMEOUT_SECONDS = 10.0
"""For one image in total: name resolution, tokens, redirects and manifests."""
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

    `access_token` returns Google's token for Google's own registries. With `base`, all registries
    are read below that address, with their host as the first part of the name: for the emulator.
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
        """Read the digest and the platforms of an image. Raises NoSuchPlatform if its platforms
        are known and lack `linux/{architecture}`."""
        reference = ImageReference.parse(image)
        host = HUB_HOST if reference.registry == HUB else reference.registry
        url = f"https://{host}/v2/{reference.repository}"
        if self._base:
            url = f"{self._base}/{reference.name}"
        visit = _Visit(self._dial, reference, url, self._timeout)
        token = ""  # Google's token is for Google's registries only
        if self._access_token is not None and reference.is_googles and not self._base:
            with suppress(CloudError):  # the image may be public
                token = self._access_token()
        facts = visit.read_facts(token)
        check_platform(reference, facts, architecture)
        return facts


class _Visit:
    """All calls to one registry about one image, within the time limit."""

    def __init__(self, dial: Dial, image: ImageReference, url: str, seconds: float) -> None:
        self._dial = dial
        self._image = image
        self._url = url
        self._ends_at = time.monotonic() + seconds
        self._headers = dict(_ACCEPT)

    def read_facts(self, token: str) -> ImageFacts:
        """Read the facts of the image. Raises ImageNotFound, ImageDenied, CloudUnavailable."""
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        answer = self._fetch_url(f"{self._url}/manifests/{self._image.reference}")
        if answer.status == 401 and not token:
            self._sign_in(answer.headers.get("www-authenticate", ""))
            answer = self._fetch_url(f"{self._url}/manifests/{self._image.reference}")
        if answer.status == 404:
            raise ImageNotFound(
                f"the registry {self._image.registry} has no image {self._image}: correct the name,"
                " the tag or the digest, or push the image",
                field="image",
                image=str(self._image),
            )
        if answer.status in _DENIED:
            raise self._denied_error()
        if answer.status != 200:
            raise self._unavailable_error(f"answers {answer.status}")
        manifest = self._parse_json(answer.body)
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        # The registry and the caller must mean this body by their digests too.
        named = (answer.headers.get("docker-content-digest", ""), self._image.digest)
        if any(name.startswith("sha256:") and name != digest for name in named):
            raise self._unavailable_error("answers with a manifest of another digest")
        return ImageFacts(digest, self._read_platforms(manifest))

    def _sign_in(self, challenge: str) -> None:
        """Get an anonymous token where the registry says (distribution, token authentication)."""
        given = dict(_PARAMETER.findall(challenge))
        if not challenge.lower().startswith("bearer ") or "realm" not in given:
            raise self._denied_error()
        scope = given.get("scope", f"repository:{self._image.repository}:pull")
        query = urlencode({"service": given.get("service", ""), "scope": scope})
        answer = self._fetch_url(f"{given['realm']}?{query}")
        if answer.status in _DENIED:
            raise self._denied_error()
        fields = self._parse_json(answer.body) if answer.status == 200 else {}
        token = fields.get("token") or fields.get("access_token")
        if not isinstance(token, str):
            raise self._unavailable_error(f"answers {answer.status} to a request for a token")
        self._headers["Authorization"] = f"Bearer {token}"

    def _read_platforms(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        listed = manifest.get("manifests")
        if isinstance(listed, list):
            return _list_platforms(
                [entry.get("platform") for entry in listed if isinstance(entry, dict)]
            )
        config = manifest.get("config")
        digest = config.get("digest") if isinstance(config, dict) else None
        if not isinstance(digest, str) or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise self._unavailable_error("answers with something that is no manifest")
        try:
            answer = self._fetch_url(f"{self._url}/blobs/{digest}")
            whole = answer.status == 200 and hashlib.sha256(answer.body).hexdigest() == digest[7:]
            platform = self._parse_json(answer.body) if whole else None
        except CloudUnavailable:
            # Many registries keep the configuration on another host; or it is too large to read.
            platform = None
        return _list_platforms([platform])

    def _fetch_url(self, url: str) -> _Answer:
        """GET, following redirects within the same host. Raises CloudUnavailable."""
        for _ in range(1 + MAX_REDIRECTS):
            answer = self._send_request(url)
            if answer.status not in _REDIRECTS:
                return answer
            there = urljoin(url, answer.headers.get("location", ""))
            if urlsplit(there)[:2] != urlsplit(url)[:2]:
                raise self._unavailable_error("redirects to another host")
            url = there
        raise self._unavailable_error("redirects without end")

    def _send_request(self, url: str) -> _Answer:
        try:
            parts = self._require_https(url)
            own = urlsplit(self._url).netloc == parts.netloc
            headers = self._headers if own else _ACCEPT
            left = self._ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError
            with self._dial(parts, left) as caller:
                caller.request(
                    "GET", request_target(parts), None, {"Host": parts.netloc, **headers}
                )
                with caller.getresponse() as answer:
                    body = answer.read(MAX_BYTES + 1)
                    found = {name.lower(): value for name, value in answer.getheaders()}
        except NotPublic:
            raise self._unavailable_error("leads to an address that is not public") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unavailable_error(f"cannot be reached: {type(error).__name__}") from None
        if len(body) > MAX_BYTES:
            raise self._unavailable_error(f"answers with more than {MAX_BYTES} bytes")
        return _Answer(answer.status, found, body)

    def _require_https(self, url: str) -> SplitResult:
        """The parts of a URL. Raises ValueError unless it is https or below the base address."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not url.startswith(f"{self._url}/"):
            raise ValueError("not https")
        return parts

    def _parse_json(self, body: bytes) -> Mapping[str, Any]:
        try:
            read = json.loads(body)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise self._unavailable_error("answers with something that is no JSON object")
        return read

    def _denied_error(self) -> ImageDenied:
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

    def _unavailable_error(self, what: str) -> CloudUnavailable:
        return CloudUnavailable(f"the registry {self._image.registry} {what}")


def _list_platforms(platforms: list[object]) -> tuple[str, ...]:
    """`os/architecture` of each platform; attestations, which are `unknown/unknown`, are left
    out."""
    found = {
        f"{platform.get('os')}/{platform.get('architecture')}"
        for platform in platforms
        if isinstance(platform, dict)
    }
    return tuple(sorted(name[:100] for name in found - {"unknown/unknown", "None/None"}))
