"""Conversion of messages from one version of the API to another, field by field, by name.

The wire numbers of the versions differ: bytes of one must never be read as another. Stored messages
are always v2, with additional fields for the other versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from service.emulator.extra_fields import V2, V2ALPHA1
from service.emulator.schema import drop_outputs, extended_class, kept_class, to_extended, to_kept
from service.emulator.wire import NodeMessage, Tpu, TpuV2Alpha1

Step = Callable[[Any, NodeMessage], None]
"""Puts the value of a field into a message."""

# The same field under two names, as v2 and v2alpha1 have it.
RENAMED = {
    "multi_node_params": "multislice_params",
    "multislice_params": "multi_node_params",
}
# By enum value: the value to use in a version that lacks it.
NEAREST = {"V2": "V2_ALPHA1"}


def copy_fields(source: NodeMessage, target: NodeMessage) -> None:
    """Copy the set fields that the target has with the same name and shape."""
    steps = _plan_steps(source.DESCRIPTOR, target.DESCRIPTOR)
    for field, value in source.ListFields():
        step = steps.get(field.name)
        if step is not None:
            step(value, target)


def to_v2(request: NodeMessage) -> Any:
    """Convert a v2alpha1 request to the v2 message of the same name, without output fields."""
    name = _local_name(request, V2ALPHA1)
    stored = kept_class(name)()
    copy_fields(to_extended(request), stored)
    drop_outputs(stored)
    return getattr(Tpu, name).FromString(stored.SerializeToString())


def to_v2alpha1(message: NodeMessage) -> Any:
    """Convert a v2 message to v2alpha1; a message of the shared services is returned as is."""
    name = _local_name(message, V2)
    if not name:
        return message
    raw = getattr(TpuV2Alpha1, name)
    shown = extended_class(raw.DESCRIPTOR.full_name)()
    copy_fields(to_kept(message), shown)
    return raw.FromString(shown.SerializeToString())


def _local_name(message: NodeMessage, package: str) -> str:
    """Return a message's name within a package; empty if the message is of another package."""
    package_of, _, name = message.DESCRIPTOR.full_name.rpartition(".")
    return name if package_of == package else ""


@cache
def _plan_steps(source: Descriptor, target: Descriptor) -> Mapping[str, Step]:
    """Return, by field of the source, the step that copies it; cached for each pair of messages."""
    known = target.fields_by_name
    steps = {}
    for field in source.fields:
        twin = known.get(field.name) or known.get(RENAMED.get(field.name, ""))
        if twin is not None and _shape_of(field) == _shape_of(twin):
            steps[field.name] = _build_step(field, twin)
    return steps


def _shape_of(field: FieldDescriptor) -> tuple[bool, bool]:
    return field.message_type is None, bool(field.is_repeated)


def _build_step(field: FieldDescriptor, twin: FieldDescriptor) -> Step:
    name = twin.name
    if field.message_type is None:
        if field.is_repeated:
            return lambda value, target: getattr(target, name).extend(value)
        if field.enum_type is None or twin.enum_type is None:
            return lambda value, target: setattr(target, name, value)
        same = _same_values(field.enum_type, twin.enum_type)
        return lambda value, target: setattr(target, name, same.get(value, value))
    if field.message_type.GetOptions().map_entry:
        return lambda value, target: getattr(target, name).update(value)

    def copy_one(value: Any, target: NodeMessage) -> None:
        inner = getattr(target, name)
        inner.SetInParent()
        copy_fields(value, inner)

    def copy_each(value: Any, target: NodeMessage) -> None:
        for message in value:
            copy_fields(message, getattr(target, name).add())

    return copy_each if field.is_repeated else copy_one


def _same_values(source: EnumDescriptor, target: EnumDescriptor) -> Mapping[int, int]:
    """Return the target's number of the same name, or of its `NEAREST`, for each of the source.

    A number without one is left out, and the caller passes it on unchanged.
    """
    known = {value.name: value.number for value in target.values}
    pairs = {}
    for value in source.values:
        number = known.get(value.name, known.get(NEAREST.get(value.name, "")))
        if number is not None:
            pairs[value.number] = number
    return pairs
