"""Every RPC of `google.cloud.tpu.v2alpha1.Tpu`: those of v2, some with more fields, and its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from service.emulator.api import queued_v2alpha1, v2alpha1
from service.emulator.api.calls.dispatch import Method
from service.emulator.api.calls.paths import NODE, PARENT, QUEUED_RESOURCE, describe_method
from service.emulator.api.methods_v2 import TPU_V2
from service.emulator.extra_fields import V2ALPHA1
from service.emulator.schema import extended_class
from service.emulator.wire import Operation, TpuV2Alpha1

_tpu = partial(describe_method, TpuV2Alpha1)

# The calls that v2alpha1 answers differently; the others are those of v2.
DIFFERENT = {
    "CreateNode": v2alpha1.with_operations(v2alpha1.create_node),
    "DeleteNode": v2alpha1.with_operations(v2alpha1.delete_node),
    "CreateQueuedResource": v2alpha1.with_operations(queued_v2alpha1.create_queued_resource),
}


TPU_V2ALPHA1 = (
    # The calls of v2: the same paths, and messages of the same names.
    *(
        replace(
            method,
            request=getattr(TpuV2Alpha1, method.request.DESCRIPTOR.name),
            response=Operation
            if method.response is Operation
            else getattr(TpuV2Alpha1, method.response.DESCRIPTOR.name),
            answer=DIFFERENT.get(method.name) or v2alpha1.as_in_v2(method.answer),
        )
        for method in TPU_V2
    ),
    _tpu(
        "SimulateMaintenanceEvent",
        v2alpha1.with_operations(v2alpha1.simulate_maintenance_event),
        f"POST {NODE}:simulateMaintenanceEvent",
        "*",
        Operation,
    ),
    _tpu(
        "PerformMaintenance",
        v2alpha1.with_operations(v2alpha1.perform_maintenance),
        f"POST {NODE}:performMaintenance",
        "*",
        Operation,
    ),
    _tpu(
        "PerformMaintenanceQueuedResource",
        v2alpha1.with_operations(queued_v2alpha1.perform_maintenance_queued_resource),
        f"POST {QUEUED_RESOURCE}:performMaintenanceQueuedResource",
        "*",
        Operation,
    ),
    _tpu("ListReservations", v2alpha1.list_reservations, f"GET {PARENT}/reservations"),
    # The Python client lacks this call; only the REST API has it.
    Method(
        "GetMaintenanceInfo",
        extended_class(f"{V2ALPHA1}.GetMaintenanceInfoRequest"),
        extended_class(f"{V2ALPHA1}.GetMaintenanceInfoResponse"),
        queued_v2alpha1.get_maintenance_info,
        "GET",
        f"{QUEUED_RESOURCE}:getMaintenanceInfo",
    ),
)
