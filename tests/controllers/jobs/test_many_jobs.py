"""Many jobs cost the cloud no more calls than there are changes, whatever their number."""

from __future__ import annotations

import pytest

from tests.controllers.jobs.fleet import JobFleet


@pytest.mark.deep
def test_updates_are_as_many_as_changes_and_reads_stay_within_the_budget(lab):
    fleet = JobFleet(lab)
    fleet.add(nodes=5, jobs=4)
    for _ in range(240):
        fleet.tick()
    assert {lab.state(job) for job in fleet.jobs} == {"SUCCEEDED"}
    assert fleet.changes.total() == 3 * 20  # pull, run and release
    assert fleet.updates() == fleet.changes
    assert 0 < max(fleet.reads.values()) <= 4
