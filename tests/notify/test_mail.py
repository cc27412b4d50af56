"""Mail goes to every address of a budget, and its headers hold what they should and no more."""

from __future__ import annotations

import json
import socketserver
import threading
from email import message_from_bytes, policy

import pytest

from service.domain.errors import CloudUnavailable, InvalidRequest, Rejected
from service.domain.idle.policy import Recipient
from service.domain.notifications.node_messages import notifications_of, ttl_message
from service.domain.notifications.notification import Channel, Notification
from service.notify.mail import MailMessenger, Relay, parse_relay
from tests import factories
from tests.hands import NOON

BODY = json.dumps(
    {
        "id": "n-1",
        "at": "2026-11-05T12:00:00Z",
        "message": "80 % of the budget 'vision' is reached",
        "budget": {
            "name": "vision",
            "scope": "team vision",
            "period": "month",
            "starts_at": "2026-11-01T00:00:00Z",
            "ends_at": "2026-12-01T00:00:00Z",
            "amount": "100.000000000",
        },
        "spent": "80.000000000",
        "held": None,
        "deletes_at": "2026-11-05T12:15:00Z",
    }
)
MESSAGE = Notification("n-1", "b-1", Channel.MAIL, "[TPU Steward] vision", BODY, NOON, NOON)


class PostOffice(socketserver.ThreadingTCPServer):
    """As much SMTP as it takes to be handed a message."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Clerk)
        self.refused: set[str] = set()
        self.mails: list[tuple[list[str], bytes]] = []
        self.commands: list[str] = []


class Clerk(socketserver.StreamRequestHandler):
    server: PostOffice

    def handle(self):
        self.say("220 here")
        recipients = []
        while line := self.rfile.readline().decode().strip():
            self.server.commands.append(line)
            verb = line.split(":")[0].upper()
            if verb == "RCPT TO":
                address = line.partition("<")[2].partition(">")[0]
                known = address not in self.server.refused
                recipients += [address] if known else []
                self.say("250 fine" if known else "550 unknown")
            elif verb == "DATA":
                self.say("354 go on")
                lines = []
                while (part := self.rfile.readline()) != b".\r\n":
                    lines.append(part)
                self.server.mails.append((recipients, b"".join(lines)))
                self.say("250 taken")
            elif verb == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("235 welcome" if verb.startswith("AUTH") else "250-here\r\n250 AUTH PLAIN")

    def say(self, line):
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def office():
    with PostOffice() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(office, message=MESSAGE, **changes):
    fields = {"emails": ("ada@example.com", "bob@example.com")} | changes
    port = office if isinstance(office, int) else office.server_address[1]
    relay = Relay("smtp", "127.0.0.1", port)
    to = Recipient(**fields)
    return MailMessenger(relay, "steward@example.com", 2.0).send(message, to, NOON + 60)


def test_a_message_reaches_every_address(office):
    assert send(office) is None
    ((recipients, raw),) = office.mails
    assert recipients == ["ada@example.com", "bob@example.com"]
    mail = message_from_bytes(raw, policy=policy.default)
    assert mail["Subject"] == "[TPU Steward] vision"
    assert mail["From"] == "steward@example.com"
    assert mail["Message-ID"] == "<n-1@tpu-steward>"
    assert mail["Date"] == "Thu, 05 Nov 2026 12:00:00 +0000"
    assert mail["X-Steward-Timestamp"] == "2026-11-05T12:01:00Z"
    text = mail.get_content()
    assert text.startswith("80 % of the budget 'vision' is reached.")
    assert "Spent:    $80.00" in text
    assert "Held:     not known" in text
    assert "deleted at 2026-11-05T12:15:00Z" in text


def test_an_address_that_is_refused_keeps_no_other_from_its_message(office):
    office.refused = {"ada@example.com"}
    said = send(office)
    ((recipients, _),) = office.mails
    assert recipients == ["bob@example.com"]
    assert said == "the mail server 127.0.0.1 refuses ada@example.com (550 unknown)"


def test_where_all_are_refused_it_is_tried_again(office):
    office.refused = {"ada@example.com", "bob@example.com"}
    with pytest.raises(CloudUnavailable, match="did not accept the message"):
        send(office)


@pytest.mark.parametrize("where", ["subject", "emails"])
def test_a_line_break_never_becomes_a_header(office, where):
    changes = {"emails": ("ada@example.com\r\nBcc: all@example.com",)} if where == "emails" else {}
    subject = "hello\r\nBcc: all@example.com" if where == "subject" else "hello"
    message = Notification("n-1", "b-1", Channel.MAIL, subject, BODY, NOON, NOON)
    with pytest.raises(InvalidRequest):
        send(office, message, **changes)
    assert office.mails == []


def test_a_server_that_is_not_there_may_be_later():
    with pytest.raises(CloudUnavailable, match="did not accept the message"):
        send(1)


def test_without_an_address_there_is_nothing_to_send(office):
    with pytest.raises(InvalidRequest):
        send(office, emails=())


def test_who_has_a_name_says_it(office):
    relay = Relay("smtp", "127.0.0.1", office.server_address[1], "us", "word")
    to = Recipient(emails=("ada@example.com",))
    MailMessenger(relay, "steward@example.com", 2.0).send(MESSAGE, to, NOON)
    assert any(line.startswith("AUTH PLAIN") for line in office.commands)
    assert len(office.mails) == 1


@pytest.mark.parametrize(
    ("url", "relay"),
    [
        ("smtp://mail", Relay("smtp", "mail", 25)),
        ("smtp+starttls://u:p%40ss@mail", Relay("smtp+starttls", "mail", 587, "u", "p@ss")),
        ("smtps://mail:1465", Relay("smtps", "mail", 1465)),
    ],
)
def test_the_address_of_a_server(url, relay):
    assert parse_relay(url) == relay


@pytest.mark.parametrize("url", ["", "mail", "http://mail", "smtp://", "smtp://u:geheim@mail:x"])
def test_what_is_no_server_is_refused_without_its_password(url):
    with pytest.raises(Rejected) as caught:
        parse_relay(url)
    assert "geheim" not in str(caught.value)


def test_a_hostile_name_of_a_node_neither_breaks_the_mail_nor_adds_a_header(office):
    node = factories.node(name="x\r\nBcc: all@example.com\r\n\r\n.\r\nQUIT", owner="\ud800")
    message = ttl_message(node, NOON, NOON - 60, NOON + 60, None)
    to = Recipient(emails=("ada@example.com",))
    (one,) = notifications_of(message, [to], NOON, lambda: "m-1")
    assert send(office, one, emails=to.emails) is None
    ((recipients, raw),) = office.mails
    mail = message_from_bytes(raw, policy=policy.default)
    assert recipients == ["ada@example.com"]
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("[TPU Steward] x Bcc: all@example.com . QUIT will be deleted")
    assert "Owner:    " in mail.get_content()
