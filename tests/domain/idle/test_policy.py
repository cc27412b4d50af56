"""Tests of which policy holds for a node, and what may be said in one."""

from __future__ import annotations

import pytest

from service.domain.catalog.accelerators import TAKEN_BACK
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import Rejected
from service.domain.idle.policy import (
    Action,
    Policy,
    Recipient,
    Rule,
    Waste,
    apply_policies,
    check_own,
    check_rule,
    check_scope,
    with_waste,
)
from service.domain.nodes.node import IdlePolicy
from tests import factories

ADA, GRACE = Recipient(emails=("ada@example.com",)), Recipient(emails=("grace@example.com",))


def policies(**rules):
    """Policies by scope: `team_vision=(Action.DELETE, ADA)`."""
    found = {}
    for name, (action, *recipients) in rules.items():
        scope = name.replace("_", ":", 1)
        found[scope] = Policy(scope, Rule(action=action), tuple(recipients), version=3)
    return found


def what(spec=None, ceiling=Action.DELETE, **rules):
    return apply_policies(spec or factories.spec(), "vision", policies(**rules), ceiling)


def test_the_nearest_policy_holds():
    everything = {
        "team_vision": (Action.STOP,),
        "project_lab": (Action.DELETE,),
        "default": (Action.OBSERVE,),
    }
    assert (what(**everything).source, what(**everything).action) == ("team:vision", Action.STOP)
    del everything["team_vision"]
    assert (what(**everything).source, what(**everything).action) == ("project:lab", Action.DELETE)
    del everything["project_lab"]
    assert (what(**everything).source, what(**everything).version) == ("default", 3)
    assert (what().source, what().action, what().version) == ("default", Action.NOTIFY, 0)
    assert what(team_other=(Action.DELETE,)).action is Action.NOTIFY


def test_what_a_node_says_of_itself_counts_most():
    own = factories.spec(idle=IdlePolicy(600, 60, "delete", ("crash_loop",)))
    found = what(own, team_vision=(Action.OBSERVE, ADA))
    assert (found.source, found.is_own, found.action) == ("node", True, Action.DELETE)
    assert found.rule == Rule(600, 60, Action.DELETE, frozenset({Waste.CRASH_LOOP}))
    assert (found.recipients, found.told_by) == ((ADA,), "team:vision")


def test_recipients_are_those_of_the_nearest_policy_that_names_any():
    rules = {"team_vision": (Action.DELETE,), "project_lab": (Action.NOTIFY, GRACE)}
    assert what(**rules).told_by == "project:lab"
    assert what(**rules, default=(Action.NOTIFY, ADA)).recipients == (GRACE,)
    assert (what().recipients, what().told_by) == ((), "")


@pytest.mark.parametrize("ceiling", list(Action))
@pytest.mark.parametrize("action", list(Action))
def test_the_mode_is_a_ceiling(ceiling, action):
    found = what(ceiling=ceiling, default=(action,))
    assert found.action is min(action, ceiling, key=list(Action).index)
    limited = list(Action).index(ceiling) < list(Action).index(action)
    assert found.limits == ((f"STEWARD_IDLE_MODE is {ceiling}",) if limited else ())


def test_an_inherited_stop_that_the_cloud_cannot_do_is_a_notice_and_never_a_deletion():
    spot = factories.spec(provisioning_model=ProvisioningModel.SPOT)
    assert ProvisioningModel.SPOT in TAKEN_BACK
    found = what(spot, default=(Action.STOP,))
    assert found.action is Action.NOTIFY
    assert "cannot stop" in found.limits[0]
    with pytest.raises(Rejected) as refused:
        check_own(IdlePolicy(action="stop"), spot, 240)
    assert refused.value.facts["field"] == "idle.action"
    check_own(IdlePolicy(action="stop"), factories.spec(), 240)


@pytest.mark.parametrize("own", [None, IdlePolicy(action="delete")])
def test_a_deletion_that_the_mode_limits_to_a_stop_is_a_notice_where_the_cloud_cannot_stop(own):
    spot = factories.spec(provisioning_model=ProvisioningModel.SPOT, idle=own)
    found = what(spot, ceiling=Action.STOP, default=(Action.DELETE,))
    assert found.action is Action.NOTIFY
    assert "cannot stop" in found.limits[0]
    assert found.limits[1] == "STEWARD_IDLE_MODE is stop"
    assert what(spot, ceiling=Action.OBSERVE, default=(Action.DELETE,)).action is Action.OBSERVE


def test_nobody_is_idle_for_less_than_signals_take_to_arrive():
    check_rule(Rule(idle_after_seconds=240), 240)
    with pytest.raises(Rejected) as refused:
        check_rule(Rule(idle_after_seconds=239), 240)
    assert (refused.value.facts["least"], refused.value.facts["field"]) == (
        240,
        "idle_after_seconds",
    )


@pytest.mark.parametrize("action", [Action.OBSERVE, Action.NOTIFY])
def test_a_policy_that_contradicts_itself_is_refused(action):
    also = frozenset({Waste.NO_PROGRESS})
    with pytest.raises(Rejected, match="leave out also"):
        check_rule(Rule(action=action, also=also), 240)
    check_rule(Rule(action=Action.STOP, also=also), 240)


@pytest.mark.parametrize("scope", ["default", "team:vision", "project:lab", "team:a b"])
def test_scopes(scope):
    check_scope(scope)


@pytest.mark.parametrize("scope", ["", "team", "team:", "team: ", "node:x", "project:", "Default"])
def test_what_names_no_scope_is_refused(scope):
    with pytest.raises(Rejected):
        check_scope(scope)


def test_waste_is_only_told_of_unless_the_rule_says_also():
    own = factories.spec(idle=IdlePolicy(600, 60, "delete", ("crash_loop",)))
    found = what(own)
    assert with_waste(found, None) == with_waste(found, Waste.CRASH_LOOP) == found
    hanging = with_waste(found, Waste.NO_PROGRESS)
    assert (hanging.action, hanging.rule) == (Action.NOTIFY, found.rule)
    assert "also: no_progress" in hanging.limits[0]
    told = what(factories.spec(idle=IdlePolicy(600, 60, "notify")))
    assert with_waste(told, Waste.NO_PROGRESS) == told
