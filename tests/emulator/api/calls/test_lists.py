"""Lists: pages, wildcards, filters, and what the catalogue offers."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from tests.emulator.factories import EVERYWHERE, PARENT, Cloud, name_of
from tests.emulator.queued_resources import spec, submit

OTHER_ZONE = "projects/lab/locations/us-central1-a"


@pytest.fixture
def fleet(cloud: Cloud) -> Cloud:
    for number in range(7):
        cloud.create(f"n{number}")
    cloud.create("far", OTHER_ZONE, accelerator_type="v2-8")
    cloud.create("foreign", PARENT.replace("lab", "other"))
    return cloud


def walk(cloud: Cloud, rpc: str, field: str, **fields) -> list[str]:
    """Read every page and give the names."""
    names, token = [], ""
    while True:
        page = cloud.ask(rpc, page_token=token, **fields)
        names += [each.name for each in getattr(page, field)]
        token = page.next_page_token
        if not token:
            return names


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 1000, 5000])
def test_pages_add_up_to_the_list(fleet, size):
    names = walk(fleet, "ListNodes", "nodes", parent=PARENT, page_size=size)
    assert names == [name_of(f"n{number}") for number in range(7)]


def test_a_page_is_no_longer_than_asked(fleet):
    page = fleet.ask("ListNodes", parent=PARENT, page_size=3)
    assert len(page.nodes) == 3


def test_everywhere_is_every_zone_of_one_project(fleet):
    names = walk(fleet, "ListNodes", "nodes", parent=EVERYWHERE, page_size=4)
    assert set(names) == {name_of("far", OTHER_ZONE), *(name_of(f"n{n}") for n in range(7))}


def test_a_list_that_shrinks_between_pages_loses_nothing(fleet):
    first = fleet.ask("ListNodes", parent=PARENT, page_size=3)
    fleet.ask("DeleteNode", name=name_of("n0"))
    fleet.wait(8)
    second = fleet.ask("ListNodes", parent=PARENT, page_token=first.next_page_token)
    assert [each.name[-1] for each in second.nodes] == ["3", "4", "5", "6"]


@pytest.mark.parametrize("token", ["x", "ä", "====", "bm90IGEgdG9rZW4="])
def test_a_made_up_page_token_is_refused(fleet, token):
    with pytest.raises(ApiError) as caught:
        fleet.ask("ListNodes", parent=PARENT, page_token=token)
    assert caught.value.code is Code.INVALID_ARGUMENT


LISTS = {
    "ListNodes": {"parent": PARENT},
    "ListQueuedResources": {"parent": PARENT},
    "ListAcceleratorTypes": {"parent": PARENT},
    "ListRuntimeVersions": {"parent": PARENT},
    "v1.ListTensorFlowVersions": {"parent": PARENT},
    "v2alpha1.ListReservations": {"parent": PARENT},
    "ListOperations": {"name": PARENT},
    "ListLocations": {"name": "projects/lab"},
}


@pytest.mark.parametrize("rpc", LISTS)
def test_a_token_of_one_list_is_good_for_no_other(cloud, rpc):
    tokens = {}
    for number in range(2):
        cloud.create(f"n{number}")
        submit(cloud, f"q{number}", spec(f"m{number}"))
    for other, fields in LISTS.items():
        tokens[other] = cloud.ask(other, page_size=1, **fields).next_page_token
    for other, token in tokens.items():
        if other != rpc and token:
            with pytest.raises(ApiError, match="page token is invalid") as caught:
                cloud.ask(rpc, page_token=token, **LISTS[rpc])
            assert caught.value.code is Code.INVALID_ARGUMENT
    assert {other for other, token in tokens.items() if not token} == {"v2alpha1.ListReservations"}


@pytest.mark.parametrize("change", [{"filter": "version:v2"}, {"order_by": "version"}])
def test_a_token_holds_for_one_filter_and_one_order(cloud, change):
    listed = {"parent": PARENT, "page_size": 1}
    token = cloud.ask("ListRuntimeVersions", **listed).next_page_token
    with pytest.raises(ApiError, match="page token is invalid"):
        cloud.ask("ListRuntimeVersions", **listed, **change, page_token=token)


def test_a_token_holds_for_the_list_it_came_from(fleet):
    token = fleet.ask("ListNodes", parent=PARENT, page_size=1).next_page_token
    with pytest.raises(ApiError, match="page token is invalid"):
        fleet.ask("ListNodes", parent=EVERYWHERE, page_token=token)


def test_a_negative_page_size_is_refused(fleet):
    with pytest.raises(ApiError):
        fleet.ask("ListNodes", parent=PARENT, page_size=-1)


def test_an_unknown_zone_may_not_exist(cloud):
    with pytest.raises(ApiError) as caught:
        cloud.ask("ListNodes", parent="projects/lab/locations/mars-1")
    assert caught.value.code is Code.PERMISSION_DENIED
    assert caught.value.message == "Permission denied on 'locations/mars-1' (or it may not exist)."
    detail: Any = caught.value.details[0]
    assert detail.reason == "LOCATION_POLICY_VIOLATED"


def test_a_zone_lists_its_accelerator_types(cloud):
    page = cloud.ask("ListAcceleratorTypes", parent=PARENT)
    kinds = {each.type_: each for each in page.accelerator_types}
    assert kinds["v4-8"].name == f"{PARENT}/acceleratorTypes/v4-8"
    assert kinds["v4-8"].accelerator_configs[0].topology == "2x2x1"
    assert "v2-8" not in kinds
    assert cloud.ask("GetAcceleratorType", name=kinds["v4-8"].name) == kinds["v4-8"]


def test_a_zone_lists_its_runtime_versions(cloud):
    page = cloud.ask("ListRuntimeVersions", parent=PARENT)
    assert len(page.runtime_versions) == 86
    first = page.runtime_versions[0]
    assert cloud.ask("GetRuntimeVersion", name=first.name) == first


@pytest.mark.parametrize("rpc", ["ListAcceleratorTypes", "ListRuntimeVersions"])
def test_what_a_zone_offers_is_asked_of_a_zone(cloud, rpc):
    with pytest.raises(ApiError) as caught:
        cloud.ask(rpc, parent=EVERYWHERE)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("rpc", "name"),
    [
        ("GetAcceleratorType", f"{PARENT}/acceleratorTypes/v2-8"),
        ("GetRuntimeVersion", f"{PARENT}/runtimeVersions/none"),
        ("GetOperation", f"{PARENT}/operations/none"),
    ],
)
def test_what_is_not_there_is_not_found(cloud, rpc, name):
    with pytest.raises(ApiError) as caught:
        cloud.ask(rpc, name=name)
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ('version = "v2-alpha-tpuv6e"', 1),
        ("version:tpuv5", 3),
        ("version != v2-alpha", 85),
        ('version:pjrt AND version:"2.17"', 4),
        ("version:nothing", 0),
    ],
)
def test_a_filter_keeps_what_fits(cloud, expression, count):
    page = cloud.ask("ListRuntimeVersions", parent=PARENT, filter=expression)
    assert len(page.runtime_versions) == count


def test_an_order_is_kept_across_pages(cloud):
    names = walk(
        cloud,
        "ListRuntimeVersions",
        "runtime_versions",
        parent=PARENT,
        order_by="version desc",
        page_size=10,
    )
    assert names == sorted(names, reverse=True)
    assert len(names) == 86


@pytest.mark.parametrize(
    ("rpc", "fields", "text"),
    [
        ("ListRuntimeVersions", {"filter": "nope=1"}, 'list filter: unknown field "nope"'),
        ("ListRuntimeVersions", {"order_by": "nope"}, 'order_by: unknown field "nope"'),
        ("ListRuntimeVersions", {"order_by": "version.x desc"}, 'unknown field "version.x"'),
        ("ListAcceleratorTypes", {"filter": "type=v4-8 AND a.b:c"}, 'unknown field "a.b"'),
        ("v1.ListTensorFlowVersions", {"order_by": "runtime"}, 'unknown field "runtime"'),
        ("ListOperations", {"filter": "state=DONE"}, 'unknown field "state"'),
        ("ListLocations", {"filter": "zone:us"}, 'unknown field "zone"'),
    ],
)
def test_an_unknown_field_is_refused_by_its_name(cloud, rpc, fields, text):
    where = "parent" if rpc.endswith(("Versions", "Types")) else "name"
    owner = "projects/lab" if rpc == "ListLocations" else PARENT
    with pytest.raises(ApiError, match=text) as caught:
        cloud.ask(rpc, **{where: owner}, **fields)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("rpc", "fields", "count"),
    [
        ("ListAcceleratorTypes", {"filter": "acceleratorConfigs.topology:1x1"}, 0),
        ("ListAcceleratorTypes", {"filter": "type=v4-8", "order_by": "type desc"}, 1),
    ],
)
def test_a_known_field_may_be_spelled_as_in_json(cloud, rpc, fields, count):
    assert len(cloud.ask(rpc, parent=PARENT, **fields).accelerator_types) == count


def test_a_filter_may_look_into_labels(cloud):
    wanted = 'labels.cloud.googleapis.com/region="us-east5"'
    with pytest.raises(ApiError, match="Invalid list filter"):
        cloud.ask("ListLocations", name="projects/lab", filter=wanted)
    assert not cloud.ask("ListLocations", name="projects/lab", filter="labels.x=y").locations


@pytest.mark.parametrize("fields", [{"filter": "what is this"}, {"order_by": "version sideways"}])
def test_what_cannot_be_read_is_refused(cloud, fields):
    with pytest.raises(ApiError) as caught:
        cloud.ask("ListRuntimeVersions", parent=PARENT, **fields)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_operations_are_listed_by_zone_oldest_first(fleet):
    names = walk(fleet, "ListOperations", "operations", name=PARENT, page_size=2)
    assert len(names) == 7
    assert names == sorted(names)
    assert len(walk(fleet, "ListOperations", "operations", name=EVERYWHERE)) == 8


def test_operations_are_found_by_their_target(fleet):
    target = name_of("n3")
    page = fleet.ask(
        "ListOperations", name=PARENT, filter=f'metadata.target = "{target}" AND done = false'
    )
    assert len(page.operations) == 1


def test_cancelling_leaves_a_request(cloud):
    operation = cloud.create()
    cloud.ask("CancelOperation", name=operation.name)
    cloud.wait(20)
    assert cloud.state() == "READY"


def test_a_deleted_operation_is_forgotten_and_goes_on(cloud):
    operation = cloud.create()
    cloud.ask("DeleteOperation", name=operation.name)
    with pytest.raises(ApiError):
        cloud.operation(operation)
    cloud.wait(20)
    assert cloud.state() == "READY"


def test_locations_are_the_zones(cloud):
    page = cloud.ask("ListLocations", name="projects/lab")
    assert len(page.locations) == 40
    location = cloud.ask("GetLocation", name=PARENT)
    assert location in list(page.locations)
    assert location.labels["cloud.googleapis.com/region"] == "us-central2"


def test_a_service_identity_belongs_to_its_project(cloud):
    first = cloud.ask("GenerateServiceIdentity", parent=PARENT)
    assert "@" in first.identity.email
    other = cloud.ask("GenerateServiceIdentity", parent=PARENT.replace("lab", "other"))
    assert other.identity.email != first.identity.email


def everything(cloud) -> dict[str, bytes]:
    """What a list shows of each node, which must be what a GET shows."""
    shown = cloud.ask("ListNodes", parent=EVERYWHERE, page_size=1000).nodes
    return {each.name: each.SerializeToString(deterministic=True) for each in shown}


def each_by_get(cloud) -> dict[str, bytes]:
    found = (cloud.ask("GetNode", name=name) for name in list(cloud.world.nodes))
    return {each.name: each.SerializeToString(deterministic=True) for each in found}


def test_a_list_never_lags_behind_what_a_get_shows(cloud):
    """Answers are kept until something happens: whatever happens, they are made anew."""
    a, b = name_of("a"), name_of("b")
    happenings = [
        lambda: cloud.create("a"),
        lambda: cloud.create("b", scheduling_config={"spot": True}),
        lambda: cloud.wait(30),
        lambda: control.set_health(cloud.world, {"name": a, "health": "TIMEOUT"}),
        lambda: cloud.ask(
            "UpdateNode",
            node={"name": a, "labels": {"x": "y"}},
            update_mask={"paths": ["labels"]},
        ),
        lambda: cloud.wait(2),
        lambda: cloud.ask("StopNode", name=a),
        lambda: control.settle_world(cloud.world),
        lambda: control.preempt_node(cloud.world, {"name": b}),
        lambda: cloud.ask("DeleteNode", name=b),
        lambda: cloud.wait(8),
        lambda: control.reset_world(cloud.world),
    ]
    for happen in happenings:
        happen()
        assert everything(cloud) == each_by_get(cloud)
        assert everything(cloud) == each_by_get(cloud)
