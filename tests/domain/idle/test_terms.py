"""The terms of a node are changed as a whole or not at all, and never into the past."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.errors import Conflict, Rejected
from service.domain.idle.terms import TermsChange, check_idle, terms_difference, with_terms
from service.domain.lifecycle.expiry import NOTICE
from service.domain.nodes.keep import TTL_HELD, TTL_TOLD
from service.domain.nodes.node import Asked, IdlePolicy, NodeState
from tests import factories
from tests.hands import NOON

LEAST = 300
OWN = IdlePolicy(600, 60, "delete", ("crash_loop",))
READY = {"state": NodeState.READY, "ready_at": NOON - HOUR, "next_try_at": None}


def changed(node, now=NOON, **changes):
    return with_terms(node, TermsChange(**changes), now, LEAST)


def test_what_is_not_said_stays_and_null_takes_it_away():
    node = factories.sent(**READY, idle=OWN, ttl_seconds=2 * HOUR)
    assert changed(node) is node
    assert changed(node, idle=OWN, ttl_seconds=2 * HOUR) is node
    inherits = changed(node, idle=None)
    assert (inherits.spec.idle, inherits.spec.ttl_seconds) == (None, 2 * HOUR)
    endless = changed(node, ttl_seconds=None)
    assert (endless.spec.idle, endless.spec.ttl_seconds) == (OWN, None)


def test_a_shorter_time_to_live_has_the_node_looked_at_when_it_is_over():
    node = factories.sent(**READY)
    after = changed(node, ttl_seconds=2 * HOUR)
    assert (after.deletes_at, after.next_try_at) == (NOON + HOUR, NOON + HOUR)
    assert changed(after, ttl_seconds=HOUR + 60).next_try_at == NOON + 60


@pytest.mark.parametrize(
    ("own", "spec", "field"),
    [
        (IdlePolicy(299), {}, "idle.after_seconds"),
        (IdlePolicy(also=("crash_loop",)), {}, "idle.also"),
        (IdlePolicy(action="stop"), {"hosts": 4}, "idle.action"),
        (
            IdlePolicy(action="stop"),
            {"stoppable": True, "provisioning_model": ProvisioningModel.SPOT},
            "idle.action",
        ),
    ],
)
def test_an_idle_policy_that_cannot_hold_is_refused(own, spec, field):
    with pytest.raises(Rejected) as caught:
        changed(factories.sent(**(READY | spec)), idle=own)
    assert caught.value.facts["field"] == field


def test_a_stop_is_refused_where_any_of_the_types_cannot_be_stopped():
    spec = factories.sent(**READY, stoppable=True, idle=IdlePolicy(action="stop")).spec
    check_idle(spec, LEAST)
    pod = factories.sent(hosts=4).spec.hardware
    mixed = replace(spec, alternatives=(spec.hardware, pod))
    with pytest.raises(Rejected, match="cannot stop"):
        check_idle(mixed, LEAST)


@pytest.mark.parametrize("ttl_seconds", [None, 60, 3 * HOUR])
def test_what_google_was_told_of_a_flex_start_node_cannot_be_changed(ttl_seconds):
    flex = {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 2 * HOUR}
    with pytest.raises(Rejected, match="deletes it 2026-11-05T13:00:00Z") as caught:
        changed(factories.sent(**READY, **flex), ttl_seconds=ttl_seconds)
    assert caught.value.facts["ends_at"] == "2026-11-05T13:00:00Z"
    with pytest.raises(Rejected, match="7200 s after its start"):
        changed(factories.sent(**flex), ttl_seconds=ttl_seconds)


def test_the_idle_policy_of_a_flex_start_node_can_be_changed():
    node = factories.sent(provisioning_model=ProvisioningModel.FLEX_START, ttl_seconds=HOUR)
    assert changed(node, idle=OWN).spec.idle == OWN


def test_a_time_to_live_that_was_over_already_is_refused_with_its_time():
    node = factories.sent(**READY)
    with pytest.raises(Rejected, match="over at 2026-11-05T12:00:00Z"):
        changed(node, ttl_seconds=HOUR)
    assert changed(node, ttl_seconds=HOUR + 1).deletes_at == NOON + 1


@pytest.mark.parametrize("changes", [{"asked": Asked.ABSENT}, {"state": NodeState.DELETED}])
def test_the_terms_of_what_is_being_deleted_stay(changes):
    with pytest.raises(Conflict):
        changed(factories.sent(**(READY | changes)), idle=OWN)


def test_a_longer_time_to_live_takes_a_notice_back():
    told = {"kept_until": NOON + 60, "kept_because": NOTICE, "ends_after_keep": TTL_TOLD}
    after = changed(factories.sent(**READY, **told, ttl_seconds=60), ttl_seconds=2 * HOUR)
    assert (after.ends_after_keep, after.kept_until, after.kept_because) == ("", None, "")


def test_a_longer_time_to_live_leaves_a_keep_and_the_end_of_a_job_as_they_are():
    keep = {"kept_until": NOON + 60, "kept_because": "a demo"}
    held = factories.sent(**READY, **keep, ttl_seconds=60, ends_after_keep=TTL_HELD)
    after = changed(held, ttl_seconds=2 * HOUR)
    assert (after.ends_after_keep, after.kept_until) == ("", NOON + 60)
    job = factories.sent(**READY, **keep, ttl_seconds=60, ends_after_keep="job 7 is SUCCEEDED")
    assert changed(job, ttl_seconds=None).ends_after_keep == "job 7 is SUCCEEDED"


def test_what_changed_is_a_sentence():
    node = factories.sent(**READY)
    after = changed(node, idle=OWN, ttl_seconds=2 * HOUR)
    assert terms_difference(node, after) == (
        "idle policy delete after 600 s with 60 s of grace, also crash_loop, was inherited;"
        " time to live 7200 s, was none"
    )
    assert terms_difference(after, changed(after, idle=None)).startswith("idle policy inherited")
