"""What the service works out for the supervisors, as tables."""

from __future__ import annotations

import re

import pytest

from service.domain.jobs.job import JobSpec, Mount
from service.domain.jobs.task import (
    docker_options,
    google_registry,
    storage_checks,
)


@pytest.mark.parametrize(
    ("location", "region", "expected"),
    [
        ("US-WEST4", "us-west4", True),
        ("US", "us-west4", True),
        ("EU", "europe-west4", True),
        ("US-WEST1", "us-west4", False),
        ("US-EAST1", "us-east10", False),
        ("EUROPE-WEST4", "us-west4", False),
        ("EU", "us-west4", False),
        ("US-WEST1", "", True),
        ("nothing", "us-west4", True),
        ("403", "us-west4", True),
    ],
)
def test_a_bucket_is_near_or_far(location, region, expected):
    _, check = storage_checks(JobSpec("image", data=("gs://b",)), region)
    assert bool(re.fullmatch(check["fine"], location)) is expected


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("us-docker.pkg.dev/p/r/i", "us-docker.pkg.dev"),
        ("gcr.io/p/i", "gcr.io"),
        ("eu.gcr.io/p/i", "eu.gcr.io"),
        ("evilgcr.io/p/i", ""),
        ("docker.pkg.dev.evil.example/i", ""),
        ("ubuntu", ""),
        ("ghcr.io/a/b", ""),
    ],
)
def test_the_token_goes_to_registries_of_google_alone(image, host):
    assert google_registry(image) == host


def test_docker_is_given_the_host_network_memory_bounded_logs_and_what_the_caller_asks_for():
    mounts = (Mount("/a", "/b", read_only=True), Mount("/c", "/d"))
    assert docker_options("j-1", "16g", mounts) == [
        *("--detach", "--name=steward-j-1", "--label=steward-attempt=j-1"),
        *("--network", "host", "--ulimit", "memlock=-1:-1", "--log-driver", "json-file"),
        *("--log-opt", "max-size=50m", "--log-opt", "max-file=2", "--shm-size", "16g"),
        *("--mount", "type=bind,source=/a,target=/b,readonly"),
        *("--mount", "type=bind,source=/c,target=/d"),
    ]
    assert "--shm-size" not in docker_options("j-1", "", ())


@pytest.mark.parametrize(
    ("data", "written", "ask", "denies"),
    [
        ("gs://b/a b", "", "b/o?prefix=a+b&maxResults=1", "401|403|404"),
        ("gs://b", "", "b/o?prefix=&maxResults=1", "401|403|404"),
        ("", "gs://b", "b/iam/testPermissions", "401|403|404|nothing"),
        ("", "gs://b/a", "b/iam/testPermissions", "404"),
        ("", "/checkpoints", "", ""),
    ],
)
def test_storage_is_read_by_its_prefix_and_a_prefix_may_be_granted_alone(
    data, written, ask, denies
):
    spec = JobSpec("image", data=(data,) if data else (), checkpoint_dir=written)
    checks = list(storage_checks(spec, "us-west4"))
    assert [check["denies"] for check in checks] == ([denies, ""] if ask else [])
    assert [check["ask"].startswith(ask) for check in checks[:1]] == [True] * bool(ask)
    assert [check["ask"] for check in checks[1:]] == ["b?fields=location"] * bool(ask)
