"""Google's unmodified client over the channel without a socket, on a clock that is a value."""

from __future__ import annotations

import grpc
import pytest
from google.api_core import exceptions
from google.api_core.operation import from_gapic
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from tests.emulator.factories import PARENT, Cloud, name_of
from tests.simulation.run import steady_deadlines

WANTED = tpu_v2.Node(accelerator_type="v4-8", runtime_version="tpu-ubuntu2204-base")


class Hand:
    """A cloud, Google's client over a local channel to it, and the seconds the channel slept."""

    def __init__(self, **world) -> None:
        self.cloud = Cloud(**world)
        self.slept: list[float] = []
        self.channel = LocalChannel(self.cloud.world, self.sleep)
        self.client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=self.channel))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.cloud.wait(seconds)

    def create(self, node_id: str = "a"):
        return self.client.create_node(parent=PARENT, node=WANTED, node_id=node_id, timeout=10)

    def fault(self, **order) -> None:
        control.add_fault(self.cloud.world, order)


@pytest.fixture
def hand() -> Hand:
    return Hand()


def test_a_node_lives_its_life_while_no_time_passes(hand):
    operation = hand.create()
    hand.cloud.wait(20)
    assert operation.result(timeout=1).name == name_of("a")
    assert [each.name for each in hand.client.list_nodes(parent=PARENT)] == [name_of("a")]
    hand.client.stop_node(request={"name": name_of("a")})
    hand.cloud.wait(10)
    assert hand.client.get_node(name=name_of("a")).state is tpu_v2.Node.State.STOPPED
    hand.client.delete_node(name=name_of("a"))
    hand.cloud.wait(8)
    with pytest.raises(exceptions.NotFound):
        hand.client.get_node(name=name_of("a"))


def test_an_operation_is_found_again_by_its_name(hand):
    name = hand.create().operation.name
    hand.cloud.wait(20)
    found = hand.client.get_operation({"name": name})
    future = from_gapic(found, hand.client.transport.operations_client, tpu_v2.Node)
    assert future.result(timeout=1).state is tpu_v2.Node.State.READY


def test_an_error_keeps_its_class_and_its_details(hand):
    hand.fault(rpc="CreateNode", action="quota")
    with pytest.raises(exceptions.ResourceExhausted, match="Quota limit") as caught:
        hand.create()
    assert caught.value.details[0].violations[0].subject == "project:lab"


def test_a_lost_response_took_effect(hand):
    hand.fault(rpc="CreateNode", action="lose_response")
    with pytest.raises(exceptions.ServiceUnavailable):
        hand.create()
    assert hand.client.get_node(name=name_of("a")).state is tpu_v2.Node.State.CREATING


def test_a_delay_moves_the_clock_and_not_the_thread(hand):
    hand.fault(rpc="GetNode", action="delay", delay_seconds=5)
    hand.create()
    before = hand.cloud.now
    hand.client.get_node(name=name_of("a"), timeout=10)
    assert (hand.slept, hand.cloud.now - before) == ([5], 5)


def test_a_call_that_outlives_its_deadline_takes_effect_all_the_same(hand):
    hand.fault(rpc="CreateNode", action="delay", delay_seconds=60)
    with steady_deadlines(), pytest.raises(exceptions.DeadlineExceeded):
        hand.create()
    assert hand.slept == [10]
    assert hand.client.get_node(name=name_of("a")).id


def test_an_unknown_method_is_unimplemented(hand):
    call = hand.channel.unary_unary("/google.cloud.tpu.v2.Tpu/Sing", bytes, bytes)
    with pytest.raises(grpc.RpcError) as caught:
        call(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_unreadable_bytes_are_an_invalid_argument(hand):
    call = hand.channel.unary_unary("/google.cloud.tpu.v2.Tpu/GetNode", bytes, bytes)
    assert call.future(b"\xff").code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_same_seed_gives_the_same_day_to_the_byte():
    def day(seed: int) -> bytes:
        hand = Hand(seed=seed)
        hand.create("a")
        hand.create("b")
        hand.cloud.wait(30)
        hand.client.delete_node(name=name_of("a"))
        seen = hand.client.list_nodes(parent=PARENT)
        operations = hand.cloud.world.operations.list_all()
        pages = [each.SerializeToString(deterministic=True) for each in operations]
        return b"".join([tpu_v2.ListNodesResponse.serialize(seen._response), *pages])

    assert day(3) == day(3)
    assert day(3) != day(4)
