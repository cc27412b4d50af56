"""The official client over gRPC and REST takes the emulator for the cloud."""

from __future__ import annotations

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.longrunning import operations_pb2

from tests.emulator.factories import EVERYWHERE, PARENT, name_of
from tests.emulator.google_clients import finish, grpc_client, rest_client

State = tpu_v2.Node.State
NAME = name_of("a")


@pytest.fixture(params=[grpc_client, rest_client], ids=["grpc", "rest"])
def client(request, emulator):
    with request.param(emulator) as connected:
        yield connected


def wanted(**overrides) -> tpu_v2.Node:
    fields = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base", **overrides}
    return tpu_v2.Node(**fields)


def create(client, node_id="a", **overrides):
    return client.create_node(parent=PARENT, node_id=node_id, node=wanted(**overrides))


def test_a_node_lives_its_life(client):
    made = create(client, labels={"team": "nlp"}, metadata={"startup-script": "echo"})
    node = finish(made)
    assert (node.name, node.state, dict(node.labels)) == (NAME, State.READY, {"team": "nlp"})
    assert made.metadata.target == NAME
    assert client.get_node(name=NAME) == node
    assert finish(client.stop_node(request={"name": NAME})).state is State.STOPPED
    assert finish(client.start_node(request={"name": NAME})).state is State.READY
    assert [each.name for each in client.list_nodes(parent=EVERYWHERE)] == [NAME]
    assert finish(client.delete_node(name=NAME)) is not None
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


def test_an_update_changes_the_masked_fields(client):
    finish(create(client))
    changed = tpu_v2.Node(
        name=NAME, labels={"a": "b"}, network_config={"enable_external_ips": True}
    )
    mask = {"paths": ["labels", "network_config.enable_external_ips"]}
    node = finish(client.update_node(node=changed, update_mask=mask))
    assert dict(node.labels) == {"a": "b"}
    assert node.network_endpoints[0].access_config.external_ip


def test_pages_are_walked_by_the_client(client):
    for number in range(5):
        create(client, f"n{number}")
    pager = client.list_nodes(request={"parent": PARENT, "page_size": 2})
    assert [len(page.nodes) for page in pager.pages] == [2, 2, 1]


def test_an_unreachable_zone_is_named(client, web):
    order = {"rpc": "ListNodes", "action": "partial_list", "match": {"zone": "us-central2-b"}}
    create(client)
    web.ask("POST", "/_emulator/faults", order)
    (page,) = client.list_nodes(parent=EVERYWHERE).pages
    assert (list(page.nodes), list(page.unreachable)) == ([], [PARENT])


REFUSED = {
    "a name that is taken": (lambda client: create(client, "a"), exceptions.Conflict),
    "a name that cannot be": (lambda client: create(client, "A"), exceptions.BadRequest),
    "a type that is elsewhere": (
        lambda client: create(client, "b", accelerator_type="v5p-8"),
        exceptions.BadRequest,
    ),
    "a node that is not there": (
        lambda client: client.get_node(name=name_of("x")),
        exceptions.NotFound,
    ),
    "a start of what runs": (
        lambda client: client.start_node(request={"name": NAME}),
        exceptions.BadRequest,
    ),
    "a zone that may not exist": (
        lambda client: client.list_nodes(parent="projects/lab/locations/mars-1"),
        exceptions.Forbidden,
    ),
    "attributes of nobody": (
        lambda client: client.get_guest_attributes(request={"name": NAME, "query_path": "x/"}),
        exceptions.BadRequest,
    ),
}


# REST raises the class of the HTTP status, gRPC a subclass of it.
@pytest.mark.parametrize(("act", "error"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_arrives_as_the_clients_own_error(client, act, error):
    finish(create(client))
    with pytest.raises(error):
        act(client)


def test_quota_arrives_with_its_details(client, web):
    web.ask("POST", "/_emulator/faults", {"rpc": "CreateNode", "action": "quota"})
    with pytest.raises(exceptions.TooManyRequests) as caught:
        create(client)
    assert "Quota limit 'TPUV4PerProjectPerRegionForTPUAPI' has been exceeded" in str(caught.value)
    assert caught.value.details


def test_a_stockout_arrives_late(client, web):
    web.ask("POST", "/_emulator/faults", {"rpc": "CreateNode", "action": "stockout"})
    future = create(client)
    with pytest.raises(exceptions.TooManyRequests, match="There is no more capacity in the zone"):
        finish(future)
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=NAME)


def test_a_lost_response_can_be_tried_again_to_a_conflict(client, web):
    web.ask("POST", "/_emulator/faults", {"rpc": "CreateNode", "action": "lose_response"})
    with pytest.raises(exceptions.ServiceUnavailable):
        create(client)
    with pytest.raises(exceptions.Conflict):
        create(client)


def test_the_catalogue_can_be_asked(client):
    kinds = {each.type_ for each in client.list_accelerator_types(parent=PARENT)}
    assert {"v4-8", "v6e-4"} < kinds
    kind = client.get_accelerator_type(name=f"{PARENT}/acceleratorTypes/v6e-4")
    assert kind.accelerator_configs[0].type_ is tpu_v2.AcceleratorConfig.Type.V6E
    assert len(list(client.list_runtime_versions(parent=PARENT))) == 86
    version = client.get_runtime_version(name=f"{PARENT}/runtimeVersions/v2-alpha-tpuv6e")
    assert version.version == "v2-alpha-tpuv6e"
    identity = client.generate_service_identity(request={"parent": PARENT}).identity
    assert "@" in identity.email


def test_the_shared_services_answer(client):
    assert len(client.list_locations({"name": "projects/lab"}).locations) == 40
    assert client.get_location({"name": PARENT}).location_id == "us-central2-b"
    made = create(client).operation
    listed = client.list_operations(operations_pb2.ListOperationsRequest(name=PARENT))
    assert [each.name for each in listed.operations] == [made.name]
    client.cancel_operation({"name": made.name})
    assert client.get_operation({"name": made.name}).name == made.name
    client.delete_operation({"name": made.name})
    with pytest.raises(exceptions.NotFound):
        client.get_operation({"name": made.name})
