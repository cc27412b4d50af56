"""Policies are written over what was read, and the nearest one applies to a node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.application.budgets.budgets import MessageReach
from service.application.cleanup.cleanup import IdleMode
from service.application.cleanup.policies import PolicyService
from service.domain.errors import NotFound, Rejected, StaleVersion
from service.domain.idle.policy import SHIPPED, Action, Format, Recipient, Rule, Waste
from service.domain.nodes.node import IdlePolicy
from tests import factories
from tests.hands import NOON
from tests.store.given import GivenPrices

SECRET = "a secret of some length"
HOOK = Recipient("https://hooks.example.com/x", SECRET)
RULE = Rule(7_200, 60, Action.DELETE, frozenset({Waste.CRASH_LOOP}))
MODE = IdleMode(Action.STOP)


@pytest.fixture
def policies(units, clock):
    """The service in a project, where at most a stop is allowed."""
    return PolicyService(units, GivenPrices(), clock, [factories.PROJECT], MODE)


def test_a_policy_is_answered_as_it_was_set_with_the_time_and_a_version(policies):
    set_ = policies.save("team:nlp", RULE, [HOOK])
    assert (set_.rule, set_.recipients, set_.version, set_.updated_at) == (RULE, (HOOK,), 1, NOON)
    assert policies.get("team:nlp") == set_
    assert policies.list_all() == [SHIPPED, set_]


def test_a_default_that_nobody_wrote_is_the_shipped_one_and_others_are_not_there(policies):
    assert policies.get("default") == SHIPPED
    with pytest.raises(NotFound, match="team:nlp"):
        policies.get("team:nlp")
    with pytest.raises(NotFound):
        policies.delete("default")


def test_a_default_that_was_deleted_is_the_shipped_one_with_the_next_version(policies):
    policies.save("default", RULE, None)
    assert policies.delete("default").rule == RULE
    found = policies.get("default")
    assert (found.rule, found.version) == (SHIPPED.rule, 2)
    assert policies.save("default", RULE, None, version=2).version == 3


@pytest.mark.parametrize(
    ("scope", "rule", "recipients", "field"),
    [
        ("nlp", RULE, [], "scope"),
        ("team:", RULE, [], "scope"),
        (f"project:{factories.PROJECT}x", RULE, [], "project"),
        ("default", Rule(299), [], "idle_after_seconds"),
        ("default", Rule(also=frozenset({Waste.NO_PROGRESS})), [], "also"),
        ("default", RULE, [Recipient()], "recipients[0]"),
        ("default", RULE, [HOOK, Recipient(HOOK.webhook, SECRET, emails=("a@b.c",))], "ts[1]"),
        ("default", RULE, [Recipient("https://hooks.example.com/x")], "[0].secret"),
        ("default", RULE, [Recipient("http://10.0.0.1/x", SECRET)], "[0].webhook"),
        ("default", RULE, [Recipient(secret=SECRET, emails=("a@b.c",))], "[0].secret"),
        ("default", RULE, [Recipient(emails=("nobody",))], "[0].emails"),
    ],
)
def test_what_cannot_hold_is_refused_by_its_field(policies, scope, rule, recipients, field):
    with pytest.raises(Rejected) as caught:
        policies.save(scope, rule, recipients)
    found: Any = caught.value.facts["field"]
    assert found.endswith(field)
    assert SECRET not in str(caught.value)
    assert policies.list_all() == [SHIPPED]


def test_the_shortest_idle_time_is_what_signals_need_and_is_named(policies):
    with pytest.raises(Rejected, match="the least is 300 s") as caught:
        policies.save("default", Rule(299), None)
    assert caught.value.facts["least"] == 300
    assert policies.save("default", Rule(300), None).rule.idle_after_seconds == 300


def test_a_private_webhook_is_let_in_where_the_setting_says_so(units, clock):
    inside = PolicyService(
        units, GivenPrices(), clock, [], MODE, MessageReach(private_webhooks=True)
    )
    told = [Recipient("http://10.0.0.1/x", SECRET)]
    assert inside.save("default", RULE, told).recipients == tuple(told)


def test_a_slack_webhook_needs_no_secret(policies):
    slack = Recipient("https://hooks.slack.com/services/x", format=Format.SLACK)
    assert policies.save("default", RULE, [slack]).recipients == (slack,)


def test_recipients_that_are_left_out_stay_and_a_known_webhook_keeps_its_secret(policies):
    policies.save("default", RULE, [HOOK])
    assert policies.save("default", Rule(), None).recipients == (HOOK,)
    assert policies.save("default", Rule(), [Recipient(HOOK.webhook)]).recipients == (HOOK,)
    assert policies.save("default", Rule(), []).recipients == ()


def test_a_version_that_is_not_the_present_one_is_refused(policies):
    policies.save("default", RULE, None, version=0)
    with pytest.raises(StaleVersion):
        policies.save("default", Rule(), None, version=0)
    with pytest.raises(StaleVersion):
        policies.delete("default", version=2)
    assert policies.get("default").rule == RULE
    policies.delete("default", version=1)


@pytest.mark.concurrent
def test_of_two_who_saw_the_same_version_one_writes(policies):
    policies.save("default", RULE, None)

    def write(seconds):
        try:
            return policies.save("default", Rule(seconds), None, version=1)
        except StaleVersion:
            return None

    with ThreadPoolExecutor(2) as pool:
        written = [policy for policy in pool.map(write, (600, 700)) if policy is not None]
    assert [policy.version for policy in written] == [2]
    assert policies.get("default") == written[0]


def test_the_nearest_policy_applies_and_says_whence(policies, units):
    node = factories.node(team="nlp", owner="ada@example.com")
    with units() as unit:
        unit.nodes.add(node)
    found = policies.get_for_node(node.id)
    assert (found.applied.source, found.applied.rule) == ("default", SHIPPED.rule)
    assert found.recipients == [Recipient(emails=("ada@example.com",))]
    policies.save(f"project:{node.spec.project}", Rule(600), [HOOK])
    assert policies.get_for_node(node.id).applied.source == f"project:{node.spec.project}"
    policies.save("team:nlp", RULE, None)
    found = policies.get_for_node(node.id)
    assert (found.applied.source, found.applied.rule, found.applied.version) == (
        "team:nlp",
        RULE,
        1,
    )
    assert found.applied.action is Action.STOP
    assert found.applied.limits == ("STEWARD_IDLE_MODE is stop",)
    assert (found.applied.told_by, found.recipients[0]) == (f"project:{node.spec.project}", HOOK)
    policies.delete("team:nlp")
    assert policies.get_for_node(node.id).applied.source == f"project:{node.spec.project}"


def test_what_a_node_says_of_itself_applies_before_every_policy(policies, units):
    own = IdlePolicy(900, 0, "delete", ("no_progress",))
    node = factories.node(team="nlp", idle=own)
    with units() as unit:
        unit.nodes.add(node)
    policies.save("team:nlp", RULE, [HOOK])
    found = policies.get_for_node(node.id)
    assert (found.applied.source, found.applied.version) == ("node", 0)
    assert found.applied.rule == Rule(900, 0, Action.DELETE, frozenset({Waste.NO_PROGRESS}))
    assert found.recipients == [HOOK]


def test_the_policy_of_a_node_that_is_not_there_is_not_found(policies):
    with pytest.raises(NotFound):
        policies.get_for_node("nobody")
