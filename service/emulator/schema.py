"""Google's messages with the fields that its Python classes lack, in descriptor pools of our own.

A message here and its Python class share names and wire numbers, so the bytes of both are the same.
The Python class carries the fields it lacks as unknown fields, as over the wire.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.cloud import tpu_v1, tpu_v2, tpu_v2alpha1
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2

from service.emulator.extra_fields import ENUMS, KEPT, OUTPUTS, SHOWN, V2, parse_rows

FILES: tuple[FileDescriptor, ...] = (
    tpu_v1.Node.pb().DESCRIPTOR.file,
    tpu_v2.Node.pb().DESCRIPTOR.file,
    tpu_v2alpha1.Node.pb().DESCRIPTOR.file,
    locations_pb2.DESCRIPTOR,
    operations_pb2.DESCRIPTOR,
    empty_pb2.DESCRIPTOR,
    # An error may carry these messages, and JSON must know them by name.
    error_details_pb2.DESCRIPTOR,
)
FIELD = FieldDescriptorProto
SCALARS = {"bool": FIELD.TYPE_BOOL, "int64": FIELD.TYPE_INT64, "string": FIELD.TYPE_STRING}


def to_extended(message: Message) -> Message:
    """Convert a message to the class that REST uses; a message of another API is returned as is."""
    known = extended_class(message.DESCRIPTOR.full_name)
    return message if known is None else known.FromString(message.SerializeToString())


@cache
def extended_class(full_name: str) -> Any:
    """Return the class with the fields that REST has; None for messages of other products."""
    try:
        return GetMessageClass(REST_POOL.FindMessageTypeByName(full_name))
    except KeyError:
        return None


@cache
def kept_class(name: str) -> Any:
    """Return the class of a stored v2 message, with every field; `name` is without its package."""
    return GetMessageClass(KEPT_POOL.FindMessageTypeByName(f"{V2}.{name}"))


def to_kept(message: Message) -> Any:
    """Convert a v2 message to its stored class, which has every field."""
    name = message.DESCRIPTOR.full_name.removeprefix(f"{V2}.")
    return kept_class(name).FromString(message.SerializeToString())


def drop_outputs(message: Message) -> None:
    """Clear the fields of a request that only the cloud may set."""
    for field, value in message.ListFields():
        package = message.DESCRIPTOR.file.package
        owner = message.DESCRIPTOR.full_name.removeprefix(f"{package}.")
        if (package, owner, field.name) in OUTPUTS:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for inner in value if field.is_repeated else (value,):
                drop_outputs(inner)


def _build_pool(added: dict[str, str]) -> DescriptorPool:
    """Make a pool of Google's files with the added fields; `added` is by package."""
    pool = DescriptorPool()
    done: set[str] = set()
    for file in FILES:
        _add_file(pool, file, added, done)
    return pool


def _add_file(
    pool: DescriptorPool, file: FileDescriptor, added: dict[str, str], done: set[str]
) -> None:
    if file.name in done:
        return
    done.add(file.name)
    for dependency in file.dependencies:
        _add_file(pool, dependency, added, done)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    # A package in `added` has a single file.
    for extra in parse_rows(added.get(file.package, "")):
        owner = _get_or_add_message(proto, extra.owner)
        field = owner.field.add(
            name=extra.name,
            number=extra.number,
            label=FIELD.LABEL_REPEATED if extra.repeated else FIELD.LABEL_OPTIONAL,
        )
        if extra.oneof_name:
            _get_or_add(owner.oneof_decl, extra.oneof_name)
            field.oneof_index = [oneof.name for oneof in owner.oneof_decl].index(extra.oneof_name)
        _set_type(proto, field, extra.kind)
    pool.Add(proto)


def _set_type(file: FileDescriptorProto, field: FieldDescriptorProto, kind: str) -> None:
    if kind in SCALARS:
        field.type = SCALARS[kind]
    elif kind in ENUMS:
        owner, _, name = kind.rpartition(".")
        among = _get_or_add_message(file, owner).enum_type if owner else file.enum_type
        if all(enum.name != name for enum in among):
            added = among.add(name=name)
            for number, value in enumerate(ENUMS[kind].split()):
                added.value.add(name=value, number=number)
        field.type, field.type_name = FIELD.TYPE_ENUM, f".{file.package}.{kind}"
    elif kind.startswith("google."):
        field.type, field.type_name = FIELD.TYPE_MESSAGE, f".{kind}"
    else:
        _get_or_add_message(file, kind)
        field.type, field.type_name = FIELD.TYPE_MESSAGE, f".{file.package}.{kind}"


def _get_or_add_message(file: FileDescriptorProto, path: str) -> DescriptorProto:
    """Return the message at a path in the file; an empty one is added if there is none."""
    first, *inner = path.split(".")
    message = _get_or_add(file.message_type, first)
    for name in inner:
        message = _get_or_add(message.nested_type, name)
    return message


def _get_or_add(among: Any, name: str) -> DescriptorProto:
    for message in among:
        if message.name == name:
            return message  # type: ignore[no-any-return]
    return among.add(name=name)  # type: ignore[no-any-return]


REST_POOL = _build_pool(SHOWN)
KEPT_POOL = _build_pool({V2: SHOWN[V2] + KEPT})
