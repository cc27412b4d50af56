"""Every RPC of `google.cloud.tpu.v1.Tpu`."""

from __future__ import annotations

from functools import partial

from service.emulator.api import v1
from service.emulator.api.calls.paths import (
    ACCELERATOR_TYPE,
    NODE,
    PARENT,
    TENSORFLOW_VERSION,
    describe_method,
)
from service.emulator.wire import Operation, TpuV1

_tpu = partial(describe_method, TpuV1)

TPU_V1 = (
    _tpu("ListNodes", v1.list_nodes, f"GET {PARENT}/nodes"),
    _tpu("GetNode", v1.get_node, f"GET {NODE}", response=TpuV1.Node),
    _tpu("CreateNode", v1.create_node, f"POST {PARENT}/nodes", "node", Operation),
    _tpu("DeleteNode", v1.delete_node, f"DELETE {NODE}", response=Operation),
    _tpu("ReimageNode", v1.reimage_node, f"POST {NODE}:reimage", "*", Operation),
    _tpu("StopNode", v1.stop_node, f"POST {NODE}:stop", "*", Operation),
    _tpu("StartNode", v1.start_node, f"POST {NODE}:start", "*", Operation),
    _tpu(
        "ListTensorFlowVersions",
        v1.list_tensorflow_versions,
        f"GET {PARENT}/tensorflowVersions",
    ),
    _tpu(
        "GetTensorFlowVersion",
        v1.get_tensorflow_version,
        f"GET {TENSORFLOW_VERSION}",
        response=TpuV1.TensorFlowVersion,
    ),
    _tpu("ListAcceleratorTypes", v1.list_accelerator_types, f"GET {PARENT}/acceleratorTypes"),
    _tpu(
        "GetAcceleratorType",
        v1.get_accelerator_type,
        f"GET {ACCELERATOR_TYPE}",
        response=TpuV1.AcceleratorType,
    ),
)
