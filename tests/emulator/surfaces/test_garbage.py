"""Whatever a client sends, the answer is an error in Google's manner, never a crash."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.emulator.api.methods import SERVICES
from service.emulator.wire import Node
from tests.emulator.factories import IN_VERSION, METHODS, PARENT, Web, name_of

NODE_KEYS = [field.json_name for field in Node.DESCRIPTOR.fields]
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NODE_KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
PATHS = [
    ("POST", f"/v2/{PARENT}/nodes?nodeId=a"),
    ("PATCH", f"/v2/{name_of('a')}?updateMask=labels,metadata"),
    ("POST", f"/v2/{name_of('a')}:stop"),
    ("POST", f"/v2/{name_of('a')}:getGuestAttributes"),
    ("POST", f"/v2/{PARENT}:generateServiceIdentity"),
    ("POST", "/v2/entries:list"),
    ("POST", "/v2/entries:write"),
    ("PATCH", "/_emulator/config"),
    ("POST", "/_emulator/faults"),
    ("POST", "/_emulator/nodes/preempt"),
    ("POST", "/_emulator/nodes/maintenance"),
    ("POST", "/_emulator/nodes/activity"),
]
# These have no parent, and nothing that must be said.
NEED_NOTHING = {"ListServices", "WriteLogEntries"}
FULL_NAMES = [
    f"/{service.name}/{method.name}" for service in SERVICES for method in service.methods
]


def is_googles(answer: tuple[int, Any]) -> bool:
    status, body = answer
    return status < 500 and (status == 200 or body["error"]["code"] == status)


@pytest.mark.parametrize(("verb", "path"), PATHS)
def test_any_json_gets_an_answer(emulator, verb, path):
    web = Web(emulator.rest_url)

    @settings(max_examples=40, deadline=None)
    @given(JSON)
    def check(body):
        assert is_googles(web.ask(verb, path, body))

    check()


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["v1", "v2", "v2alpha1", "_emulator", "discovery", "$discovery"]),
    st.lists(st.sampled_from(["projects", "lab", "locations", "-", "nodes", "a:b", "%2F", "%ff"])),
    st.sampled_from(["", "?pageSize=1", "?filter=%00", "?alt=media", "?a=b&a=c", "?%ff=%fe"]),
)
def test_any_path_gets_an_answer(served, root, parts, query):
    path = "/".join(["", root, *parts])
    assert is_googles(Web(served.rest_url).ask("GET", f"{path}{query}"))


@pytest.mark.parametrize("method", FULL_NAMES)
def test_bytes_that_are_no_message_are_refused(emulator, method):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        call = channel.unary_unary(method, None, None)
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff\xff\x01")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("rpc", sorted({*METHODS, *IN_VERSION} - NEED_NOTHING))
def test_an_empty_request_is_answered(cloud, rpc):
    with pytest.raises(Exception, match=r"does not match the pattern|is required"):
        cloud.ask(rpc)
