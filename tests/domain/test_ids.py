"""Ids, names and labels: unique, derived, and never refused by the cloud afterwards."""

from __future__ import annotations

import re
import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import Rejected
from service.domain.ids import (
    LABEL_KEY_RULE,
    LABEL_VALUE_RULE,
    MAX_LABELS,
    NAME_RULE,
    IdSource,
    check_labels,
    check_name,
    cloud_id_for,
    ids_from,
    new_id,
)

GOOGLES_NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def test_an_id_is_a_uuid_of_version_7():
    parsed = uuid.UUID(new_id())
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


def test_ids_do_not_repeat_and_later_ones_do_not_sort_before_an_earlier_millisecond():
    ids = [new_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    millis = [id_[:13] for id_ in ids]
    assert millis == sorted(millis)


@given(st.from_regex(NAME_RULE, fullmatch=True), st.integers(1, 200_000))
def test_a_name_that_is_allowed_always_makes_a_name_that_google_allows(name, attempt):
    check_name(name)
    assert GOOGLES_NODE_ID.fullmatch(cloud_id_for(name, new_id(), attempt))


def test_each_attempt_of_each_node_has_a_name_of_its_own_that_can_be_derived_again():
    ids = [new_id() for _ in range(20)]
    names = {cloud_id_for("train", id_, attempt) for id_ in ids for attempt in range(1, 30)}
    assert len(names) == 20 * 29
    assert cloud_id_for("train", ids[0], 3) in names


def test_even_the_longest_name_keeps_its_attempts_apart():
    name, node_id = "a" * 49, new_id()
    made = {cloud_id_for(name, node_id, attempt) for attempt in (1, 2, 9_999, 10_000, 100_000)}
    assert len(made) == 5
    assert all(GOOGLES_NODE_ID.fullmatch(id_) for id_ in made)


@pytest.mark.parametrize(
    "name",
    ["", "A", "1a", "-a", "a-", "a_b", "a.b", "train\n", "ä", "a" * 50, "a b", "../x"],
)
def test_a_name_from_which_no_cloud_name_can_be_made_is_refused(name):
    with pytest.raises(Rejected) as refused:
        check_name(name)
    assert refused.value.facts["field"] == "name"


@pytest.mark.parametrize("name", ["a", "a1", "bert-large-7", "a" * 49])
def test_a_plain_name_is_allowed(name):
    check_name(name)


@given(
    st.dictionaries(
        st.from_regex(LABEL_KEY_RULE, fullmatch=True).filter(
            lambda key: not key.startswith("steward-")
        ),
        st.from_regex(LABEL_VALUE_RULE, fullmatch=True),
        max_size=5,
    )
)
def test_labels_within_googles_rules_are_allowed(labels):
    check_labels(labels)


@pytest.mark.parametrize(
    "labels",
    [
        {"": "x"},
        {"Team": "x"},
        {"1st": "x"},
        {"a" * 64: "x"},
        {"team\n": "x"},
        {"team": "Vision"},
        {"team": "v" * 64},
        {"team": "a b"},
        {"team": "x\n"},
        {"steward-id": "mine"},
        {"steward-anything": "x"},
        {f"k{number}": "v" for number in range(MAX_LABELS + 1)},
    ],
)
def test_labels_that_google_would_refuse_or_that_pose_as_ours_are_refused(labels):
    with pytest.raises(Rejected) as refused:
        check_labels(labels)
    assert refused.value.facts["field"] == "labels"


def test_as_many_labels_as_google_takes_beside_ours_are_allowed():
    check_labels({f"k{number}": "" for number in range(MAX_LABELS)})


def test_a_source_gives_the_ids_of_its_block_their_time_and_chance():
    source = IdSource(lambda: 1_793_880_000.25, Random(3).getrandbits)
    with ids_from(source):
        ids = [new_id() for _ in range(3)]
    with ids_from(IdSource(lambda: 1_793_880_000.25, Random(3).getrandbits)):
        again = [new_id() for _ in range(3)]
    assert ids == again
    assert {int(uuid.UUID(id_)) >> 80 for id_ in ids} == {1_793_880_000_250}
    assert {(uuid.UUID(id_).version, uuid.UUID(id_).variant) for id_ in ids} == {(7, uuid.RFC_4122)}
    assert new_id() not in ids
