"""Every RPC of `google.cloud.tpu.v2.Tpu`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from service.emulator.api import queued, v2
from service.emulator.api.calls.paths import (
    ACCELERATOR_TYPE,
    NODE,
    PARENT,
    PLACE,
    QUEUED_RESOURCE,
    RUNTIME_VERSION,
    describe_method,
)
from service.emulator.wire import Operation, Tpu

_tpu = partial(describe_method, Tpu)

TPU_V2 = (
    replace(_tpu("ListNodes", v2.list_nodes, f"GET {PARENT}/nodes"), steady=True),
    _tpu("GetNode", v2.get_node, f"GET {NODE}", response=Tpu.Node),
    _tpu("CreateNode", v2.create_node, f"POST {PARENT}/nodes", "node", Operation),
    _tpu("DeleteNode", v2.delete_node, f"DELETE {NODE}", response=Operation),
    _tpu("StopNode", v2.stop_node, f"POST {NODE}:stop", "*", Operation),
    _tpu("StartNode", v2.start_node, f"POST {NODE}:start", "*", Operation),
    _tpu(
        "UpdateNode",
        v2.update_node,
        f"PATCH /{{node.name={PLACE}/nodes/*}}",
        "node",
        Operation,
    ),
    _tpu("ListQueuedResources", queued.list_queued_resources, f"GET {PARENT}/queuedResources"),
    _tpu(
        "GetQueuedResource",
        queued.get_queued_resource,
        f"GET {QUEUED_RESOURCE}",
        response=Tpu.QueuedResource,
    ),
    _tpu(
        "CreateQueuedResource",
        queued.create_queued_resource,
        f"POST {PARENT}/queuedResources",
        "queued_resource",
        Operation,
    ),
    _tpu(
        "DeleteQueuedResource",
        queued.delete_queued_resource,
        f"DELETE {QUEUED_RESOURCE}",
        response=Operation,
    ),
    _tpu(
        "ResetQueuedResource",
        queued.reset_queued_resource,
        f"POST {QUEUED_RESOURCE}:reset",
        "*",
        Operation,
    ),
    _tpu("GetGuestAttributes", v2.get_guest_attributes, f"POST {NODE}:getGuestAttributes", "*"),
    _tpu(
        "GenerateServiceIdentity",
        v2.generate_service_identity,
        f"POST {PARENT}:generateServiceIdentity",
        "*",
    ),
    _tpu("ListAcceleratorTypes", v2.list_accelerator_types, f"GET {PARENT}/acceleratorTypes"),
    _tpu(
        "GetAcceleratorType",
        v2.get_accelerator_type,
        f"GET {ACCELERATOR_TYPE}",
        response=Tpu.AcceleratorType,
    ),
    _tpu("ListRuntimeVersions", v2.list_runtime_versions, f"GET {PARENT}/runtimeVersions"),
    _tpu(
        "GetRuntimeVersion",
        v2.get_runtime_version,
        f"GET {RUNTIME_VERSION}",
        response=Tpu.RuntimeVersion,
    ),
)
