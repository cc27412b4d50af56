"""Bugs that somebody could write tomorrow: each must make the simulation fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from service.cloud.ports import Order
from service.controllers import lifecycle as lifecycle_controller
from service.controllers import placing as placing_controller
from service.controllers.ending import Ending
from service.controllers.lifecycle import LifecycleController
from service.controllers.placing import Placing
from service.domain import lifecycle, observation
from service.domain.lease import Lease
from service.domain.lifecycle import Look, Step, labels_for, next_step
from service.domain.metering import finish
from service.domain.names import cloud_id_for
from service.domain.node import Asked, Node
from service.domain.placement import zone_for
from service.store.leases import Leases

Planting = Callable[[], Any]


def sent_again_under_a_new_name() -> Any:
    """The name of an attempt is not kept: what has no answer is asked for anew."""
    return patch.object(Placing, "send", Placing.place)


def called_deleted_when_accepted() -> Any:
    """A deletion counts as done as soon as Google takes the order."""
    delete = Ending.delete

    def early(self: Ending, node: Node, lease: Lease) -> None:
        delete(self, node, lease)
        self.close(
            self._tools.save(node, lease, lambda unit, _: unit.nodes.get(node.id)),
            lease,
            vanished=False,
        )

    return patch.object(Ending, "delete", early)


def list_trusted_without_a_get() -> Any:
    """What a list does not show does not exist."""

    def look(self: LifecycleController, node: Node) -> Look:
        if node.sent_at is None:
            return Look(None)
        shown = self._cloud.inventory(node.spec.project).sightings().get(node.place.path)
        return Look(None if shown is None else shown.decode(), None)

    return patch.object(LifecycleController, "_look", look)


def deletion_given_up() -> Any:
    """After a minute of trying, a node counts as deleted."""

    def step(node: Node, look: Look, now: int) -> Step:
        asked = node.delete_requested_at
        if node.asked is Asked.ABSENT and asked is not None and now - asked > 60:
            return Step.CLOSE
        return next_step(node, look, now)

    return patch.object(lifecycle_controller, "next_step", step)


def lease_not_checked() -> Any:
    """A daemon that slept through the end of its lease writes on."""
    return patch.object(Leases, "check", lambda *_: None)


def unanswered_create_forgotten() -> Any:
    """The end of one create is taken for the end of all that were sent under the name."""
    return _both(placing_controller, lifecycle, "may_yet_land", lambda *_: False)


def asked_before_it_was_written_down() -> Any:
    """The cloud is asked first, and the intent written when it has answered."""
    place = Placing.place

    def eager(self: Placing, node: Node, lease: Lease) -> None:
        attempt = node.attempt + 1
        wanted = replace(
            node,
            zone=zone_for(node.spec.zones, attempt),
            cloud_id=cloud_id_for(node.name, node.id, attempt),
        )
        labels = labels_for(wanted, self._tools.manners.install)
        self._tools.cloud.create(Order(wanted.place, wanted.spec, labels))
        place(self, node, lease)

    return patch.object(Placing, "place", eager)


def end_taken_as_exact() -> Any:
    """When a spot node was seen to be gone is when it went."""

    def exact(before: int, now: int, went_down: int | None) -> Any:
        _, end, evidence = finish(before, now, went_down)
        return end, end, evidence

    return patch.object(observation, "finish", exact)


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
        deletion_given_up,
        lease_not_checked,
        unanswered_create_forgotten,
        asked_before_it_was_written_down,
        end_taken_as_exact,
    )
}
