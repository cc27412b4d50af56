"""What a zone lists decides whether it is asked at all."""

from __future__ import annotations

import pytest

from service.domain.errors import InvalidRequest
from service.domain.placement.zone_offers import (
    DOUBT_SECONDS,
    KEEP_SECONDS,
    WITHOUT_SECONDS,
    OfferedTypes,
    find_refusal,
)
from tests import factories
from tests.hands import NOON

TYPES = ("v5litepod-4", "v5litepod-8", "v5litepod-16")
VERSIONS = ("v2-alpha-tpuv5", "v2-alpha-tpuv5-lite", "tpu-ubuntu2204-base")


@pytest.mark.parametrize(
    ("versions", "types"),
    [(VERSIONS, TYPES), ((), TYPES), (VERSIONS, ()), ((), ())],
)
def test_a_zone_that_lists_it_or_lists_nothing_is_asked(versions, types):
    assert find_refusal(factories.spec(), "us-west4-a", OfferedTypes(versions, types, NOON)) is None


@pytest.mark.parametrize(
    ("changes", "said", "closest"),
    [
        (
            {"runtime_version": "v2-alpha-tpuv5-litepod"},
            "the runtime version v2-alpha-tpuv5-litepod; the nearest that it has: v2-alpha-tpuv5",
            "v2-alpha-tpuv5-lite",
        ),
        (
            {"accelerator_type": "v5litepod-32"},
            "the accelerator type v5litepod-32; the nearest that it has: v5litepod-",
            "v5litepod-4",
        ),
    ],
)
def test_a_zone_that_lacks_it_refuses_with_the_nearest_that_it_has(changes, said, closest):
    refused = find_refusal(
        factories.spec(**changes), "us-west4-a", OfferedTypes(VERSIONS, TYPES, NOON)
    )
    assert isinstance(refused, InvalidRequest)
    assert str(refused).startswith(f"us-west4-a does not list {said}")
    names = refused.facts["closest"]
    assert isinstance(names, list)
    assert closest in names


@pytest.mark.parametrize(
    ("versions", "age", "within", "fresh"),
    [
        (VERSIONS, KEEP_SECONDS - 1, KEEP_SECONDS, True),
        (VERSIONS, KEEP_SECONDS, KEEP_SECONDS, False),
        (VERSIONS, DOUBT_SECONDS, DOUBT_SECONDS, False),
        ((), WITHOUT_SECONDS - 1, KEEP_SECONDS, True),
        ((), WITHOUT_SECONDS, KEEP_SECONDS, False),
    ],
)
def test_a_list_is_good_for_an_hour_and_its_lack_for_some_minutes(versions, age, within, fresh):
    assert OfferedTypes(versions, TYPES, NOON).is_fresh(NOON + age, within) is fresh
