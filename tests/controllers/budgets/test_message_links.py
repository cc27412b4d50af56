"""Links are made for each try to send a message, and are nowhere but in what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from email import message_from_bytes, policy
from typing import Any

import pytest
from sqlalchemy import Engine, select

from service.application.cleanup.links import LinkOffer, LinkService
from service.application.nodes.nodes import NodeService
from service.controllers.notifications import CLAIM_SECONDS, NotificationController
from service.domain.clock import DAY, HOUR
from service.domain.errors import CloudUnavailable, InvalidRequest, LeaseLost
from service.domain.idle.links import LIFE_SECONDS, Link, LinkPromise, LinkRefusal, Verb
from service.domain.idle.policy import Action, AppliedRule, Format, Recipient, Rule
from service.domain.idle.proof import IdleVerdict, Signals
from service.domain.idle.signals.signal import Level
from service.domain.ids import new_id
from service.domain.lease import Lease
from service.domain.nodes.node import Asked, Node
from service.domain.notifications.node_messages import IdleLook, idle_message, notifications_of
from service.domain.notifications.notification import About, Channel, Notification, sign_body
from service.notify.mail import MailMessenger, Relay
from service.notify.webhook import WebhookMessenger
from service.store.links import KEPT_SECONDS, Links
from service.store.tables import metadata
from service.store.unit import Units
from tests import factories
from tests.hands import NOON, HandClock
from tests.linking import TOLD, notified, told_of
from tests.notify.test_mail import PostOffice, office
from tests.notify.test_webhook import Receiver, receiver
from tests.store.given import GivenPrices

__all__ = ["office", "receiver"]

MAIL = Recipient(emails=("ada@example.com",))
SECRET = "a secret of some length"
PUBLIC_URL = "https://steward.example.com"


class Crash(BaseException):
    """The daemon is killed."""


class Outbox:
    """Messages about an idle node, and a daemon that sends them.

    The first of `sends` is done with each message before it counts as received. `rows` is what was
    in the database while a message was sent."""

    def __init__(self, units: Units, engine: Engine, clock: HandClock) -> None:
        self.units, self.engine, self.clock = units, engine, clock
        self.bodies: list[str] = []
        self.rows: list[str] = []
        self.sends: list[Callable[[], None]] = []
        self.lease = self.take_lease("one")
        self.node = told_of(units)
        shared = units, GivenPrices(), clock
        self.links = LinkService(*shared, NodeService(*shared, [factories.PROJECT]))

    def take_lease(self, holder: str) -> Lease:
        with self.units() as unit:
            lease = unit.leases.take(factories.PROJECT, holder, 36_000)
        assert lease is not None
        return lease

    def write(self, *recipients: Recipient, public_url: str = PUBLIC_URL, at: int = TOLD) -> None:
        """Put the message of `at` that the node is idle into the outbox."""
        rule, node = Rule(3_600, 900, Action.DELETE), self.node
        applied = AppliedRule(rule, "node", 1, Action.DELETE, (), recipients, "")
        verdict = IdleVerdict(Level.QUIET, "every device is quiet", since=NOON - HOUR)
        promise = LinkPromise(node.id, node.attempt, at, public_url) if public_url else None
        look = IdleLook(node, applied, verdict, Signals({}), 9_600_000_000)
        message = idle_message(look, at, NOON - HOUR, at + 900, promise)
        with self.units() as unit:
            for notification in notifications_of(message, recipients or (MAIL,), at, new_id):
                unit.notifications.add(notification)

    def send(self, one: Notification, to: Recipient, now: int) -> None:
        """Take a message, and do what is next in `sends`."""
        self.bodies.append(one.body)
        self.rows.append(self.stored())
        if self.sends:
            self.sends.pop(0)()

    def deliver(self, lease: Lease | None = None) -> None:
        messengers = dict.fromkeys(Channel, self)
        NotificationController(self.units, messengers, self.clock).tick(lease or self.lease)

    def tokens(self, number: int = -1) -> dict[Verb, str]:
        """The tokens of a message that was sent."""
        links = json.loads(self.bodies[number])["links"]
        return {verb: links[verb].removeprefix(f"{PUBLIC_URL}/links/") for verb in Verb}

    def use(self, token: str) -> LinkOffer:
        offer = self.links.use_link(token)
        assert isinstance(offer, LinkOffer)
        return offer

    def stored(self) -> str:
        """Every row of every table."""
        with self.engine.connect() as connection:
            rows = [connection.execute(select(table)).all() for table in metadata.sorted_tables]
        return json.dumps([list(row) for some in rows for row in some], default=str)

    def count_links(self) -> int:
        with self.engine.connect() as connection:
            table = metadata.tables["cleanup_links"]
            return len(connection.execute(select(table.c.token_hash)).all())

    def assert_no_token_is_stored(self) -> None:
        """No token of a message that was sent is in the database, or was while it was sent."""
        for rows in (*self.rows, self.stored()):
            assert self.node.id in rows
            assert "/links/" not in rows
            for number in range(len(self.bodies)):
                for token in self.tokens(number).values():
                    assert len(token) == 43, "256 random bits"
                    assert token not in rows

    def as_now(self) -> Node:
        with self.units.reading() as unit:
            return unit.nodes.get(self.node.id)


@pytest.fixture
def box(units: Units, engine: Engine, clock: HandClock) -> Outbox:
    return Outbox(units, engine, clock)


def fail() -> None:
    raise CloudUnavailable("the answer was lost")


def crash() -> None:
    raise Crash


def test_no_token_is_in_the_database_before_during_or_after_a_try(box):
    box.write()
    assert "/links/" not in box.stored()
    box.sends = [fail, fail]
    for tries in range(1, 4):
        box.deliver()
        assert len(box.bodies) == tries
        box.assert_no_token_is_stored()
        box.clock.pass_(HOUR)
    box.deliver()
    assert len(box.bodies) == 3, "the third try has arrived"
    assert box.use(box.tokens()[Verb.DELETE]).done == "deletion requested"
    box.assert_no_token_is_stored()


@pytest.mark.parametrize("ends", [InvalidRequest("gone"), CloudUnavailable("no answer")])
def test_no_token_is_in_the_database_after_a_message_was_given_up(box, ends):
    def give_up() -> None:
        raise ends

    box.write()
    box.clock.now = TOLD + DAY - 1
    box.sends = [give_up]
    box.deliver()
    with box.units.reading() as unit:
        assert unit.notifications.list_due(2**40, 9) == [], "it was given up"
    box.assert_no_token_is_stored()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("verb", list(Verb))
def test_links_of_a_try_that_had_arrived_work_once_for_the_whole_message(box, verb, first):
    box.write()
    box.sends = [fail]
    box.deliver()
    box.clock.pass_(10)
    box.deliver()
    early, late = box.tokens(0), box.tokens(1)
    assert set(early.values()).isdisjoint(late.values())
    used, other = (early, late) if first == 0 else (late, early)
    assert box.use(used[verb]).done
    after = box.as_now()
    for token in (other[verb], used[verb]):
        assert box.use(token).refusal is LinkRefusal.USED
        assert box.links.read_offer(token).refusal is LinkRefusal.USED
    assert box.as_now() == after


def test_a_link_that_is_made_after_another_was_used_is_used_too(box):
    box.write()
    box.sends = [fail]
    box.deliver()
    box.use(box.tokens()[Verb.KEEP])
    kept_until = box.as_now().kept_until
    box.clock.pass_(HOUR)
    box.deliver()
    late = box.tokens()
    assert box.use(late[Verb.KEEP]).refusal is LinkRefusal.USED
    assert box.as_now().kept_until == kept_until
    assert box.use(late[Verb.DELETE]).done, "nobody has used a link that deletes"


@pytest.mark.concurrent
@pytest.mark.parametrize("verb", list(Verb))
def test_a_link_that_is_made_while_another_is_being_used_is_used_too(box, monkeypatch, verb):
    box.write()
    box.sends = [fail]
    box.deliver()
    early, mark = box.tokens()[verb], Links.mark_used
    others: list[Future[None]] = []
    box.clock.pass_(10)

    def meanwhile(links: Links, link: Link, now: int) -> Link:
        marked = mark(links, link, now)
        if not others:
            others.append(pool.submit(box.deliver))
            assert not wait(others, timeout=1).done, "new links wait for the use to be committed"
        return marked

    monkeypatch.setattr(Links, "mark_used", meanwhile)
    with ThreadPoolExecutor(1) as pool:
        assert box.use(early).done
        others[0].result()
    after = box.as_now()
    assert box.use(box.tokens(1)[verb]).refusal is LinkRefusal.USED
    assert box.as_now() == after


def test_a_used_link_leaves_those_of_another_verdict_alone(box):
    box.write()
    box.deliver()
    box.use(box.tokens()[Verb.KEEP])
    box.clock.pass_(HOUR)
    notified(box.units, box.node, NOON + HOUR)
    box.write(at=NOON + HOUR)
    box.deliver()
    assert box.use(box.tokens(0)[Verb.DELETE]).refusal is LinkRefusal.SINCE_BUSY
    assert box.use(box.tokens(1)[Verb.KEEP]).done == "kept until 2026-11-05T17:00:00Z"


def test_a_crash_before_the_send_leaves_a_message_that_is_sent_with_new_links(box):
    box.write()
    box.sends = [crash]
    with pytest.raises(Crash):
        box.deliver()
    box.deliver()
    assert len(box.bodies) == 1, "the other daemon may still be sending"
    with box.units.reading() as unit:
        assert unit.notifications.has_untried(box.node.id, TOLD, About.NODE), "nobody was told yet"
    box.clock.pass_(CLAIM_SECONDS)
    box.deliver()
    box.assert_no_token_is_stored()
    assert box.use(box.tokens(1)[Verb.KEEP]).done
    assert box.use(box.tokens(0)[Verb.KEEP]).refusal is LinkRefusal.USED


def test_links_are_written_before_the_message_is_sent(box):
    """Somebody may use a link while the daemon still waits for the answer of the mail server."""
    box.write()

    def use() -> None:
        box.use(box.tokens()[Verb.DELETE])

    box.sends = [use]
    box.deliver()
    assert box.as_now().asked is Asked.ABSENT


def test_a_daemon_that_has_lost_its_lease_makes_no_links(box):
    box.write()
    with box.units() as unit:
        unit.leases.release(box.lease)
    second = box.take_lease("two")
    with pytest.raises(LeaseLost):
        box.deliver()
    assert (box.bodies, box.count_links()) == ([], 0)
    box.deliver(second)
    assert (len(box.bodies), box.count_links()) == (1, 2)


def test_of_two_daemons_one_sends_and_the_other_takes_over_with_new_links(box):
    """The first hangs while it sends, for longer than its lease and its claim."""
    box.write()

    def hang() -> None:
        with box.units() as unit:
            unit.leases.release(box.lease)
        second = box.take_lease("two")
        for seconds in (CLAIM_SECONDS - 1, 1):
            box.deliver(second)
            sent.append(len(box.bodies))
            box.clock.pass_(seconds)
        box.deliver(second)

    sent: list[int] = []
    box.sends = [hang]
    with pytest.raises(LeaseLost):
        box.deliver()
    assert sent == [1, 1], "the first daemon may still be sending"
    assert len(box.bodies) == 2
    box.assert_no_token_is_stored()
    assert box.use(box.tokens(0)[Verb.KEEP]).done
    assert box.use(box.tokens(1)[Verb.KEEP]).refusal is LinkRefusal.USED


def test_each_try_for_each_recipient_makes_two_links_which_are_deleted_when_long_expired(box):
    box.write(MAIL, Recipient("https://hooks.example.com/x", SECRET))
    box.sends = [fail, fail]
    for _ in range(3):
        box.deliver()
        box.clock.pass_(HOUR)
    assert len(box.bodies) == 4
    assert box.count_links() == 4 * 2
    assert len({token for number in range(4) for token in box.tokens(number).values()}) == 8
    box.clock.pass_(LIFE_SECONDS + KEPT_SECONDS)
    box.write(MAIL)
    box.deliver()
    assert box.count_links() == 2


def test_the_signature_of_a_webhook_covers_the_links(box, receiver: Receiver):
    box.write(Recipient(receiver.url, SECRET))
    hook = WebhookMessenger(allow_private=True)
    NotificationController(box.units, {Channel.WEBHOOK: hook}, box.clock).tick(box.lease)
    ((_, headers, body),) = receiver.got
    assert headers["X-Steward-Signature"] == sign_body(SECRET, NOON, body)
    box.bodies.append(body.decode())
    box.assert_no_token_is_stored()
    assert box.use(box.tokens()[Verb.KEEP]).done


def test_a_slack_message_has_the_links(box, receiver: Receiver):
    box.write(Recipient(receiver.url, format=Format.SLACK))
    hook = WebhookMessenger(allow_private=True)
    NotificationController(box.units, {Channel.WEBHOOK: hook}, box.clock).tick(box.lease)
    ((_, _, body),) = receiver.got
    text = json.loads(body)["text"]
    token = text.partition(f"<{PUBLIC_URL}/links/")[2].partition("|Keep it for 4 hours>")[0]
    assert token not in box.stored()
    assert box.use(token).done == "kept until 2026-11-05T16:00:00Z"


def test_a_mail_has_the_links(box, office: PostOffice):
    box.write(MAIL)
    relay = Relay("smtp", "127.0.0.1", office.server_address[1])
    mail = MailMessenger(relay, "steward@example.com")
    NotificationController(box.units, {Channel.MAIL: mail}, box.clock).tick(box.lease)
    ((_, raw),) = office.mails
    text = message_from_bytes(raw, policy=policy.default).get_content()
    after = text.partition("Delete it now:")[2].split()[0]
    token = after.removeprefix(f"{PUBLIC_URL}/links/")
    assert token not in box.stored()
    assert box.use(token).done == "deletion requested"


def test_without_a_public_address_there_are_commands_and_no_links(box, office: PostOffice):
    box.write(MAIL, public_url="")
    relay = Relay("smtp", "127.0.0.1", office.server_address[1])
    mail = MailMessenger(relay, "steward@example.com")
    NotificationController(box.units, {Channel.MAIL: mail}, box.clock).tick(box.lease)
    ((_, raw),) = office.mails
    text = message_from_bytes(raw, policy=policy.default).get_content()
    assert "tpu-steward nodes keep train --for 4h" in text
    assert "/links/" not in text
    assert box.count_links() == 0


def test_one_message_with_an_odd_body_does_not_hold_up_the_others(box):
    box.write()
    odd: dict[str, Any] = {"created_at": TOLD - 60, "next_try_at": TOLD - 60, "recipient": MAIL}
    with box.units() as unit:
        unit.notifications.add(Notification("m-0", "n-0", Channel.MAIL, "s", "odd", **odd))
    box.deliver()
    assert box.bodies[0] == "odd"
    assert box.use(box.tokens(1)[Verb.KEEP]).done
