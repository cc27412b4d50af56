"""Requests built from and around the schemas of all versions: refused at worst, never a crash."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from service.emulator.api.calls.dispatch import answer_bytes, answer_message
from service.emulator.api.methods import SERVICES
from service.emulator.errors import Code
from service.emulator.schema import extended_class
from service.emulator.surfaces.binding import VARIABLE
from service.emulator.surfaces.json_codec import to_json
from tests.emulator.factories import IN_VERSION, Cloud, Web

pytestmark = pytest.mark.deep

ZONES = ["us-central1-a", "us-central2-b", "-", "mars-1", ""]
PARENTS = [f"projects/lab/locations/{zone}" for zone in ZONES]
IDS = ["a", "old", "q", "A", "x" * 64, "", "-", "é", "a/b", "../a"]
NAMES = [
    f"projects/lab/locations/us-central1-a/{collection}/{each}"
    for collection in ("nodes", "queuedResources", "operations")
    for each in ("a", "old", "q", "x")
]
TEXTS = st.one_of(
    st.sampled_from([*PARENTS, *IDS, *NAMES, "v2-8", "v4-8", "tpu-ubuntu2204-base", "2.12.0"]),
    st.sampled_from(
        ["10.0.0.0/29", "1::/3", "7200s", "-1s", "2030-01-01T00:00:00Z", "labels,name"]
    ),
    st.text(max_size=8),
    st.sampled_from(["x" * 100_000, "\x00", "=" * 9, "AAAA", "ÿ" * 300, "name=x OR", 'a="']),
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXTS,
    st.just([]),
    st.just({}),
    st.just([[]]),
)
WELL_KNOWN: dict[str, list[Any]] = {
    "google.protobuf.Timestamp": ["2030-01-01T00:00:00Z", "0001-01-01T00:00:00Z"],
    "google.protobuf.Duration": ["7200s", "-1s", "315576000000s", "0s"],
    "google.protobuf.FieldMask": ["labels,name", "", "networkConfig.enableExternalIps", "tags"],
    "google.protobuf.Any": [{"@type": "type.googleapis.com/google.protobuf.Empty", "value": {}}],
}
HTTP_CODES = {200, 400, 403, 404, 409, 429, 501}
EXPECTED = set(Code) - {Code.INTERNAL, Code.UNKNOWN, Code.DATA_LOSS}


def json_of(descriptor, junk=None, depth=6):
    """Make JSON that is near to what a message takes: any key may be there, and hold junk."""
    fields = {field.json_name: value_of(field, junk, depth - 1) for field in descriptor.fields}
    if junk is not None:
        fields = {key: value | junk for key, value in fields.items()}
    return st.fixed_dictionaries({}, optional=fields)


def value_of(field, junk, depth):
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXTS, TEXTS, max_size=2)
    one = scalar_of(field) if field.message_type is None else inner_of(field, junk, depth)
    return st.lists(one, max_size=2) if field.is_repeated else one


def inner_of(field, junk, depth):
    if field.message_type.full_name in WELL_KNOWN:
        return st.sampled_from(WELL_KNOWN[field.message_type.full_name])
    return json_of(field.message_type, junk, depth) if depth > 0 else st.just({})


def scalar_of(field):
    if field.enum_type is not None:
        return st.sampled_from([value.name for value in field.enum_type.values]) | st.integers()
    if field.cpp_type == field.CPPTYPE_STRING:
        return TEXTS
    if field.cpp_type == field.CPPTYPE_BOOL:
        return st.booleans()
    return st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3)


PLAUSIBLE = {
    "parent": PARENTS[0],
    "node_id": "n-",
    "queued_resource_id": "q-",
    "accelerator_type": "v2-8",
    "runtime_version": "tpu-ubuntu2204-base",
    "tensorflow_version": "2.16.1",
    "request_id": "",
    "page_token": "",
    "page_size": 2,
    "filter": "",
    "order_by": "",
    "query_path": "",
    "cidr_block": "",
    "reservation_name": "",
}
IDS_OF_OWN = {"node_id", "queued_resource_id"}
IN_THE_WAY = ("labels", "accelerator_config", "worker_ids", "node_names", "update_mask")


def make_plausible(message, spared, name, number):
    """Put good values where only the spared fields may be strange, so that more is looked at."""
    fields = message.DESCRIPTOR.fields_by_name
    for key in {*fields} & {*IN_THE_WAY} - spared:
        message.ClearField(key)
    for key in {*fields} & {*PLAUSIBLE} - spared:
        good = PLAUSIBLE[key]
        setattr(message, key, f"{good}{number}" if key in IDS_OF_OWN else good)
    if "name" in fields and "parent" not in fields:
        message.name = name
    if "update_mask" in fields and "update_mask" not in spared:
        message.update_mask.paths.extend(["labels", "data_disks", "metadata", "tags"])
    for inner in inside(message, fields):
        make_plausible(inner, spared, name, number)


def inside(message, fields):
    """Give what is asked for in a request, which has names and ids of its own."""
    if "tpu" in fields:
        return list(message.tpu.node_spec) or [message.tpu.node_spec.add()]
    found = (fields.get(key) for key in ("node", "queued_resource"))
    return [getattr(message, each.name) for each in found if each and each.message_type]


SPARED = st.sets(st.sampled_from(["", *PLAUSIBLE, *IN_THE_WAY]), max_size=2)


def populated():
    """A world with a node, a legacy node and a queued resource, each known to the requests."""
    cloud = Cloud()
    parent = PARENTS[0]
    node = {"accelerator_type": "v2-8", "runtime_version": "tpu-ubuntu2204-base"}
    cloud.ready("a", parent, **node)
    legacy = {"accelerator_type": "v2-8", "tensorflow_version": "2.12.0"}
    cloud.ask("v1.CreateNode", parent=parent, node_id="old", node=legacy)
    spec = {"parent": parent, "node_id": "n", "node": node}
    resource = {"tpu": {"node_spec": [spec]}}
    ask = {"parent": parent, "queued_resource_id": "q", "queued_resource": resource}
    cloud.ask("CreateQueuedResource", **ask)
    cloud.wait(60)
    return cloud


def names_for(method):
    """Give names of what the method is about, and one that is of something else."""
    fitting = [name for name in NAMES if f"/{name.split('/')[4]}/" in method.path]
    return [*fitting, NAMES[-1]] if fitting else NAMES


def is_googles(told):
    return told.error is None or (told.error.code in EXPECTED and told.error.message)


LISTINGS = [f"{version}.ListNodes" for version in ("v1", "v2", "v2alpha1")]
LISTINGS += [f"{version}.ListQueuedResources" for version in ("v2", "v2alpha1")]


@pytest.mark.parametrize("rpc", IN_VERSION)
def test_any_message_gets_an_answer(rpc):
    cloud, method, numbers = populated(), IN_VERSION[rpc], count()
    known = extended_class(method.request.DESCRIPTOR.full_name)

    @settings(max_examples=100, deadline=None)
    @given(json_of(known.DESCRIPTOR), SPARED, st.sampled_from(names_for(method)))
    def check(body, spared, name):
        message = known()
        try:
            json_format.ParseDict(body, message)
        except json_format.ParseError:
            # Two of a oneof, for the most part.
            return
        make_plausible(message, spared, name, next(numbers))
        request = method.request.FromString(message.SerializeToString())
        told = answer_message(cloud.world, method, request)
        assert is_googles(told), told.error
        if told.response is not None:
            to_json(told.response, enum_numbers=False)
        cloud.wait(5)

    check()
    cloud.wait(1000)
    for listing in LISTINGS:
        shown = cloud.ask(listing, parent=PARENTS[0], page_size=1000)
        assert to_json(shown, enum_numbers=True) is not None


@pytest.mark.parametrize("rpc", IN_VERSION)
def test_any_bytes_get_an_answer(rpc):
    cloud, method = populated(), IN_VERSION[rpc]

    @settings(max_examples=60, deadline=None)
    @given(st.binary(max_size=60))
    def check(raw):
        told = answer_bytes(cloud.world, method, raw)
        assert is_googles(told), told.error
        if told.response is not None:
            to_json(told.response, enum_numbers=False)

    check()


REST = [
    (method, version)
    for service in SERVICES
    if service.name.endswith(".Tpu")
    for method in service.methods
    for version in service.versions
]


def path_of(method, version, name):
    variable = VARIABLE.search(method.path)
    assert variable is not None
    filled = re.sub(r"\*", "{}", variable[2]).format(*name)
    return f"/{version}{method.path.replace(variable[0], filled)}"


@pytest.mark.parametrize(
    ("method", "version"), REST, ids=[f"{version}-{method.name}" for method, version in REST]
)
def test_any_body_and_parameter_gets_an_answer(emulator, method, version):
    web = Web(emulator.rest_url)
    known = extended_class(method.request.DESCRIPTOR.full_name).DESCRIPTOR
    body = known.fields_by_name[method.body].message_type if len(method.body) > 1 else known
    parameters = [field.json_name for field in known.fields] + ["x", "alt", "fields", "node.name"]
    values = ["a", "-1", "true", "1e9", "%00", "%ff", "(", "*", "x" * 2000]
    query = st.lists(st.tuples(st.sampled_from(parameters), st.sampled_from(values)), max_size=3)

    @settings(max_examples=20, deadline=None)
    @given(
        json_of(body, JUNK), query, st.sampled_from(["us-central1-a", "mars-1", "-", "%2F", "%C3"])
    )
    def check(content, chosen, zone):
        path = path_of(method, version, ("lab", zone, "a"))
        text = "&".join(f"{key}={value}" for key, value in chosen)
        status, told = web.ask(method.verb, f"{path}?{text}", content if method.body else None)
        assert status in HTTP_CODES, told
        assert status == 200 or told["error"]["code"] == status

    check()
