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
from tests.controllers.budgeting import HOOK, HOURLY, BudgetedLab, deliver, told


def test_each_threshold_is_told_once_however_many_daemons_look(budgeted, units, clock):
    budget = budgeted.budget(
        amount=10 * HOURLY,
        on_exceeded=OnExceeded.NOTIFY,
        thresholds=(Threshold(50), Threshold(80)),
        **HOOK,
    )
    budgeted.up(budgeted.ask())
    other = BudgetedLab(units, clock)
    for _ in range(12):
        budgeted.tick(HOUR)
        other.controller.tick(budgeted.lease)
        BudgetedLab(units, clock).controller.tick(budgeted.lease)
    assert [alert["alert"] for alert in told(budgeted, budget)] == [
        "actual:50",
        "actual:80",
        "exceeded",
    ]
    first = told(budgeted, budget)[0]
    assert first["kind"] == "budget.actual"
    assert first["spent"] == "48.000000000"
    assert first["budget"]["name"] == "vision monthly"
    assert first["at"] == to_rfc3339(clock.now - 7 * HOUR)
    alerts = budgeted.budgets.get(budget.id).shown.alerts
    assert [alert.kind for alert in alerts] == ["actual:50", "actual:80", "exceeded"]


def test_two_looks_at_once_are_one(budgeted):
    budget = budgeted.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, **HOOK)
    budgeted.up(budgeted.ask())
    budgeted.clock.pass_(HOUR)
    seen = budgeted.budgets.get(budget.id).shown.budget
    for _ in range(3):
        budgeted.controller._check_budget(seen, budgeted.lease)
    assert len(told(budgeted, budget)) == 1


def test_where_no_budget_is_due_nothing_is_written(budgeted, monkeypatch):
    """A hundred projects have a tick each minute, and a budget is of none of them."""
    budgeted.budget(amount=100)
    budgeted.controller.tick(budgeted.lease)
    written = []
    write = type(budgeted.units).__call__

    def counting(units, lease=None):
        written.append(lease)
        return write(units, lease)

    monkeypatch.setattr(type(budgeted.units), "__call__", counting)
    budgeted.controller.tick(budgeted.lease)
    assert not written
    budgeted.clock.pass_(60)
    budgeted.controller.tick(budgeted.lease)
    assert written


def test_each_channel_gets_its_own_message(budgeted):
    emails = ("ada@example.com", "bob@example.com")
    budget = budgeted.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, emails=emails, **HOOK)
    budgeted.up(budgeted.ask())
    budgeted.tick(HOUR)
    with budgeted.units.reading() as unit:
        found = unit.notifications.list_newest(budget.id, 9)
    assert {notification.channel for notification in found} == {Channel.WEBHOOK, Channel.MAIL}
    assert {json.loads(notification.body)["id"] for notification in found} == {
        notification.id for notification in found
    }


def test_without_anybody_to_tell_the_alert_is_kept_all_the_same(budgeted):
    budget = budgeted.budget(amount=1, on_exceeded=OnExceeded.NOTIFY)
    budgeted.up(budgeted.ask())
    budgeted.tick(HOUR)
    assert told(budgeted, budget) == []
    assert [alert.kind for alert in budgeted.budgets.get(budget.id).shown.alerts] == ["exceeded"]


def test_a_forecast_is_told_of_where_there_is_one(budgeted):
    budget = budgeted.budget(
        amount=100 * HOURLY,
        thresholds=(Threshold(100, Measure.FORECAST),),
        **HOOK,
    )
    budgeted.tick()
    assert told(budgeted, budget) == []
    budgeted.expected = 100 * HOURLY
    budgeted.tick()
    budgeted.tick()
    (message,) = told(budgeted, budget)
    assert (message["alert"], message["forecast"]) == ("forecast:100", "960.000000000")


def test_a_burn_rate_is_told_of_when_it_lasts(budgeted):
    budget = budgeted.budget(
        amount=100 * HOURLY, period=Period.YEAR, burn_rate=10, on_exceeded=OnExceeded.NOTIFY, **HOOK
    )
    budgeted.up(budgeted.ask())
    found = []
    for minutes in range(0, 120, 2):
        budgeted.tick(120)
        if told(budgeted, budget):
            found.append(minutes)
            break
    assert [alert["alert"] for alert in told(budgeted, budget)] == ["burn_rate"]
    assert found


def deleting(budgeted, **changes):
    fields = {"amount": 2 * HOURLY, "on_exceeded": OnExceeded.NOTIFY, **HOOK} | changes
    return budgeted.budget(**fields)


def exceeded(budgeted, **changes):
    """A budget that deletes, whose nodes have cost too much by now, of which everybody was told;
    and the nodes."""
    mine = [budgeted.up(budgeted.ask()), budgeted.up(budgeted.ask())]
    theirs = budgeted.up(budgeted.ask(team="speech"))
    budget = deleting(budgeted, on_exceeded=OnExceeded.DELETE, **changes)
    budgeted.tick(HOUR)
    assert told(budgeted, budget) == []
    budgeted.tick(HOUR)
    deliver(budgeted)
    return budget, mine, theirs


def test_nodes_are_deleted_after_the_grace_and_not_before(budgeted, clock):
    budget, mine, theirs = exceeded(budgeted)
    (message,) = told(budgeted, budget)
    assert message["alert"] == "exceeded"
    assert message["deletes_at"] == to_rfc3339(clock.now + 900)
    assert budgeted.budgets.get(budget.id).shown.deletes_at == clock.now + 900
    budgeted.tick(899)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}
    budgeted.tick(1)
    for node in map(budgeted.node, mine):
        assert (node.asked, node.delete_requested_at) == (Asked.ABSENT, clock.now)
        assert "the budget 'vision monthly' is exceeded" in node.delete_reason
    assert budgeted.node(theirs).asked is Asked.PRESENT
    with budgeted.units.reading() as unit:
        kinds = [event.kind for _, event in unit.events.list_by_node(mine[0].id, 0, 99)]
    assert kinds[-2:] == ["budget", "asked"]


@pytest.mark.concurrent
def test_a_node_is_locked_before_the_budget_that_deletes_it(budgeted, engine):
    """As whoever changes a node does, whose budgets are locked afterwards: in another order the two
    would wait for each other."""
    if engine.dialect.name == "sqlite":
        return  # one writes at a time, and nothing is locked
    exceeded(budgeted)
    statements: list[str] = []
    event.listen(engine, "begin", lambda _: statements.append("BEGIN"))
    event.listen(engine, "before_cursor_execute", lambda *about: statements.append(about[2]))
    budgeted.tick(900)
    ends = [at for at, one in enumerate(statements) if one.startswith("UPDATE nodes")]
    assert len(ends) == 2
    for end in ends:
        begun = max(at for at in range(end) if statements[at] == "BEGIN")
        locks = [
            statement
            for statement in statements[begun:end]
            if "FOR " in statement and "UPDATE" in statement
        ]
        tables = [lock.partition("FROM ")[2].split()[0] for lock in locks]
        assert tables.index("nodes") < tables.index("budgets")


def test_a_keep_holds_no_budget_back_and_both_the_message_and_the_story_say_so(budgeted, clock):
    budget, mine, _ = exceeded(budgeted)
    keeps = KeepService(budgeted.units, budgeted.prices, clock)
    keeps.keep_node(mine[0].id, KeepOrder("a demo", for_seconds=HOUR))
    (message,) = told(budgeted, budget)
    assert "are deleted at" in text_of(json.dumps(message))
    assert "also those that are kept" in text_of(json.dumps(message))
    budgeted.tick(900)
    node = budgeted.node(mine[0])
    assert node.asked is Asked.ABSENT
    assert node.kept_until > clock.now
    with budgeted.units.reading() as unit:
        (*_, last) = [event.message for _, event in unit.events.list_by_node(node.id, 0, 99)]
    assert "ends with that (a demo), because a keep does not stop a budget" in last


def test_a_node_says_which_budget_deletes_it_and_when(budgeted, clock):
    policies = PolicyService(budgeted.units, budgeted.prices, clock, [], IdleMode())
    _, mine, theirs = exceeded(budgeted)
    (end,) = policies.get_with_ends(mine[0].id).ends
    assert (end.ender, end.at, end.held_by) == (EndCause.BUDGET, clock.now + 900, ())
    assert end.reason == "the budget 'vision monthly' is exceeded"
    assert policies.get_with_ends(theirs.id).ends == ()


def test_what_costs_nothing_is_not_deleted(budgeted):
    budget, mine, _ = exceeded(budgeted)
    budgeted.nodes.stop(mine[0].id)
    budgeted.down(mine[0], NodeState.STOPPED)
    budgeted.tick(900)
    assert [budgeted.node(node).asked for node in mine] == [Asked.STOPPED, Asked.ABSENT]
    assert budget.on_exceeded is OnExceeded.DELETE


@pytest.mark.parametrize("way", ["adopted", "started"])
def test_a_node_that_came_to_cost_it_later_is_told_of_and_has_its_own_grace(budgeted, clock, way):
    """One that was adopted, or stood still while the others were told."""
    late: Node | None = None
    if way == "started":
        late = budgeted.up(budgeted.ask(name="late"))
        budgeted.nodes.stop(late.id)
        budgeted.down(late, NodeState.STOPPED)
    exceeded(budgeted)
    budgeted.tick(HOUR)
    if late is None:
        late = factories.node(team="vision")
        with budgeted.units() as unit:
            unit.nodes.add(late)
    budgeted.up(late)
    for _ in range(15):
        budgeted.tick(60)
        assert budgeted.node(late).asked is not Asked.ABSENT
    with budgeted.units.reading() as unit:
        *_, (_, said) = unit.events.list_by_node(late.id, 0, 99)
    assert said.message.startswith(f"to be deleted at {to_rfc3339(clock.now + 60)}: the budget")
    budgeted.tick(60)
    assert budgeted.node(late).asked is Asked.ABSENT


def test_the_warning_of_another_budget_does_not_count_as_its_own(budgeted, clock):
    exceeded(budgeted)
    late = budgeted.up(budgeted.ask(name="late", team="nlp"))
    scope = Scope(team="nlp")
    other = deleting(
        budgeted, name="nlp", scope=scope, on_exceeded=OnExceeded.DELETE, grace_seconds=DAY
    )
    budgeted.tick(3 * HOUR)
    assert [alert["alert"] for alert in told(budgeted, other)] == ["exceeded"]
    with budgeted.units() as unit:
        unit.nodes.charge_to(Attribution(late.id, clock.now + 1, "", "vision"), clock.now)
    budgeted.tick(1_800)
    assert budgeted.node(late).asked is Asked.PRESENT
    budgeted.tick(899)
    assert budgeted.node(late).asked is Asked.PRESENT, "it was told a quarter of an hour ago"
    budgeted.tick(1)
    assert budgeted.node(late).asked is Asked.ABSENT


def test_a_budget_that_cannot_be_looked_at_keeps_no_other_from_its_turn(budgeted, clock):
    poisoned = deleting(budgeted, name="a", scope=Scope(team="nobody"))
    budget, mine, _ = exceeded(budgeted, name="b")

    class Poisoned:
        def find_standing(self, one):
            if one.id == poisoned.id:
                raise RuntimeError("poisoned")
            return budgeted.budgets.find_standing(one)

        sum_spent = budgeted.budgets.sum_spent

    controller = BudgetController(budgeted.units, budgeted.prices, clock, Poisoned())
    clock.pass_(900)
    controller.tick(budgeted.lease)
    assert {budgeted.node(node).asked for node in mine} == {Asked.ABSENT}
    assert budget.on_exceeded is OnExceeded.DELETE


def test_a_forecast_that_fails_leaves_what_was_spent_to_be_told(budgeted):
    def broken(*_):
        raise ZeroDivisionError

    budgeted.budgets = BudgetService(
        budgeted.units, budgeted.prices, budgeted.clock, budgeted.costs, broken
    )
    budgeted.controller = BudgetController(
        budgeted.units, budgeted.prices, budgeted.clock, budgeted.budgets
    )
    budget = budgeted.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, **HOOK)
    budgeted.up(budgeted.ask())
    budgeted.tick(HOUR)
    (message,) = told(budgeted, budget)
    assert (message["alert"], message["forecast"]) == ("exceeded", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": 10**6 * NANOS},
        {"on_exceeded": OnExceeded.REFUSE},
        {"scope": Scope(team="nobody")},
    ],
)
def test_a_budget_that_was_changed_within_the_grace_deletes_nothing(budgeted, changes):
    budget, mine, _ = exceeded(budgeted)
    budgeted.budgets.update_fields(budget.id, changes)
    budgeted.tick(900)
    budgeted.tick(900)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}


def test_a_budget_that_is_taken_away_deletes_nothing(budgeted):
    budget, mine, _ = exceeded(budgeted)
    budgeted.budgets.delete(budget.id)
    budgeted.tick(900)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}


def test_a_new_period_within_the_grace_spares_the_nodes(budgeted, clock):
    clock.now += 12 * HOUR - 7_500
    budget, mine, _ = exceeded(budgeted, period=Period.DAY)
    budgeted.tick(900)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}
    assert budget.window_at(clock.now).start == clock.now - 600


def test_a_period_that_is_exceeded_before_anybody_looks_is_told_of_first(budgeted, clock):
    """No daemon ran over midnight; the notice was about the day before."""
    clock.now += 12 * HOUR - 7_500
    budget, mine, _ = exceeded(budgeted, period=Period.DAY)
    budgeted.tick(5 * HOUR)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}
    assert [alert["deletes_at"] for alert in told(budgeted, budget)][1:] == [
        to_rfc3339(clock.now + 900)
    ]
    deliver(budgeted)
    budgeted.tick(900)
    assert {budgeted.node(node).asked for node in mine} == {Asked.ABSENT}


def test_one_that_learns_to_delete_late_tells_first(budgeted, clock):
    mine = [budgeted.up(budgeted.ask())]
    budget = deleting(budgeted, amount=HOURLY)
    budgeted.tick(2 * HOUR)
    budgeted.tick(DAY)
    budgeted.budgets.update_fields(budget.id, {"on_exceeded": OnExceeded.DELETE})
    budgeted.tick()
    assert budgeted.node(mine[0]).asked is Asked.PRESENT
    assert told(budgeted, budget)[-1]["deletes_at"] == to_rfc3339(clock.now + 900)
    deliver(budgeted)
    budgeted.tick(900)
    assert budgeted.node(mine[0]).asked is Asked.ABSENT


def test_a_project_that_is_not_ours_is_left_to_its_own_daemon(budgeted, units):
    budget, mine, _ = exceeded(budgeted)
    with units() as unit:
        foreign = unit.leases.take("other", "daemon", 3_600)
        unit.leases.save_log_release(foreign, releases_deletions=True)
    budgeted.clock.pass_(900)
    budgeted.controller.tick(foreign)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}
    assert budgeted.budgets.get(budget.id).shown.deletes_at <= budgeted.clock.now


@pytest.mark.parametrize("arrives", [True, False])
def test_without_a_grace_nodes_go_once_the_message_was_tried_and_not_before(
    budgeted, post, arrives
):
    node = budgeted.up(budgeted.ask())
    budget = deleting(budgeted, amount=1, on_exceeded=OnExceeded.DELETE, grace_seconds=0)
    post.errors = [] if arrives else [CloudUnavailable("no answer")]
    for _ in range(5):
        budgeted.tick()
        assert budgeted.node(node).asked is Asked.PRESENT
    assert [alert["alert"] for alert in told(budgeted, budget)] == ["exceeded"]
    deliver(budgeted, post)
    assert len(post.sent) == arrives
    budgeted.tick()
    assert budgeted.node(node).asked is Asked.ABSENT


def test_nodes_wait_for_each_of_the_messages(budgeted, post):
    node = budgeted.up(budgeted.ask())
    emails = ("ada@example.com",)
    deleting(budgeted, amount=1, on_exceeded=OnExceeded.DELETE, grace_seconds=0, emails=emails)
    budgeted.tick()
    with budgeted.units() as unit:
        mail, hook = sorted(
            unit.notifications.list_due(budgeted.clock.now, 9), key=lambda one: one.channel
        )
        unit.notifications.save(
            replace(hook, tries=1, next_try_at=None, sent_at=budgeted.clock.now)
        )
    budgeted.tick()
    assert budgeted.node(node).asked is Asked.PRESENT
    with budgeted.units() as unit:
        unit.notifications.save(replace(mail, tries=1, next_try_at=budgeted.clock.now + 10))
    budgeted.tick()
    assert budgeted.node(node).asked is Asked.ABSENT


def test_with_nobody_to_tell_nodes_go_at_the_tick_after_the_one_that_wrote_it_down(budgeted):
    node = budgeted.up(budgeted.ask())
    silent = {"webhook": "", "secret": "", "grace_seconds": 0}
    deleting(budgeted, amount=1, on_exceeded=OnExceeded.DELETE, **silent)
    budgeted.tick()
    budgeted.controller.tick(budgeted.lease)
    assert budgeted.node(node).asked is Asked.PRESENT
    with budgeted.units.reading() as unit:
        *_, (_, said) = unit.events.list_by_node(node.id, 0, 99)
    assert said.kind == "budget"
    budgeted.tick(1)
    assert budgeted.node(node).asked is Asked.ABSENT


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_nodes_wait_until_the_log_was_heard_in_every_project_that_counts(budgeted, units, where):
    """What was lost while nobody looked is charged to the upper bound until the log is heard."""
    _, mine, _ = exceeded(budgeted)
    with units() as unit:
        lease = budgeted.lease
        if where == "elsewhere":
            lease = unit.leases.take("other", "another daemon", 3_600)
        unit.leases.save_log_release(lease, releases_deletions=False)
    budgeted.tick(900)
    budgeted.tick(HOUR)
    assert {budgeted.node(node).asked for node in mine} == {Asked.PRESENT}
    with units() as unit:
        unit.leases.save_log_release(lease, releases_deletions=True)
    budgeted.tick()
    assert {budgeted.node(node).asked for node in mine} == {Asked.ABSENT}


def test_a_budget_of_one_project_waits_for_the_log_of_no_other(budgeted, units):
    _, mine, _ = exceeded(budgeted, scope=Scope(project=factories.PROJECT, team="vision"))
    with units() as unit:
        unit.leases.take("other", "another daemon", 3_600)
    budgeted.tick(900)
    assert {budgeted.node(node).asked for node in mine} == {Asked.ABSENT}


def test_nobody_waits_for_the_log_of_a_project_that_nobody_looks_after(budgeted, units):
    _, mine, _ = exceeded(budgeted)
    with units() as unit:
        unit.leases.release(unit.leases.take("other", "another daemon", 3_600))
    budgeted.tick(900)
    assert {budgeted.node(node).asked for node in mine} == {Asked.ABSENT}
