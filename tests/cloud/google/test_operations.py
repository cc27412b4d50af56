"""A long-running operation is read without waiting for it."""

from __future__ import annotations

import pytest
from google.cloud import tpu_v1, tpu_v2alpha1
from google.longrunning import operations_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import status_pb2

from service.cloud.google.operations import from_message, has_begun
from service.cloud.ports import Operation
from service.domain.errors import CapacityUnavailable, CloudUnavailable
from tests.cloud.google import given
from tests.cloud.google.given import CREATED_AT, OPERATION, PLACE


def test_an_open_operation():
    assert from_message(given.operation("create")) == Operation(
        name=OPERATION, verb="create", target=PLACE.path, created_at=CREATED_AT
    )


def test_one_that_has_ended_well():
    operation = from_message(given.operation("delete", ended_at=CREATED_AT + 90))
    assert (operation.verb, operation.done, operation.ended_at, operation.error) == (
        "delete",
        True,
        CREATED_AT + 90,
        None,
    )


def test_one_that_found_no_hardware():
    status = status_pb2.Status(code=8, message='There is no more capacity in the zone "x"')
    operation = from_message(given.operation(ended_at=CREATED_AT + 5, error=status))
    assert operation.done
    assert isinstance(operation.error, CapacityUnavailable)
    assert str(operation.error) == 'There is no more capacity in the zone "x"'


@pytest.mark.parametrize("version", [tpu_v1, tpu_v2alpha1])
def test_operations_that_others_began_through_other_versions_are_read_too(version):
    about = version.OperationMetadata.pb()(
        verb="delete", target=PLACE.path, create_time={"seconds": CREATED_AT}
    )
    assert from_message(given.operation(metadata=about)).verb == "delete"


@pytest.mark.parametrize(
    "metadata",
    [
        AnyMessage(),
        AnyMessage(type_url="type.googleapis.com/google.protobuf.Empty"),
        AnyMessage(type_url="x/google.cloud.tpu.v2.OperationMetadata", value=b"\xff\xff"),
        AnyMessage(type_url="x/google.cloud.tpu.v2.OperationMetadata", value=b""),
    ],
    ids=["none", "foreign", "garbled", "empty"],
)
def test_one_that_does_not_say_when_it_began_is_no_answer(metadata):
    operation = operations_pb2.Operation(name=OPERATION, metadata=metadata)
    assert not has_begun(operation)
    with pytest.raises(CloudUnavailable, match="began"):
        from_message(operation)
