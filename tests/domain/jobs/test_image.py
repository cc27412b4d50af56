"""Names of images are read as registries read them, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import NoSuchPlatform, Rejected
from service.domain.jobs.image import ImageFacts, ImageReference, check_platform

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("python", "docker.io", "library/python", "", ""),
        ("python:3.12", "docker.io", "library/python", "3.12", ""),
        ("team/trainer", "docker.io", "team/trainer", "", ""),
        ("index.docker.io/python", "docker.io", "library/python", "", ""),
        ("docker.io/team/a:b", "docker.io", "team/a", "b", ""),
        ("us-docker.pkg.dev/p/r/i:v1", "us-docker.pkg.dev", "p/r/i", "v1", ""),
        (f"gcr.io/p/i@{DIGEST}", "gcr.io", "p/i", "", DIGEST),
        (f"gcr.io/p/i:t@{DIGEST}", "gcr.io", "p/i", "t", DIGEST),
        ("host:5000/a/b", "host:5000", "a/b", "", ""),
        ("localhost/a", "localhost", "a", "", ""),
        ("example.com/a__b/c-d--e.f_g:A.b-C_1", "example.com", "a__b/c-d--e.f_g", "A.b-C_1", ""),
    ],
)
def test_a_name_has_a_registry_a_repository_a_tag_and_a_digest(
    text, registry, repository, tag, digest
):
    assert ImageReference.parse(text) == ImageReference(registry, repository, tag, digest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--privileged",
        "-v",
        "a;b",
        "a b",
        "a\n",
        "$(id)",
        "`id`",
        "Python",
        "example.com/Team/a",
        "a" * 300,
        "a:" + "t" * 129,
        "a:",
        "a:-t",
        "a:b:c",
        "a@",
        "a@sha256:12",
        f"a@{DIGEST.upper()}",
        f"a@md5:{'0' * 32}",
        f"a@{DIGEST}@{DIGEST}",
        "a//b",
        "/a",
        "a/",
        "a___b",
        "a..b",
        "-host.com/a",
        "host..com/a",
        "host:port/a",
        "host:/a",
        "[::1]:5000/a",
        "https://example.com/a",
        "user:pass@example.com/a",
        "example.com/a?b",
        "example.com/../a",
        "exämple.com/a",
        "a\0",
    ],
)
def test_what_is_no_name_of_an_image_is_rejected(text):
    with pytest.raises(Rejected, match="not the name of an image") as rejected:
        ImageReference.parse(text)
    assert rejected.value.facts == {"field": "image"}
    assert len(str(rejected.value)) < 400


COMPONENT = st.from_regex(r"\A[a-z0-9]{1,9}((\.|_|__|-{1,3})[a-z0-9]{1,9}){0,2}\Z")
NAMES = st.builds(
    lambda host, path, tag, digest: f"{host}{'/'.join(path)}{tag}{digest}",
    st.sampled_from(["team/", "gcr.io/", "us-west4-docker.pkg.dev/", "host:5000/"]),
    st.lists(COMPONENT, min_size=1, max_size=3),
    st.just("") | st.from_regex(r"\A:[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}\Z"),
    st.sampled_from(["", f"@{DIGEST}"]),
)


@given(NAMES)
def test_a_name_that_is_read_and_written_is_read_the_same(text):
    once = ImageReference.parse(text)
    assert ImageReference.parse(str(once)) == once
    assert ImageReference.parse(once.pinned_name(DIGEST)).reference == DIGEST


@given(st.text(max_size=80) | st.text("ab/:@.-_ A;\n", max_size=12))
def test_whatever_is_read_can_be_an_argument_of_docker(text):
    try:
        name = str(ImageReference.parse(text))
    except Rejected:
        return
    assert not name.startswith("-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:@._-")


@pytest.mark.parametrize(
    ("host", "googles"),
    [
        ("gcr.io", True),
        ("eu.gcr.io", True),
        ("us-docker.pkg.dev", True),
        ("docker.io", False),
        ("evilgcr.io", False),
        ("gcr.io.example.com", False),
        ("us-docker.pkg.dev:443", False),
    ],
)
def test_only_googles_registries_take_googles_tokens(host, googles):
    assert ImageReference.parse(f"{host}/a/b").is_googles is googles


def test_an_image_for_other_machines_is_refused_with_the_remedy():
    image = ImageReference.parse("gcr.io/p/i:v1")
    facts = ImageFacts(DIGEST, ("linux/amd64",))
    check_platform(image, facts, "amd64")
    check_platform(image, ImageFacts(DIGEST, ()), "arm64")
    with pytest.raises(NoSuchPlatform, match="--platform linux/arm64") as refusal:
        check_platform(image, facts, "arm64")
    assert refusal.value.facts == {
        "field": "image",
        "wanted": "linux/arm64",
        "platforms": ["linux/amd64"],
    }
