"""Bugs in what says no, tells and ends because of money, and in flex-start, that somebody could
write tomorrow: each must make the simulation fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import and_, func, select

from service.application.budgets import admission
from service.application.nodes.nodes import CreatedNode, NodeService
from service.cloud.google import flex
from service.controllers import notifications
from service.controllers.budgets import budgets as budget_controller
from service.controllers.budgets.budgets import BudgetController
from service.controllers.lifecycle import lifecycle as lifecycle_controller
from service.controllers.notifications import NotificationController
from service.domain.budgets import admission as holds
from service.domain.budgets.admission import Hold
from service.domain.budgets.alerts import Alert
from service.domain.budgets.budget import Scope
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import CloudError
from service.domain.ids import new_id
from service.domain.lifecycle import expiry, queueing
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.nodes.node import Asked, Node
from service.domain.nodes.queued_resource import QueueState
from service.domain.time_window import Window
from service.store import holds as stored
from service.store import tables
from service.store.holds import Holds
from service.store.notifications import Alerts, Notifications
from service.store.tables import attributions, nodes
from tests.planting import replace_function


def held_in_another_transaction() -> Any:
    """Whether there is room is found out first, and the node is written down afterwards."""
    request, place, asking = NodeService.request, admission.admit_node, list[bool]()

    class LooksGood(Exception):
        """Nothing speaks against it."""

    def twice(self: NodeService, *about: Any, **more: Any) -> CreatedNode:
        for only_asks in (True, False):
            asking.append(only_asks)
            try:
                return request(self, *about, **more)
            except LooksGood:
                """Nothing is written yet."""
            finally:
                asking.pop()
        raise AssertionError("the second time, it is written")

    def placed(unit: Any, node: Node, *about: Any) -> None:
        if node.version or asking[-1]:
            place(unit, node, *about)
        else:
            with replace_function(admission, admission._require_room, lambda *_: None):
                place(unit, node, *about)
        if not node.version and asking[-1]:
            raise LooksGood

    return _all(
        patch.object(NodeService, "request", twice), patch.object(admission, "admit_node", placed)
    )


def let_go_once_it_is_ready() -> Any:
    """What runs is charged, so nothing more is set aside for it."""
    stopped = vars(Hold)["is_stopped"].fget
    assert stopped is not None
    early = property(lambda self: stopped(self) or self.state == "READY")
    return patch.object(Hold, "is_stopped", early)


def never_let_go() -> Any:
    """What was set aside for a node stays so when it has ended."""

    def with_the_ended(self: Holds, columns: Any, condition: Any) -> Any:
        there = nodes.outerjoin(tables.holds, tables.holds.c.node_id == nodes.c.id)
        rows = self._connection.execute(columns.select_from(there).where(condition)).all()
        return [
            (Hold._make((*row[:3], Asked(row[3]), *row[4:7])), tuple(row[8:]), row[7] is not None)
            for row in rows
        ]

    return replace_function(Holds, Holds._read_holds, with_the_ended)


def what_waits_for_its_turn_holds_nothing() -> Any:
    """Money is set aside for what runs, and not before."""
    end = Hold._find_end

    def later(self: Hold, window: Window, now: int) -> int:
        return now if self.ready_at is None else end(self, window, now)

    return replace_function(Hold, Hold._find_end, later)


def the_cheapest_price_is_held() -> Any:
    """Of all that a node may be made of, the cheapest is set aside."""
    worst = holds.rate_of

    def cheapest(spec: Any, book: Any, now: int) -> Any:
        rate = worst(spec, book, now)
        one = spec.possible_hardware[0]
        first = replace(spec, alternatives=(replace(one, zones=one.zones[-1:]),))
        return worst(first, book, now) if rate.hourly is not None else rate

    return patch.object(admission, "rate_of", cheapest)


def marked_sent_before_it_was() -> Any:
    """A message counts as sent when it is taken up, so that nobody hears of it again."""
    claim = Notifications.claim

    def taken(self: Notifications, one: Any, until: int) -> Any:
        mine = claim(self, one, until)
        if mine is not None:
            self.save(replace(mine, next_try_at=None, sent_at=until))
        return mine

    return patch.object(Notifications, "claim", taken)


def tried_once() -> Any:
    """What does not arrive is given up."""
    return patch.object(notifications, "next_retry_at", lambda *_: None)


def told_under_a_new_name() -> Any:
    """Each time that a message is sent it has another id."""
    send = NotificationController._send_message

    def renamed(self: NotificationController, one: Any) -> None:
        try:
            send(self, one)
        except CloudError:
            again, body = new_id(), one.body
            send(self, replace(one, id=again, body=body.replace(one.id, again)))

    return replace_function(NotificationController, NotificationController._send_message, renamed)


def told_without_writing_it_down() -> Any:
    """That something was told is written after the message, not with it, and may be lost."""
    keep, fired = Alerts.save, set[str]()

    def forgetful(self: Alerts, budget_id: str, alert: Alert) -> None:
        if alert.fired_at is None or budget_id in fired:
            keep(self, budget_id, alert)
        fired.add(budget_id)

    return patch.object(Alerts, "save", forgetful)


def todays_labels_for_yesterday() -> Any:
    """What a node cost before it changed hands counts for whom it belongs to now."""

    def as_of_now(table: Any) -> Any:
        others = attributions.alias()
        latest = select(func.max(others.c.since)).where(others.c.node_id == table.c.node_id)
        of_node = attributions.c.node_id == table.c.node_id
        return table.join(
            attributions, and_(of_node, attributions.c.since == latest.scalar_subquery())
        )

    days = stored._select_days

    def by_day(scope: Any, start: int, end: int) -> Any:
        if scope.label is None:
            return days(scope, start, end)
        day = tables.node_days.c.day
        return stored._select_sum(scope, day.table, as_of_now(day.table), attributions).where(
            day >= start, day < end, stored._has_label(attributions.c.labels, scope.label)
        )

    return patch.multiple(stored, join_attributions=as_of_now, _select_days=by_day)


def a_change_of_hands_is_not_admitted() -> Any:
    """Whoever is handed a node pays for it, whether there is money or not."""
    return patch.object(admission, "admit_under_new_payer", lambda *_: None)


def started_without_asking() -> Any:
    """What was stopped starts again, whatever was promised meanwhile."""
    return patch.object(admission, "on_asked", lambda *_: None)


def deleted_without_a_grace() -> Any:
    """The nodes go as soon as the budget is exceeded."""
    at_once = patch.object(
        budget_controller, "deletes_at", lambda _, alert: alert and alert.fired_at
    )
    return _all(
        at_once,
        replace_function(budget_controller, budget_controller._find_announcement, lambda *_: 0),
    )


def all_nodes_of_the_project_go() -> Any:
    """A budget of a team has everybody's nodes deleted."""
    deletable = budget_controller._list_deletable

    def wider(unit: Any, budget: Any) -> Sequence[Node]:
        return deletable(unit, replace(budget, scope=Scope(project="lab")))

    return replace_function(budget_controller, budget_controller._list_deletable, wider)


def told_and_never_deleted() -> Any:
    """It is said that nodes go, and they stay."""
    return replace_function(BudgetController, BudgetController._delete_due, lambda *_: None)


def flex_start_without_its_limit() -> Any:
    """The cloud is not told how long it is wanted, so that it runs for a week if nobody looks."""
    body = flex.build_request_body

    def unlimited(order: Any) -> dict[str, object]:
        asked = body(order)
        del asked["runDuration"]
        return asked

    return patch.object(flex, "build_request_body", unlimited)


def end_of_flex_start_not_noticed() -> Any:
    """The cloud ends it, so it is left to the cloud, and what that did is not seen."""
    out_of_time, step = expiry.out_of_time, queueing.next_step

    def patient(node: Node, now: int) -> str:
        return "" if _is_flexible(node) and node.ready_at is not None else out_of_time(node, now)

    def blind(node: Node, look: NodeLook, now: int) -> NodeStep:
        gone = look.queue is not None and look.queue.state == QueueState.SUSPENDED
        if gone and _is_flexible(node) and node.asked is not Asked.ABSENT:
            return NodeStep.WAIT
        return step(node, look, now)

    return _all(
        patch.object(lifecycle_controller, "out_of_time", patient),
        patch.object(queueing, "next_step", blind),
    )


@contextmanager
def _all(*plantings: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for planting in plantings:
            stack.enter_context(planting)
        yield


def _is_flexible(node: Node) -> bool:
    return node.spec.provisioning_model is ProvisioningModel.FLEX_START


BUDGET_BUGS = (
    held_in_another_transaction,
    let_go_once_it_is_ready,
    never_let_go,
    what_waits_for_its_turn_holds_nothing,
    the_cheapest_price_is_held,
    marked_sent_before_it_was,
    tried_once,
    told_under_a_new_name,
    told_without_writing_it_down,
    todays_labels_for_yesterday,
    a_change_of_hands_is_not_admitted,
    started_without_asking,
    deleted_without_a_grace,
    all_nodes_of_the_project_go,
    told_and_never_deleted,
    flex_start_without_its_limit,
    end_of_flex_start_not_noticed,
)
