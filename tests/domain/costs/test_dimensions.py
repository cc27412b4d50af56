"""What costs are grouped and filtered by, as it is written in an address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.costs.dimensions import condition_of, only_of, words_of
from service.domain.errors import Rejected


def test_words_are_listed_with_commas_or_by_repetition():
    assert words_of(["team, owner", "", ",zone,"]) == ["team", "owner", "zone"]


def test_a_comma_within_a_word_is_written_with_a_backslash():
    assert words_of([r"team:a\,b,team:c\\,team:d\e"]) == ["team:a,b", "team:c\\", r"team:d\e"]


@pytest.mark.parametrize(
    ("texts", "only"),
    [
        (["team:vision"], {"team": ["vision"]}),
        (["team:vision,team:nlp", "zone:z"], {"team": ["vision", "nlp"], "zone": ["z"]}),
        (["label:run:17"], {"label:run": ["17"]}),
        (["job:"], {"job": [""]}),
        ([r"team:vision\, and language"], {"team": ["vision, and language"]}),
    ],
)
def test_filters_are_the_values_that_count_by_dimension(texts, only):
    assert only_of(texts) == only


@pytest.mark.parametrize("text", ["vision", "label:run", "colour:red", "label::x"])
def test_what_is_no_filter_is_refused(text):
    with pytest.raises(Rejected) as refused:
        only_of([text])
    assert refused.value.facts["field"] == "filter"


def test_a_comma_that_cuts_a_value_in_two_is_told_how_to_write() -> None:
    with pytest.raises(Rejected, match=r"and \\, for a comma within a value"):
        only_of(['team:vi,s"ion'])


@given(st.text(alphabet=st.characters(exclude_categories=["Z", "C"]) | st.sampled_from(",\\:")))
def test_every_value_can_be_filtered_by(value):
    assert only_of([condition_of("team", value)]) == {"team": [value]}
    assert only_of([condition_of("label:run", value)]) == {"label:run": [value]}
