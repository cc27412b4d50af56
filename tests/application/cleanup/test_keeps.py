"""A keep is asked for with a reason, never cut short by another, and ended by a person alone."""

from __future__ import annotations

import pytest

from service.application.cleanup.keeps import KeepOrder, KeepService
from service.application.nodes.nodes import NodeService
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.errors import BudgetExceeded, Conflict, NotFound, Rejected, StaleVersion
from service.domain.lifecycle.expiry import NOTICE
from service.domain.nodes.keep import LABEL, TTL_HELD, TTL_TOLD
from service.domain.nodes.node import Asked, NodeState
from tests import factories
from tests.controllers.budgeting import HOURLY, BudgetedLab, lasting
from tests.hands import NOON
from tests.store.given import GivenPrices

FOUR_HOURS = KeepOrder("a demo", for_seconds=4 * HOUR)
READY = {"state": NodeState.READY, "ready_at": NOON - HOUR, "stoppable": True}


@pytest.fixture
def keeps(units, clock):
    """The service, whose clock stands at noon."""
    return KeepService(units, GivenPrices(), clock)


@pytest.fixture
def nodes(units, clock):
    return NodeService(units, GivenPrices(), clock, [factories.PROJECT])


@pytest.fixture
def add(units):
    """Store a READY node."""

    def add(**changes):
        node = factories.sent(**(READY | changes))
        with units() as unit:
            unit.nodes.add(node)
        return node

    return add


def node_of(units, node):
    with units.reading() as unit:
        return unit.nodes.get(node.id)


def story_of(units, node):
    with units.reading() as unit:
        return [(one.actor, one.message) for _, one in unit.events.list_by_node(node.id, 0, 50)]


def test_a_keep_is_written_with_its_reason_and_told_in_the_story(keeps, add, units):
    node = add()
    found = keeps.keep_node(node.id, FOUR_HOURS, actor="ada")
    assert (found.node.kept_until, found.node.kept_because) == (NOON + 4 * HOUR, "a demo")
    assert found.warnings == ()
    assert node_of(units, node) == found.node
    assert story_of(units, node) == [("ada", "kept until 2026-11-05T16:00:00Z: a demo")]


def test_a_keep_until_a_date_is_the_same_as_for_so_long(keeps, add):
    node = add()
    assert (
        keeps.keep_node(node.id, KeepOrder("a demo", until=NOON + DAY)).node.kept_until
        == NOON + DAY
    )


@pytest.mark.parametrize(
    ("order", "field"),
    [
        (KeepOrder("", for_seconds=60), "reason"),
        (KeepOrder("  ", for_seconds=60), "reason"),
        (KeepOrder("a demo"), "until"),
        (KeepOrder("a demo", until=NOON + 60, for_seconds=60), "until"),
        (KeepOrder("a demo", until=NOON), "until"),
        (KeepOrder("a demo", until=NOON + 30 * DAY + 1), "until"),
        (KeepOrder("a demo", for_seconds=30 * DAY + 1), "for_seconds"),
    ],
)
def test_a_keep_without_a_reason_or_beyond_30_days_is_refused(keeps, add, units, order, field):
    node = add()
    with pytest.raises(Rejected) as caught:
        keeps.keep_node(node.id, order)
    assert caught.value.facts["field"] == field
    assert node_of(units, node) == node


def test_a_keep_beyond_the_end_that_google_makes_is_refused_with_its_time(keeps, add):
    flex = {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 2 * HOUR}
    node = add(**flex)
    with pytest.raises(Rejected, match="Google ends this node at 2026-11-05T13:00:00Z") as caught:
        keeps.keep_node(node.id, FOUR_HOURS)
    assert caught.value.facts["ends_at"] == to_rfc3339(NOON + HOUR)
    assert (
        keeps.keep_node(node.id, KeepOrder("a demo", for_seconds=HOUR)).node.kept_until
        == NOON + HOUR
    )


def test_a_shorter_keep_does_not_cut_a_longer_one_short(keeps, add):
    node = add(kept_until=NOON + DAY, kept_because="a long run")
    found = keeps.keep_node(node.id, FOUR_HOURS)
    assert (found.node.kept_until, found.node.kept_because) == (NOON + DAY, "a long run")
    assert "kept until 2026-11-06T12:00:00Z (a long run) already" in found.warnings[0]
    longer = keeps.keep_node(node.id, KeepOrder("longer still", for_seconds=2 * DAY)).node
    assert (longer.kept_until, longer.kept_because) == (NOON + 2 * DAY, "longer still")


@pytest.mark.parametrize("changes", [{"asked": Asked.ABSENT}, {"state": NodeState.DELETED}])
def test_what_is_being_deleted_cannot_be_kept(keeps, add, changes):
    with pytest.raises(Conflict, match="cannot be undone"):
        keeps.keep_node(add(**changes).id, FOUR_HOURS)


def test_nobody_can_be_kept_and_nothing_is_written_over_unseen(keeps, add):
    with pytest.raises(NotFound):
        keeps.keep_node("nobody", FOUR_HOURS)
    node = add()
    with pytest.raises(StaleVersion):
        keeps.keep_node(node.id, FOUR_HOURS, version=node.version + 1)
    with pytest.raises(StaleVersion):
        keeps.end_keep(node.id, version=node.version + 1)


def test_a_keep_is_ended_and_the_node_is_looked_at_at_once(keeps, add, units):
    node = add(kept_until=NOON + DAY, kept_because="a demo")
    found = keeps.end_keep(node.id, actor="ada")
    assert (found.node.kept_until, found.node.kept_because) == (None, "")
    assert found.node.next_try_at == NOON
    assert found.warnings == ()
    assert story_of(units, node) == [("ada", "the keep until 2026-11-06T12:00:00Z ends")]
    with pytest.raises(Conflict, match="is not kept"):
        keeps.end_keep(node.id)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kept_until": NOON}, "is not kept"),
        ({"labels": {LABEL: "2026-12-01"}}, "kept by label keep-until=2026-12-01; remove that"),
        (
            {"kept_until": NOON + 60, "kept_because": NOTICE, "ends_after_keep": TTL_TOLD},
            "it is deleted at 2026-11-05T12:01:00Z",
        ),
    ],
)
def test_what_nobody_asked_to_keep_cannot_be_let_go(keeps, add, changes, said):
    with pytest.raises(Conflict, match=said):
        keeps.end_keep(add(**changes).id)


def test_whoever_ends_a_keep_is_told_what_it_held_back(keeps, add):
    keep = {"kept_until": NOON + DAY, "kept_because": "a demo"}
    held = keeps.end_keep(add(**keep, ends_after_keep="job 7 is SUCCEEDED").id)
    assert "job 7 is SUCCEEDED" in held.warnings[0]
    over = keeps.end_keep(add(**keep, ttl_seconds=60, name="other").id)
    assert "its time to live has expired" in over.warnings[0]


def test_a_keep_during_the_notice_takes_the_notice_back(keeps, add):
    told = {"kept_until": NOON + 60, "kept_because": NOTICE, "ends_after_keep": TTL_TOLD}
    node = keeps.keep_node(add(ttl_seconds=60, **told).id, FOUR_HOURS).node
    assert (node.kept_until, node.ends_after_keep) == (NOON + 4 * HOUR, TTL_HELD)


@pytest.mark.parametrize(
    ("verb", "asked"), [("request_end", Asked.ABSENT), ("request_stop", Asked.STOPPED)]
)
def test_a_person_is_not_held_by_a_keep_which_ends_and_is_said(nodes, add, units, verb, asked):
    node = add(kept_until=NOON + DAY, kept_because="a demo")
    found = getattr(nodes, verb)(node.id, actor="ada")
    assert found.warnings == ("the keep until 2026-11-06T12:00:00Z ends with that (a demo)",)
    after = node_of(units, node)
    assert (after.asked, after.kept_until, after.kept_because) == (asked, None, "")
    ((_, said),) = story_of(units, node)
    assert said.endswith("requested; the keep until 2026-11-06T12:00:00Z ends with that (a demo)")
    assert getattr(nodes, verb)(node.id).warnings == ()


def test_a_label_that_keeps_a_node_is_named_by_a_deletion_and_stays_after_a_stop(nodes, add, units):
    node = add(labels={LABEL: "2026-11-07"})
    assert nodes.request_stop(node.id).warnings == ()
    said = "the keep until 2026-11-07T00:00:00Z ends with that (label keep-until=2026-11-07)"
    assert nodes.request_end(node.id).warnings == (said,)
    assert story_of(units, node)[-1][1] == f"deletion requested; {said}"
    odd = add(labels={LABEL: "soon"}, name="odd")
    (said,) = nodes.request_end(odd.id).warnings
    assert said == "the keep until an invalid date ends with that (label keep-until=soon)"


def test_the_notice_of_a_time_to_live_is_no_keep_that_ends(nodes, add, units):
    told = {"kept_until": NOON + 60, "kept_because": NOTICE, "ends_after_keep": TTL_TOLD}
    node = add(**told, ttl_seconds=60)
    assert nodes.request_end(node.id).warnings == ()
    assert story_of(units, node)[-1][1] == (
        "deletion requested (also: its time to live has expired)"
    )


@pytest.mark.parametrize(
    ("actor", "reason"),
    [
        ("ada", "requested by ada"),
        ("", "requested by a caller"),
        ("caller", "requested by a caller"),
    ],
)
def test_the_reason_of_a_deletion_says_who_requested_it_first(nodes, add, units, actor, reason):
    node = add()
    nodes.delete(node.id, actor=actor)
    first = node_of(units, node)
    assert first.delete_reason == reason
    nodes.delete(node.id, actor="eve")
    assert node_of(units, node) == first, "a repeated request changes nothing"
    stopped = add(name="other")
    nodes.stop(stopped.id, actor=actor)
    assert node_of(units, stopped).delete_reason == ""


def test_a_node_that_is_ended_for_another_reason_keeps_that_reason(nodes, add, units):
    node = add(asked=Asked.ABSENT, delete_reason="its time to live has expired")
    nodes.delete(node.id, actor="ada")
    assert node_of(units, node).delete_reason == "its time to live has expired"


def test_a_node_that_nobody_keeps_is_ended_without_a_word_of_a_keep(nodes, add, units):
    node = add(kept_until=NOON, kept_because="a demo that is over")
    assert nodes.request_end(node.id).warnings == ()
    assert [message for _, message in story_of(units, node)] == ["deletion requested"]


def test_what_would_have_ended_a_node_stands_beside_what_a_person_asked_for(nodes, add, units):
    keep = {"kept_until": NOON + DAY, "kept_because": "a demo"}
    node = add(**keep, ttl_seconds=60, ends_after_keep="job 7 is SUCCEEDED")
    nodes.delete(node.id)
    assert story_of(units, node)[-1][1] == (
        "deletion requested (also: job 7 is SUCCEEDED; its time to live has expired)"
        "; the keep until 2026-11-06T12:00:00Z ends with that (a demo)"
    )
    assert node_of(units, node).ends_after_keep == ""


def test_a_start_ends_no_keep(nodes, add, units):
    node = add(asked=Asked.STOPPED, state=NodeState.STOPPED, kept_until=NOON + DAY)
    nodes.start(node.id)
    assert node_of(units, node).kept_until == NOON + DAY


def test_a_keep_beyond_the_time_to_live_is_refused_where_a_budget_has_no_room(units, clock):
    budgeted = BudgetedLab(units, clock)
    budget = budgeted.budget(amount=3 * HOURLY)
    node = budgeted.up(budgeted.ask(ttl_seconds=HOUR))
    keeps = KeepService(units, budgeted.prices, clock)
    with pytest.raises(BudgetExceeded):
        keeps.keep_node(node.id, KeepOrder("a demo", for_seconds=3 * HOUR))
    assert node_of(units, node).kept_until is None
    before = budgeted.held(budget)
    kept = keeps.keep_node(node.id, KeepOrder("a demo", for_seconds=2 * HOUR)).node
    assert kept.kept_until == NOON + 2 * HOUR
    notice = 900
    assert budgeted.held(budget) - before == HOURLY + HOURLY * notice // HOUR
    keeps.end_keep(node.id)
    assert budgeted.room(budget).held.total == before


def test_a_keep_within_the_time_to_live_sets_nothing_more_aside(units, clock):
    budgeted = BudgetedLab(units, clock)
    budget = budgeted.budget(amount=2 * HOURLY)
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(2 * HOUR)))
    before = budgeted.room(budget).held.total
    KeepService(units, budgeted.prices, clock).keep_node(
        node.id, KeepOrder("a demo", for_seconds=60)
    )
    assert budgeted.room(budget).held.total == before


def test_a_kept_node_that_is_started_again_has_as_much_set_aside_as_before(units, clock):
    budgeted = BudgetedLab(units, clock)
    budget = budgeted.budget(amount=9 * HOURLY)
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(HOUR)))
    keeps = KeepService(units, budgeted.prices, clock)
    budgeted.nodes.stop(node.id)
    budgeted.down(node, NodeState.STOPPED)
    keeps.keep_node(node.id, KeepOrder("a demo", for_seconds=lasting(3 * HOUR)))
    budgeted.nodes.start(node.id)
    assert budgeted.room(budget).held.total == 3 * HOURLY
