"""Messages from one version of the API to another, field by field, by name.

The wire numbers of the versions differ: bytes of one must never be read as another. What is stored
is always v2, with the fields that only other versions know kept in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from service.emulator.extra_fields import V2, V2ALPHA1
from service.emulator.schema import drop_outputs, extended, extended_class, kept, kept_class
from service.emulator.wire import NodeMessage, Tpu, TpuV2Alpha1

Step = Callable[[Any, NodeMessage], None]
"""Puts the value of a field into a message."""

# The same field under two names, as v2 and v2alpha1 have it.
RENAMED = {
    "multi_node_params": "multislice_params",
    "multislice_params": "multi_node_params",
}
# What a version says that has no word of its own for a value.
NEAREST = {"V2": "V2_ALPHA1"}


def copy_fields(source: NodeMessage, target: NodeMessage) -> None:
    """Copy what is set and what the target knows by the same name and of the same shape."""
    steps = _steps(source.DESCRIPTOR, target.DESCRIPTOR)
    for field, value in source.ListFields():
        step = steps.get(field.name)
        if step is not None:
            step(value, target)


def to_v2(request: NodeMessage) -> Any:
    """Read a v2alpha1 message as the v2 one of the same name, and forget what it cannot set."""
    name = _name(request, V2ALPHA1)
    stored = kept_class(name)()
    copy_fields(extended(request), stored)
    drop_outputs(stored)
    return getattr(Tpu, name).FromString(stored.SerializeToString())


def to_v2alpha1(message: NodeMessage) -> Any:
    """Show a v2 message in v2alpha1; one of the services that all versions share stays as it is."""
    name = _name(message, V2)
    if not name:
        return message
    raw = getattr(TpuV2Alpha1, name)
    shown = extended_class(raw.DESCRIPTOR.full_name)()
    copy_fields(kept(message), shown)
    return raw.FromString(shown.SerializeToString())


def _name(message: NodeMessage, package: str) -> str:
    """Name a message within its package, empty if it belongs to another."""
    package_of, _, name = message.DESCRIPTOR.full_name.rpartition(".")
    return name if package_of == package else ""


@cache
def _steps(source: Descriptor, target: Descriptor) -> Mapping[str, Step]:
    """Work out once how each field of one kind of message gets into another kind."""
    known = target.fields_by_name
    steps = {}
    for field in source.fields:
        twin = known.get(field.name) or known.get(RENAMED.get(field.name, ""))
        if twin is not None and _shape(field) == _shape(twin):
            steps[field.name] = _step(field, twin)
    return steps


def _shape(field: FieldDescriptor) -> tuple[bool, bool]:
    return field.message_type is None, bool(field.is_repeated)


def _step(field: FieldDescriptor, twin: FieldDescriptor) -> Step:
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
    return _copy_each(name) if field.is_repeated else _copy_one(name)


def _copy_one(name: str) -> Step:
    def step(value: NodeMessage, target: NodeMessage) -> None:
        inner = getattr(target, name)
        inner.SetInParent()
        copy_fields(value, inner)

    return step


def _copy_each(name: str) -> Step:
    def step(values: Any, target: NodeMessage) -> None:
        for value in values:
            copy_fields(value, getattr(target, name).add())

    return step


def _same_values(source: EnumDescriptor, target: EnumDescriptor) -> Mapping[int, int]:
    """Pair the numbers of the same names; a number without one is passed on as it is."""
    known = {value.name: value.number for value in target.values}
    pairs = {}
    for value in source.values:
        number = known.get(value.name, known.get(NEAREST.get(value.name, "")))
        if number is not None:
            pairs[value.number] = number
    return pairs
