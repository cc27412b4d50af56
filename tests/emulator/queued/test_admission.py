"""What CreateQueuedResource accepts and refuses, and what is found wrong only later."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.emulator.api.calls.dispatch import Call
from service.emulator.api.queued import create_on_terms
from service.emulator.errors import ApiError, Code
from service.emulator.faults.faults import Effects
from service.emulator.surfaces import control
from service.emulator.wire import Tpu
from service.emulator.world.queue import Terms
from tests.emulator.factories import (
    EVERYWHERE,
    METHODS,
    PARENT,
    START,
    Cloud,
    Web,
    configured,
    name_of,
)
from tests.emulator.queued_resources import (
    active,
    initiator,
    look,
    order,
    queued_name,
    remove,
    resource,
    spec,
    state,
    submit,
)

FLEX = Terms(provisioning_model="flex_start", run_seconds=3600)
OTHER = "projects/lab/locations/us-east5-a"


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def on_terms(cloud: Cloud, terms: Terms, *specs, parent=PARENT):
    """Ask as the surface of v2alpha1 does."""
    request = METHODS["CreateQueuedResource"].request(
        parent=parent, queued_resource_id="q", queued_resource=resource(*specs)
    )
    return create_on_terms(
        Call(cloud.world, request, cloud.world.run_due_events(), Effects()), terms
    )


@pytest.mark.parametrize("queued_id", ["q", "Q.1_a~b+c%d-e", "9", "q" * 128])
def test_an_id_is_spelled_as_google_documents(cloud, queued_id):
    submit(cloud, queued_id)
    assert look(cloud, queued_id).name == queued_name(queued_id)


@pytest.mark.parametrize("queued_id", ["", "a b", "ä", "a/b", "a\n", "q" * 129, "a*"])
def test_another_id_is_refused(cloud, queued_id):
    assert 'The field "QueuedResourceId" cannot be' in refusal(submit, cloud, queued_id).message


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"parent": ""}, 'The field "NodeSpec.Parent" cannot be "".'),
        ({"parent": OTHER}, f'The field "NodeSpec.Parent" cannot be "{OTHER}".'),
        ({"node_id": ""}, 'The field "NodeId" cannot be ""'),
        ({"node_id": "A"}, 'The field "NodeId" cannot be "A"'),
        ({"node_id": None}, "Exactly one of node_id and multislice_params"),
        ({"multislice_params": {"node_count": 1}}, "It must be greater than 1"),
        ({"multislice_params": {"node_count": -5}}, "It must be greater than 1"),
        ({"multislice_params": {"node_count": 2**31 - 1}}, "can have 1024 nodes at most"),
        (
            {"multislice_params": {"node_count": 2, "node_id_prefix": "a b"}},
            'The field "MultisliceParams.NodeIdPrefix" cannot be "a b"',
        ),
        (
            {"multislice_params": {"node_count": 2, "node_id_prefix": "Slice"}},
            'The field "NodeId" cannot be "Slice-0"',
        ),
    ],
)
def test_a_node_is_named_in_one_way_and_in_its_place(cloud, wrong, text):
    asked = {key: value for key, value in (spec() | wrong).items() if value is not None}
    error = refusal(submit, cloud, "q", asked)
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message
    assert state(cloud) == "GONE"


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            {"accelerator_type": "v6e-1"},
            "the accelerator v6e-1 was not found in zone us-central1-f",
        ),
        ({"accelerator_type": ""}, "Exactly one of accelerator_type and accelerator_config"),
        ({"runtime_version": "nope"}, 'The field "RuntimeVersion" cannot be "nope"'),
        ({"labels": {"Team": "x"}}, "resource labels are invalid"),
        ({"metadata": {"": "v"}}, "must have 1 to 128 characters"),
        ({"scheduling_config": {"spot": True, "reserved": True}}, "more than one of"),
    ],
)
def test_a_node_is_checked_as_one_of_its_own_is(cloud, overrides, text):
    parent = "projects/lab/locations/us-central1-f"
    asked = spec(parent=parent, **{"accelerator_type": "v2-8", **overrides})
    error = refusal(submit, cloud, "q", asked, parent=parent)
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, 'The field "Tpu.NodeSpec" must name at least one node'),
        ({"tpu": {}}, 'The field "Tpu.NodeSpec" must name at least one node'),
        (resource(spec("a"), spec("a")), f'"{name_of("a")}" is asked for more than once'),
        (resource(spec("a-1"), spec("a", count=2)), f'"{name_of("a-1")}" is asked for more'),
        (
            resource(spot={}, reservation_name="projects/x/locations/us-central2-b/reservations/-"),
            'The fields "Spot" and "ReservationName" exclude each other',
        ),
        (resource(reservation_name="mine"), 'The field "ReservationName" cannot be "mine"'),
        (
            resource(reservation_name="projects/x/locations/us-east5-a/reservations/-"),
            'It must name a reservation in the zone "us-central2-b"',
        ),
        (
            resource(guaranteed={"min_duration": {"seconds": -1}}),
            'The field "Guaranteed.MinDuration" cannot be accepted',
        ),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(cloud, asked, text):
    error = refusal(
        cloud.ask,
        "CreateQueuedResource",
        parent=PARENT,
        queued_resource_id="q",
        queued_resource=asked,
    )
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"valid_until_duration": {}}, "ValidUntil"),
        ({"valid_until_duration": {"seconds": -5}}, "ValidUntilDuration"),
        ({"valid_until_duration": {"seconds": 10**12}}, "ValidUntilDuration"),
        ({"valid_until_time": {"seconds": int(START)}}, "it lies in the past"),
        ({"valid_until_time": {"seconds": 10**15}}, "ValidUntilTime"),
        ({"valid_until_time": {"nanos": -1}}, "ValidUntilTime"),
        ({"valid_after_time": {"seconds": -(10**15)}}, "ValidAfterTime"),
        ({"valid_after_duration": {"seconds": 1, "nanos": -1}}, "ValidAfterDuration"),
        ({"valid_interval": {"end_time": {"seconds": 5}}}, "it lies in the past"),
        (
            {
                "valid_interval": {
                    "start_time": {"seconds": int(START) + 9},
                    "end_time": {"seconds": int(START) + 9},
                }
            },
            "it ends before it begins",
        ),
    ],
)
def test_a_time_that_cannot_come_is_refused(cloud, policy, text):
    error = refusal(submit, cloud, queueing_policy=policy)
    assert error.code is Code.INVALID_ARGUMENT
    assert text in error.message


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"valid_interval": {}},
        {"valid_after_duration": {}},
        {"valid_after_time": {"seconds": 5}},
        {"valid_interval": {"start_time": {"seconds": 5}}},
    ],
)
def test_a_time_that_sets_no_limit_is_taken(cloud, policy):
    active(cloud, "q", queueing_policy=policy)


def test_a_zone_without_tpus_is_not_supported(cloud):
    parent = "projects/lab/locations/asia-south1-a"
    assert "is not supported" in refusal(submit, cloud, parent=parent).message


@pytest.mark.parametrize(
    "rpc", ["GetQueuedResource", "DeleteQueuedResource", "ResetQueuedResource"]
)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (queued_name("none"), Code.NOT_FOUND),
        ("projects/lab/locations/mars-1/queuedResources/q", Code.PERMISSION_DENIED),
        ("projects/lab/queuedResources/q", Code.INVALID_ARGUMENT),
        (f"{PARENT}/nodes/q", Code.INVALID_ARGUMENT),
        (f"{PARENT}/queuedResources/", Code.INVALID_ARGUMENT),
        ("", Code.INVALID_ARGUMENT),
    ],
)
def test_what_cannot_be_named_is_not_touched(cloud, rpc, name, code):
    assert refusal(cloud.ask, rpc, name=name).code is code


def test_a_closed_queue_denies_permission():
    cloud = configured(closed_queues=["us-central2-b/v4-16"])
    submit(cloud, "open")
    error = refusal(submit, cloud, "q", spec("m", accelerator_type="v4-16"))
    assert (error.code, error.http_status) == (Code.PERMISSION_DENIED, 403)
    assert error.message == (
        "User does not have permission to submit requests into this queue for accelerator type"
        " v4-16 in location us-central2-b"
    )
    control.change_config(cloud.world, {"closed_queues": []})
    submit(cloud, "q", spec("m", accelerator_type="v4-16"))


def test_flex_start_runs_for_its_time_and_is_then_suspended(cloud):
    on_terms(cloud, FLEX, spec("s", count=2))
    cloud.wait(32)
    assert (state(cloud), cloud.history[-1].provisioning_model) == ("ACTIVE", "flex_start")
    control.settle_world(cloud.world)
    cloud.wait(3599)
    assert state(cloud) == "ACTIVE"
    cloud.wait(1)
    assert (state(cloud), initiator(cloud)) == ("SUSPENDING", "SERVICE")
    cloud.wait(8)
    assert [state(cloud), cloud.state("s-0"), cloud.state("s-1")] == ["SUSPENDED", "GONE", "GONE"]
    assert {each["provisioning_model"] for each in cloud.bill()} == {"flex_start"}
    assert {each["seconds"] for each in cloud.bill()} == {3602}


def test_a_run_ends_at_its_moment_though_it_began_late(cloud):
    on_terms(cloud, Terms("flex_start", run_until=START + 31))
    cloud.wait(32)
    assert state(cloud) == "SUSPENDING"


def test_a_new_run_gets_its_whole_time(cloud):
    on_terms(cloud, FLEX)
    cloud.wait(3000)
    cloud.ask("ResetQueuedResource", name=queued_name())
    cloud.wait(3000)
    assert state(cloud) == "ACTIVE"
    cloud.wait(700)
    assert state(cloud) == "SUSPENDED"


def test_flex_start_is_not_had_everywhere():
    cloud = configured(no_flex_start=["asia-east1-c/v6e-4"])
    parent = "projects/lab/locations/asia-east1-c"
    asked = spec(parent=parent, accelerator_type="v6e-4", runtime_version="v2-alpha-tpuv6e")
    operation = on_terms(cloud, FLEX, asked, parent=parent)
    cloud.wait(3)
    failed = cloud.operation(operation).error
    assert failed.code == Code.INVALID_ARGUMENT
    assert failed.message == (
        'FLEX_START provisioning model is not supported for accelerator type "v6e-4" in location'
        ' "asia-east1-c"'
    )
    submit(cloud, "spot", asked | {"node_id": "m"}, parent=parent, spot={})
    cloud.wait(60)
    name = queued_name("spot", parent)
    assert cloud.ask("GetQueuedResource", name=name).state.HasField("active_data")


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (Terms("flex_start", run_seconds=7 * 86_400 + 1), "RunDuration.MaxRunDuration"),
        (Terms("flex_start", run_seconds=0), "RunDuration.MaxRunDuration"),
        (Terms("flex_start", run_until=START), "RunDuration.TerminationTime"),
    ],
)
def test_a_run_has_a_length_of_seven_days_at_most(cloud, terms, text):
    assert text in refusal(on_terms, cloud, terms).message


def test_lists_are_cut_by_zone_and_page(cloud):
    elsewhere = "projects/lab/locations/us-central1-a"
    for queued_id in ("b", "a", "c"):
        submit(cloud, queued_id, spec(queued_id))
    kind = spec("d", elsewhere, accelerator_type="v2-8", runtime_version="v2-alpha")
    submit(cloud, "d", kind, parent=elsewhere)
    page = cloud.ask("ListQueuedResources", parent=PARENT, page_size=2)
    assert [each.name for each in page.queued_resources] == [queued_name("a"), queued_name("b")]
    rest = cloud.ask("ListQueuedResources", parent=PARENT, page_token=page.next_page_token)
    assert [each.name for each in rest.queued_resources] == [queued_name("c")]
    everywhere = cloud.ask("ListQueuedResources", parent=EVERYWHERE)
    assert len(everywhere.queued_resources) == 4
    assert len(cloud.ask("ListQueuedResources", parent="projects/x/locations/-").unreachable) == 0


def test_a_partial_list_names_the_zone_it_could_not_reach(cloud):
    submit(cloud)
    order(cloud, "ListQueuedResources", "partial_list", match={"zone": "us-central2-b"})
    page = cloud.ask("ListQueuedResources", parent=EVERYWHERE)
    assert (list(page.queued_resources), list(page.unreachable)) == ([], [PARENT])
    assert len(cloud.ask("ListQueuedResources", parent=EVERYWHERE).queued_resources) == 1


def test_a_stale_answer_shows_the_queue_as_it_was(cloud):
    submit(cloud, "old", spec("a"))
    cloud.wait(600)
    remove(cloud, "old", force=True)
    cloud.wait(60)
    submit(cloud, "new", spec("b"))
    order(cloud, "ListQueuedResources", "stale", delay_seconds=65)
    order(cloud, "GetQueuedResource", "stale", delay_seconds=65, times=2)
    (shown,) = cloud.ask("ListQueuedResources", parent=EVERYWHERE).queued_resources
    assert (shown.name, state(cloud, "old")) == (queued_name("old"), "ACTIVE")
    assert state(cloud, "new") == "GONE"
    assert (state(cloud, "old"), state(cloud, "new")) == ("GONE", "CREATING")


KEYS = [
    field.json_name
    for kind in (Tpu.QueuedResource, Tpu.QueuedResource.Tpu, Tpu.QueuedResource.Tpu.NodeSpec)
    for field in kind.DESCRIPTOR.fields
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("path", ["queuedResources?queuedResourceId=q", "queuedResources/q:reset"])
def test_any_json_gets_an_answer(emulator, path):
    web = Web(emulator.rest_url)

    @settings(max_examples=40, deadline=None)
    @given(JSON)
    def check(body):
        status, answer = web.ask("POST", f"/v2/{PARENT}/{path}", body)
        assert status in {200, 400, 404, 409}
        assert status == 200 or answer["error"]["code"] == status

    check()


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["valid_until_time", "valid_after_time"]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
)
def test_whatever_moment_is_asked_for_can_be_shown_as_json(key, seconds, nanos):
    cloud = Cloud()
    try:
        submit(cloud, queueing_policy={key: {"seconds": seconds, "nanos": nanos}})
    except ApiError as error:
        assert error.code is Code.INVALID_ARGUMENT  # noqa: PT017 - either is good
    cloud.wait(100)
    assert control.describe_state(cloud.world)["now"] == cloud.now
