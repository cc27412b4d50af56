"""What befell a node that is lost, in a sentence that says what happened."""

from __future__ import annotations

import pytest

from service.domain.errors import CapacityUnavailable
from service.domain.lifecycle.loss import describe_loss
from service.domain.lifecycle.step import NodeLook
from tests import factories
from tests.factories import ZONE
from tests.garbage import cloud_node, ticket

UP = cloud_node()
TAKEN = cloud_node(state="PREEMPTED")
OVER = cloud_node(state="TERMINATED")
SUSPENDED = "its queued resource in us-west4-a was suspended"
MISSING = "no longer there in us-west4-a"
NO_ROOM = CapacityUnavailable("no capacity")


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (NodeLook(TAKEN), "it was preempted in us-west4-a"),
        (NodeLook(OVER), "it was terminated in us-west4-a"),
        (
            NodeLook(None, queue=ticket(state="SUSPENDED", initiator="SERVICE")),
            f"{SUSPENDED}: Google reclaimed its nodes",
        ),
        (
            NodeLook(TAKEN, queue=ticket(state="SUSPENDING")),
            f"{SUSPENDED}: Google reclaimed its nodes",
        ),
        (
            NodeLook(None, queue=ticket(state="SUSPENDED", initiator="USER")),
            f"{SUSPENDED}: it was deleted or reset outside this service",
        ),
        (
            NodeLook(None, queue=ticket(state="FAILED", error=NO_ROOM)),
            "its queued resource in us-west4-a failed: no capacity",
        ),
        (
            NodeLook(None, queue=ticket(state="ACTIVE")),
            "its node is no longer there in us-west4-a, though its queued resource still is",
        ),
        (
            NodeLook(UP, operation=factories.operation("create", done=True, error=NO_ROOM)),
            "it failed in us-west4-a: no capacity",
        ),
        (
            NodeLook(None, queue=ticket(state="ACTIVE"), slices=(UP, TAKEN)),
            "slice 1 of 2 was preempted in us-west4-a",
        ),
        (
            NodeLook(None, slices=(TAKEN, None, TAKEN, UP)),
            f"slices 0 and 2 of 4 were preempted, and slice 1 of 4 was {MISSING}",
        ),
        (
            NodeLook(None, slices=(OVER,) * 8),
            "slices 0, 1, 2, 3, 4 and 3 more of 8 were terminated in us-west4-a",
        ),
    ],
)
def test_what_happened_is_said_and_not_what_it_is_called_now(look, said):
    assert describe_loss(look, ZONE) == said
