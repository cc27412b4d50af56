"""Every RPC of the emulated API, by service: the table from which all surfaces are built."""

from __future__ import annotations

from service.emulator.api import mixins
from service.emulator.api.calls.dispatch import Method, Service
from service.emulator.api.calls.paths import OPERATION, PLACE
from service.emulator.api.methods_v1 import TPU_V1
from service.emulator.api.methods_v2 import TPU_V2
from service.emulator.api.methods_v2alpha1 import TPU_V2ALPHA1
from service.emulator.api.products import PRODUCTS
from service.emulator.wire import Empty, Operation, locations_pb2, operations_pb2

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

# Every version of the REST API has the shared services; gcloud calls them under v1.
VERSIONS = ("v1", "v2", "v2alpha1")
SERVICES = (
    Service("google.cloud.tpu.v2.Tpu", ("v2",), TPU_V2),
    Service("google.cloud.tpu.v2alpha1.Tpu", ("v2alpha1",), TPU_V2ALPHA1),
    Service("google.cloud.tpu.v1.Tpu", ("v1",), TPU_V1),
    Service("google.longrunning.Operations", VERSIONS, OPERATIONS),
    Service("google.cloud.location.Locations", VERSIONS, LOCATIONS),
    *PRODUCTS,
)

# For faults, a call that several versions have is one call.
RPCS = tuple(dict.fromkeys(method.name for service in SERVICES for method in service.methods))
