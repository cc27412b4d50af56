"""Whatever is done in whatever order: no impossible step, names and quota held, the bill right."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.emulator.config.config import patched_config
from service.emulator.errors import ApiError, Code
from service.emulator.limits.capacity import Kind, kind_of
from service.emulator.surfaces import control
from service.emulator.wire import Node
from service.emulator.world import lifecycle
from service.emulator.world.queue import QueuedTransition
from tests.emulator.factories import PARENT, ClientCloud, Cloud, name_of
from tests.emulator.queued_resources import order, queued_name, remove, renew, spec, submit

pytestmark = pytest.mark.deep

ZONE = "us-central2-b"
POSSIBLE = {
    "": {"CREATING"},
    "CREATING": {"READY", "DELETING", "PREEMPTED", "TERMINATED", ""},
    "READY": {"STOPPING", "REPAIRING", "RESTARTING", "PREEMPTED", "TERMINATED", "DELETING"},
    "STOPPING": {"STOPPED", "READY", "DELETING"},
    "STOPPED": {"STARTING", "DELETING"},
    "STARTING": {"READY", "STOPPED", "DELETING"},
    "REPAIRING": {"READY", "TERMINATED", "DELETING"},
    "RESTARTING": {"READY", "UNKNOWN", "TERMINATED", "DELETING"},
    "UNKNOWN": {"DELETING"},
    "PREEMPTED": {"DELETING"},
    "TERMINATED": {"DELETING"},
    "DELETING": {""},
}
# A deletion that fails leaves a node as it was.
POSSIBLE["DELETING"] |= {state for state in POSSIBLE if state} - {"DELETING"}
AT_REST = {"READY", "STOPPED", "PREEMPTED", "TERMINATED", "UNKNOWN"}
QUEUED_POSSIBLE = {
    "": {"CREATING"},
    "CREATING": {"ACCEPTED", "FAILED"},
    "ACCEPTED": {"WAITING_FOR_RESOURCES", "FAILED", "DELETING"},
    "WAITING_FOR_RESOURCES": {"PROVISIONING", "FAILED", "DELETING"},
    "PROVISIONING": {"ACTIVE", "FAILED", "SUSPENDING"},
    "ACTIVE": {"SUSPENDING", "DELETING"},
    "SUSPENDING": {"SUSPENDED", "WAITING_FOR_RESOURCES"},
    "SUSPENDED": {"SUSPENDING", "DELETING"},
    "FAILED": {"SUSPENDING", "DELETING"},
    "DELETING": {""},
}
WITHOUT_NODES = {"CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES"}
LOST = {"PREEMPTED", "TERMINATED"}
EXPECTED = {Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION, Code.ABORTED}
EXPECTED |= {Code.INVALID_ARGUMENT, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED}
# What waits for its time even when all is hurried.
FATES = {"examine", "expire"}

IDS = st.sampled_from(["a", "b", "s-0", "s-1"])
QUEUED_IDS = st.sampled_from(["q", "r"])
SPECS = {"one": [spec("b")], "slices": [spec("s", count=2)], "both": [spec("a"), spec("b")]}
TIERS: dict[str, dict[str, Any]] = {"none": {}, "spot": {"spot": {}}}
EXPIRIES = st.sampled_from([0, 0, 0, 2, 4, 40])
WAITS = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 8.0, 20.0, 60.0]),
    st.floats(0, 90, allow_nan=False, allow_infinity=False),
)
FAULTS = [
    ("CreateNode", "stockout"),
    ("CreateNode", "lose_response"),
    ("DeleteNode", "fail_operation"),
    ("StopNode", "fail_operation"),
    ("StartNode", "fail_operation"),
    ("CreateQueuedResource", "stockout"),
    ("CreateQueuedResource", "lose_response"),
    ("CreateQueuedResource", "fail_provisioning"),
    ("CreateQueuedResource", "fail_operation"),
    ("DeleteQueuedResource", "fail_operation"),
    ("DeleteQueuedResource", "slow_operation"),
]
LIMITS = st.dictionaries(
    st.sampled_from([f"{ZONE}/v4", f"{ZONE}/v4/spot"]), st.sampled_from([0, 4, 8]), max_size=2
)
CALLS = ["DeleteNode", "StopNode", "StartNode"]
STEPS = st.one_of(
    st.tuples(st.just("create"), IDS, st.sampled_from(["v4-8", "v4-16"]), st.booleans()),
    st.tuples(st.sampled_from([*CALLS, "update", "preempt", "maintain"]), IDS),
    st.tuples(st.just("break"), IDS, st.booleans()),
    st.tuples(
        st.just("submit"), QUEUED_IDS, st.sampled_from(list(SPECS)), st.sampled_from(list(TIERS)),
        EXPIRIES,
    ),
    st.tuples(st.just("remove"), QUEUED_IDS, st.booleans()),
    st.tuples(st.just("reset"), QUEUED_IDS),
    st.tuples(st.just("fault"), st.sampled_from(FAULTS), st.sampled_from([0, 50])),
    st.tuples(st.sampled_from(["capacity", "quotas"]), LIMITS),
    st.tuples(st.just("wait"), WAITS),
    st.tuples(st.just("settle")),
)  # fmt: skip


def call(cloud: Cloud, rpc: str, node_id: str) -> None:
    cloud.ask(rpc, name=name_of(node_id))


def take(cloud: Cloud, step: tuple[Any, ...]) -> None:  # noqa: C901, PLR0912 - one case for each kind of step
    match step:
        case ("create", node_id, kind, spot):
            cloud.create(node_id, accelerator_type=kind, scheduling_config={"spot": spot})
        case ("update", node_id):
            wanted = Node(name=name_of(node_id), description="new")
            cloud.ask("UpdateNode", node=wanted, update_mask={"paths": ["description"]})
        case ("preempt", node_id):
            control.preempt_node(cloud.world, {"name": name_of(node_id)})
        case ("maintain", node_id):
            control.maintain_node(cloud.world, {"name": name_of(node_id)})
        case ("break", node_id, recovers):
            node = cloud.world.get_node(name_of(node_id))
            lifecycle.break_host(cloud.world, node, cloud.world.run_due_events(), recovers=recovers)
        case ("submit", queued_id, specs, tier, expiry):
            policy = {"valid_until_duration": {"seconds": expiry}} if expiry else {}
            submit(cloud, queued_id, *SPECS[specs], queueing_policy=policy, **TIERS[tier])
        case ("remove", queued_id, force):
            remove(cloud, queued_id, force=force)
        case ("reset", queued_id):
            renew(cloud, queued_id)
        case ("fault", (rpc, action), seconds):
            order(cloud, rpc, action, delay_seconds=seconds)
        case ("wait", seconds):
            cloud.wait(seconds)
        case ("settle",):
            control.settle_world(cloud.world)
        case ("capacity" | "quotas" as key, limits):
            control.change_config(cloud.world, {key: limits})
        case _:
            call(cloud, *step)


def no_look(cloud: Cloud) -> None:
    """Look at nothing."""


def live(steps: list[tuple[Any, ...]], look=no_look) -> Cloud:
    """Live through the steps, told by Google's own client, and look at the world after each."""
    cloud = ClientCloud()
    for step in steps:
        try:
            take(cloud, step)
        except ApiError as error:
            assert error.code in EXPECTED, error  # noqa: PT017 - any of several is good
        cloud.world.run_due_events()
        look(cloud)
    return cloud


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_node_takes_an_impossible_step(steps):
    last: dict[int, str] = defaultdict(str)
    for transition in live(steps).history:
        assert transition.before == last[transition.uid]
        assert transition.after in POSSIBLE[transition.before], transition
        last[transition.uid] = transition.after


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_queued_resource_takes_an_impossible_step(steps):
    story: list[QueuedTransition] = []
    last: dict[str, str] = defaultdict(str)

    def look(cloud: Cloud) -> None:
        if story.append not in cloud.world.queue.observers:
            cloud.world.queue.observers.append(story.append)

    live([("settle",), *steps], look)
    for transition in story:
        assert transition.before == last[transition.name]
        assert transition.after in QUEUED_POSSIBLE[transition.before], transition
        last[transition.name] = transition.after


def nodes_fit_their_queued_resource(cloud: Cloud) -> None:
    """Look at every queued resource: what it shows, and which nodes it has."""
    for record in cloud.world.queue.records.values():
        found = [cloud.world.nodes.get(each.name) for each in record.slices]
        states = {node.state for node in found if node and node.queued_resource == record.name}
        if record.state in WITHOUT_NODES:
            assert not states
        if record.state == "ACTIVE":
            assert all(found)
            assert not states & (LOST | {"CREATING", "DELETING"})
            ready = {each.name for each in cloud.history if each.after == "READY"}
            assert {each.name for each in record.slices} <= ready
        if record.state in {"SUSPENDED", "FAILED"}:
            assert states <= LOST | {"DELETING"}


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_a_queued_resource_has_the_nodes_that_its_state_promises(steps):
    live(steps, nodes_fit_their_queued_resource)


def what_is_listed_is_what_there_is(cloud: Cloud) -> None:
    """Ask for a list that may be kept from the step before, and for one that is not."""
    kept = cloud.ask("ListNodes", parent=PARENT)
    cloud.world.clear_cache()
    assert cloud.ask("ListNodes", parent=PARENT) == kept
    shown = {each.name: each.state for each in kept.nodes}
    assert shown == {name: node.message.state for name, node in cloud.world.nodes.items()}


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_a_list_that_is_kept_is_never_out_of_date(steps):
    live(steps, what_is_listed_is_what_there_is)


def names_and_quota_are_held(cloud: Cloud) -> None:
    """Hold against each other what is listed and what the world says is taken."""
    world = cloud.world
    held: Counter[Kind] = Counter()
    for record in world.queue.records.values():
        held += record.demand
        for each in record.slices:
            assert world.queue.claims[each.name] == record.name
    assert set(world.queue.claims.values()) <= set(world.queue.records)
    used: Counter[Kind] = Counter()
    for node in world.nodes.values():
        kind = kind_of(node)
        used[kind] += node.accelerator.chips * node.holds_hardware
        if world.queue.claims.get(node.name) is None:
            held[kind] += node.accelerator.chips
    for model in ("on_demand", "spot"):
        kind, key = Kind(ZONE, "v4", model), f"{ZONE}/v4/{model}"
        enough, short = {key: held[kind] + 1}, {key: held[kind]}
        assert world.holdings.find_refusal(enough, "lab", {kind: 1}) is None
        assert world.holdings.find_refusal(short, "lab", {kind: 1}) is not None
        for spare in (0, 1):
            config = patched_config(world.config, {"capacity": {key: used[kind] + spare}})
            assert world.hardware.has_room(config, {kind: 1}, cloud.now) is bool(spare)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_names_and_quota_are_held_as_long_as_what_holds_them_is_listed(steps):
    live(steps, names_and_quota_are_held)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=30), QUEUED_IDS)
def test_what_a_queued_resource_holds_nobody_else_gets(steps, queued_id):
    cloud = live(steps)
    control.change_config(cloud.world, {"quotas": {}})
    record = cloud.world.queue.records.get(queued_name(queued_id))
    wanted = [each.name for each in record.slices] if record else []
    for name in wanted:
        try:
            cloud.create(name.rpartition("/")[2], PARENT)
        except ApiError as error:
            assert error.code is Code.ALREADY_EXISTS  # noqa: PT017 - the one that is good
        else:
            raise AssertionError(name)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_the_bill_is_the_sum_of_the_ready_seconds(steps):
    cloud = live(steps)
    ready: dict[int, int] = defaultdict(int)
    spared = set()
    for transition in cloud.history:
        second = math.floor(transition.at)
        if transition.after == "READY":
            ready[transition.uid] -= second
        if transition.before == "READY":
            ready[transition.uid] += second
        if transition.after == "PREEMPTED" and second - math.floor(transition.created) < 60:
            spared.add(transition.uid)
    for record in cloud.world.nodes.values():
        if record.state == "READY":
            ready[record.message.id] += math.floor(cloud.now)
    billed: dict[int, int] = defaultdict(int)
    for entry in cloud.bill():
        billed[entry["uid"]] += entry["seconds"]
    assert billed == {uid: 0 if uid in spared else seconds for uid, seconds in ready.items()}


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_every_operation_comes_to_an_end(steps):
    cloud = live(steps)
    control.settle_world(cloud.world)
    shown = control.describe_state(cloud.world)
    assert {each["what"] for each in shown["pending"]} <= FATES
    assert all(each["done"] for each in shown["operations"])
    assert all("response" in each or "error" in each for each in shown["operations"])


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_every_node_comes_to_rest(steps):
    cloud = live(steps)
    control.settle_world(cloud.world)
    assert {node.state for node in cloud.world.nodes.values()} <= AT_REST


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_what_is_queued_comes_to_rest_when_there_is_hardware(steps):
    cloud = live(steps)
    control.change_config(cloud.world, {"capacity": {}})
    cloud.wait(1_000_000)
    at_rest = {"ACTIVE", "FAILED", "SUSPENDED"}
    for record in cloud.world.queue.records.values():
        waits_for_ever = record.stocked_out_until == math.inf
        assert record.state in at_rest or waits_for_ever


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=30), st.lists(WAITS, min_size=1, max_size=5))
def test_the_bill_of_neighbouring_windows_adds_up(steps, widths):
    cloud = live(steps)
    cuts = [cloud.now - 100]
    for width in widths:
        cuts.append(cuts[-1] + width)
    parts = sum(
        entry["seconds"]
        for low, high in pairwise(cuts)
        for entry in cloud.world.bill.list_entries(cloud.now, low, high)
    )
    whole = sum(
        entry["seconds"] for entry in cloud.world.bill.list_entries(cloud.now, cuts[0], cuts[-1])
    )
    assert parts == whole
