"""Which usage is covered by which commitment: checked second by second against a plain count."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY
from service.domain.commitments.allocation import (
    CoveredStretch,
    Rank,
    UsageSpan,
    allocate_usage,
    divide_proportionally,
    shares_of,
)
from tests.commitments import commitment
from tests.domain.drawn import moderate

A, B, C = (("a", -1, "u"), ("b", -1, "u"), ("c", -1, "u"))
ALWAYS = -400 * DAY
"""The start of a term that holds for all seconds of a test."""


def span(rank=A, chips=8, start=0, end=100, **changes):
    return UsageSpan(rank, "lab", "us-west4", "v5e", chips, start, end)._replace(**changes)


def committed(chips=8, **changes):
    return commitment(**({"chips": chips, "start": 0} | changes))


@pytest.mark.parametrize(
    ("chips", "wanted", "given_"),
    [
        (8, [4, 4], [4, 4]),
        (9, [4, 4], [4, 4]),
        (4, [4, 4], [2, 2]),
        (4, [4, 4, 4], [2, 1, 1]),
        (5, [4, 4, 4], [2, 2, 1]),
        (7, [16, 4], [6, 1]),
        (1, [4, 8], [0, 1]),
        (2, [4, 0, 4], [1, 0, 1]),
        (3, [], []),
    ],
)
def test_chips_are_divided_in_proportion_with_the_largest_remainders_rounded_up(
    chips, wanted, given_
):
    assert list(divide_proportionally(chips, wanted)) == given_


def test_one_node_is_covered_up_to_the_committed_chips():
    found = allocate_usage([span(chips=16)], [committed(8)])
    assert found == {A: [CoveredStretch(0, 100, (("c-1", 8),))]}


def test_the_earliest_commitment_is_served_first():
    late, early = committed(4, id="c-0", start=10), committed(4, id="c-9", start=0)
    found = allocate_usage([span(chips=6)], [late, early])
    assert found == {
        A: [CoveredStretch(0, 10, (("c-9", 4),)), CoveredStretch(10, 100, (("c-9", 4), ("c-0", 2)))]
    }


def test_of_two_that_begin_together_the_first_id_is_served_first():
    found = allocate_usage([span(chips=6)], [committed(4, id="c-2"), committed(4, id="c-1")])
    assert found[A] == [CoveredStretch(0, 100, (("c-1", 4), ("c-2", 2)))]


@pytest.mark.parametrize(
    "changes", [{"region": "us-east5"}, {"generation": "v6e"}, {"project": "other"}]
)
def test_usage_elsewhere_is_not_covered(changes):
    assert allocate_usage([span(**changes)], [committed(project="lab")]) == {}


def test_without_a_project_the_whole_account_is_served():
    found = allocate_usage([span(project="a"), span(B, project="b")], [committed(8)])
    assert {rank: [part.shares for part in found[rank]] for rank in found} == {
        A: [(("c-1", 4),)],
        B: [(("c-1", 4),)],
    }


def test_a_stretch_goes_on_while_its_shares_stay():
    others = [span(B, start=20, end=30), span(C, start=30, end=40)]
    found = allocate_usage([span(), *others], [committed(16)])
    assert found[A] == [CoveredStretch(0, 100, (("c-1", 8),))]
    assert found[B] == [CoveredStretch(20, 30, (("c-1", 8),))]


def test_when_more_runs_than_is_committed_all_of_it_shares():
    found = allocate_usage([span(), span(B, start=20, end=30)], [committed(8)])
    assert found[A] == [
        CoveredStretch(0, 20, (("c-1", 8),)),
        CoveredStretch(20, 30, (("c-1", 4),)),
        CoveredStretch(30, 100, (("c-1", 8),)),
    ]
    assert found[B] == [CoveredStretch(20, 30, (("c-1", 4),))]


# ---- against a plain count

SPANS = st.lists(
    st.builds(
        lambda name, chips, start, lasts, project: span(
            (name, -1, f"u-{name}"), chips, start, start + lasts, project=project
        ),
        st.sampled_from("abcdef"),
        st.sampled_from([1, 4, 8, 16]),
        st.integers(0, 60),
        st.integers(0, 40),
        st.sampled_from(["lab", "other"]),
    ),
    max_size=6,
    unique_by=lambda one: one.rank,
)
COMMITMENTS = st.lists(
    st.builds(
        lambda number, chips, start, project: committed(
            chips, id=f"c-{number}", start=start, project=project
        ),
        st.integers(1, 9),
        st.integers(1, 24),
        st.sampled_from([ALWAYS, 0, 13, 30, 55]),
        st.sampled_from(["", "", "lab", "other"]),
    ),
    max_size=4,
    unique_by=lambda one: one.id,
)


def counted(spans, commitments, second):
    """Chips by (rank, commitment) at one second, worked out with fractions."""
    left = {span.rank: span.chips for span in sorted(spans) if span.start <= second < span.end}
    project = {span.rank: span.project for span in spans}
    found = {}
    for promise in sorted(commitments, key=lambda promise: (promise.start, promise.id)):
        if not promise.start <= second < promise.end:
            continue
        mine = {r: chips for r, chips in left.items() if promise.project in ("", project[r])}
        total = sum(mine.values())
        served = min(promise.chips, total)
        exact = {r: Fraction(served * chips, total) for r, chips in mine.items() if chips}
        given_ = {r: int(part) for r, part in exact.items()}
        for r in sorted(exact, key=lambda r: (given_[r] - exact[r], r)):
            if sum(given_.values()) < served:
                given_[r] += 1
        for r, chips in given_.items():
            left[r] -= chips
            if chips:
                found[r, promise.id] = chips
    return found


@moderate
@given(spans=SPANS, commitments=COMMITMENTS)
def test_every_second_is_covered_as_a_plain_count_has_it(spans, commitments):
    by_second: defaultdict[int, dict[tuple[Rank, str], int]] = defaultdict(dict)
    for rank, stretches in allocate_usage(spans, commitments).items():
        for stretch in stretches:
            assert stretch.start < stretch.end
            for second in range(stretch.start, stretch.end):
                by_second[second].update({(rank, key): chips for key, chips in stretch.shares})
    for second in range(-1, 102):
        assert by_second[second] == counted(spans, commitments, second)


@moderate
@given(spans=SPANS, commitments=COMMITMENTS)
def test_no_second_covers_more_than_is_committed_or_runs(spans, commitments):
    served = allocate_usage(spans, commitments)
    for second in range(102):
        found = {
            rank: sum(chips for _, chips in stretch.shares)
            for rank, stretches in served.items()
            for stretch in stretches
            if stretch.start <= second < stretch.end
        }
        runs = {span.rank: span.chips for span in spans if span.start <= second < span.end}
        holds = sum(
            commitment.chips
            for commitment in commitments
            if commitment.start <= second < commitment.end
        )
        assert all(chips <= runs[rank] for rank, chips in found.items())
        assert sum(found.values()) <= min(holds, sum(runs.values()))


@moderate
@given(spans=SPANS, chips=st.integers(1, 60))
def test_a_commitment_for_all_projects_wastes_nothing_while_usage_is_left(spans, chips):
    running = sorted(span for span in spans if span.start <= 30 < span.end)
    found = shares_of(running, [committed(chips)])
    given_ = sum(part for shares in found.values() for _, part in shares)
    assert given_ == min(chips, sum(part.chips for part in running))
