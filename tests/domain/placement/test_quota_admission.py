"""What can never fit is refused with what would do; what may not fit is warned of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.catalog import catalog
from service.domain.errors import QuotaTooSmall
from service.domain.nodes.node import Hardware
from service.domain.nodes.placement import HardwareKey, Outcome
from service.domain.placement.choice import choose_candidate, describe_passed
from service.domain.placement.quota import (
    HardwareAmount,
    Limit,
    LimitStanding,
    QuotaTally,
    Size,
    Tier,
)
from service.domain.placement.quota_admission import (
    check_admission,
    claims_by_key,
    filter_limits,
    find_barred,
    zones_elsewhere,
)
from tests import factories
from tests.hands import NOON

WEST, EAST = "us-west4-a", "us-east5-a"
LIMIT = Limit(
    "lab", "TPUV5s", "us-west4", "v5e", Tier.ON_DEMAND, Size.ANY, 0, NOON, "Limit: 0 in us-west4."
)


def known(allowed=0, standing=LimitStanding.FRESH, used=0, held=0, **changes):
    limit = replace(LIMIT, allowed=allowed, **changes)
    return QuotaTally(limit, standing, HardwareAmount(used, used), HardwareAmount(held, held))


def spec(**changes):
    return factories.spec(**({"zones": (WEST, EAST)} | changes))


def hardware(name, *zones):
    one = catalog.load_catalog().accelerators[name]
    return Hardware(name, one.generation, one.chips, one.hosts, "", "image", True, zones)  # noqa: FBT003


def refusal(wanted, *tallies):
    with pytest.raises(QuotaTooSmall) as caught:
        check_admission(wanted, tallies, [tally.limit for tally in tallies])
    return caught.value


def test_without_any_limit_nothing_is_said():
    assert check_admission(spec(), [], []) == ()


def test_what_fits_nowhere_is_refused_with_the_limit_and_what_to_do():
    error = refusal(spec(zones=(WEST,)), known())
    assert str(error) == (
        "v5litepod-8 (on_demand) fits no quota: us-west4-a cannot hold 8 chips: Google's limit"
        " TPUV5s is 0 in us-west4, as it said at 2026-11-05T12:00:00Z. Ask Google for more"
        " quota, or choose another region, type or provisioning model; after a raise, run:"
        f" tpu-steward catalog forget-quota {LIMIT.id}"
    )
    assert error.facts["quotas"] == [
        {
            "id": LIMIT.id,
            "limit": "TPUV5s",
            "allowed": 0,
            "needed_chips": 8,
            "needed_cores": 8,
            "where": "us-west4",
            "zones": ["us-west4-a"],
            "observed_at": "2026-11-05T12:00:00Z",
            "believed_until": "2026-11-06T12:00:00Z",
            "said": "Limit: 0 in us-west4.",
        }
    ]
    others = error.facts["other_zones"]
    assert EAST in others
    assert WEST not in others


def test_every_limit_that_stands_in_the_way_is_told():
    east = known(4, place="us-east5", name="")
    error = refusal(spec(), known(), east)
    assert "us-east5-a cannot hold 8 chips: Google's limit is 4 in us-east5" in str(error)
    assert [quota["where"] for quota in error.facts["quotas"]] == ["us-west4", "us-east5"]
    assert not {WEST, EAST} & set(error.facts["other_zones"])


def test_a_place_that_is_too_small_is_left_out_as_long_as_another_is_not():
    (warning,) = check_admission(spec(), [known()], [])
    assert warning == (
        "not tried in us-west4-a until 2026-11-06T12:00:00Z: it takes 8 chips, and Google's limit"
        " TPUV5s is 0 in us-west4"
    )


@pytest.mark.parametrize(
    ("tally", "said"),
    [
        (known(16, used=8, held=4), "used there: 8 chips; held: 4 chips"),
        (known(0, LimitStanding.OLD), "this limit is old, so it is tried with 8 chips anyway"),
        (
            known(0, LimitStanding.CONTRADICTED),
            "more was granted since, so it is tried with 8 chips",
        ),
    ],
)
def test_what_is_not_certain_is_only_warned_of(tally, said):
    (warning,) = check_admission(spec(zones=(WEST,)), [tally], [])
    assert said in warning
    assert f"Google's limit TPUV5s is {tally.limit.allowed} in us-west4, as it said at" in warning


@pytest.mark.parametrize(
    "tally",
    [
        known(16, used=8),
        known(8),
        known(8, LimitStanding.OLD, used=8),
        known(8, LimitStanding.CONTRADICTED, used=80),
        known(0, place="us-east1"),
        known(0, tier=Tier.PREEMPTIBLE),
        known(0, generation="v6e"),
        known(0, size=Size.POD),
    ],
)
def test_what_fits_or_is_not_meant_is_not_spoken_of(tally):
    assert check_admission(spec(zones=(WEST,)), [tally], []) == ()


def test_where_chips_and_cores_differ_only_what_is_too_much_in_both_is_refused():
    wanted = spec(accelerator_type="v5p-16", generation="v5p", chips=8, zones=(EAST,))
    limit = {"generation": "v5p", "place": EAST}
    refusal(wanted, known(7, **limit))
    (warning,) = check_admission(wanted, [known(8, **limit)], [])
    assert warning.startswith("us-east5-a may be too small for 8 chips (16 cores): Google's limit")
    assert check_admission(wanted, [known(16, **limit)], []) == ()


def test_several_slices_are_wanted_together():
    two = spec(chips=16, slices=2, zones=(WEST,))
    assert "cannot hold 16 chips" in str(refusal(two, known(8)))
    assert check_admission(two, [known(16)], []) == ()


def test_of_several_types_the_smaller_one_is_left():
    types = hardware("v5litepod-8", WEST), hardware("v5litepod-4", WEST)
    wanted = spec(zones=(WEST,), alternatives=types)
    (warning,) = check_admission(wanted, [known(4)], [])
    assert warning.startswith("not tried in v5litepod-8 in us-west4-a until")
    assert "v5litepod-8 or v5litepod-4 (on_demand) fits no quota" in str(refusal(wanted, known(2)))


def test_ten_thousand_limits_make_no_endless_answer():
    zones = tuple({offer.zone for offer in catalog.load_catalog().offers})
    tallies = [known(place=zone, name=f"{'x' * 200}{n}") for n in range(5) for zone in zones]
    error = refusal(spec(zones=zones), *tallies)
    assert len(str(error)) < 2_000
    assert len(error.facts["quotas"]) == 20


def test_where_it_is_barred_it_is_left_alone_until_that_is_old():
    wanted = claims_by_key(spec())
    assert set(wanted) == {
        HardwareKey(zone, "v5litepod-8", "v5e", "on_demand") for zone in (WEST, EAST)
    }
    here = next(iter(wanted))
    later = replace(LIMIT, name="another", observed_at=NOON + 9)
    found = find_barred(wanted, [known(), known(name="another", observed_at=NOON + 9), known(8)])
    rest = found[here]
    assert list(found) == [here]
    assert (rest.until, rest.since, rest.outcome) == (
        later.believed_until,
        NOON + 9,
        Outcome.QUOTA,
    )
    choice = choose_candidate(list(wanted), [], NOON + 10, found)
    assert (choice.key.zone, choice.at) == (EAST, NOON + 10)
    (said,) = describe_passed(choice.passed, spec(), NOON + 10)
    assert said == (
        "us-west4-a may not have 8 chips (Google's limit another is 0 in us-west4); cooldown"
        " until 2026-11-06T12:00:09Z"
    )


def test_a_node_that_is_barred_everywhere_waits_for_the_first_place_that_is_not():
    wanted = claims_by_key(spec())
    east = known(place="us-east5", observed_at=NOON - 60)
    choice = choose_candidate(list(wanted), [], NOON, find_barred(wanted, [known(), east]))
    assert (choice.key.zone, choice.at) == (EAST, NOON - 60 + 86_400)


def test_only_limits_that_say_something_to_the_request_are_weighed():
    others = [replace(LIMIT, generation="v6e"), replace(LIMIT, place="asia-east1")]
    assert filter_limits([LIMIT, *others], claims_by_key(spec()).values()) == [LIMIT]


def test_elsewhere_is_where_the_type_is_offered_and_no_limit_is_known_that_is_too_small():
    found = zones_elsewhere(spec(), [LIMIT, replace(LIMIT, place="us-east5", allowed=8)])
    assert EAST in found
    assert not [zone for zone in found if zone.startswith("us-west4-")]
