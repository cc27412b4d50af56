"""What the states of a queued resource mean to whoever waits."""

from __future__ import annotations

import pytest

from service.domain.nodes.queued_resource import QueueState, describe_state


@pytest.mark.parametrize("state", list(QueueState))
def test_every_state_has_a_meaning_that_ends_a_sentence(state):
    said = describe_state(state)
    assert said
    assert said[-1] not in ".:;,"


def test_a_state_that_google_adds_tomorrow_has_none():
    assert describe_state("DREAMING") == ""
