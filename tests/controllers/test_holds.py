"""A cap is never jumped: what is posted and set aside stays within it, whoever asks at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from service.application.budgets.admission import held_amounts
from service.application.nodes.nodes import NodeChange
from service.controllers.budgets.budgets import BudgetController
from service.domain.budgets.admission import OVERRUN_SECONDS
from service.domain.budgets.budget import OnExceeded, Period, Scope
from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.errors import BudgetExceeded
from service.domain.idempotency import RequestKey
from service.domain.idle.terms import TermsChange
from service.domain.metering.attribution import Attribution, Reattribution
from service.domain.money import NANOS
from service.domain.nodes.node import NodeState
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.controllers.budgeting import HOURLY, BudgetedLab, lasting
from tests.hands import NOON
from tests.store.given import GivenPrices


def within(budgeted, budget):
    room = budgeted.room(budget)
    return room.spent + room.held.known <= budget.amount


def test_a_node_is_granted_while_there_is_room_and_refused_beyond_it(budgeted):
    budget = budgeted.budget(amount=2 * HOURLY)
    budgeted.ask(ttl_seconds=lasting(HOUR))
    budgeted.ask(ttl_seconds=lasting(HOUR))
    with pytest.raises(BudgetExceeded) as caught:
        budgeted.ask(ttl_seconds=1)
    assert caught.value.facts["budget_id"] == budget.id
    assert caught.value.facts["left"] == "0.000000000"
    assert budgeted.room(budget).held.total == budget.amount


def test_a_refusal_leaves_nothing_but_a_note(budgeted, units):
    budget = budgeted.budget(amount=HOURLY)
    with pytest.raises(BudgetExceeded):
        budgeted.ask(name="greedy", ttl_seconds=lasting(2 * HOUR))
    assert budgeted.room(budget).held.total == 0
    with units.reading() as unit:
        assert unit.nodes.find_by_name("greedy") == []
        (refusal,) = unit.budgets.list_refusals(budget.id, 9)
    assert refusal.at == NOON
    assert f"at most {lasting(HOUR)} would fit" in refusal.message
    budgeted.ask(name="greedy", ttl_seconds=lasting(HOUR))


def test_a_node_is_not_granted_for_its_time_to_live_alone(budgeted, clock):
    """Its deletion is asked for at the next tick after that, and accepted later still."""
    budget = budgeted.budget(amount=HOURLY // 60)
    with pytest.raises(BudgetExceeded) as caught:
        budgeted.ask(ttl_seconds=60)
    assert caught.value.facts["asked"] == "0.320000000"
    assert "nothing fits" in str(caught.value)
    wider = budgeted.budget(name="wider", amount=HOURLY // 30, scope=Scope(team="speech"))
    node = budgeted.up(budgeted.ask(ttl_seconds=60, team="speech"))
    clock.pass_(60 + OVERRUN_SECONDS)
    budgeted.down(node)
    assert budgeted.room(wider).spent == wider.amount
    assert budgeted.room(budget).spent == 0


def test_what_is_still_there_after_its_time_to_live_is_held_for_as_long_as_a_deletion_takes(
    budgeted, clock
):
    budget = budgeted.budget(amount=10 * HOURLY)
    budgeted.up(budgeted.ask(ttl_seconds=HOUR))
    clock.pass_(3 * HOUR)
    assert budgeted.room(budget).held.total == HOURLY * (3 * HOUR + OVERRUN_SECONDS) // HOUR + 1


def test_without_a_time_to_live_the_rest_of_the_period_is_held(budgeted):
    budget = budgeted.budget(amount=10_000 * NANOS)
    budgeted.ask()
    rest = budget.window_at(NOON).end - NOON
    assert budgeted.room(budget).held.total == HOURLY * rest // HOUR
    with pytest.raises(BudgetExceeded):
        budgeted.ask()


@pytest.mark.parametrize(
    "changes",
    [
        {"scope": Scope(team="speech")},
        {"scope": Scope(owner="bob")},
        {"scope": Scope(label=("run", "18"))},
        {"scope": Scope(project="other")},
        {"scope": Scope(job="j-1")},
        {"on_exceeded": OnExceeded.NOTIFY},
        {"start": NOON + DAY},
        {"period": Period.CUSTOM, "start": NOON - DAY, "end": NOON},
    ],
)
def test_a_budget_refuses_only_what_it_covers_now(budgeted, changes):
    budgeted.budget(amount=1, **changes)
    budgeted.ask(labels={"run": "17"}, owner="ada")


@pytest.mark.parametrize(
    "scope",
    [Scope(), Scope(project="lab", team="vision"), Scope(owner="ada"), Scope(label=("run", "17"))],
)
def test_every_kind_of_scope_can_refuse(budgeted, scope):
    budget = budgeted.budget(amount=HOURLY, scope=scope)
    budgeted.ask(labels={"run": "17"}, owner="ada", ttl_seconds=lasting(HOUR))
    with pytest.raises(BudgetExceeded):
        budgeted.ask(labels={"run": "17"}, owner="ada", ttl_seconds=1)
    assert budgeted.room(budget).held.total == HOURLY


def test_of_several_budgets_all_have_to_have_room(budgeted):
    budgeted.budget(name="wide", amount=9 * HOURLY, scope=Scope())
    tight = budgeted.budget(name="tight", amount=HOURLY)
    with pytest.raises(BudgetExceeded) as caught:
        budgeted.ask(ttl_seconds=lasting(2 * HOUR))
    assert caught.value.facts["budget_id"] == tight.id
    budgeted.ask(ttl_seconds=lasting(2 * HOUR), team="speech")


def test_an_unknown_price_is_refused_where_a_budget_could_not_tell(budgeted):
    budgeted.budget()
    with pytest.raises(BudgetExceeded) as caught:
        budgeted.ask(zone=None, zones=["us-west4-a", "us-central1-a"], ttl_seconds=lasting(HOUR))
    assert caught.value.facts["unpriced"] == ["v5litepod-8 in us-central1-a"]
    budgeted.ask(zone="us-central1-a", team="speech")


def test_as_usage_is_posted_the_hold_shrinks_by_as_much(budgeted, clock):
    budget = budgeted.budget(amount=10 * HOURLY)
    budgeted.up(budgeted.ask(ttl_seconds=lasting(10 * HOUR)))
    for hours in range(1, 10):
        clock.pass_(HOUR)
        if hours % 3 == 0:
            budgeted.metering.tick(budgeted.lease)
        room = budgeted.room(budget)
        assert room.spent == HOURLY * (hours - hours % 3)
        assert room.spent + room.held.known == budget.amount + 1
    clock.pass_(HOUR)


def test_the_hold_is_given_back_when_the_node_ends(budgeted, clock):
    budget = budgeted.budget(amount=10 * HOURLY)
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(10 * HOUR)))
    clock.pass_(2 * HOUR)
    budgeted.down(node)
    room = budgeted.room(budget)
    assert (room.spent, room.held.total) == (2 * HOURLY, 0)
    budgeted.ask(ttl_seconds=lasting(8 * HOUR))


def test_a_stopped_node_holds_nothing_and_is_admitted_again_to_start(budgeted, clock):
    budget = budgeted.budget(amount=10 * HOURLY)
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(10 * HOUR)))
    budgeted.nodes.stop(node.id)
    assert budgeted.room(budget).held.total > 9 * HOURLY
    budgeted.down(node, NodeState.STOPPED)
    assert budgeted.room(budget).held.total == 0
    other = budgeted.ask(ttl_seconds=lasting(5 * HOUR))
    with pytest.raises(BudgetExceeded):
        budgeted.nodes.start(node.id)
    assert budgeted.node(node).asked == "stopped"
    budgeted.nodes.delete(other.id)
    budgeted.down(other)
    assert budgeted.nodes.start(node.id).asked == "present"
    assert within(budgeted, budget)


def test_a_node_that_lives_into_the_next_period_is_held_there(budgeted, clock):
    budget = budgeted.budget(amount=100 * HOURLY, period=Period.DAY)
    budgeted.up(budgeted.ask(ttl_seconds=lasting(24 * HOUR)))
    assert budgeted.room(budget).held.total == 12 * HOURLY + 1
    clock.pass_(13 * HOUR)
    budgeted.metering.tick(budgeted.lease)
    room = budgeted.room(budget)
    assert (room.spent, room.held.total) == (HOURLY, 11 * HOURLY + 1)


def test_a_node_from_before_there_were_budgets_is_held_all_the_same(budgeted, units):
    node = factories.node(ttl_seconds=lasting(HOUR))
    with units() as unit:
        unit.nodes.add(node)
    assert budgeted.room(budgeted.budget(amount=3 * HOURLY)).held.total == HOURLY


def test_a_price_that_rises_raises_what_is_held(budgeted, clock, units):
    budget = budgeted.budget(amount=100 * HOURLY)
    budgeted.ask(ttl_seconds=lasting(HOUR))
    dear = GivenPrices(factories.book(factories.price(2_400_000_000)))
    dearer = BudgetedLab(units, clock, dear)
    dearer.controller.tick(dearer.lease)
    assert budgeted.room(budget).held.total == 2 * HOURLY
    cheap = BudgetedLab(units, clock, GivenPrices())
    cheap.controller.tick(cheap.lease)
    assert budgeted.room(budget).held.total == 2 * HOURLY


def test_a_time_to_live_that_is_changed_while_a_hold_is_raised_stays_changed(
    budgeted, clock, units
):
    budget = budgeted.budget(amount=100 * HOURLY)
    node = budgeted.ask(ttl_seconds=lasting(HOUR))
    dearer = BudgetedLab(units, clock, GivenPrices(factories.book(factories.price(2_400_000_000))))
    changes = [NodeChange(terms=TermsChange(ttl_seconds=lasting(10 * HOUR)))]

    def changing():
        if changes:
            dearer.nodes.update(node.id, changes.pop())
        return clock()

    BudgetController(units, dearer.prices, changing, dearer.budgets).tick(dearer.lease)
    assert dearer.room(budget).held.total == 2 * 10 * HOURLY


def test_a_request_that_waits_for_its_turn_is_admitted_by_the_period_in_which_it_is_written(
    budgeted, clock, monkeypatch
):
    midnight = NOON + 12 * HOUR
    budgeted.budget(amount=HOURLY, period=Period.DAY)
    clock.now = midnight - 5
    writing = Units.__call__

    def late(units, lease=None):
        clock.now = midnight + 5
        return writing(units, lease)

    monkeypatch.setattr(Units, "__call__", late)
    with pytest.raises(BudgetExceeded) as caught:
        budgeted.ask(ttl_seconds=lasting(2 * HOUR))
    assert caught.value.facts["resets_at"] == to_rfc3339(midnight + DAY)


def test_the_same_request_told_twice_is_held_once(budgeted):
    budget = budgeted.budget(amount=HOURLY)
    request = factories.request(ttl_seconds=lasting(HOUR))
    first = budgeted.nodes.request(request, key=RequestKey("k", "d"))
    again = budgeted.nodes.request(request, key=RequestKey("k", "d"))
    assert (first.node.id, first.created, again.created) == (again.node.id, True, False)
    assert budgeted.room(budget).held.total == HOURLY


@pytest.mark.concurrent
def test_the_same_request_told_many_times_at_once_is_granted_each_time(units, clock):
    """The budget has room for one; whoever tells it again must not be refused for the first."""
    budgeted = BudgetedLab(units, clock)
    budget = budgeted.budget(amount=HOURLY)

    def ask(number):
        request = factories.request(ttl_seconds=lasting(HOUR))
        return budgeted.nodes.request(request, key=RequestKey(f"k-{number // 8}", "d")).node.id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert budgeted.room(budget).held.total == HOURLY


def test_a_label_counts_letter_by_letter(budgeted, units):
    with units() as unit:
        unit.nodes.add(factories.node(labels={"run": "A"}, ttl_seconds=lasting(HOUR)))
        unit.nodes.add(factories.node(labels={"run": "a"}, ttl_seconds=lasting(HOUR)))
    assert budgeted.room(budgeted.budget(scope=Scope(label=("run", "a")))).held.total == HOURLY


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
@pytest.mark.parametrize("scope", [Scope(), Scope(team="vision"), Scope(label=("run", "17"))])
def test_what_admission_sees_is_what_the_costs_say_or_more(budgeted, clock, tz, scope):
    """More by no more than the hour in which the period begins, where a zone cuts it."""
    budget = budgeted.budget(amount=10**6 * NANOS, tz=tz, scope=scope, period=Period.DAY)
    clock.now = NOON - 20 * HOUR
    node = budgeted.up(budgeted.ask(labels={"run": "17"}))
    clock.now = NOON + 20 * HOUR + 1200
    budgeted.metering.tick(budgeted.lease)
    budgeted.down(node)
    window = budget.window_at(clock.now)
    exact = budgeted.budgets.sum_spent(scope, window)
    seen = budgeted.room(budget).spent
    slack = HOURLY // 2 if window.start % HOUR else 0
    assert seen == exact + slack
    assert exact == HOURLY * (clock.now - window.start) // HOUR


def test_past_spend_stays_where_it_was_when_a_node_changes_hands(budgeted, clock, units):
    old = budgeted.budget(name="old", amount=10**5 * NANOS)
    new = budgeted.budget(name="new", amount=10**5 * NANOS, scope=Scope(team="speech"))
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(9 * HOUR)))
    clock.pass_(3 * HOUR)
    budgeted.metering.tick(budgeted.lease)
    with units() as unit:
        unit.nodes.charge_to(Attribution(node.id, clock.now, "ada", "speech"), clock.now)
        unit.nodes.save(replace(unit.nodes.get(node.id), team="speech"))
    clock.pass_(2 * HOUR)
    budgeted.metering.tick(budgeted.lease)
    assert budgeted.budgets.get(old.id).shown.standing.spent == 3 * HOURLY
    assert budgeted.budgets.get(new.id).shown.standing.spent == 2 * HOURLY
    assert (budgeted.room(old).spent, budgeted.room(old).held.total) == (3 * HOURLY, 0)
    assert (budgeted.room(new).spent, budgeted.room(new).held.total) == (2 * HOURLY, 4 * HOURLY + 1)


def test_what_was_used_before_a_node_changed_hands_stays_with_whom_it_was_used_by(budgeted, clock):
    """Half an hour of it was not posted yet, and is nowhere else."""
    old = budgeted.budget(name="old", amount=100 * HOURLY)
    new = budgeted.budget(name="new", amount=100 * HOURLY, scope=Scope(team="speech"))
    both = budgeted.budget(name="both", amount=100 * HOURLY, scope=Scope())
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(10 * HOUR)))
    clock.pass_(HOUR // 2)
    budgeted.nodes.update(node.id, NodeChange(Reattribution(team="speech")))
    clock.pass_(HOUR // 4)
    assert (budgeted.room(old).spent, budgeted.room(old).held.total) == (0, HOURLY // 2 + 1)
    assert budgeted.room(new).held.total == budgeted.room(both).held.total == 10 * HOURLY + 1
    clock.pass_(HOUR // 4)
    budgeted.metering.tick(budgeted.lease)
    assert (budgeted.room(old).spent, budgeted.room(old).held.total) == (HOURLY // 2, 0)
    assert (budgeted.room(new).spent, budgeted.room(new).held.total) == (
        HOURLY // 2,
        9 * HOURLY + 1,
    )
    assert (budgeted.room(both).spent, budgeted.room(both).held.total) == (HOURLY, 9 * HOURLY + 1)


def test_a_team_that_was_renamed_costs_admission_no_question_for_each_node(budgeted, clock, engine):
    def questions():
        asked = []
        count = lambda *said: asked.append(said[2])  # noqa: E731 - to be taken off again
        event.listen(engine, "before_cursor_execute", count)
        budgeted.ask(ttl_seconds=1)
        event.remove(engine, "before_cursor_execute", count)
        return len(asked)

    budgeted.budget(amount=10**6 * NANOS)
    nodes = [budgeted.up(budgeted.ask(ttl_seconds=lasting(HOUR))) for _ in range(5)]
    clock.pass_(60)
    budgeted.nodes.update(nodes[0].id, NodeChange(Reattribution(team="speech")))
    few = questions()
    for node in nodes[1:]:
        budgeted.nodes.update(node.id, NodeChange(Reattribution(team="speech")))
    assert questions() == few


def test_of_refusals_the_latest_are_kept(budgeted, monkeypatch):
    monkeypatch.setattr("service.store.budgets._KEPT_REFUSALS", 3)
    budget = budgeted.budget(amount=1)
    for number in range(5):
        with pytest.raises(BudgetExceeded):
            budgeted.ask(ttl_seconds=lasting(HOUR + number))
    with budgeted.units.reading() as unit:
        found = unit.budgets.list_refusals(budget.id, 99)
    assert len(found) == 3


def test_a_node_cannot_be_moved_under_a_budget_that_has_no_room_for_it(budgeted):
    budgeted.budget(name="mine", amount=2 * HOURLY)
    theirs = budgeted.budget(name="theirs", amount=HOURLY, scope=Scope(team="speech"))
    node = budgeted.ask(ttl_seconds=lasting(2 * HOUR))
    with pytest.raises(BudgetExceeded) as caught:
        budgeted.nodes.update(node.id, NodeChange(Reattribution(team="speech")))
    assert caught.value.facts["budget_id"] == theirs.id
    assert budgeted.node(node).team == "vision"
    budgeted.nodes.update(node.id, NodeChange(Reattribution(owner="bob")))
    assert budgeted.node(node).owner == "bob"


@pytest.mark.concurrent
@pytest.mark.parametrize("scopes", [[Scope()], [Scope(team="vision"), Scope(owner="ada")]])
def test_callers_at_once_never_jump_the_cap(units, clock, scopes):
    budgeted = BudgetedLab(units, clock)
    budgets = [
        budgeted.budget(name=f"b-{number}", amount=7 * HOURLY, scope=scope)
        for number, scope in enumerate(scopes)
    ]

    def ask(number):
        try:
            return budgeted.ask(ttl_seconds=lasting(HOUR), owner="ada", name=f"n-{number}").id
        except BudgetExceeded:
            return None

    with ThreadPoolExecutor(12) as pool:
        granted = [outcome for outcome in pool.map(ask, range(24)) if outcome]
    assert len(granted) == 7
    for budget in budgets:
        room = budgeted.room(budget)
        assert (room.spent, room.held.total) == (0, budget.amount)


MOST = 30
NEVER = NOON + 1_000 * DAY

moves = st.lists(
    st.tuples(
        st.sampled_from(["ask", "up", "down", "stop", "start", "pass", "post"]),
        st.integers(0, MOST),
        st.sampled_from([HOUR, 3 * HOUR, 7 * HOUR, None]),
    ),
    max_size=25,
)


@pytest.mark.deep
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=moves)
def test_posted_and_held_stay_within_the_cap_after_every_move(units, clock, moves):
    """A node that is there for longer after its time to live is the cloud's affair; here they go
    in time for what is set aside."""
    with units() as unit:
        for budget in unit.budgets.list_all():
            unit.budgets.delete(budget)
    budgeted = BudgetedLab(units, clock)
    life = Life(budgeted)
    clock.now = NOON
    budget = budgeted.budget(name="cap", amount=40 * HOURLY, scope=Scope(owner=life.owner))
    for verb, number, ttl in moves:
        getattr(life, verb)(number, ttl)
        room = budgeted.room(budget)
        assert not room.held.unpriced
        assert room.spent + room.held.known <= budget.amount + len(life.nodes)
    for node_id in list(life.nodes):
        budgeted.down(budgeted.nodes.get(node_id))


class Life:
    """What may happen to nodes, in any order."""

    count = 0

    def __init__(self, budgeted):
        Life.count += 1
        self.owner = f"owner-{Life.count}"
        self.budgeted = budgeted
        self.nodes = {}

    def _any(self, number):
        return list(self.nodes)[number % len(self.nodes)] if self.nodes else None

    def ask(self, number, ttl):
        try:
            node = self.budgeted.ask(ttl_seconds=ttl, owner=self.owner, team=self.owner)
        except BudgetExceeded:
            return
        self.nodes[node.id] = "asked"

    def up(self, number, ttl):
        node_id = self._any(number)
        if node_id and self.nodes[node_id] == "asked":
            self.nodes[node_id] = "up"
            self.budgeted.up(self.budgeted.nodes.get(node_id))

    def down(self, number, ttl):
        node_id = self._any(number)
        if node_id:
            self.budgeted.down(self.budgeted.nodes.get(node_id))
            del self.nodes[node_id]

    def stop(self, number, ttl):
        node_id = self._any(number)
        if node_id and self.nodes[node_id] == "up":
            self.budgeted.nodes.stop(node_id)
            self.budgeted.down(self.budgeted.nodes.get(node_id), NodeState.STOPPED)
            self.nodes[node_id] = "stopped"

    def start(self, number, ttl):
        node_id = self._any(number)
        if node_id and self.nodes[node_id] == "stopped":
            try:
                self.budgeted.nodes.start(node_id)
            except BudgetExceeded:
                return
            self.nodes[node_id] = "asked"

    def pass_(self, number, ttl):
        self.budgeted.clock.pass_(number * 600)
        for node_id in list(self.nodes):
            node = self.budgeted.nodes.get(node_id)
            gone_at = (node.deletes_at or NEVER) + number * OVERRUN_SECONDS // MOST
            if gone_at <= self.budgeted.clock.now:
                self.budgeted.clock.now, now = gone_at, self.budgeted.clock.now
                self.budgeted.down(node)
                self.budgeted.clock.now = now
                del self.nodes[node_id]

    def post(self, number, ttl):
        self.budgeted.metering.tick(self.budgeted.lease)


setattr(Life, "pass", Life.pass_)


def test_admission_counts_all_that_is_open_with_a_book_of_its_own(units, clock):
    """The embedded price book has a price for this hardware too."""
    budgeted = BudgetedLab(units, clock, PriceBookCache())
    budget = budgeted.budget(amount=1_000 * NANOS)
    budgeted.ask(ttl_seconds=lasting(HOUR))
    assert 0 < budgeted.held(budget) < 20 * NANOS


def test_what_is_spent_and_held_are_of_one_instant(budgeted, clock, monkeypatch):
    """However long the reading takes, and whatever is posted in the middle of it."""
    budget = budgeted.budget(amount=10 * HOURLY)
    budgeted.up(budgeted.ask(ttl_seconds=lasting(10 * HOUR)))
    clock.pass_(2 * HOUR + 77)

    def slowly(*args):
        found = held_amounts(*args)
        clock.pass_(3 * HOUR)
        budgeted.metering.tick(budgeted.lease)
        return found

    monkeypatch.setattr("service.application.budgets.budgets.held_amounts", slowly)
    standing = budgeted.budgets.find_standing(budget)
    assert standing.spent + standing.held.known == budget.amount
    assert standing.spent == HOURLY * (2 * HOUR + 77) // HOUR
