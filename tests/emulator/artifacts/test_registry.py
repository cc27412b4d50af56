"""The emulated registries answer for every image, always the same."""

from __future__ import annotations

import hashlib
import json

import pytest

from service.emulator.artifacts.registry import (
    ManifestStore,
    Registry,
    RegistryImage,
    patched_registry,
)
from service.emulator.errors import ApiError

NAME = "us-docker.pkg.dev/lab/images/trainer"


def platforms(found) -> list[str]:
    return [
        f"{manifest['platform']['os']}/{manifest['platform']['architecture']}"
        for manifest in json.loads(found.body)["manifests"]
    ]


def test_every_image_exists_for_both_platforms_with_the_digest_of_its_body():
    found = ManifestStore().serve_manifest(Registry(), NAME, "v1")
    assert found.status == 200
    assert platforms(found) == ["linux/amd64", "linux/arm64"]
    assert found.digest == f"sha256:{hashlib.sha256(found.body).hexdigest()}"
    assert found == ManifestStore().serve_manifest(Registry(), NAME, "v1")
    assert found.digest != ManifestStore().serve_manifest(Registry(), NAME, "v2").digest


def test_a_digest_is_known_once_its_tag_was_asked_for():
    manifests = ManifestStore()
    digest = ManifestStore().serve_manifest(Registry(), NAME, "v1").digest
    assert manifests.serve_manifest(Registry(), NAME, digest).status == 404
    found = manifests.serve_manifest(Registry(), NAME, "v1")
    assert manifests.serve_manifest(Registry(), NAME, digest) == found
    assert manifests.serve_manifest(Registry(), f"{NAME}/other", digest).status == 404


@pytest.mark.parametrize(
    ("name", "tag", "status", "shown"),
    [
        (f"{NAME}-noimage", "v1", 404, None),
        (NAME, "noimage", 404, None),
        (NAME, "v1-denied", 403, None),
        (f"{NAME}-arm64only", "v1", 200, ["linux/arm64"]),
        (NAME, "amd64only", 200, ["linux/amd64"]),
        (f"{NAME}noimage", "v1", 200, ["linux/amd64", "linux/arm64"]),
    ],
)
def test_parts_of_the_name_and_the_tag_say_otherwise(name, tag, status, shown):
    found = ManifestStore().serve_manifest(Registry(), name, tag)
    assert found.status == status
    assert shown is None or platforms(found) == shown


def test_the_configuration_says_otherwise():
    told = {
        "images": {
            f"{NAME}:gone": {"status": "missing"},
            f"{NAME}:late": {"status": "slow", "seconds": 5},
            f"{NAME}:noimage": {"platforms": ["linux/arm64"]},
            "docker.io/library/python": {"status": "denied"},
        }
    }
    registry = patched_registry(Registry(), told)
    manifests = ManifestStore()
    assert manifests.serve_manifest(registry, NAME, "gone").status == 404
    assert manifests.serve_manifest(registry, NAME, "late").delay_seconds == 5
    assert platforms(manifests.serve_manifest(registry, NAME, "noimage")) == ["linux/arm64"]
    assert manifests.serve_manifest(registry, "docker.io/library/python", "3.12").status == 403
    down = patched_registry(registry, {"down": True})
    assert manifests.serve_manifest(down, NAME, "v1").status == 503
    assert down.images == registry.images


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"up": True},
        {"down": 1},
        {"images": []},
        {"images": {"a": "missing"}},
        {"images": {"a": {"status": "away"}}},
        {"images": {"a": {"seconds": -1}}},
        {"images": {"a": {"platforms": ["linux"]}}},
        {"images": {"a": {"platforms": []}}},
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(patch):
    with pytest.raises(ApiError):
        patched_registry(Registry(images={"a": RegistryImage()}), patch)
