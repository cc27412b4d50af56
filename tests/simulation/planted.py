"""Bugs that somebody could write tomorrow: each must make the simulation fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

from google.api_core.exceptions import GoogleAPIError

from service.cloud.google import pages
from service.cloud.ports import Order
from service.controllers.inventory.interruptions import InterruptionSearch
from service.controllers.lifecycle import launch
from service.controllers.lifecycle import lifecycle as lifecycle_controller
from service.controllers.lifecycle import observation as node_observation
from service.controllers.lifecycle.launch import LaunchSteps
from service.controllers.lifecycle.observation import NodeObserver
from service.controllers.lifecycle.teardown import TeardownSteps
from service.controllers.orphans import deletion, orphans
from service.domain.database_clock import AgreedClock
from service.domain.errors import CloudUnavailable
from service.domain.evidence import observation
from service.domain.evidence.poll import Poll
from service.domain.ids import cloud_id_for
from service.domain.lease import Lease
from service.domain.lifecycle import in_flight, queueing
from service.domain.lifecycle.absence import Absence
from service.domain.lifecycle.lifecycle import next_step
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.metering.ledger import LedgerEntry
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Asked, Node
from service.domain.nodes.ownership import labels_for
from service.domain.orphans import verdict
from service.domain.orphans.fleet_watch import WINDOW_SECONDS
from service.domain.orphans.orphan import OrphanKind, OrphanVerdict
from service.domain.placement.choice import with_hardware
from service.store.leases import Leases
from service.store.ledger import Ledger
from service.store.orphans import Orphans
from tests.planting import replace_function
from tests.simulation.planted_budgets import BUDGET_BUGS
from tests.simulation.planted_daemon import DAEMON_BUGS
from tests.simulation.planted_lines import LINE_BUGS
from tests.simulation.planted_liveness import LIVENESS_BUGS
from tests.simulation.planted_money import MONEY_BUGS

Planting = Callable[[], Any]


def sent_again_under_a_new_name() -> Any:
    """The name of an attempt is not kept: what has no answer is asked for anew."""
    return patch.object(LaunchSteps, "send", LaunchSteps.place)


def called_deleted_when_accepted() -> Any:
    """A deletion counts as done as soon as Google takes the order."""
    delete = TeardownSteps.delete

    def early(self: TeardownSteps, node: Node, look: NodeLook, lease: Lease) -> None:
        delete(self, node, look, lease)
        self.close(
            self._context.save(node, lease, lambda unit, _: unit.nodes.get(node.id)),
            lease,
            vanished=False,
        )

    return patch.object(TeardownSteps, "delete", early)


def list_trusted_without_a_get() -> Any:
    """What a list does not show does not exist."""

    look = NodeObserver.look

    def shown(self: NodeObserver, node: Node) -> NodeLook:
        if node.sent_at is None or node.spec.queued:
            return look(self, node)
        found = self._cloud.inventory(node.spec.project).sightings().get(node.place.path)
        return NodeLook(None if found is None else found.decode(), None)

    return patch.object(NodeObserver, "look", shown)


def one_answer_believed() -> Any:
    """What one GET does not find is gone, whatever the lists say."""
    return patch.object(node_observation, "judge_absence", lambda *_: Absence.CERTAIN)


def deletion_given_up() -> Any:
    """After a minute of trying, a node counts as deleted."""

    def step(node: Node, look: NodeLook, now: int) -> NodeStep:
        asked = node.delete_requested_at
        if node.asked is Asked.ABSENT and asked is not None and now - asked > 60:
            return NodeStep.CLOSE
        return next_step(node, look, now)

    return patch.object(lifecycle_controller, "next_step", step)


def lease_not_checked() -> Any:
    """A daemon that slept through the end of its lease writes on."""
    return patch.object(Leases, "check_held", lambda *_: None)


def unanswered_create_forgotten() -> Any:
    """The end of one create is taken for the end of all that were sent under the name."""
    return _both(launch, in_flight, "may_yet_land", lambda *_: False)


def asked_before_it_was_written_down() -> Any:
    """The cloud is asked first, and the intent written when it has answered."""
    place = LaunchSteps.place

    def eager(self: LaunchSteps, node: Node, lease: Lease) -> None:
        with self._context.units() as unit:
            now = self._context.clock()
            choice = launch.choose_next(unit, node, now)
        if choice.at > now:
            place(self, node, lease)
            return
        wanted = replace(
            node,
            zone=choice.key.zone,
            spec=with_hardware(node.spec, choice.key),
            cloud_id=cloud_id_for(node.name, node.id, node.attempt + 1),
        )
        labels = labels_for(wanted, self._context.installation.install)
        self._context.cloud.create(Order(wanted.place, wanted.spec, labels))
        place(self, node, lease)

    return patch.object(LaunchSteps, "place", eager)


def end_taken_as_exact() -> Any:
    """When a spot node was seen to be gone is when it went."""

    close = observation._close_usage

    def exact(usage: Usage, poll: Poll) -> Usage:
        known = close(usage, poll)
        return replace(known, end_lo=known.end)

    return replace_function(observation, observation._close_usage, exact)


def name_taken_read_as_failure() -> Any:
    """That the name is taken counts as a refusal, though it was taken by ourselves."""

    def refused(self: LaunchSteps, node: Node, lease: Lease) -> None:
        self._give_way(node, lease, CloudUnavailable("the name is taken"))

    return replace_function(LaunchSteps, LaunchSteps._adopt_node, refused)


def unreachable_ignored() -> Any:
    """What a list does not show is gone, although the list says that a zone did not answer.

    (That it is merely looked at by name would be no bug: the answer to GET has the last word.)
    """
    return _lists_trusted(lambda inventory: bool(inventory.unreachable))


@contextmanager
def partial_pages_trusted() -> Iterator[None]:
    """When a page of a list does not come, the pages before it are the list, and what they do not
    show is gone."""
    whole, cut = pages.all_of, [False]

    def some(found: Any) -> Iterator[Any]:
        cut[0] = False
        try:
            yield from whole(found)
        except GoogleAPIError:
            cut[0] = True

    with patch.object(pages, "all_of", some), _lists_trusted(lambda _: cut[0]):
        yield


def _lists_trusted(wrongly: Callable[[Any], bool]) -> Any:
    """Look at plain nodes through the list where it is `wrongly` taken for the truth."""
    look = NodeObserver.look

    def shown(self: NodeObserver, node: Node) -> NodeLook:
        found = look(self, node)
        if node.spec.queued or found.sight is None:
            return found
        inventory = self._cloud.inventory(node.spec.project)
        there = node.place.path in inventory.sightings()
        return found if there or not wrongly(inventory) else NodeLook(None, found.operation)

    return patch.object(NodeObserver, "look", shown)


def ledger_update_lost() -> Any:
    """What was posted is not read before more is, and nothing in its key refuses it twice."""
    numbers = count()
    unlike = property(lambda self: f"{self.usage_id}/{next(numbers)}")
    stack = ExitStack()
    stack.enter_context(patch.object(Ledger, "sum_by_slot", lambda *_: {}))
    stack.enter_context(patch.object(LedgerEntry, "key", unlike))
    return stack


def ticket_forgotten() -> Any:
    """Once its node is gone, a node counts as gone, whatever is in the queue."""

    def step(node: Node, look: NodeLook, now: int) -> NodeStep:
        if (
            node.asked is Asked.ABSENT
            and not look.present_members
            and not in_flight.may_yet_land(node, now)
        ):
            return NodeStep.CLOSE
        return queueing_step(node, look, now)

    queueing_step = queueing.next_step
    return patch.object(queueing, "next_step", step)


def ticket_gone_taken_for_all_gone() -> Any:
    """Once its queued resource is gone, so are its nodes."""
    look = NodeObserver.look

    def blind(self: NodeObserver, node: Node) -> NodeLook:
        found = look(self, node)
        if not node.spec.queued or found.queue is not None:
            return found
        return NodeLook(None, found.operation, None, tuple(None for _ in found.slices))

    return patch.object(NodeObserver, "look", blind)


def deletion_of_a_ticket_believed() -> Any:
    """A delete of a queued resource that was accepted cannot fail any more."""
    leave = queueing._leave_queue

    def once(node: Node, look: NodeLook, queue: Any, now: int) -> NodeStep:
        step = leave(node, look, queue, now)
        return NodeStep.WAIT if node.tries and step is NodeStep.DEQUEUE else step

    stack = ExitStack()
    stack.enter_context(replace_function(queueing, queueing._leave_queue, once))
    stack.enter_context(patch.object(queueing, "TOO_BUSY_TO_DELETE", frozenset()))
    return stack


def group_billed_as_its_first_slice() -> Any:
    """Of several slices, the usage of one is opened."""
    open_usage = observation._open_usage

    def first(node: Node, poll: Any) -> Any:
        opened = open_usage(node, poll)
        one_of_many = node.spec.queued and node.cloud_id.rpartition("-")[2] in {"1", "2"}
        return replace(opened, end=opened.start, end_lo=opened.start) if one_of_many else opened

    return replace_function(observation, observation._open_usage, first)


def what_came_back_is_not_asked_about() -> Any:
    """What is READY after a time without a look has been so all the time."""
    return patch.object(InterruptionSearch, "cut_interruptions", lambda *_: True)


def strangers_swept() -> Any:
    """Whatever the books do not account for is garbage."""

    def sweep(orphan: Any, *_: Any) -> tuple[OrphanVerdict, str]:
        return OrphanVerdict.COLLECT, "it is not in the books"

    stack = ExitStack()
    stack.enter_context(_both(orphans, deletion, "judge_orphan", sweep))
    stack.enter_context(patch.object(Orphans, "list_certain", Orphans.list_known))
    stack.enter_context(replace_function(verdict, verdict._is_still_meant, lambda *_: True))
    stack.enter_context(
        replace_function(verdict, verdict._delete_or_release, lambda *_: verdict.OrphanMove.DELETE)
    )
    return stack


def forgotten_and_swept() -> Any:
    """What bears our label and is in no book goes by itself, as if it were known to be over."""

    def sweep(orphan: Any, watch: Any, now: int) -> tuple[OrphanVerdict, str]:
        stays = orphan.kind is OrphanKind.STRANGER or now - orphan.since <= WINDOW_SECONDS
        if stays or verdict._find_hold(orphan, watch, now):
            return OrphanVerdict.LEAVE, orphan.reason
        return OrphanVerdict.COLLECT, orphan.reason

    stack = ExitStack()
    stack.enter_context(_both(orphans, deletion, "judge_orphan", sweep))
    stack.enter_context(patch.object(Orphans, "list_certain", Orphans.list_known))
    return stack


def own_clock_believed() -> Any:
    """A daemon goes by its machine's clock, whatever the database's says."""

    def believing(self: AgreedClock) -> int:
        return int(self._own())

    return patch.object(AgreedClock, "__call__", believing)


@contextmanager
def _both(first: Any, second: Any, name: str, wrong: Any) -> Iterator[None]:
    with patch.object(first, name, wrong), patch.object(second, name, wrong):
        yield


BUGS: Mapping[str, Planting] = {
    bug.__name__: bug
    for bug in (
        sent_again_under_a_new_name,
        called_deleted_when_accepted,
        list_trusted_without_a_get,
        one_answer_believed,
        deletion_given_up,
        lease_not_checked,
        unanswered_create_forgotten,
        asked_before_it_was_written_down,
        end_taken_as_exact,
        name_taken_read_as_failure,
        unreachable_ignored,
        partial_pages_trusted,
        ledger_update_lost,
        ticket_forgotten,
        ticket_gone_taken_for_all_gone,
        deletion_of_a_ticket_believed,
        group_billed_as_its_first_slice,
        strangers_swept,
        forgotten_and_swept,
        own_clock_believed,
        what_came_back_is_not_asked_about,
        *MONEY_BUGS,
        *LINE_BUGS,
        *BUDGET_BUGS,
        *LIVENESS_BUGS,
        *DAEMON_BUGS,
    )
}
