"""Why the cloud cannot stop a node: each reason is the true one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog import catalog
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import Rejected
from service.domain.nodes.request import candidate_zones, resolve_hardware, resolve_spec
from service.domain.nodes.stop_rules import is_stoppable, stop_obstacles
from tests import factories

V6E = {"accelerator_type": "v6e-8", "zone": "us-east5-b"}
POD = "it is a pod slice of 4 hosts, and only one host can be stopped"
QUEUED = "it belongs to a queued resource, whose nodes the cloud does not stop"


def spec(**changes):
    request, known = factories.request(**changes), catalog.load_catalog()
    accelerator = resolve_hardware(request, known)
    return resolve_spec(request, accelerator, candidate_zones(request, accelerator, known)).spec


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ()),
        (V6E, ()),
        (V6E | {"queued": True}, (QUEUED,)),
        ({"accelerator_type": "v5litepod-16"}, (POD,)),
        ({"accelerator_type": "v5litepod-16", "queued": True}, (POD, QUEUED)),
        ({"slices": 2}, ("it is made of 2 slices", QUEUED)),
        (
            {"provisioning_model": ProvisioningModel.SPOT},
            ("it is spot, which the cloud can preempt and cannot stop",),
        ),
        (
            {"provisioning_model": ProvisioningModel.PREEMPTIBLE},
            ("it is preemptible, which the cloud can preempt and cannot stop",),
        ),
        (
            {"provisioning_model": ProvisioningModel.FLEX_START},
            ("it is flex-start, which a queued resource owns until it is deleted",),
        ),
        (
            {"provisioning_model": ProvisioningModel.RESERVED},
            ("it is reserved, which a queued resource owns until it is deleted",),
        ),
    ],
)
def test_what_stands_in_the_way_is_said_and_nothing_else(changes, why):
    assert stop_obstacles(spec(**changes)) == why


@given(
    st.sampled_from(["v5litepod-1", "v5litepod-8", "v5litepod-16"]),
    st.sampled_from(ProvisioningModel),
    st.sampled_from([None, True]),
    st.integers(1, 3),
)
def test_something_stands_in_the_way_just_where_it_cannot_be_stopped(kind, model, queued, slices):
    try:
        meant = spec(accelerator_type=kind, provisioning_model=model, queued=queued, slices=slices)
    except Rejected:
        return
    assert bool(stop_obstacles(meant)) is not meant.stoppable


@pytest.mark.parametrize(
    ("name", "model", "can_stop"),
    [
        ("v4-8", ProvisioningModel.ON_DEMAND, True),
        ("v4-8", ProvisioningModel.RESERVED, True),
        ("v4-8", ProvisioningModel.SPOT, False),
        ("v4-8", ProvisioningModel.PREEMPTIBLE, False),
        ("v4-16", ProvisioningModel.ON_DEMAND, False),
        ("v5litepod-8", ProvisioningModel.ON_DEMAND, True),
        ("v5litepod-16", ProvisioningModel.ON_DEMAND, False),
        ("v6e-8", ProvisioningModel.SPOT, False),
    ],
)
def test_only_one_host_that_is_not_taken_back_can_be_stopped(name, model, can_stop):
    assert is_stoppable(catalog.load_catalog().get_accelerator(name), model) is can_stop
