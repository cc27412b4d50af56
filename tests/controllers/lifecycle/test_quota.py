"""What a refusal taught is heeded at once, by all, for a day, and forgotten on command."""

from __future__ import annotations

from typing import Any

import pytest

from service.application.nodes.nodes import NodeFilter
from service.application.placement.quotas import QuotaQuery, QuotaService
from service.domain.errors import CapacityUnavailable, QuotaExceeded, QuotaTooSmall
from service.domain.idempotency import RequestKey
from service.domain.nodes.node import NodeState
from service.domain.nodes.placement import Outcome
from service.domain.placement.quota import HardwareAmount, LimitStanding, QuotaTally
from tests import factories
from tests.controllers.conftest import Lab
from tests.hands import NOON

DAY = 86_400
TWO = {"zone": None, "zones": ("us-west4-a", "us-central1-a")}


def no_quota(allowed: int = 0, **facts: Any) -> QuotaExceeded:
    said = f"Quota limit 'TPUV5s' has been exceeded. Limit: {allowed} in region us-west4."
    return QuotaExceeded(
        said, **({"limit": "TPUV5s", "region": "us-west4"} | facts), allowed=allowed
    )


def asked(lab: Lab) -> list[str]:
    """The zones of all creates so far."""
    return [path.split("/")[3] for verb, path in lab.cloud.calls if verb == "create"]


def warned(lab: Lab, **changes: Any) -> tuple[str, ...]:
    return lab.nodes.request(factories.request(**changes)).warnings


def quotas(lab: Lab) -> QuotaService:
    return QuotaService(lab.units, lab.clock, [factories.PROJECT])


def known(lab: Lab) -> QuotaTally:
    (found,) = quotas(lab).report(QuotaQuery())
    assert isinstance(found, QuotaTally)
    return found


@pytest.fixture
def refused(lab: Lab) -> Lab:
    """A laboratory whose first node was refused: it may have nothing in us-west4."""
    lab.cloud.fail("create", no_quota())
    lab.ask(name="first")
    lab.tick()
    return lab


def test_what_was_refused_once_is_refused_at_once(refused: Lab) -> None:
    with pytest.raises(QuotaTooSmall, match="us-west4-a cannot hold 8 chips") as caught:
        refused.ask()
    facts: Any = caught.value.facts["quotas"]
    (fact,) = facts
    assert fact["said"] == str(no_quota())
    assert refused.cloud.count("create") == 1
    assert len(refused.nodes.list_page(NodeFilter(), 10, "").to_dicts()) == 1, "nothing was written"


def test_the_same_key_is_answered_with_the_node_that_was_asked_for_before(lab: Lab) -> None:
    lab.cloud.fail("create", no_quota())
    first = lab.nodes.request(factories.request(), key=RequestKey("k", "1"))
    lab.tick()
    again = lab.nodes.request(factories.request(), key=RequestKey("k", "1"))
    assert (again.node.id, again.created) == (first.node.id, False)


def test_a_place_that_is_too_small_is_not_tried_where_another_is_not(refused: Lab) -> None:
    (warning,) = warned(refused, **TWO)
    assert warning.startswith(
        "not tried in us-west4-a until 2026-11-06T12:00:05Z: it takes 8 chips"
    )
    refused.tick()
    assert asked(refused) == ["us-west4-a", "us-central1-a"]


def test_the_node_that_was_refused_is_not_tried_again_while_that_is_believed(lab: Lab) -> None:
    lab.cloud.fail("create", no_quota())
    node = lab.ask()
    for _ in range(DAY // 1_800):
        lab.tick(1_800)
    assert lab.cloud.count("create") == 1
    assert lab.node(node).last_error.startswith(
        "us-west4-a may not have 8 chips (Google's limit TPUV5s is 0 in us-west4); cooldown until"
    )
    lab.tick(1_800)
    assert lab.cloud.count("create") == 2


def test_a_quota_that_is_only_used_up_is_tried_again_after_five_minutes(lab: Lab) -> None:
    lab.cloud.fail("create", no_quota(8))
    node = lab.ask()
    lab.tick()
    assert lab.node(node).next_try_at == NOON + 5 + 300
    lab.tick(300)
    assert lab.node(node).state == NodeState.CREATING


def test_a_larger_node_is_refused_where_a_smaller_one_is_not(lab: Lab) -> None:
    lab.cloud.fail("create", no_quota(16, limit="Pod"))
    lab.ask(accelerator_type="v5litepod-32")
    lab.tick()
    with pytest.raises(QuotaTooSmall, match="cannot hold 64 chips"):
        lab.ask(accelerator_type="v5litepod-64")
    assert warned(lab, accelerator_type="v5litepod-16") == ()
    assert warned(lab, accelerator_type="v5litepod-8") == (), "single hosts have another limit"


def test_what_has_no_room_now_is_accepted_with_what_is_used_and_held(lab: Lab) -> None:
    lab.up()
    lab.ask()
    lab.tick()
    lab.cloud.fail("create", no_quota(16))
    lab.ask()
    lab.tick()
    (warning,) = warned(lab)
    assert "may have no quota for 8 chips until other nodes are deleted" in warning
    assert warning.endswith("; used there: 8 chips; held: 8 chips")
    assert (known(lab).used, known(lab).held) == (HardwareAmount(8, 8), HardwareAmount(8, 8))


def test_after_a_day_it_is_only_warned_of_and_after_a_week_not_even_that(refused: Lab) -> None:
    refused.clock.pass_(DAY)
    (warning,) = warned(refused)
    assert warning.endswith("this limit is old, so it is tried with 8 chips anyway")
    refused.clock.pass_(6 * DAY)
    assert warned(refused) == ()


def test_more_that_is_granted_later_sets_it_right(lab: Lab) -> None:
    v6e = {"accelerator_type": "v6e-8", "zone": "us-east5-b"}
    lab.cloud.fail("create", no_quota(8, region="us-east5"))
    waiting = lab.ask(**v6e | {"accelerator_type": "v6e-16"})
    lab.tick()
    lab.tick(300)
    with pytest.raises(QuotaTooSmall):
        lab.ask(**v6e | {"accelerator_type": "v6e-16"})
    lab.up(**v6e)
    assert known(lab).standing is LimitStanding.FRESH
    second = lab.ask(**v6e)
    lab.tick()
    lab.cloud.come_up(lab.node(second).place.path)
    lab.tick()
    assert known(lab).standing is LimitStanding.CONTRADICTED
    (warning,) = warned(lab, **v6e | {"accelerator_type": "v6e-16"})
    assert "more was granted since, so it is tried with 16 chips anyway" in warning
    lab.tick(1_800)
    assert lab.node(waiting).state == NodeState.CREATING


def test_what_is_forgotten_is_asked_for_again_within_half_an_hour(lab: Lab) -> None:
    lab.cloud.fail("create", no_quota())
    node = lab.ask()
    lab.tick()
    quotas(lab).delete(known(lab).limit.id)
    lab.tick(1_800)
    assert lab.node(node).state == NodeState.CREATING
    assert warned(lab, name="other") == ()


def test_a_refusal_without_a_number_teaches_nothing(lab: Lab) -> None:
    lab.cloud.fail("create", QuotaExceeded("Quota exhausted"))
    lab.ask()
    lab.tick()
    assert quotas(lab).report(QuotaQuery()) == []
    assert warned(lab) == ()


def test_a_refusal_that_comes_late_teaches_as_well(lab: Lab) -> None:
    node = lab.ask()
    lab.tick()
    lab.cloud.stock_out(no_quota())
    lab.tick()
    assert lab.placements(node)[0].outcome is Outcome.QUOTA
    assert known(lab).limit.allowed == 0


def test_a_queued_resource_that_fails_for_it_teaches_as_well(lab: Lab) -> None:
    node = lab.ask(queued=True)
    lab.tick()
    lab.cloud.refuse(no_quota())
    lab.tick(15)
    (attempt,) = lab.placements(node)
    assert (attempt.outcome, attempt.scope) == (Outcome.QUOTA, "us-west4")
    assert known(lab).limit.allowed == 0


def test_a_stock_out_teaches_nothing_of_quota(lab: Lab) -> None:
    lab.cloud.fail("create", CapacityUnavailable("There is no more capacity in the zone"))
    lab.ask()
    lab.tick()
    assert quotas(lab).report(QuotaQuery()) == []


def test_what_was_learned_outlives_the_daemon(refused: Lab) -> None:
    refused.start_daemon("second")
    with pytest.raises(QuotaTooSmall):
        refused.ask()


def test_the_patience_of_the_owner_ends_the_wait(lab: Lab) -> None:
    lab.cloud.fail("create", no_quota())
    node = lab.ask(max_wait_seconds=100)
    lab.tick()
    lab.tick(100)
    assert lab.node(node).state == NodeState.FAILED
