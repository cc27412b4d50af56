"""The calls of `google.cloud.tpu.v2alpha1.Tpu`: those of v2, converted, and its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from service.emulator.api import reservations, v2
from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page
from service.emulator.api.offers import known_place
from service.emulator.api.translate import to_v2, to_v2alpha1
from service.emulator.names import child_of, place_of
from service.emulator.nodes.guest_attributes import check_worker
from service.emulator.schema import to_kept
from service.emulator.wire import Node, NodeMessage, TpuV2Alpha1, copy_message
from service.emulator.world import lifecycle
from service.emulator.world.maintenance import require_startable
from service.emulator.world.operations import Voice

Answer = Callable[[Call], NodeMessage]
VOICE = Voice("v2alpha1", TpuV2Alpha1.OperationMetadata, to_v2alpha1)
SPOT, RESERVATION_BOUND = 2, 3
"""Numbers of `SchedulingConfig.ProvisioningModel`."""


def with_operations(answer: Answer) -> Answer:
    """Return the answer function, with its operations shown in v2alpha1."""

    def answer_in_v2alpha1(call: Call) -> NodeMessage:
        with call.world.operations.using_voice(VOICE):
            return answer(call)

    return answer_in_v2alpha1


def as_in_v2(answer: Answer) -> Answer:
    """Return an answer function of v2 with its request and response in v2alpha1."""

    def answer_translated(call: Call) -> NodeMessage:
        return to_v2alpha1(answer(replace(call, request=to_v2(call.request))))

    return with_operations(answer_translated)


def create_node(call: Call) -> NodeMessage:
    """Create once for each request id; the node shows the version that created it."""
    request = call.request
    place = place_of(request.parent)

    def create_in_v2() -> NodeMessage:
        asked = to_v2(request)
        # Only REST can name a provisioning model; a flag of v2 has the same meaning.
        model = to_kept(asked.node).scheduling_config.provisioning_model
        flag = {SPOT: "spot", RESERVATION_BOUND: "reserved"}.get(model)
        if flag is not None:
            setattr(asked.node.scheduling_config, flag, True)
        operation = v2.create_node(replace(call, request=asked))
        record = call.world.nodes[place.child_name("nodes", request.node_id)]
        record.message.api_version = Node.ApiVersion.V2_ALPHA1
        return operation

    return _run_once(call, place.project, create_in_v2)


def delete_node(call: Call) -> NodeMessage:
    place, _ = child_of(call.request.name, "nodes")
    return _run_once(call, place.project, lambda: v2.delete_node(call))


def simulate_maintenance_event(call: Call) -> NodeMessage:
    """Start a maintenance event of the node; a given worker must exist."""
    record = v2.record_of(call)
    for worker in dict.fromkeys(call.request.worker_ids):
        check_worker(record, worker)
    verb = "simulateMaintenanceEvent"
    return copy_message(
        lifecycle.maintain_on_request(call.world, record, call.now, verb, call.effects)
    )


def perform_maintenance(call: Call) -> NodeMessage:
    """Start an announced maintenance before its window."""
    record = v2.record_of(call)
    require_startable(record)
    verb = "performMaintenance"
    return copy_message(
        lifecycle.maintain_on_request(call.world, record, call.now, verb, call.effects)
    )


def list_reservations(call: Call) -> NodeMessage:
    request = call.request
    place = known_place(request.parent)
    found = reservations.list_reservations(call.world, place, call.now)
    of = f"reservations of {request.parent}"
    shown, token = cut_page(
        found, lambda reservation: str(reservation.name), of, request.page_size, request.page_token
    )
    return TpuV2Alpha1.ListReservationsResponse(reservations=shown, next_page_token=token)


def _run_once(call: Call, project: str, act: Callable[[], NodeMessage]) -> NodeMessage:
    """Call `act` for the first request with an id; a repeated one gets the same operation.

    Raises ApiError.
    """
    requests = call.world.requests
    done = requests.find_repeated(project, call.request, call.now)
    if done is not None:
        return copy_message(done)
    operation = call.world.operations.get(act().name)
    requests.remember_operation(project, call.request, operation, call.now)
    return copy_message(operation)
