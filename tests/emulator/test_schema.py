"""REST knows every method, parameter, field and value of Google's own discovery documents."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import googleapiclient
import pytest

from service.emulator.api.methods import SERVICES, VERSIONS
from service.emulator.schema import KEPT_POOL, REST_POOL, drop_outputs, extended_class, to_kept
from service.emulator.surfaces.binding import SYSTEM_PARAMETERS, bindings_of, get_binding
from service.emulator.wire import Node

DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
# Well-known types have a JSON of their own, which says nothing of their fields.
OPAQUE = {"google.protobuf.Any", "google.protobuf.Timestamp", "google.protobuf.Duration"}


@cache
def document(version: str):
    return json.loads((DOCUMENTS / f"tpu.{version}.json").read_bytes())


def methods_under(resource):
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from methods_under(inner)


METHODS = [(version, each) for version in VERSIONS for each in methods_under(document(version))]
BINDINGS = bindings_of(SERVICES)


def binding_of(method):
    path = re.sub(r"\{(\w+)Id\}", "x", method["flatPath"])
    return get_binding(BINDINGS, method["httpMethod"], f"/{path}")[0]


def rest_descriptor(message_class):
    return extended_class(message_class.DESCRIPTOR.full_name).DESCRIPTOR


def differences(version, name, descriptor, seen):
    """List what a schema has and a message lacks, and whatever has another type."""
    if name in seen or descriptor.full_name in OPAQUE:
        return
    seen.add(name)
    fields = {field.json_name: field for field in descriptor.fields}
    for key, wanted in document(version)["schemas"][name].get("properties", {}).items():
        field = fields.get(key)
        if field is None:
            yield f"{name}.{key}"
            continue
        if field.is_repeated != (wanted.get("type") == "array" or is_map(wanted)):
            yield f"{name}.{key} is repeated: {field.is_repeated}"
        inner = wanted.get("items", wanted)
        if "enum" in inner and strange_values(field, inner["enum"]):
            yield f"{name}.{key} lacks {strange_values(field, inner['enum'])}"
        if "$ref" in inner:
            yield from differences(version, inner["$ref"], field.message_type, seen)


def is_map(wanted):
    # An Any is an object with additional properties, too, but those may be anything.
    return wanted.get("additionalProperties", {}).get("type") == "string"


def strange_values(field, values):
    known = field.enum_type.values_by_name if field.enum_type else {}
    return sorted(set(values) - set(known))


@pytest.mark.parametrize(
    ("version", "method"), METHODS, ids=[f"{version}-{each['id']}" for version, each in METHODS]
)
def test_rest_has_every_method_of_the_document(version, method):
    binding = binding_of(method)
    request = rest_descriptor(binding.method.request)
    fields = {field.json_name for field in request.fields} | SYSTEM_PARAMETERS
    assert set(method["parameters"]) - fields - {"name", "parent"} == set()
    seen: set[str] = set()
    missing = [*differences_of_body(version, method, binding, seen)]
    response = rest_descriptor(binding.method.response)
    missing += differences(version, method["response"]["$ref"], response, seen)
    assert missing == []


def differences_of_body(version, method, binding, seen):
    if "request" not in method:
        return []
    request = rest_descriptor(binding.method.request)
    if binding.method.body != "*":
        request = request.fields_by_name[binding.method.body].message_type
    return differences(version, method["request"]["$ref"], request, seen)


@pytest.mark.parametrize("version", VERSIONS)
def test_rest_knows_what_operations_carry(version):
    seen: set[str] = set()
    for name in {"OperationMetadata", "Node", "QueuedResource"} & set(document(version)["schemas"]):
        descriptor = REST_POOL.FindMessageTypeByName(f"google.cloud.tpu.{version}.{name}")
        assert list(differences(version, name, descriptor, seen)) == []


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_no_number_of_ours_is_one_of_googles(version):
    for name in ("Node", "QueuedResource"):
        descriptor = REST_POOL.FindMessageTypeByName(f"google.cloud.tpu.{version}.{name}")
        numbers = sorted(field.number for field in descriptor.fields)
        assert len(set(numbers)) == len(numbers)
        assert [number for number in numbers if 100 < number <= 10_000] == []


def test_what_is_shown_of_a_kept_field_has_the_same_number():
    shown = REST_POOL.FindMessageTypeByName("google.cloud.tpu.v2.Node")
    stored = KEPT_POOL.FindMessageTypeByName("google.cloud.tpu.v2.Node")
    for field in shown.fields:
        assert stored.fields_by_name[field.name].number == field.number


def test_a_plain_message_carries_what_its_class_does_not_know():
    rich = extended_class("google.cloud.tpu.v2.Node")(description="d")
    rich.boot_disk_config.customer_encryption_key.kms_key_name = "key"
    plain = Node.FromString(rich.SerializeToString())
    copy = Node()
    copy.CopyFrom(plain)
    assert to_kept(copy).boot_disk_config.customer_encryption_key.kms_key_name == "key"


def test_what_only_the_cloud_may_set_is_dropped_wherever_it_lies():
    resource = extended_class("google.cloud.tpu.v2alpha1.QueuedResource")()
    node = resource.tpu.node_spec.add().node
    node.upcoming_maintenance.can_reschedule = True
    node.scheduling_config.termination_timestamp.seconds = 1
    node.scheduling_config.reservation_name = "mine"
    drop_outputs(resource)
    assert not node.HasField("upcoming_maintenance")
    assert not node.scheduling_config.HasField("termination_timestamp")
    assert node.scheduling_config.reservation_name == "mine"
