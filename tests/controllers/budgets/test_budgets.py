"""People are told once, and nodes go only after they were told, from the budget's own scope."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import event

from service.application.budgets.budgets import BudgetService
from service.application.cleanup.cleanup import IdleMode
from service.application.cleanup.keeps import KeepOrder, KeepService
from service.application.cleanup.policies import PolicyService
from service.controllers.budgets.budgets import BudgetController
from service.domain.budgets.budget import Measure, OnExceeded, Period, Scope, Threshold
from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.errors import CloudUnavailable
from service.domain.lifecycle.precedence import EndCause
from service.domain.metering.attribution import Attribution
from service.domain.money import NANOS
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.notifications.letters import text_of
from service.domain.notifications.notification import Channel
from tests import factories
from tests.controllers.budgeting import HOOK, HOURLY, Purse, deliver, told


def test_each_threshold_is_told_once_however_many_daemons_look(purse, units, clock):
    budget = purse.budget(
        amount=10 * HOURLY,
        on_exceeded=OnExceeded.NOTIFY,
        thresholds=(Threshold(50), Threshold(80)),
        **HOOK,
    )
    purse.up(purse.ask())
    other = Purse(units, clock)
    for _ in range(12):
        purse.tick(HOUR)
        other.controller.tick(purse.lease)
        Purse(units, clock).controller.tick(purse.lease)
    assert [one["alert"] for one in told(purse, budget)] == ["actual:50", "actual:80", "exceeded"]
    first = told(purse, budget)[0]
    assert first["kind"] == "budget.actual"
    assert first["spent"] == "48.000000000"
    assert first["budget"]["name"] == "vision monthly"
    assert first["at"] == to_rfc3339(clock.now - 7 * HOUR)
    alerts = purse.budgets.get(budget.id).shown.alerts
    assert [one.kind for one in alerts] == ["actual:50", "actual:80", "exceeded"]


def test_two_looks_at_once_are_one(purse):
    budget = purse.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, **HOOK)
    purse.up(purse.ask())
    purse.clock.pass_(HOUR)
    seen = purse.budgets.get(budget.id).shown.budget
    for _ in range(3):
        purse.controller._check_budget(seen, purse.lease)
    assert len(told(purse, budget)) == 1


def test_where_no_budget_is_due_nothing_is_written(purse, monkeypatch):
    """A hundred projects have a tick each minute, and a budget is of none of them."""
    purse.budget(amount=100)
    purse.controller.tick(purse.lease)
    written = []
    write = type(purse.units).__call__

    def counting(units, lease=None):
        written.append(lease)
        return write(units, lease)

    monkeypatch.setattr(type(purse.units), "__call__", counting)
    purse.controller.tick(purse.lease)
    assert not written
    purse.clock.pass_(60)
    purse.controller.tick(purse.lease)
    assert written


def test_each_channel_gets_its_own_message(purse):
    emails = ("ada@example.com", "bob@example.com")
    budget = purse.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, emails=emails, **HOOK)
    purse.up(purse.ask())
    purse.tick(HOUR)
    with purse.units.reading() as unit:
        found = unit.notifications.list_newest(budget.id, 9)
    assert {one.channel for one in found} == {Channel.WEBHOOK, Channel.MAIL}
    assert {json.loads(one.body)["id"] for one in found} == {one.id for one in found}


def test_without_anybody_to_tell_the_alert_is_kept_all_the_same(purse):
    budget = purse.budget(amount=1, on_exceeded=OnExceeded.NOTIFY)
    purse.up(purse.ask())
    purse.tick(HOUR)
    assert told(purse, budget) == []
    assert [one.kind for one in purse.budgets.get(budget.id).shown.alerts] == ["exceeded"]


def test_a_forecast_is_told_of_where_there_is_one(purse):
    budget = purse.budget(
        amount=100 * HOURLY,
        thresholds=(Threshold(100, Measure.FORECAST),),
        **HOOK,
    )
    purse.tick()
    assert told(purse, budget) == []
    purse.expected = 100 * HOURLY
    purse.tick()
    purse.tick()
    (message,) = told(purse, budget)
    assert (message["alert"], message["forecast"]) == ("forecast:100", "960.000000000")


def test_a_burn_rate_is_told_of_when_it_lasts(purse):
    budget = purse.budget(
        amount=100 * HOURLY, period=Period.YEAR, burn_rate=10, on_exceeded=OnExceeded.NOTIFY, **HOOK
    )
    purse.up(purse.ask())
    found = []
    for minutes in range(0, 120, 2):
        purse.tick(120)
        if told(purse, budget):
            found.append(minutes)
            break
    assert [one["alert"] for one in told(purse, budget)] == ["burn_rate"]
    assert found


def deleting(purse, **changes):
    fields = {"amount": 2 * HOURLY, "on_exceeded": OnExceeded.NOTIFY, **HOOK} | changes
    return purse.budget(**fields)


def exceeded(purse, **changes):
    """A budget that deletes, whose nodes have cost too much by now, of which everybody was told;
    and the nodes."""
    mine = [purse.up(purse.ask()), purse.up(purse.ask())]
    theirs = purse.up(purse.ask(team="speech"))
    budget = deleting(purse, on_exceeded=OnExceeded.DELETE, **changes)
    purse.tick(HOUR)
    assert told(purse, budget) == []
    purse.tick(HOUR)
    deliver(purse)
    return budget, mine, theirs


def test_nodes_are_deleted_after_the_grace_and_not_before(purse, clock):
    budget, mine, theirs = exceeded(purse)
    (message,) = told(purse, budget)
    assert message["alert"] == "exceeded"
    assert message["deletes_at"] == to_rfc3339(clock.now + 900)
    assert purse.budgets.get(budget.id).shown.deletes_at == clock.now + 900
    purse.tick(899)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}
    purse.tick(1)
    for node in map(purse.node, mine):
        assert (node.asked, node.delete_requested_at) == (Asked.ABSENT, clock.now)
        assert "the budget 'vision monthly' is exceeded" in node.delete_reason
    assert purse.node(theirs).asked is Asked.PRESENT
    with purse.units.reading() as unit:
        kinds = [event.kind for _, event in unit.events.list_by_node(mine[0].id, 0, 99)]
    assert kinds[-2:] == ["budget", "asked"]


@pytest.mark.concurrent
def test_a_node_is_locked_before_the_budget_that_deletes_it(purse, engine):
    """As whoever changes a node does, whose budgets are locked afterwards: in another order the two
    would wait for each other."""
    if engine.dialect.name == "sqlite":
        return  # one writes at a time, and nothing is locked
    exceeded(purse)
    statements: list[str] = []
    event.listen(engine, "begin", lambda _: statements.append("BEGIN"))
    event.listen(engine, "before_cursor_execute", lambda *about: statements.append(about[2]))
    purse.tick(900)
    ends = [at for at, one in enumerate(statements) if one.startswith("UPDATE nodes")]
    assert len(ends) == 2
    for end in ends:
        begun = max(at for at in range(end) if statements[at] == "BEGIN")
        locks = [one for one in statements[begun:end] if "FOR " in one and "UPDATE" in one]
        tables = [one.partition("FROM ")[2].split()[0] for one in locks]
        assert tables.index("nodes") < tables.index("budgets")


def test_a_keep_holds_no_budget_back_and_both_the_message_and_the_story_say_so(purse, clock):
    budget, mine, _ = exceeded(purse)
    keeps = KeepService(purse.units, purse.prices, clock)
    keeps.keep_node(mine[0].id, KeepOrder("a demo", for_seconds=HOUR))
    (message,) = told(purse, budget)
    assert "are deleted at" in text_of(json.dumps(message))
    assert "also those that are kept" in text_of(json.dumps(message))
    purse.tick(900)
    node = purse.node(mine[0])
    assert node.asked is Asked.ABSENT
    assert node.kept_until > clock.now
    with purse.units.reading() as unit:
        (*_, last) = [event.message for _, event in unit.events.list_by_node(node.id, 0, 99)]
    assert "ends with that (a demo), because a keep does not stop a budget" in last


def test_a_node_says_which_budget_deletes_it_and_when(purse, clock):
    policies = PolicyService(purse.units, purse.prices, clock, [], IdleMode())
    _, mine, theirs = exceeded(purse)
    (end,) = policies.get_with_ends(mine[0].id).ends
    assert (end.ender, end.at, end.held_by) == (EndCause.BUDGET, clock.now + 900, ())
    assert end.reason == "the budget 'vision monthly' is exceeded"
    assert policies.get_with_ends(theirs.id).ends == ()


def test_what_costs_nothing_is_not_deleted(purse):
    budget, mine, _ = exceeded(purse)
    purse.nodes.stop(mine[0].id)
    purse.down(mine[0], NodeState.STOPPED)
    purse.tick(900)
    assert [purse.node(one).asked for one in mine] == [Asked.STOPPED, Asked.ABSENT]
    assert budget.on_exceeded is OnExceeded.DELETE


@pytest.mark.parametrize("way", ["adopted", "started"])
def test_a_node_that_came_to_cost_it_later_is_told_of_and_has_its_own_grace(purse, clock, way):
    """One that was adopted, or stood still while the others were told."""
    late: Node | None = None
    if way == "started":
        late = purse.up(purse.ask(name="late"))
        purse.nodes.stop(late.id)
        purse.down(late, NodeState.STOPPED)
    exceeded(purse)
    purse.tick(HOUR)
    if late is None:
        late = factories.node(team="vision")
        with purse.units() as unit:
            unit.nodes.add(late)
    purse.up(late)
    for _ in range(15):
        purse.tick(60)
        assert purse.node(late).asked is not Asked.ABSENT
    with purse.units.reading() as unit:
        *_, (_, said) = unit.events.list_by_node(late.id, 0, 99)
    assert said.message.startswith(f"to be deleted at {to_rfc3339(clock.now + 60)}: the budget")
    purse.tick(60)
    assert purse.node(late).asked is Asked.ABSENT


def test_the_warning_of_another_budget_does_not_count_as_its_own(purse, clock):
    exceeded(purse)
    late = purse.up(purse.ask(name="late", team="nlp"))
    scope = Scope(team="nlp")
    other = deleting(
        purse, name="nlp", scope=scope, on_exceeded=OnExceeded.DELETE, grace_seconds=DAY
    )
    purse.tick(3 * HOUR)
    assert [one["alert"] for one in told(purse, other)] == ["exceeded"]
    with purse.units() as unit:
        unit.nodes.charge_to(Attribution(late.id, clock.now + 1, "", "vision"), clock.now)
    purse.tick(1_800)
    assert purse.node(late).asked is Asked.PRESENT
    purse.tick(899)
    assert purse.node(late).asked is Asked.PRESENT, "it was told a quarter of an hour ago"
    purse.tick(1)
    assert purse.node(late).asked is Asked.ABSENT


def test_a_budget_that_cannot_be_looked_at_keeps_no_other_from_its_turn(purse, clock):
    poisoned = deleting(purse, name="a", scope=Scope(team="nobody"))
    budget, mine, _ = exceeded(purse, name="b")

    class Poisoned:
        def find_standing(self, one):
            if one.id == poisoned.id:
                raise RuntimeError("poisoned")
            return purse.budgets.find_standing(one)

        sum_spent = purse.budgets.sum_spent

    controller = BudgetController(purse.units, purse.prices, clock, Poisoned())
    clock.pass_(900)
    controller.tick(purse.lease)
    assert {purse.node(one).asked for one in mine} == {Asked.ABSENT}
    assert budget.on_exceeded is OnExceeded.DELETE


def test_a_forecast_that_fails_leaves_what_was_spent_to_be_told(purse):
    def broken(*_):
        raise ZeroDivisionError

    purse.budgets = BudgetService(purse.units, purse.prices, purse.clock, purse.costs, broken)
    purse.controller = BudgetController(purse.units, purse.prices, purse.clock, purse.budgets)
    budget = purse.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, **HOOK)
    purse.up(purse.ask())
    purse.tick(HOUR)
    (message,) = told(purse, budget)
    assert (message["alert"], message["forecast"]) == ("exceeded", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": 10**6 * NANOS},
        {"on_exceeded": OnExceeded.REFUSE},
        {"scope": Scope(team="nobody")},
    ],
)
def test_a_budget_that_was_changed_within_the_grace_deletes_nothing(purse, changes):
    budget, mine, _ = exceeded(purse)
    purse.budgets.update_fields(budget.id, changes)
    purse.tick(900)
    purse.tick(900)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}


def test_a_budget_that_is_taken_away_deletes_nothing(purse):
    budget, mine, _ = exceeded(purse)
    purse.budgets.delete(budget.id)
    purse.tick(900)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}


def test_a_new_period_within_the_grace_spares_the_nodes(purse, clock):
    clock.now += 12 * HOUR - 7_500
    budget, mine, _ = exceeded(purse, period=Period.DAY)
    purse.tick(900)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}
    assert budget.window_at(clock.now).start == clock.now - 600


def test_a_period_that_is_exceeded_before_anybody_looks_is_told_of_first(purse, clock):
    """No daemon ran over midnight; the notice was about the day before."""
    clock.now += 12 * HOUR - 7_500
    budget, mine, _ = exceeded(purse, period=Period.DAY)
    purse.tick(5 * HOUR)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}
    assert [one["deletes_at"] for one in told(purse, budget)][1:] == [to_rfc3339(clock.now + 900)]
    deliver(purse)
    purse.tick(900)
    assert {purse.node(one).asked for one in mine} == {Asked.ABSENT}


def test_one_that_learns_to_delete_late_tells_first(purse, clock):
    mine = [purse.up(purse.ask())]
    budget = deleting(purse, amount=HOURLY)
    purse.tick(2 * HOUR)
    purse.tick(DAY)
    purse.budgets.update_fields(budget.id, {"on_exceeded": OnExceeded.DELETE})
    purse.tick()
    assert purse.node(mine[0]).asked is Asked.PRESENT
    assert told(purse, budget)[-1]["deletes_at"] == to_rfc3339(clock.now + 900)
    deliver(purse)
    purse.tick(900)
    assert purse.node(mine[0]).asked is Asked.ABSENT


def test_a_project_that_is_not_ours_is_left_to_its_own_daemon(purse, units):
    budget, mine, _ = exceeded(purse)
    with units() as unit:
        foreign = unit.leases.take("other", "daemon", 3_600)
        unit.leases.save_heard(foreign, heard=True)
    purse.clock.pass_(900)
    purse.controller.tick(foreign)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}
    assert purse.budgets.get(budget.id).shown.deletes_at <= purse.clock.now


@pytest.mark.parametrize("arrives", [True, False])
def test_without_a_grace_nodes_go_once_the_message_was_tried_and_not_before(purse, post, arrives):
    node = purse.up(purse.ask())
    budget = deleting(purse, amount=1, on_exceeded=OnExceeded.DELETE, grace_seconds=0)
    post.errors = [] if arrives else [CloudUnavailable("no answer")]
    for _ in range(5):
        purse.tick()
        assert purse.node(node).asked is Asked.PRESENT
    assert [one["alert"] for one in told(purse, budget)] == ["exceeded"]
    deliver(purse, post)
    assert len(post.sent) == arrives
    purse.tick()
    assert purse.node(node).asked is Asked.ABSENT


def test_nodes_wait_for_each_of_the_messages(purse, post):
    node = purse.up(purse.ask())
    emails = ("ada@example.com",)
    deleting(purse, amount=1, on_exceeded=OnExceeded.DELETE, grace_seconds=0, emails=emails)
    purse.tick()
    with purse.units() as unit:
        mail, hook = sorted(
            unit.notifications.list_due(purse.clock.now, 9), key=lambda one: one.channel
        )
        unit.notifications.save(replace(hook, tries=1, next_try_at=None, sent_at=purse.clock.now))
    purse.tick()
    assert purse.node(node).asked is Asked.PRESENT
    with purse.units() as unit:
        unit.notifications.save(replace(mail, tries=1, next_try_at=purse.clock.now + 10))
    purse.tick()
    assert purse.node(node).asked is Asked.ABSENT


def test_with_nobody_to_tell_nodes_go_at_the_tick_after_the_one_that_wrote_it_down(purse):
    node = purse.up(purse.ask())
    silent = {"webhook": "", "secret": "", "grace_seconds": 0}
    deleting(purse, amount=1, on_exceeded=OnExceeded.DELETE, **silent)
    purse.tick()
    purse.controller.tick(purse.lease)
    assert purse.node(node).asked is Asked.PRESENT
    with purse.units.reading() as unit:
        *_, (_, said) = unit.events.list_by_node(node.id, 0, 99)
    assert said.kind == "budget"
    purse.tick(1)
    assert purse.node(node).asked is Asked.ABSENT


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_nodes_wait_until_the_log_was_heard_in_every_project_that_counts(purse, units, where):
    """What was lost while nobody looked is charged to the upper bound until the log is heard."""
    _, mine, _ = exceeded(purse)
    with units() as unit:
        lease = purse.lease
        if where == "elsewhere":
            lease = unit.leases.take("other", "another daemon", 3_600)
        unit.leases.save_heard(lease, heard=False)
    purse.tick(900)
    purse.tick(HOUR)
    assert {purse.node(one).asked for one in mine} == {Asked.PRESENT}
    with units() as unit:
        unit.leases.save_heard(lease, heard=True)
    purse.tick()
    assert {purse.node(one).asked for one in mine} == {Asked.ABSENT}


def test_a_budget_of_one_project_waits_for_the_log_of_no_other(purse, units):
    _, mine, _ = exceeded(purse, scope=Scope(project=factories.PROJECT, team="vision"))
    with units() as unit:
        unit.leases.take("other", "another daemon", 3_600)
    purse.tick(900)
    assert {purse.node(one).asked for one in mine} == {Asked.ABSENT}


def test_nobody_waits_for_the_log_of_a_project_that_nobody_looks_after(purse, units):
    _, mine, _ = exceeded(purse)
    with units() as unit:
        unit.leases.release(unit.leases.take("other", "another daemon", 3_600))
    purse.tick(900)
    assert {purse.node(one).asked for one in mine} == {Asked.ABSENT}
