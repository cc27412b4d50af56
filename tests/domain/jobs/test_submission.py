"""What a caller submits is checked before anything is recorded."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import Conflict, Rejected
from service.domain.jobs.job import JobSpec, Mount
from service.domain.jobs.secrets import describe_secret
from service.domain.jobs.submission import FUSE_SECONDS, Submission, check_node, check_submission
from service.domain.nodes.node import Endpoint, NodeState
from tests import factories

IMAGE = "us-docker.pkg.dev/lab/train/jax:7"


def submission(**changes):
    return Submission(JobSpec(**{"image": IMAGE, **changes}), node_request=factories.request())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"image": "--privileged"}, "image"),
        ({"image": "a;b"}, "image"),
        ({"image": ""}, "image"),
        ({"env": {"1A": "x"}}, "env"),
        ({"env": {"A-B": "x"}}, "env"),
        ({"env": {"A=B": "x"}}, "env"),
        ({"env": {"": "x"}}, "env"),
        ({"env": {"STEWARD_WORKER": "9"}}, "env"),
        ({"env": {"A": "a\0b"}}, "env"),
        ({"env": {"A": "x" * 100_001}}, "env"),
        ({"env": {"API_TOKEN": "abcdefgh"}}, "env"),
        ({"args": ("--key", "ghp_" + "a" * 36)}, "args"),
        ({"command": ("",)}, "command"),
        ({"shm_size": "lots"}, "shm_size"),
        ({"mounts": (Mount("/tmp", "/x"),)}, "mounts"),
        ({"mounts": (Mount("/a,source=/etc", "/x"),)}, "mounts"),
        ({"mounts": (Mount("data", "/x"),)}, "mounts"),
        ({"data": ("s3://b/x",)}, "data"),
        ({"checkpoint_dir": "relative"}, "checkpoint_dir"),
        ({"launcher": "accelerate", "framework": Framework.JAX}, "framework.launcher"),
        ({"launcher": "nobody"}, "framework.launcher"),
    ],
)
def test_what_cannot_run_is_refused_by_its_field(changes, field):
    with pytest.raises(Rejected) as refusal:
        check_submission(submission(**changes))
    assert refusal.value.facts["field"] == field


def test_quotes_newlines_and_100_kb_of_environment_are_no_trouble():
    hostile = "a'b\"c $(id) `id`\n--privileged\\ é"
    env = {f"V{number}": "x" * 1_000 for number in range(100)}
    check_submission(submission(args=(hostile, "--privileged"), env={**env, "Q": hostile}))


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("HF_TOKEN", "hf_" + "a" * 34, True),
        ("DB", "postgres://ada:hunter2@db/x", True),
        ("PASSWORD", "correct horse", True),
        ("X", "-----BEGIN PRIVATE KEY-----\nMII", True),
        ("TOKENIZERS_PARALLELISM", "true", False),
        ("MAX_TOKEN", "4096", False),
        ("TOKEN", "projects/lab/secrets/hf/versions/1", False),
        ("TOKEN_FILE", "/run/secret", False),
        ("BATCH", "1024", False),
    ],
)
def test_secrets_are_known_by_their_shape_or_their_name(name, value, is_secret):
    assert bool(describe_secret(name, value)) is is_secret


def test_a_node_and_a_request_for_one_exclude_each_other():
    for changes in ({"node": "trainer"}, {"node_request": None}):
        with pytest.raises(Rejected, match="exactly one"):
            check_submission(replace(submission(), **changes))


def test_the_node_of_a_job_has_a_fuse():
    request = check_submission(submission(max_duration_seconds=3_600)).node_request
    assert request is not None
    assert request.ttl_seconds == 3_600 + FUSE_SECONDS
    given = replace(submission(), node_request=factories.request(ttl_seconds=60))
    request = check_submission(given).node_request
    assert request is not None
    assert request.ttl_seconds == 60


def test_a_legacy_node_answers_with_what_to_do_instead():
    legacy = factories.request(accelerator_type="v3-8", architecture=Architecture.NODE)
    with pytest.raises(Conflict, match="connection"):
        check_submission(replace(submission(), node_request=legacy))


def test_a_job_for_a_legacy_node_answers_with_the_line_for_ones_own_vm():
    node = factories.sent(
        architecture=Architecture.NODE,
        accelerator_type="v2-8",
        generation="v2",
        state=NodeState.READY,
        endpoints=(Endpoint("10.0.0.2", 8470),),
    )
    spec = JobSpec("lab/train:7", ("bash", "-c"), ("echo $HOME; exit 7",), {"A": "b c"})
    with pytest.raises(Conflict, match="on your own VM") as refused:
        check_node(node, spec)
    lines: Any = refused.value.facts["type_on_your_vm"]
    (line,) = lines
    assert shlex.join(shlex.split(line)) == line
    before, _, after = line.partition(" lab/train:7 ")
    assert before.startswith("docker run --rm --shm-size 16g -e ")
    assert "-e 'XRT_TPU_CONFIG=tpu_worker;0;10.0.0.2:8470'" in before
    assert before.endswith("-e COLAB_TPU_ADDR=10.0.0.2:8470 -e 'A=b c' --entrypoint bash")
    assert shlex.split(after) == ["-c", "echo $HOME; exit 7"]
    with pytest.raises(Conflict, match="when it is READY"):
        check_node(replace(node, state=NodeState.CREATING), spec)
