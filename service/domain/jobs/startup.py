"""The metadata by which a TPU VM starts the supervisor and the meter at every boot."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from service.domain.errors import Rejected
from service.domain.jobs.task import KEY
from service.domain.nodes.node import NodeSpec

SCRIPT = "startup-script"
SUPERVISOR = "steward-supervisor"
METER = "steward-meter"
CALLERS_SCRIPT = "steward-startup-script"
OURS = frozenset({SUPERVISOR, METER, CALLERS_SCRIPT, KEY})

MAX_METADATA_BYTES = 256 * 1024
"""For all metadata together. Compute Engine takes 512 KB (reference/jobs.md J8). The limit of the
Cloud TPU API is not documented, so ours is well below."""


@cache
def pack_supervisor() -> str:
    """Return the supervisor for the startup metadata, as base64 of gzip. The same source gives the
    same text."""
    return _pack_file("supervisor.py")


@cache
def pack_meter() -> str:
    """Return the source of the meter for the startup metadata, as base64 of gzip."""
    return _pack_file("meter.py")


@cache
def build_script() -> str:
    """Return the startup script: constant text with the digests of the sources."""
    text = _read_file("startup.sh").decode()
    text = text.replace("@SHA256@", hashlib.sha256(_read_file("supervisor.py")).hexdigest())
    return text.replace("@METER_SHA256@", hashlib.sha256(_read_file("meter.py")).hexdigest())


@cache
def script_digest() -> str:
    """Return the SHA-256 of the startup script. An emulator runs only a script with this digest."""
    return hashlib.sha256(build_script().encode()).hexdigest()


def metadata_of(spec: NodeSpec, task: str = "") -> dict[str, str]:
    """Return the metadata for the startup of a node: the caller's own, and that of our two
    programs.

    The supervisor runs the caller's startup script unchanged at each boot.
    """
    callers = spec.startup_script or spec.metadata.get(SCRIPT, "")
    if not spec.supervisor:
        return {**spec.metadata, **({SCRIPT: callers} if callers else {})}
    ours = {
        SCRIPT: build_script(),
        SUPERVISOR: pack_supervisor(),
        METER: pack_meter(),
        CALLERS_SCRIPT: callers,
        KEY: task,
    }
    return {**spec.metadata, **{key: value for key, value in ours.items() if value}}


def check_size(metadata: Mapping[str, str]) -> None:
    """Refuse startup metadata of a node that would be too large. Raises Rejected with the sizes in
    bytes."""
    sizes = {key: len(key.encode()) + len(value.encode()) for key, value in metadata.items()}
    size = sum(sizes.values())
    if size <= MAX_METADATA_BYTES:
        return
    script = sizes.get(CALLERS_SCRIPT, 0) or sizes.get(SCRIPT, 0)
    task = sizes.get(KEY, 0)
    job = f", {task} of the job with its command, args and env" if task else ""
    raise Rejected(
        f"the metadata of the node would have {size} bytes, {script} of the startup script{job};"
        f" at most {MAX_METADATA_BYTES} are possible. Put the largest part into Cloud Storage and"
        " fetch it from there",
        field="env" if task > script else "startup_script",
        bytes=size,
        startup_script_bytes=script,
        job_bytes=task,
        max_bytes=MAX_METADATA_BYTES,
    )


def _pack_file(name: str) -> str:
    return base64.b64encode(gzip.compress(_read_file(name), mtime=0)).decode()


def _read_file(name: str) -> bytes:
    return resources.files("service.supervisor").joinpath(name).read_bytes()
