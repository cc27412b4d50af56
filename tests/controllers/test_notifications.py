"""What is to be told arrives once, or is tried until its day is over."""

from __future__ import annotations

import pytest

from service.controllers.notifications import CLAIM_SECONDS, NotificationController
from service.domain.budgets.budget import OnExceeded
from service.domain.clock import DAY, HOUR
from service.domain.errors import CloudUnavailable, InvalidRequest
from service.domain.idle.policy import Recipient
from service.domain.notifications.notification import (
    MAX_EMAILS,
    About,
    Channel,
    Notification,
    body_of,
)
from service.notify import mail, webhook
from tests.controllers.budgeting import HOOK


@pytest.fixture
def waiting(budgeted):
    """A message that is to be sent, and what sends it."""
    budget = budgeted.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, **HOOK)
    budgeted.up(budgeted.ask())
    budgeted.tick(HOUR)
    return budget


def latest(budgeted, budget):
    return budgeted.budgets.get(budget.id).notifications[0]


def test_what_arrives_is_sent_once(budgeted, waiting, post):
    delivery = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, budgeted.clock)
    for _ in range(3):
        delivery.tick(budgeted.lease)
    one = latest(budgeted, waiting)
    assert post.sent == [(one.id, HOOK["webhook"], budgeted.clock.now)]
    assert (one.sent_at, one.next_try_at, one.tries) == (budgeted.clock.now, None, 1)


def test_whom_it_did_not_reach_is_written_down_and_it_is_not_sent_again(budgeted, waiting, post):
    post.partly = "the mail server refuses ada@example.com"
    delivery = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, budgeted.clock)
    for _ in range(3):
        delivery.tick(budgeted.lease)
        budgeted.clock.pass_(HOUR)
    one = latest(budgeted, waiting)
    assert len(post.sent) == 1
    assert (one.last_error, one.next_try_at) == (post.partly, None)
    assert one.sent_at is not None


def test_what_does_not_arrive_is_tried_again_with_the_same_id(budgeted, waiting, post, clock):
    delivery = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, clock)
    post.errors = [CloudUnavailable("no answer"), RuntimeError("odd")]
    delivery.tick(budgeted.lease)
    one = latest(budgeted, waiting)
    assert (one.last_error, one.next_try_at) == ("no answer", clock.now + 10)
    delivery.tick(budgeted.lease)
    assert latest(budgeted, waiting).tries == 1
    clock.pass_(10)
    delivery.tick(budgeted.lease)
    assert latest(budgeted, waiting).last_error == "RuntimeError"
    clock.pass_(20)
    delivery.tick(budgeted.lease)
    assert post.sent == [(one.id, HOOK["webhook"], clock.now)]


def test_after_a_day_it_is_given_up(budgeted, waiting, post, clock):
    delivery = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, clock)
    post.errors = [CloudUnavailable("no answer")] * 1_000
    began = clock.now
    while (again := latest(budgeted, waiting).next_try_at) is not None:
        clock.now = again
        delivery.tick(budgeted.lease)
    assert DAY - HOUR <= clock.now - began < DAY
    assert latest(budgeted, waiting).sent_at is None


@pytest.mark.parametrize("gone", ["refused", "budget"])
def test_what_can_never_arrive_is_given_up_at_once(budgeted, waiting, post, gone):
    delivery = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, budgeted.clock)
    if gone == "refused":
        post.errors = [InvalidRequest("not public")]
    else:
        budgeted.budgets.delete(waiting.id)
    delivery.tick(budgeted.lease)
    assert post.sent == []
    if gone == "refused":
        assert latest(budgeted, waiting).next_try_at is None
        assert latest(budgeted, waiting).last_error == "not public"


def test_where_no_mail_can_be_sent_that_is_said(budgeted, clock):
    emails = ("ada@example.com",)
    budget = budgeted.budget(amount=1, on_exceeded=OnExceeded.NOTIFY, emails=emails)
    budgeted.up(budgeted.ask())
    budgeted.tick(HOUR)
    NotificationController(budgeted.units, {}, clock).tick(budgeted.lease)
    assert "STEWARD_SMTP_URL" in latest(budgeted, budget).last_error
    assert latest(budgeted, budget).next_try_at == clock.now + 10


def test_two_that_send_at_once_send_one(budgeted, waiting, post):
    with budgeted.units.reading() as unit:
        (one,) = unit.notifications.list_due(budgeted.clock.now, 9)
    with budgeted.units() as unit:
        first = unit.notifications.claim(one, budgeted.clock.now + 60)
        second = unit.notifications.claim(one, budgeted.clock.now + 60)
    assert first is not None
    assert second is None


def test_nobody_else_sends_what_takes_a_minute_to_send(budgeted, waiting, post, clock):
    """A receiver may keep a connection open for as long as each of its time-outs lets it."""
    other = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, clock)

    class Slow:
        def send(self, one, to, now):
            clock.pass_(60)
            other.tick(budgeted.lease)
            return post.send(one, to, now)

    NotificationController(budgeted.units, {Channel.WEBHOOK: Slow()}, clock).tick(budgeted.lease)
    assert len(post.sent) == 1
    assert latest(budgeted, waiting).tries == 1


def test_a_claim_lasts_longer_than_the_slowest_message():
    """A mail has one command for each address, and some five others."""
    assert (MAX_EMAILS + 5) * mail.TIMEOUT_SECONDS < CLAIM_SECONDS
    assert webhook.TIMEOUT_SECONDS < CLAIM_SECONDS


@pytest.mark.parametrize("arrives", [True, False])
def test_a_message_about_a_node_goes_to_the_recipient_that_it_names(budgeted, post, clock, arrives):
    to = Recipient("https://hooks.example.com/node", "a secret of some length")
    body = body_of({"id": "m-1", "links": {"keep": "https://steward.example.com/links/token"}})
    one = Notification(
        "m-1", "n-1", Channel.WEBHOOK, "s", body, clock.now, clock.now, 0, None, "", About.NODE, to
    )
    with budgeted.units() as unit:
        unit.notifications.add(one)
    delivery = NotificationController(budgeted.units, {Channel.WEBHOOK: post}, clock)
    post.errors = [CloudUnavailable("no answer")] + ([] if arrives else [InvalidRequest("gone")])
    delivery.tick(budgeted.lease)
    with budgeted.units.reading() as unit:
        (waiting,) = unit.notifications.list_newest("n-1", 9, About.NODE)
    assert waiting.body == body, "what is tried again says the same"
    clock.pass_(10)
    delivery.tick(budgeted.lease)
    with budgeted.units.reading() as unit:
        (done,) = unit.notifications.list_newest("n-1", 9, About.NODE)
    assert post.sent == ([("m-1", to.webhook, clock.now)] if arrives else [])
    assert done.next_try_at is None
    assert "token" not in done.body, "nobody can use a link who reads the database afterwards"
