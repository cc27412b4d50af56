"""What the cloud's log says later of how usage ended, through the real controllers."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from service.controllers.inventory.audit_log import PAUSE, PAUSE_WHEN_DENIED, EvidenceController
from service.domain.billing_period import GRACE, period_of
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR, MINUTE
from service.domain.errors import CloudUnavailable, LeaseLost, NotAllowed
from service.domain.metering.meter import Evidence, Usage
from service.domain.money import half_even
from service.domain.nodes.node import Node, NodeState
from tests.controllers.conftest import Lab
from tests.fakes import FakeHistory

RATE = 8 * 577_900_000
"""Nano-dollars an hour of eight v5e chips as spot in us-west4."""


def lost(lab: Lab, ran: int = HOUR, unseen: int = 30, of_it: int = 8) -> tuple[Node, str, int]:
    """A spot node that was READY for a while and then was preempted, `of_it` seconds after a look
    and `unseen` seconds before the next; with its full name and the instant."""
    node = lab.up(provisioning_model=ProvisioningModel.SPOT)
    path = lab.cloud.only
    lab.tick(ran)
    lab.clock.pass_(of_it)
    lab.cloud.become(NodeState.PREEMPTED)
    preempted = lab.clock()
    lab.tick(unseen - of_it)
    return node, path, preempted


def usage_of(lab: Lab, node: Node) -> Usage:
    """All that it was ever billable for, which was one interval."""
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    return usage


def test_an_end_between_two_looks_becomes_exact_once_the_log_tells_it(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, path, preempted = lost(lab)
    start = usage_of(lab, node).start
    assert lab.nodes.get_cost(node.id).uncertainty > 0
    log.write(path, preempted)
    evidence.tick(lab.lease)
    usage = usage_of(lab, node)
    assert (usage.end, usage.end_lo, usage.end_evidence) == (preempted, preempted, Evidence.AUDIT)
    assert lab.nodes.get_cost(node.id).uncertainty == 0
    assert lab.cost(node) == half_even(RATE * (preempted - start), HOUR) == lab.posted(node)
    assert "by Google's audit log (PREEMPTED); the charge for 22 s more is credited: $" in (
        lab.story(node)
    )


def test_each_version_of_what_was_believed_is_kept_and_the_correction_names_what_it_corrects(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, path, preempted = lost(lab)
    log.write(path, preempted)
    evidence.tick(lab.lease)
    with lab.units.reading() as unit:
        versions = unit.usage_versions.list_by_usage(usage_of(lab, node).id)
    assert [version.end_evidence for version in versions] == [None, "observed", "audit"]
    ledger = lab.nodes.list_ledger_lines(node.id, 0, 100)
    assert sum(line.amount_nanos < 0 for line in ledger) == 1
    assert all(line.corrects_id is not None for line in ledger if line.amount_nanos < 0)


def test_told_once_and_never_again(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, path, preempted = lost(lab)
    log.write(path, preempted)
    log.write(path, preempted)
    evidence.tick(lab.lease)
    ledger, story = lab.nodes.list_ledger_lines(node.id, 0, 100), lab.story(node)
    for seconds in (0, 15, MINUTE, HOUR, DAY):
        lab.clock.pass_(seconds)
        evidence.tick(lab.lease)
        lab.listener(log).tick(lab.lease)
    assert (lab.nodes.list_ledger_lines(node.id, 0, 100), lab.story(node)) == (ledger, story)
    assert len(log.asked) == 1, "nothing is open any more"


def test_while_nothing_is_uncertain_nobody_is_asked(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node = lab.up()
    lab.tick(HOUR)
    lab.nodes.delete(node.id)
    for _ in range(5):
        lab.tick(15)
        evidence.tick(lab.lease)
    assert log.asked == []


def test_an_entry_that_comes_late_is_asked_for_less_and_less_often_until_it_is_there(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, path, preempted = lost(lab)
    found_at = lab.clock()
    times = []
    for _ in range(3 * HOUR // 15):
        before = len(log.asked)
        evidence.tick(lab.lease)
        if len(log.asked) > before:
            times.append(lab.clock() - found_at)
        lab.clock.pass_(15)
    assert times == [0, 15, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]
    log.write(path, preempted)
    lab.clock.pass_(10 * HOUR)
    evidence.tick(lab.lease)
    assert usage_of(lab, node).end == preempted


def test_a_daemon_that_was_down_for_days_asks_about_all_of_them_with_one_question(
    lab: Lab, log: FakeHistory
) -> None:
    nodes = []
    for _ in range(3):
        nodes.append(lost(lab)[0])
        lab.cloud.nodes.clear()
    lab.clock.pass_(12 * DAY)
    evidence = lab.listener(log)
    evidence.tick(lab.lease)
    assert len(log.asked) == 1
    project, since, until = log.asked[0]
    ends = [usage_of(lab, node) for node in nodes]
    assert project == lab.lease.project
    assert all(since <= (end.end_lo or 0) and (end.end or 0) < until for end in ends)


def test_what_ended_long_ago_is_left_as_it_is(lab: Lab, log: FakeHistory) -> None:
    lost(lab)
    lab.clock.pass_(31 * DAY)
    lab.listener(log).tick(lab.lease)
    assert log.asked == []


def test_an_entry_about_another_node_or_another_time_changes_nothing(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, path, preempted = lost(lab)
    before = usage_of(lab, node)
    log.write(path + "-1", preempted)
    log.write(path, preempted - HOUR)
    log.write(path, preempted + HOUR)
    evidence.tick(lab.lease)
    assert usage_of(lab, node) == before


def test_each_attempt_is_told_from_the_others_by_its_own_name(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node = lab.up(provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    first = lab.cloud.only
    lab.tick(HOUR)
    lab.cloud.become(NodeState.PREEMPTED)
    preempted = lab.clock()
    for _ in range(3):
        lab.tick(15)
        lab.cloud.settle()
    assert lab.cloud.only != first
    log.write(lab.cloud.only, preempted)
    evidence.tick(lab.lease)
    assert usage_of(lab, node).end_evidence is Evidence.OBSERVED
    log.write(first, preempted)
    lab.clock.pass_(MINUTE)
    evidence.tick(lab.lease)
    assert usage_of(lab, node).end == preempted


def test_one_slice_of_several_is_corrected_by_itself(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node = lab.ask(provisioning_model=ProvisioningModel.SPOT, slices=2)
    lab.tick()
    lab.cloud.grant()
    for path in list(lab.cloud.nodes):
        lab.cloud.come_up(path)
    lab.tick(15)
    lab.tick(HOUR)
    path = next(path for path in lab.cloud.nodes if path.endswith("-1"))
    lab.cloud.become(NodeState.PREEMPTED, path)
    preempted = lab.clock()
    lab.clock.pass_(30)
    lab.inventory.tick(lab.lease)
    log.write(path, preempted)
    evidence.tick(lab.lease)
    with lab.units.reading() as unit:
        ends = {usage.slice: usage.end for usage in unit.usage.list_by_node(node.id)}
    assert ends == {0: None, 1: preempted}
    assert "slice 1: ended at " in lab.story(node)


# ---- the first minute


def died_young(lab: Lab, after: int, seen_after: int) -> tuple[Node, int]:
    """A spot node that was created and READY at once, was seen so, and was preempted `after`
    seconds; that was seen `seen_after` seconds after its creation."""
    node = lab.ask(provisioning_model=ProvisioningModel.SPOT)
    lab.tick()
    created = lab.clock()
    lab.cloud.come_up()
    lab.tick(15)
    lab.clock.pass_(after - 15)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(seen_after - after)
    return node, created


@pytest.mark.parametrize(("after", "free"), [(59, True), (60, False)])
def test_what_was_lost_in_its_first_minute_is_free_once_the_log_tells_it_was(
    lab: Lab, log: FakeHistory, evidence: EvidenceController, after: int, free: bool
) -> None:
    node, created = died_young(lab, after, 90)
    cost = lab.nodes.get_cost(node.id)
    assert cost.uncertainty == cost.cost > 0, "nobody could tell"
    log.write(node_path(lab, node), created + after)
    evidence.tick(lab.lease)
    expected = 0 if free else half_even(RATE * after, HOUR)
    assert lab.cost(node) == lab.posted(node) == expected
    assert lab.nodes.get_cost(node.id).uncertainty == 0
    assert ("which is free" in lab.story(node)) is free


@pytest.mark.parametrize(("after", "free"), [(59, True), (60, False)])
def test_the_log_decides_about_every_interval_of_a_node_lost_around_its_first_minute(
    lab: Lab, log: FakeHistory, evidence: EvidenceController, after: int, free: bool
) -> None:
    node = lab.ask(provisioning_model=ProvisioningModel.SPOT)
    lab.tick()
    created = lab.clock()
    lab.cloud.come_up()
    lab.tick(10)
    lab.cloud.become(NodeState.RESTARTING)
    lab.tick(10)
    with lab.units.reading() as unit:
        first = unit.usage.list_by_node(node.id)[0]
    lab.cloud.become(NodeState.READY)
    lab.tick(10)
    lab.clock.pass_(after - 30)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(90 - after)
    cost = lab.nodes.get_cost(node.id)
    assert cost.uncertainty == cost.cost > 0, "nobody could tell"
    log.write(node_path(lab, node), created + after)
    evidence.tick(lab.lease)
    with lab.units.reading() as unit:
        intervals = unit.usage.list_by_node(node.id)
    assert [bool(interval.free) for interval in intervals] == [free, free]
    if not free:
        assert intervals[0].start_hi == first.start_hi, "as it was before nobody could tell"
    assert lab.posted(node) == lab.cost(node)
    assert (lab.cost(node) == 0) is free
    assert lab.nodes.get_cost(node.id).uncertainty < cost.uncertainty


def test_while_the_cloud_cannot_say_when_it_was_created_nothing_is_decided(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, created = died_young(lab, 40, 90)
    log.write(node_path(lab, node), created + 40)
    lab.cloud.fail("operations", CloudUnavailable("away"))
    evidence.tick(lab.lease)
    assert usage_of(lab, node).end_evidence is Evidence.OBSERVED
    lab.clock.pass_(MINUTE)
    evidence.tick(lab.lease)
    assert lab.cost(node) == 0


def test_what_the_cloud_has_forgotten_the_creation_of_stays_charged_and_uncertain(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, created = died_young(lab, 40, 90)
    lab.cloud.done.clear()
    log.write(node_path(lab, node), created + 40)
    evidence.tick(lab.lease)
    cost = lab.nodes.get_cost(node.id)
    assert usage_of(lab, node).end == created + 40
    assert cost.cost == cost.uncertainty == half_even(RATE * 40, HOUR)


def node_path(lab: Lab, node: Node) -> str:
    """Google's name of the node's present attempt."""
    return lab.node(node).place.path


# ---- when the log does not answer, or somebody else is faster


@pytest.mark.parametrize(
    ("error", "pause"),
    [(NotAllowed("no"), PAUSE_WHEN_DENIED), (CloudUnavailable("away"), PAUSE)],
)
def test_a_log_that_does_not_answer_is_told_of_once_and_asked_again_later(
    lab: Lab, log: FakeHistory, evidence: EvidenceController, error: Any, pause: int
) -> None:
    node, path, preempted = lost(lab)
    log.write(path, preempted)
    log.error = error
    with capture_logs() as lines:
        for _ in range(3 * pause // 15):
            evidence.tick(lab.lease)
            lab.clock.pass_(15)
        log.error = None
        lab.clock.pass_(pause)
        evidence.tick(lab.lease)
    assert [line["event"] for line in lines] == ["evidence.no_log", "evidence.log_is_back"]
    assert len(log.asked) == 4
    assert usage_of(lab, node).end == preempted


def test_another_reason_for_no_answer_is_told_too(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    lost(lab)
    with capture_logs() as lines:
        for log.error in (CloudUnavailable("away"), NotAllowed("no"), NotAllowed("still no")):
            evidence.tick(lab.lease)
            lab.clock.pass_(PAUSE_WHEN_DENIED)
    assert [line["reason"] for line in lines] == ["away", "no"]


def test_who_lost_the_lease_corrects_nothing_and_the_next_does(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    node, path, preempted = lost(lab)
    log.write(path, preempted)
    before, old = usage_of(lab, node), lab.lease
    lab.start_daemon("second")
    with pytest.raises(LeaseLost):
        evidence.tick(old)
    assert usage_of(lab, node) == before
    evidence.tick(lab.lease)
    assert usage_of(lab, node).end == preempted


def test_what_becomes_known_after_its_month_was_closed_is_given_back_in_the_present_one(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    november = period_of(lab.clock())
    lab.clock.now = november.end - 2 * HOUR
    node, path, preempted = lost(lab)
    with lab.units.reading() as unit:
        closed_with, *_ = unit.statements.sum_month(november)
    lab.clock.now = november.end + GRACE + HOUR
    log.write(path, preempted)
    evidence.tick(lab.lease)
    with lab.units.reading() as unit:
        after, *_ = unit.statements.sum_month(november)
        december, *_ = unit.statements.sum_month(period_of(november.end))
    assert after == closed_with, "a closed month never changes"
    assert december < 0
    assert after + december == lab.posted(node) == lab.cost(node)
