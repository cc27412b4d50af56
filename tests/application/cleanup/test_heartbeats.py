"""Heartbeats hold for a while, a flood writes little, and a token is good for one node alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import event

from service.application.cleanup.flood_gate import FloodGate
from service.application.cleanup.heartbeats import (
    MOST_A_MINUTE,
    HeartbeatService,
)
from service.domain.clock import DAY
from service.domain.errors import Conflict, NotFound, RateLimited, Rejected, TokenRefused
from service.domain.idle.links import hash_of
from service.domain.idle.signals.heartbeat import PREFIX, TOKEN_SECONDS, Beat
from service.domain.nodes.node import Asked, NodeState
from service.store.links import MOST_TOKENS
from tests import factories
from tests.hands import NOON


@pytest.fixture
def service(units, clock):
    """The service, whose clock stands at noon."""
    return HeartbeatService(units, clock)


@pytest.fixture
def add(units):
    """Store a node that was placed."""

    def add(**changes):
        node = factories.sent(**({"state": NodeState.READY} | changes))
        with units() as unit:
            unit.nodes.add(node)
        return node

    return add


def stored(units, node):
    with units.reading() as unit:
        return unit.heartbeats.find_by_node(node.id)


def test_a_heartbeat_holds_for_fifteen_minutes(service, add, units):
    node = add()
    beat = service.record_beat(node.id, Beat(note="epoch 7"))
    assert (beat.at, beat.until, beat.note) == (NOON, NOON + 900, "epoch 7")
    assert stored(units, node) == beat
    with units.reading() as unit:
        assert set(unit.heartbeats.find_holding(NOON + 899)) == {node.id}
        assert unit.heartbeats.find_holding(NOON + 900) == {}


@pytest.mark.parametrize("beat", [Beat(at=NOON + 61), Beat(seconds=0), Beat(seconds=DAY + 1)])
def test_a_heartbeat_that_cannot_be_is_refused_and_not_written(service, add, units, beat):
    node = add()
    with pytest.raises(Rejected):
        service.record_beat(node.id, beat)
    assert stored(units, node) is None


def test_a_flood_writes_one_heartbeat_in_ten_seconds_and_is_told_to_wait(
    service, add, units, clock, engine
):
    node, writes = add(), []
    event.listen(
        engine,
        "before_cursor_execute",
        lambda *args: writes.append(args[2]) if args[2].startswith(("INSERT", "UPDATE")) else None,
    )
    for _ in range(MOST_A_MINUTE):
        service.record_beat(node.id, Beat())
    assert len(writes) == 1
    with pytest.raises(RateLimited) as caught:
        service.record_beat(node.id, Beat())
    assert caught.value.facts["retry_after"] == 60
    clock.pass_(60)
    assert service.record_beat(node.id, Beat()).until == NOON + 960
    assert len(writes) == 2


def test_a_flood_for_one_node_leaves_others_their_turn(service, add):
    node, other = add(), add(name="other")
    for _ in range(MOST_A_MINUTE):
        service.record_beat(node.id, Beat())
    assert service.record_beat(other.id, Beat()).node_id == other.id


def test_a_gate_counts_the_newest_minute_and_survives_a_clock_that_is_set_back():
    gate = FloodGate(2, "came")
    gate.count_call("n", NOON)
    gate.count_call("n", NOON + 30)
    with pytest.raises(RateLimited) as caught:
        gate.count_call("n", NOON + 59)
    assert caught.value.facts["retry_after"] == 1
    gate.count_call("n", NOON + 60)
    gate.count_call("n", NOON - 1_000)


@pytest.mark.concurrent
def test_many_at_once_are_one_heartbeat(service, add, units):
    node = add()
    with ThreadPoolExecutor(4) as pool:
        beats = list(pool.map(lambda _: service.record_beat(node.id, Beat()), range(8)))
    assert {beat.until for beat in beats} == {NOON + 900}
    assert stored(units, node).version == 1


@pytest.mark.parametrize(
    "changes",
    [{"asked": Asked.ABSENT}, {"state": NodeState.DELETED}, {"attempt": 0, "sent_at": None}],
)
def test_nothing_is_heard_of_a_node_that_goes_or_was_never_placed(service, add, units, changes):
    node = add(**changes)
    for ask in (lambda: service.record_beat(node.id, Beat()), lambda: service.make_token(node.id)):
        with pytest.raises(Conflict):
            ask()
    assert stored(units, node) is None
    with pytest.raises(NotFound):
        service.record_beat("nobody", Beat())
    with pytest.raises(NotFound):
        service.make_token("nobody")


def test_a_token_is_good_for_heartbeats_and_only_its_hash_is_stored(service, add, units):
    node = add()
    made = service.make_token(node.id, "ada")
    assert made.token.startswith(PREFIX)
    assert len(made.token) >= 43
    with units.reading() as unit:
        found = unit.heartbeats.find_token(hash_of(made.token))
        (told,) = [one for _, one in unit.events.list_by_node(node.id, 0, 9)]
    assert found == made.stored
    assert (told.actor, made.token in told.message) == ("ada", False)
    assert service.record_beat(node.id, Beat(), made.token).until == NOON + 900


def test_a_token_of_another_node_or_of_nobody_is_refused(service, add, units):
    node, other = add(), add(name="other")
    token = service.make_token(other.id).token
    for wrong in (token, "hb_guessed", "hb_" + "x" * 1_000):
        with pytest.raises(TokenRefused, match="not valid for heartbeats of this node"):
            service.record_beat(node.id, Beat(), wrong)
    assert stored(units, node) is None


def test_whoever_guesses_tokens_is_slowed_down_and_nobody_else(service, add):
    node = add()
    good = service.make_token(node.id).token
    for number in range(MOST_A_MINUTE):
        with pytest.raises(TokenRefused):
            service.record_beat(node.id, Beat(), f"hb_{number}")
    with pytest.raises(RateLimited):
        service.record_beat(node.id, Beat(), "hb_once more")
    assert service.record_beat(node.id, Beat(), good).until == NOON + 900


def test_a_token_ends_with_the_incarnation_of_its_node(service, add, units):
    node = add()
    token = service.make_token(node.id).token
    with units() as unit:
        before = unit.nodes.get(node.id)
        unit.nodes.save(replace(before, attempt=before.attempt + 1))
    with pytest.raises(TokenRefused, match="earlier incarnation"):
        service.record_beat(node.id, Beat(), token)


def test_a_token_expires(service, add, clock):
    node = add()
    token = service.make_token(node.id).token
    clock.pass_(TOKEN_SECONDS - 1)
    service.record_beat(node.id, Beat(), token)
    clock.pass_(1)
    with pytest.raises(TokenRefused, match="expired at 2026-12-05T12:00:00Z"):
        service.record_beat(node.id, Beat(), token)


def test_of_a_node_the_newest_twenty_tokens_are_good(service, add, clock):
    node = add()
    tokens = []
    for _ in range(MOST_TOKENS + 1):
        tokens.append(service.make_token(node.id).token)
        clock.pass_(1)
    with pytest.raises(TokenRefused):
        service.record_beat(node.id, Beat(), tokens[0])
    service.record_beat(node.id, Beat(), tokens[1])
