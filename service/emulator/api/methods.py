"""Every RPC of the emulated API, by service: the one table that all surfaces are built from."""

from __future__ import annotations

from typing import Any

from service.emulator.api import mixins, v2
from service.emulator.api.call import Method, Service
from service.emulator.wire import Empty, Operation, Tpu, locations_pb2, operations_pb2

PLACE = "projects/*/locations/*"
PARENT = f"/{{parent={PLACE}}}"
NODE = f"/{{name={PLACE}/nodes/*}}"
OPERATION = f"/{{name={PLACE}/operations/*}}"
ACCELERATOR_TYPE = f"/{{name={PLACE}/acceleratorTypes/*}}"
RUNTIME_VERSION = f"/{{name={PLACE}/runtimeVersions/*}}"


def _tpu(name: str, answer: Any, http: str, body: str = "", response: Any = None) -> Method:
    """Describe a call of the Tpu service, whose messages are named after it."""
    verb, path = http.split(" ", 1)
    return Method(
        name,
        getattr(Tpu, f"{name}Request"),
        response or getattr(Tpu, f"{name}Response"),
        answer,
        verb,
        path,
        body,
    )


TPU_V2 = (
    _tpu("ListNodes", v2.list_nodes, f"GET {PARENT}/nodes"),
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

OPERATIONS = (
    Method(
        "ListOperations",
        operations_pb2.ListOperationsRequest,
        operations_pb2.ListOperationsResponse,
        mixins.list_operations,
        "GET",
        f"/{{name={PLACE}}}/operations",
    ),
    Method(
        "GetOperation",
        operations_pb2.GetOperationRequest,
        Operation,
        mixins.get_operation,
        "GET",
        OPERATION,
    ),
    Method(
        "DeleteOperation",
        operations_pb2.DeleteOperationRequest,
        Empty,
        mixins.delete_operation,
        "DELETE",
        OPERATION,
    ),
    Method(
        "CancelOperation",
        operations_pb2.CancelOperationRequest,
        Empty,
        mixins.cancel_operation,
        "POST",
        f"{OPERATION}:cancel",
        "*",
    ),
)

LOCATIONS = (
    Method(
        "ListLocations",
        locations_pb2.ListLocationsRequest,
        locations_pb2.ListLocationsResponse,
        mixins.list_locations,
        "GET",
        "/{name=projects/*}/locations",
    ),
    Method(
        "GetLocation",
        locations_pb2.GetLocationRequest,
        locations_pb2.Location,
        mixins.get_location,
        "GET",
        f"/{{name={PLACE}}}",
    ),
)

# The shared services answer under every version of the REST API; gcloud asks for them under v1.
SERVICES = (
    Service("google.cloud.tpu.v2.Tpu", ("v2",), TPU_V2),
    Service("google.longrunning.Operations", ("v1", "v2"), OPERATIONS),
    Service("google.cloud.location.Locations", ("v1", "v2"), LOCATIONS),
)

RPCS = tuple(method.name for service in SERVICES for method in service.methods)
