"""Every second of a node is a job's or the node's own, and is counted once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.jobs.occupancy import list_occupancies
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter
from tests import factories
from tests.hands import NOON


def parts(rows, length=1_000):
    """The meter of a node of that many seconds, and what they were spent on. `rows` are the job of
    the node from a second on; the node has none before the first."""
    usage = factories.usage(start=NOON, start_hi=NOON, end=NOON + length, end_lo=NOON + length)
    whose = [Attribution(usage.node_id)]
    whose += [Attribution(usage.node_id, NOON + since, job=job) for since, job in rows]
    meter = Meter(usage, factories.book(factories.price()), NOON + 9_000, whose)
    return meter, list_occupancies([meter], whose)


def test_a_node_is_before_between_and_after_its_jobs():
    rows = [(100, "a"), (300, ""), (350, ""), (400, "b"), (700, "")]
    _, found = parts(rows)
    assert [(segment.occupant.value, segment.job_id, segment.seconds) for segment in found] == [
        ("before_first_job", "", 100),
        ("job", "a", 200),
        ("between_jobs", "", 100),
        ("job", "b", 300),
        ("idle_tail", "", 300),
    ]
    assert len({segment.cost // segment.seconds for segment in found}) == 1


def test_a_node_of_a_job_has_nothing_of_its_own():
    _, found = parts([(0, "a")])
    assert [(segment.occupant.value, segment.seconds) for segment in found] == [("job", 1_000)]


def test_nothing_is_said_of_a_node_without_jobs():
    assert parts([(100, "")])[1] == ()


@given(
    st.lists(
        st.tuples(st.integers(1, 1_200), st.sampled_from(["", "a", "b"])),
        min_size=1,
        max_size=8,
        unique_by=lambda one: one[0],
    )
)
def test_all_parts_come_to_what_the_ledger_charges(rows):
    meter, found = parts(sorted(rows))
    if not any(job for _, job in rows):
        return
    assert sum(segment.cost for segment in found) == meter.total_charge()
    assert sum(segment.seconds for segment in found) == 1_000
    assert sum(segment.chip_seconds for segment in found) == meter.chip_seconds_in(
        NOON, NOON + 1_000
    )
    assert len({(segment.occupant, segment.job_id) for segment in found}) == len(found)
