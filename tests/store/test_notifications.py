"""The outbox in the database: what a message is about, and whom it goes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.budgets.alerts import Alert
from service.domain.clock import DAY
from service.domain.idle.policy import Format, Recipient
from service.domain.notifications.notification import About, Channel, Notification
from tests import factories
from tests.hands import NOON

SLACK = Recipient("https://hooks.example.com/x", "s" * 16, Format.SLACK)
MAIL = Recipient(emails=("ada@example.com", "bob@example.com"))


def message(about_id="n-1", **changes):
    base = Notification(
        f"m-{about_id}",
        about_id,
        Channel.WEBHOOK,
        "s",
        "{}",
        NOON,
        NOON,
        about_kind=About.NODE,
        recipient=SLACK,
    )
    return replace(base, **changes)


@pytest.mark.parametrize("recipient", [SLACK, MAIL, None])
def test_a_recipient_is_read_as_it_was_written(units, recipient):
    one = message(recipient=recipient)
    with units() as unit:
        unit.notifications.add(one)
    with units.reading() as unit:
        assert unit.notifications.list_due(NOON, 9) == [one]
        assert unit.notifications.list_newest("n-1", 9, About.NODE) == [one]
    with units() as unit:
        unit.notifications.save(replace(one, tries=1))
    with units.reading() as unit:
        assert unit.notifications.list_due(NOON, 9) == [replace(one, tries=1)]


def test_a_node_and_a_budget_of_one_id_have_messages_of_their_own(units):
    with units() as unit:
        unit.notifications.add(message())
    with units.reading() as unit:
        assert unit.notifications.list_newest("n-1", 9) == []
        assert unit.notifications.list_newest("n-1", 9, About.PROJECT) == []
        assert unit.notifications.has_untried("n-1", NOON, About.NODE)
        assert not unit.notifications.has_untried("n-1", NOON)
        assert not unit.notifications.has_untried("n-1", NOON + 1, About.NODE)


def test_old_messages_of_the_same_subject_are_forgotten_once_they_are_done(units):
    done = {"created_at": NOON - 91 * DAY, "next_try_at": None}
    with units() as unit:
        unit.notifications.add(message(id="old", **done))
        unit.notifications.add(message("n-2", id="another", **done))
        unit.notifications.add(message(id="waiting", created_at=NOON - 91 * DAY))
        unit.notifications.add(message(id="new"))
    with units.reading() as unit:
        of_one = [
            notification.id for notification in unit.notifications.list_newest("n-1", 9, About.NODE)
        ]
        of_another = [
            notification.id for notification in unit.notifications.list_newest("n-2", 9, About.NODE)
        ]
    assert of_one == ["new", "waiting"]
    assert of_another == ["another"]


def test_a_budget_that_goes_takes_its_own_messages_and_no_others(units):
    budget = factories.budget()
    with units() as unit:
        unit.budgets.add(budget)
        for kind in About:
            one = message(budget.id, id=kind, about_kind=kind)
            unit.notifications.add(one)
        unit.budgets.delete(budget)
    with units.reading() as unit:
        left = {notification.id for notification in unit.notifications.list_due(NOON, 9)}
    assert left == {About.NODE, About.PROJECT}


def test_the_alerts_of_several_budgets_are_read_at_once(units):
    first, second, quiet, other = (factories.budget(id=f"b-{n}", name=f"b-{n}") for n in range(4))
    with units() as unit:
        for notification in (first, second, quiet, other):
            unit.budgets.add(notification)
        for one, kind in ((first, "actual:80"), (first, "exceeded"), (second, "exceeded")):
            unit.alerts.save(one.id, Alert(kind, NOON, NOON if one is first else None))
        unit.alerts.save(other.id, Alert("exceeded", NOON, NOON))
    with units.reading() as unit:
        found = unit.alerts.find_by_budgets([first.id, second.id, quiet.id])
        assert found == {
            notification.id: unit.alerts.find_by_budget(notification.id)
            for notification in (first, second)
        }
        assert list(found[first.id]) == ["actual:80", "exceeded"]
        assert unit.alerts.find_by_budgets([]) == {}
