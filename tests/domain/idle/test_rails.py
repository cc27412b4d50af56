"""Tests of how much may be ended, and when nothing may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.idle.rails import (
    LOST_SECONDS,
    BegunEnd,
    Breaker,
    DueNode,
    NodeSight,
    Rail,
    is_mass,
    pace_ends,
    share_of,
    update_breaker,
)

NOW, PERIOD = 1_000_000, 60


def due(*hourly, shares=None):
    return [
        DueNode(f"n{number}", (shares or {}).get(number, f"node:n{number}"), price)
        for number, price in enumerate(hourly)
    ]


def ended(*instants, share="owner:grace"):
    return [BegunEnd(at, share) for at in instants]


def test_the_dearest_go_first_and_three_at_once_at_most():
    found = pace_ends(due(5, 9, None, 7, 8), 100, [], NOW, PERIOD)
    assert found.goes == ("n1", "n4", "n3")
    assert [(wait.node_id, wait.rail, wait.place, wait.until) for wait in found.waits] == [
        ("n0", Rail.TICK, 1, NOW + PERIOD),
        ("n2", Rail.TICK, 2, NOW + PERIOD),
    ]


@pytest.mark.parametrize(("live", "goes"), [(1, 1), (10, 1), (19, 1), (20, 2), (30, 3), (900, 3)])
def test_a_tick_ends_a_tenth_of_the_fleet_at_most_and_one_at_least(live, goes):
    assert len(pace_ends(due(*range(10)), live, [], NOW, PERIOD).goes) == goes


def test_one_for_each_owner():
    shares = {0: "owner:ada", 1: "owner:ada", 2: "owner:grace"}
    found = pace_ends(due(3, 2, 1, shares=shares), 100, [], NOW, PERIOD)
    assert found.goes == ("n0", "n2")
    assert [(wait.node_id, wait.rail) for wait in found.waits] == [("n1", Rail.OWNER)]


def test_a_daemon_that_takes_over_goes_on_in_the_tick_of_the_one_before():
    for later, goes in ((0, 0), (45, 0), (46, 1), (PERIOD, 1)):
        found = pace_ends(due(1), 11, ended(NOW - later), NOW, PERIOD)
        assert len(found.goes) == goes
    found = pace_ends(due(3, 2, 1), 20, ended(NOW - 12), NOW, PERIOD)
    assert found.goes == ("n0",)
    assert [(wait.rail, wait.until) for wait in found.waits] == [(Rail.TICK, NOW + PERIOD)] * 2


def test_an_owner_has_one_place_in_a_tick_whichever_daemon_gave_it():
    shares = {0: "owner:grace", 1: "owner:ada"}
    found = pace_ends(due(3, 2, shares=shares), 100, ended(NOW - 12), NOW, PERIOD)
    assert found.goes == ("n1",)
    assert [(wait.node_id, wait.rail) for wait in found.waits] == [("n0", Rail.OWNER)]


def test_a_share_is_the_owners_else_the_teams_else_the_nodes():
    assert share_of("n", "ada", "vision") == "owner:ada"
    assert share_of("n", "", "vision") == "team:vision"
    assert share_of("n", "", "") == "node:n"
    assert share_of("m", "", "") != share_of("n", "", "")


def test_an_hour_ends_three_or_a_quarter_of_the_fleet():
    begun = ended(NOW - 3_000, NOW - 2_000, NOW - 1_000)
    found = pace_ends(due(1), 11, begun, NOW, PERIOD)
    assert found.goes == ()
    assert (found.waits[0].rail, found.waits[0].until) == (Rail.HOUR, NOW + 600)
    assert pace_ends(due(1), 16, begun, NOW, PERIOD).goes == ("n0",)
    assert pace_ends(due(1), 11, begun, NOW + 600, PERIOD).goes == ("n0",)


def test_a_clock_that_was_set_back_gives_no_further_turns_in_the_hour():
    begun = ended(NOW + 1_200, NOW + 1_260, NOW + 1_320)
    found = pace_ends(due(1), 11, begun, NOW, PERIOD)
    assert (found.goes, found.waits[0].rail) == ((), Rail.HOUR)
    years_ahead = ended(*(end.at + 10**8 for end in begun))
    assert pace_ends(due(1), 11, years_ahead, NOW, PERIOD).goes == ("n0",), "it holds for no year"


def after(wait):
    assert wait.until is not None
    return wait.until - NOW


def test_each_that_waits_is_told_when_its_own_turn_can_come():
    found = pace_ends(due(*range(9, 2, -1)), 25, [], NOW, PERIOD)
    assert [(wait.rail, after(wait)) for wait in found.waits] == [
        *[(Rail.TICK, PERIOD)] * 2,
        *[(Rail.TICK, 2 * PERIOD)] * 2,
        (Rail.TICK, 3 * PERIOD),
    ]
    begun = ended(NOW - 3_000, NOW - 2_000, NOW - 1_000)
    found = pace_ends(due(4, 3, 2, 1), 11, begun, NOW, PERIOD)
    assert [after(wait) for wait in found.waits] == [600, 1_600, 2_600, 600 + 3_600]


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 4)), max_size=30),
    st.integers(1, 200),
    st.lists(
        st.builds(
            BegunEnd,
            st.integers(NOW - 8_000, NOW) | st.integers(NOW - 90, NOW),
            st.integers(0, 4).map("owner:{}".format),
        ),
        max_size=60,
    ),
)
def test_no_rail_is_ever_passed_and_everybody_has_a_place(drawn, live, begun):
    nodes = [DueNode(f"n{n}", f"owner:{who}", price) for n, (price, who) in enumerate(drawn)]
    found = pace_ends(nodes, live, begun, NOW, PERIOD)
    recent = [end for end in begun if abs(NOW - end.at) < 3_600]
    just = [end for end in begun if NOW - end.at <= 45]
    tick = min(3, max(1, live // 10))
    assert len(found.goes) + len(just) <= tick or not found.goes
    assert len(found.goes) + len(recent) <= max(3, live // 4) or not found.goes
    by_id = {node.node_id: node for node in nodes}
    shares = [by_id[node_id].share for node_id in found.goes]
    assert len(set(shares)) == len(shares)
    assert not set(shares) & {end.share for end in just}
    assert sorted([*found.goes, *(wait.node_id for wait in found.waits)]) == sorted(by_id)
    assert [wait.place for wait in found.waits] == list(range(1, len(found.waits) + 1))
    assert all(wait.until is None or wait.until > NOW for wait in found.waits)
    free = [node for node in nodes if node.share not in {other.share for other in just}]
    if free and len(recent) < max(3, live // 4) and len(just) < tick:
        assert found.goes, "the pace never holds everybody for ever"


@pytest.mark.parametrize(
    ("candidates", "live", "expected"),
    [(5, 5, False), (6, 12, False), (6, 11, True), (6, 100, False), (60, 100, True)],
)
def test_more_than_half_and_more_than_five_are_a_mass(candidates, live, expected):
    assert is_mass(candidates, live) is expected


KNOWN, LOST = NodeSight(is_known=True), NodeSight(is_known=False)


def fleet(*sights):
    return {f"n{number}": sight for number, sight in enumerate(sights)}


def test_the_breaker_opens_when_three_in_ten_become_unknown():
    before = fleet(*[KNOWN] * 10)
    assert not update_breaker(Breaker(), before, fleet(*[LOST] * 3, *[KNOWN] * 7), NOW).is_open
    opened = update_breaker(Breaker(), before, fleet(*[LOST] * 4, *[KNOWN] * 6), NOW)
    assert (opened.is_open, opened.opened_at) == (True, NOW)
    assert "4 of 10" in opened.reason


def test_the_breaker_counts_ten_minutes_together():
    breaker, sights = Breaker(), [KNOWN] * 10
    for number in range(4):
        before = fleet(*sights)
        sights[number] = LOST
        breaker = update_breaker(breaker, before, fleet(*sights), NOW + 190 * number)
    assert breaker.is_open
    breaker, sights = Breaker(), [KNOWN] * 10
    for number in range(4):
        before = fleet(*sights)
        sights[number] = LOST
        breaker = update_breaker(breaker, before, fleet(*sights), NOW + 350 * number)
    assert not breaker.is_open, "two of eight within ten minutes"


def test_nodes_that_are_known_again_do_not_count():
    breaker = update_breaker(Breaker(), fleet(*[KNOWN] * 10), fleet(*[LOST] * 3, *[KNOWN] * 7), NOW)
    breaker = update_breaker(
        breaker, fleet(*[LOST] * 3, *[KNOWN] * 7), fleet(*[KNOWN] * 10), NOW + 60
    )
    after = fleet(*[KNOWN] * 7, *[LOST] * 3)
    assert not update_breaker(breaker, fleet(*[KNOWN] * 10), after, NOW + 120).is_open


def test_a_small_fleet_has_no_breaker():
    assert not update_breaker(Breaker(), fleet(*[KNOWN] * 4), fleet(*[LOST] * 4), NOW).is_open
    assert update_breaker(Breaker(), fleet(*[KNOWN] * 5), fleet(*[LOST] * 5), NOW).is_open


def test_a_fleet_that_comes_to_rest_at_one_instant_opens_the_breaker():
    def fell(at):
        return NodeSight(is_known=True, active_until=at, is_quiet=True)

    busy = fleet(*[NodeSight(is_known=True, active_until=NOW)] * 10)
    at_once = fleet(*[fell(NOW)] * 4, *[KNOWN] * 6)
    assert update_breaker(Breaker(), busy, at_once, NOW + 60).is_open
    apart = fleet(*[fell(NOW - number) for number in range(10)])
    assert not update_breaker(Breaker(), busy, apart, NOW + 60).is_open


def test_the_breaker_closes_after_fifteen_minutes_in_which_nine_in_ten_are_known():
    before = fleet(*[KNOWN] * 10)
    breaker = update_breaker(Breaker(), before, fleet(*[LOST] * 4, *[KNOWN] * 6), NOW)
    assert breaker.closes_at is None
    most = fleet(LOST, *[KNOWN] * 9)
    for minute in range(1, 16):
        breaker = update_breaker(breaker, most, most, NOW + 60 * minute)
        assert breaker.is_open
    assert breaker.closes_at == NOW + 60 + 900
    assert not update_breaker(breaker, most, most, NOW + 60 + 900).is_open


def test_the_breaker_stays_open_while_too_few_are_known():
    breaker = update_breaker(Breaker(), fleet(*[KNOWN] * 10), fleet(*[LOST] * 4, *[KNOWN] * 6), NOW)
    most, few = fleet(LOST, *[KNOWN] * 9), fleet(*[LOST] * 2, *[KNOWN] * 8)
    breaker = update_breaker(breaker, most, most, NOW + 1_000)
    breaker = update_breaker(breaker, most, few, NOW + 1_800)
    assert breaker.is_open
    breaker = update_breaker(breaker, most, most, NOW + 1_901)
    assert breaker.is_open, "the fifteen minutes began again"


def test_nodes_that_were_never_known_do_not_keep_the_breaker_open():
    dark = [LOST] * 5
    breaker = update_breaker(
        Breaker(), fleet(*[KNOWN] * 10, *dark), fleet(*[LOST] * 4, *[KNOWN] * 6, *dark), NOW
    )
    assert breaker.is_open
    well = fleet(*[KNOWN] * 10, *dark)
    breaker = update_breaker(breaker, well, well, NOW + 1_000)
    assert not update_breaker(breaker, well, well, NOW + 1_900).is_open


def test_nodes_that_stay_lost_for_hours_do_not_keep_the_breaker_open_alone():
    breaker = update_breaker(Breaker(), fleet(*[KNOWN] * 8), fleet(*[LOST] * 8), NOW)
    some = fleet(*[LOST] * 2, *[KNOWN] * 6)
    breaker = update_breaker(breaker, some, some, NOW + LOST_SECONDS - 1)
    assert breaker.fresh_since is None, "six of eight"
    breaker = update_breaker(breaker, some, some, NOW + LOST_SECONDS)
    assert not update_breaker(breaker, some, some, NOW + LOST_SECONDS + 900).is_open


def test_one_of_a_small_fleet_that_comes_and_goes_does_not_keep_the_breaker_open():
    breaker = update_breaker(Breaker(), fleet(*[KNOWN] * 7), fleet(*[LOST] * 7), NOW)
    one, all_known = fleet(LOST, *[KNOWN] * 6), fleet(*[KNOWN] * 7)
    for minute in range(1, 16):
        before, after = (one, all_known) if minute % 2 else (all_known, one)
        breaker = update_breaker(breaker, before, after, NOW + 60 * minute)
        assert breaker.is_open
    assert not update_breaker(breaker, all_known, one, NOW + 60 * 16).is_open
    two = fleet(*[LOST] * 2, *[KNOWN] * 5)
    breaker = update_breaker(Breaker(), fleet(*[KNOWN] * 7), fleet(*[LOST] * 7), NOW)
    assert update_breaker(breaker, two, two, NOW + 60).fresh_since is None


def test_as_many_lost_nodes_as_open_a_breaker_keep_it_open():
    breaker = update_breaker(Breaker(), fleet(*[KNOWN] * 6), fleet(*[LOST] * 6), NOW)
    half = fleet(*[LOST] * 3, *[KNOWN] * 3)
    for hour in range(1, 50):
        breaker = update_breaker(breaker, half, half, NOW + 3_600 * hour)
        assert breaker.fresh_since is None


def test_a_breaker_that_closes_by_itself_says_so_until_it_opens_again():
    well = fleet(*[KNOWN] * 10)
    dark = fleet(*[LOST] * 4, *[KNOWN] * 6)
    breaker = update_breaker(Breaker(), well, dark, NOW)
    assert breaker.closed_at is None
    breaker = update_breaker(breaker, dark, well, NOW + 100)
    breaker = update_breaker(breaker, well, well, NOW + 1_000)
    assert (breaker.opened_at, breaker.reason) == (None, "")
    assert (breaker.closed_at, breaker.closed_by) == (NOW + 1_000, "")
    assert breaker.closed_reason == "90 % of the nodes had fresh signals for 15 min"
    assert update_breaker(breaker, well, well, NOW + 9_000).closed_at == NOW + 1_000
    again = update_breaker(breaker, well, dark, NOW + 9_060)
    assert (again.opened_at, again.closed_at, again.closed_reason) == (NOW + 9_060, None, "")


def test_losses_of_the_last_ten_minutes_count_after_the_breaker_has_closed_by_itself():
    well, two = fleet(*[KNOWN] * 20), fleet(*[LOST] * 2, *[KNOWN] * 18)
    breaker = update_breaker(Breaker(), well, fleet(*[LOST] * 7, *[KNOWN] * 13), NOW)
    breaker = update_breaker(breaker, well, well, NOW + 100)
    breaker = update_breaker(breaker, well, two, NOW + 940)
    breaker = update_breaker(breaker, two, two, NOW + 1_000)
    assert not breaker.is_open
    seven = fleet(*[LOST] * 7, *[KNOWN] * 13)
    assert update_breaker(breaker, two, seven, NOW + 1_060).is_open, "seven of twenty"


def closed_by_hand():
    """A breaker that ada closed while four of ten nodes were lost, and these ten nodes."""
    dark = fleet(*[LOST] * 4, *[KNOWN] * 6)
    opened = update_breaker(Breaker(), fleet(*[KNOWN] * 10), dark, NOW)
    assert opened.is_open
    return opened.close_by_hand(NOW + 30, "ada", "one zone is down"), dark


def test_a_breaker_that_a_person_closed_stays_closed_for_the_losses_that_the_person_saw():
    breaker, dark = closed_by_hand()
    assert (breaker.closed_at, breaker.closed_by) == (NOW + 30, "ada")
    assert breaker.closed_reason == "one zone is down"
    as_known_to_a_daemon_that_takes_over = fleet(*[KNOWN] * 10)
    for before in (dark, as_known_to_a_daemon_that_takes_over):
        after = update_breaker(breaker, before, dark, NOW + 60)
        assert not after.is_open
        assert after == breaker, "who closed it, when and why stays in the row"


def test_new_losses_open_a_breaker_that_a_person_closed():
    breaker, dark = closed_by_hand()
    one_more = fleet(*[LOST] * 5, *[KNOWN] * 5)
    breaker = update_breaker(breaker, dark, one_more, NOW + 60)
    assert not breaker.is_open, "one of six"
    two_more = fleet(*[LOST] * 6, *[KNOWN] * 4)
    breaker = update_breaker(breaker, one_more, two_more, NOW + 120)
    assert breaker.is_open, "two of six"
    assert "2 of 6" in breaker.reason
    assert (breaker.closed_at, breaker.closed_by, breaker.closed_reason) == (None, "", "")


def test_a_node_that_was_known_again_and_is_lost_once_more_is_a_new_loss():
    breaker, dark = closed_by_hand()
    well = fleet(*[KNOWN] * 10)
    breaker = update_breaker(breaker, dark, well, NOW + 60)
    assert breaker.seen == ()
    assert update_breaker(breaker, well, dark, NOW + 120).is_open


def test_losses_that_a_person_saw_do_not_keep_a_breaker_open_that_opens_later():
    breaker, dark = closed_by_hand()
    two_more = fleet(*[LOST] * 6, *[KNOWN] * 4)
    breaker = update_breaker(breaker, dark, two_more, NOW + 60)
    assert breaker.is_open
    for minute in range(2, 18):
        breaker = update_breaker(breaker, dark, dark, NOW + 60 * minute)
    assert not breaker.is_open
    assert set(breaker.seen) == {"n0", "n1", "n2", "n3"}
