"""Patterns of callers are Google's RE2: none can keep the emulator busy."""

from __future__ import annotations

import pytest

from service.emulator.telemetry.selection import compile_full_match, compile_search


def test_a_pattern_that_would_take_for_ever_elsewhere_is_answered():
    assert not compile_full_match("(a+)+b")("a" * 100_000)
    assert not compile_search("(x+x+)+y")("x" * 100_000)


def test_a_whole_text_or_a_part_of_it():
    assert compile_full_match("a.c")("abc")
    assert not compile_full_match("b")("abc")
    assert compile_search("b")("abc")


@pytest.mark.parametrize("pattern", ["(a", "a{1000000}", "(?=a)", r"(a)\1", "[z-a]"])
def test_what_re2_does_not_know_is_refused_with_a_reason(pattern):
    with pytest.raises(ValueError, match=r"\w"):
        compile_search(pattern)
