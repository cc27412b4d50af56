"""Why a node would end now, read in the unit of work that ends it."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.budgets.alerts import EXCEEDED, deletes_at
from service.domain.budgets.budget import OnExceeded
from service.domain.idle.ends import list_causes
from service.domain.idle.policy import Action, apply_policies
from service.domain.nodes.node import Node
from service.store.unit import Unit


def read_causes(unit: Unit, node: Node, now: int) -> tuple[str, ...]:
    """Return the text of every cause that would end a node now, the strongest first, whatever holds
    it back."""
    policies = unit.idle_policies.find_all()
    causes = list_causes(
        node,
        now,
        applied=apply_policies(node.spec, node.team, policies, Action.DELETE),
        watched=unit.idle_courses.find_by_node(node.id),
        budgets=find_exceeded_budgets(unit, node, now),
    )
    return tuple(text for _, text in causes)


def find_exceeded_budgets(unit: Unit, node: Node, now: int) -> Mapping[str, int]:
    """Return the exceeded budgets that delete a node: their names, and when they delete it."""
    deleting = [
        budget for budget in unit.budgets.list_all() if budget.on_exceeded is OnExceeded.DELETE
    ]
    if not deleting:
        return {}
    who, found = unit.attributions.find_payer(node), {}
    for budget in deleting:
        window = budget.window_at(now)
        if window is None or not budget.scope.applies_to(who):
            continue
        alert = unit.alerts.find_by_budget(budget.id).get(EXCEEDED)
        is_of_now = alert is not None and alert.period == window.start
        at = deletes_at(budget, alert) if is_of_now else None
        if at is not None:
            found[budget.name] = at
    return found
