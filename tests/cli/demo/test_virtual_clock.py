"""Simulated time: what is due happens in order, and then it is another clock's time."""

from __future__ import annotations

from service.cli.demo.virtual_clock import VirtualClock


def test_acts_happen_in_order_each_at_its_own_time():
    clock, seen = VirtualClock(1_000.0), []
    clock.after(30, lambda: seen.append(("second", clock.seconds())))
    clock.at(1_010, lambda: seen.append(("first", clock.seconds())))
    clock.at(1_061, lambda: seen.append(("later", clock.seconds())))
    assert clock.pass_to(1_060.5) == 2
    assert seen == [("first", 1_010), ("second", 1_030)]
    assert (clock.seconds(), clock()) == (1_060.5, 1_060)


def test_an_act_may_put_another_on_the_agenda():
    clock, seen = VirtualClock(0.0), []
    clock.after(5, lambda: clock.after(5, lambda: seen.append(clock.seconds())))
    assert clock.pass_to(20) == 2
    assert seen == [10]


def test_a_call_that_waits_lets_time_pass_and_an_overdue_act_happens_next():
    clock, seen = VirtualClock(0.0), []
    clock.at(3, lambda: seen.append(clock.seconds()))
    clock.sleep(7)
    assert seen == []
    clock.pass_to(8)
    assert seen == [7]


def test_after_the_past_it_is_the_time_of_another_clock():
    clock = VirtualClock(5.0)
    hands = [100.5]
    clock.go_live(lambda: hands[0])
    assert (clock.seconds(), clock()) == (100.5, 100)
    hands[0] = 200.0
    assert clock() == 200
