"""Why and when a node would end, read in the unit of work of the caller."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.budgets.alerts import EXCEEDED, deletes_at
from service.domain.budgets.budget import OnExceeded
from service.domain.idle.assess import IdleSubject
from service.domain.idle.ends import End, EndOutlook, ends_of, list_causes
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


def read_ends(unit: Unit, node: Node, subject: IdleSubject | None, now: int) -> tuple[End, ...]:
    """Return everything that may end a node. `subject` is the answer of `read_subject` for it."""
    claim = unit.jobs.find_claim(node.id)
    is_own = claim is not None and unit.jobs.get(claim.job_id).own_node
    outlook = EndOutlook(
        node,
        unit.cleanups.get(node.spec.project),
        subject,
        unit.idle_courses.find_by_node(node.id),
        claim.job_id if claim is not None and is_own else "",
        find_exceeded_budgets(unit, node, now),
    )
    return ends_of(outlook, now)


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
