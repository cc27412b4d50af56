"""One map of metadata, several writers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.nodes.metadata import merge_metadata

KEYS = st.sampled_from(["ssh-keys", "startup-script", "steward-task"])


@pytest.mark.parametrize(
    ("there", "ours", "result"),
    [
        ({}, {}, {}),
        ({"ssh-keys": "k"}, {"steward-task": "t"}, {"ssh-keys": "k", "steward-task": "t"}),
        ({"ssh-keys": "k", "steward-task": "old"}, {"steward-task": None}, {"ssh-keys": "k"}),
        ({"steward-task": "old"}, {"steward-task": ""}, {"steward-task": ""}),
        ({}, {"steward-task": None}, {}),
    ],
)
def test_keys_of_others_stay_and_ours_are_set_or_removed(there, ours, result):
    assert merge_metadata(there, ours) == result


@given(st.dictionaries(KEYS, st.text()), st.dictionaries(KEYS, st.none() | st.text()))
def test_a_merge_changes_our_keys_alone_and_twice_is_once(there, ours):
    once = merge_metadata(there, ours)
    assert {key: value for key, value in once.items() if key not in ours} == {
        key: value for key, value in there.items() if key not in ours
    }
    assert merge_metadata(once, ours) == once
