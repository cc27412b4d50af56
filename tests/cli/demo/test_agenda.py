"""Simulated time: what is due happens in order, and then it is another clock's time."""

from __future__ import annotations

from service.cli.demo.agenda import Agenda


def test_acts_happen_in_order_each_at_its_own_time():
    agenda, seen = Agenda(1_000.0), []
    agenda.after(30, lambda: seen.append(("second", agenda.seconds())))
    agenda.at(1_010, lambda: seen.append(("first", agenda.seconds())))
    agenda.at(1_061, lambda: seen.append(("later", agenda.seconds())))
    assert agenda.pass_to(1_060.5) == 2
    assert seen == [("first", 1_010), ("second", 1_030)]
    assert (agenda.seconds(), agenda()) == (1_060.5, 1_060)


def test_an_act_may_put_another_on_the_agenda():
    agenda, seen = Agenda(0.0), []
    agenda.after(5, lambda: agenda.after(5, lambda: seen.append(agenda.seconds())))
    assert agenda.pass_to(20) == 2
    assert seen == [10]


def test_a_call_that_waits_lets_time_pass_and_an_overdue_act_happens_next():
    agenda, seen = Agenda(0.0), []
    agenda.at(3, lambda: seen.append(agenda.seconds()))
    agenda.sleep(7)
    assert seen == []
    agenda.pass_to(8)
    assert seen == [7]


def test_after_the_past_it_is_the_time_of_another_clock():
    agenda = Agenda(5.0)
    hands = [100.5]
    agenda.go_live(lambda: hands[0])
    assert (agenda.seconds(), agenda()) == (100.5, 100)
    hands[0] = 200.0
    assert agenda() == 200
