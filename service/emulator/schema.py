"""Google's messages with the fields that its Python classes lack, in descriptor pools of our own.

A message here and its Python class share names and wire numbers: the bytes of one are those of the
other, which carries what it lacks as unknown fields, as it would over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
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

from service.emulator.extra_fields import ENUMS, KEPT, OUTPUTS, SHOWN, V2, Extra, rows

FILES: tuple[FileDescriptor, ...] = (
    tpu_v1.Node.pb().DESCRIPTOR.file,
    tpu_v2.Node.pb().DESCRIPTOR.file,
    tpu_v2alpha1.Node.pb().DESCRIPTOR.file,
    locations_pb2.DESCRIPTOR,
    operations_pb2.DESCRIPTOR,
    empty_pb2.DESCRIPTOR,
    # An error may carry these, and JSON must know them by name.
    error_details_pb2.DESCRIPTOR,
)
FIELD = FieldDescriptorProto
SCALARS = {"bool": FIELD.TYPE_BOOL, "int64": FIELD.TYPE_INT64, "string": FIELD.TYPE_STRING}


def extended(message: Message) -> Message:
    """Give a message as REST reads and writes it; one that REST does not know stays as it is."""
    known = extended_class(message.DESCRIPTOR.full_name)
    return message if known is None else known.FromString(message.SerializeToString())


@cache
def extended_class(full_name: str) -> Any:
    """Give the class with the fields that REST has; None for what other products talk of."""
    try:
        return GetMessageClass(REST_POOL.FindMessageTypeByName(full_name))
    except KeyError:
        return None


@cache
def kept_class(name: str) -> Any:
    """Give a v2 message, named within its package, with everything that is ever stored in it."""
    return GetMessageClass(KEPT_POOL.FindMessageTypeByName(f"{V2}.{name}"))


def kept(message: Message) -> Any:
    """Read a v2 message with everything that is stored in it."""
    name = message.DESCRIPTOR.full_name.removeprefix(f"{V2}.")
    return kept_class(name).FromString(message.SerializeToString())


def drop_outputs(message: Message) -> None:
    """Forget what a request says in fields that only the cloud may set."""
    for field, value in message.ListFields():
        package = message.DESCRIPTOR.file.package
        owner = message.DESCRIPTOR.full_name.removeprefix(f"{package}.")
        if (package, owner, field.name) in OUTPUTS:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else (value,):
                drop_outputs(each)


def _pool(added: dict[str, str]) -> DescriptorPool:
    """Make a pool of Google's files with fields added, by package."""
    pool = DescriptorPool()
    done: set[str] = set()
    for file in FILES:
        _add(pool, file, added, done)
    return pool


def _add(pool: DescriptorPool, file: FileDescriptor, added: dict[str, str], done: set[str]) -> None:
    if file.name in done:
        return
    done.add(file.name)
    for dependency in file.dependencies:
        _add(pool, dependency, added, done)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    # Only the one file of a package that has the messages is extended.
    if file.package in added:
        _extend(proto, rows(added[file.package]))
    pool.Add(proto)


def _extend(file: FileDescriptorProto, extras: Iterable[Extra]) -> None:
    for extra in extras:
        field = _message(file, extra.owner).field.add(
            name=extra.name,
            number=extra.number,
            label=FIELD.LABEL_REPEATED if extra.repeated else FIELD.LABEL_OPTIONAL,
        )
        if extra.oneof:
            field.oneof_index = _oneof(_message(file, extra.owner), extra.oneof)
        _set_type(file, field, extra.kind)


def _set_type(file: FileDescriptorProto, field: FieldDescriptorProto, kind: str) -> None:
    if kind in SCALARS:
        field.type = SCALARS[kind]
    elif kind in ENUMS:
        _declare_enum(file, kind)
        field.type, field.type_name = FIELD.TYPE_ENUM, f".{file.package}.{kind}"
    elif kind.startswith("google."):
        field.type, field.type_name = FIELD.TYPE_MESSAGE, f".{kind}"
    else:
        _message(file, kind)
        field.type, field.type_name = FIELD.TYPE_MESSAGE, f".{file.package}.{kind}"


def _message(file: FileDescriptorProto, path: str) -> DescriptorProto:
    """Find a message by its path in the file, or put an empty one there."""
    first, *inner = path.split(".")
    message = _named(file.message_type, first)
    for name in inner:
        message = _named(message.nested_type, name)
    return message


def _named(among: Any, name: str) -> DescriptorProto:
    for each in among:
        if each.name == name:
            return each  # type: ignore[no-any-return]
    return among.add(name=name)  # type: ignore[no-any-return]


def _declare_enum(file: FileDescriptorProto, path: str) -> None:
    owner, _, name = path.rpartition(".")
    among = _message(file, owner).enum_type if owner else file.enum_type
    if all(each.name != name for each in among):
        enum = among.add(name=name)
        for number, value in enumerate(ENUMS[path].split()):
            enum.value.add(name=value, number=number)


def _oneof(message: DescriptorProto, name: str) -> int:
    names = [each.name for each in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        names.append(name)
    return names.index(name)


REST_POOL = _pool(SHOWN)
KEPT_POOL = _pool({V2: SHOWN[V2] + KEPT})
