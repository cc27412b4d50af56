"""What arrives twice, late or in another order comes to the same ledger."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR
from service.domain.evidence.observation import observe_node
from service.domain.evidence.poll import Poll
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import start_usage, with_end
from service.domain.nodes.node import NodeState
from tests import factories
from tests.domain.account import Account
from tests.domain.drawn import BOOKS, moderate
from tests.hands import NOON

CREATING, READY, DELETING = NodeState.CREATING, NodeState.READY, NodeState.DELETING
LATER = NOON + 30 * DAY

LIVES = st.tuples(st.integers(1, 2 * HOUR), st.integers(1, 9 * HOUR))
"""Seconds until it is up, and for how long it is."""

LOOKS = st.lists(
    st.tuples(st.integers(0, 12 * HOUR), st.integers(1, 3), st.booleans()), max_size=15
)
"""When somebody looked, how often that look arrives, and whether a stale picture comes after it."""


class Onlooker:
    """Believes what arrives, as the controllers do, and posts what follows from it."""

    def __init__(self, book):
        self.book, self.account = book, Account()
        self.node, self.running = factories.sent(), None
        self.usages = {}

    def sees(self, state, now, record):
        poll = Poll(now, self.node.seen_at, record)
        belief = observe_node(
            self.node, factories.sight(self.node, state=state), self.running, poll
        )
        self.node = belief.node
        if belief.usage is not None:
            self.usages[belief.usage.id] = belief.usage
            self.running = None if belief.usage.end is not None else belief.usage
        for usage in self.usages.values():
            self.account.post(usage, self.book, now)


def sums(account):
    """What the ledger says of each hour at each price."""
    return sorted((slot, *figures) for slot, figures in account.sums().items())


@moderate
@given(LIVES, LOOKS, BOOKS, st.randoms(use_true_random=False))
def test_looks_twice_stale_repeats_and_records_in_any_order_come_to_the_same_ledger(
    life, looks, book, luck
):
    """The cloud keeps a record of both instants, and may list it in any order and each twice. What
    lags shows it CREATING after it was seen up: that is what a stale answer of the cloud is."""
    up, down = NOON + life[0], NOON + life[0] + life[1]
    came_up = factories.operation("create", done=True, ended_at=up)
    went_down = factories.operation("delete", created_at=down)
    one = Onlooker(book)
    arriving = sorted((NOON + at, times, stale) for at, times, stale in looks)
    for now, times, stale in [*arriving, (down + DAY, 2, True)]:
        record = [came_up] * 2 * (now >= up) + [went_down] * 2 * (now >= down)
        luck.shuffle(record)
        state = CREATING if now < up else READY if now < down else DELETING
        for _ in range(times):
            one.sees(state, now, record)
        if stale and one.node.up_since is not None:
            one.sees(CREATING, now, [came_up] * (now >= up))
    whole = start_usage(factories.sent(), up, up, Evidence.OPERATION)
    at_once = Account()
    at_once.post(with_end(whole, down, down, Evidence.OPERATION), book, LATER)
    assert sums(one.account) == sums(at_once)
    (usage,) = one.usages.values()
    assert usage == replace(
        with_end(whole, down, down, Evidence.OPERATION), id=usage.id, node_id=usage.node_id
    )
