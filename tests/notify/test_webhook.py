"""Webhooks get what is signed, and lead nowhere that is not public."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from service.domain.errors import CloudUnavailable, InvalidRequest
from service.domain.idle.policy import Format, Recipient
from service.domain.notifications.node_messages import notifications_of, ttl_message
from service.domain.notifications.notification import Channel, Notification, sign_body
from service.notify.webhook import WebhookMessenger
from tests import factories
from tests.hands import NOON

SECRET = "a secret of some length"
MESSAGE = Notification("n-1", "b-1", Channel.WEBHOOK, "s", '{"message":"h\u00e9"}', NOON, NOON)


class Receiver(HTTPServer):
    """Answers what a test wants, and keeps what it got."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.status = 204
        self.headers: dict[str, str] = {}
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook?x=1"


class Answering(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver():
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def send(url, *, allow_private=True, timeout=5.0):
    to = Recipient(url, SECRET)
    WebhookMessenger(allow_private=allow_private, timeout=timeout).send(MESSAGE, to, NOON)


def test_a_message_arrives_as_it_was_signed(receiver):
    send(receiver.url)
    ((path, headers, body),) = receiver.got
    assert path == "/hook?x=1"
    assert body == MESSAGE.body.encode()
    assert headers["X-Steward-Delivery"] == "n-1"
    assert headers["X-Steward-Timestamp"] == str(NOON)
    assert headers["X-Steward-Signature"] == sign_body(SECRET, NOON, body)
    assert headers["Content-Type"] == "application/json"
    assert headers["Host"] == f"127.0.0.1:{receiver.server_port}"
    assert SECRET not in str(headers)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_any_other_answer_is_tried_again_and_no_redirect_is_followed(receiver, status):
    receiver.status, receiver.headers = status, {"Location": receiver.url + "&again"}
    with pytest.raises(CloudUnavailable, match=f"answers {status}"):
        send(receiver.url)
    assert len(receiver.got) == 1


def test_who_is_gone_is_not_asked_again(receiver):
    receiver.status = 410
    with pytest.raises(InvalidRequest, match="gone"):
        send(receiver.url)


def test_this_machine_is_out_of_bounds_unless_it_is_allowed(receiver):
    for url in (receiver.url, receiver.url.replace("127.0.0.1", "localhost")):
        with pytest.raises(InvalidRequest, match="STEWARD_WEBHOOK_ALLOW_PRIVATE"):
            send(url, allow_private=False)
    assert receiver.got == []


def test_a_name_with_one_private_address_among_others_is_out_of_bounds(monkeypatch):
    found = [(2, 1, 6, "", ("8.8.8.8", 443)), (2, 1, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(InvalidRequest, match="not public"):
        send("https://hooks.example.com/x", allow_private=False)


def test_the_address_that_was_looked_at_is_the_one_that_is_connected_to(monkeypatch):
    """A name that answers otherwise the second time leads nowhere else."""
    answers = [[(2, 1, 6, "", ("127.0.0.1", 80))]]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers.pop())
    connected = []

    def connect(address, **_):
        connected.append(address)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(CloudUnavailable):
        send("http://hooks.example.com/x")
    assert connected == [("127.0.0.1", 80)]
    assert answers == []


def test_who_does_not_answer_in_time_is_cut_off():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(CloudUnavailable, match="cannot be reached"):
            send(f"http://127.0.0.1:{port}/x", timeout=0.2)


def test_who_drips_is_cut_off_as_well():
    """Each byte comes in time, the answer as a whole does not."""
    stop = threading.Event()

    def drip(server):
        connection, _ = server.accept()
        with connection:
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=[server])
        thread.start()
        try:
            with pytest.raises(CloudUnavailable, match="cannot be reached"):
                send(f"http://127.0.0.1:{server.getsockname()[1]}/x", timeout=0.3)
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://nowhere.invalid/x"])
def test_who_cannot_be_reached_may_be_later(url):
    with pytest.raises(CloudUnavailable, match="cannot be reached"):
        send(url)


def test_encryption_that_is_none_is_told(receiver):
    with pytest.raises(CloudUnavailable, match="cannot be reached"):
        send(receiver.url.replace("http:", "https:"))


@pytest.mark.parametrize("url", ["", "ftp://example.com/x", "file:///etc/passwd"])
def test_what_is_no_webhook_is_given_up(url):
    with pytest.raises(InvalidRequest):
        send(url)


def send_to(to, name="train"):
    """Send a message about a node; answers it."""
    node = factories.node(name=name)
    message = ttl_message(node, NOON, NOON - 60, NOON + 60, None)
    (one,) = notifications_of(message, [to], NOON, lambda: "m-1")
    WebhookMessenger(allow_private=True).send(one, to, NOON)
    return one


def test_a_hostile_name_stays_a_string_of_the_signed_body(receiver):
    name = '","kind":"node.idle","x":"\r\n<!channel>'
    one = send_to(Recipient(receiver.url, SECRET), name)
    ((_, headers, body),) = receiver.got
    assert body == one.body.encode()
    assert headers["X-Steward-Signature"] == sign_body(SECRET, NOON, body)
    facts = json.loads(body)
    assert facts["kind"] == "node.ttl"
    assert facts["node"]["name"] == '","kind":"node.idle","x":" <!channel>'


@pytest.mark.parametrize("secret", ["", SECRET])
def test_slack_gets_its_own_shape_signed_where_there_is_a_secret(receiver, secret):
    send_to(Recipient(receiver.url, secret, Format.SLACK))
    ((_, headers, body),) = receiver.got
    payload = json.loads(body)
    assert set(payload) == {"text"}
    assert "*The time to live of node `train` was over" in payload["text"]
    assert headers.get("X-Steward-Signature") == (sign_body(SECRET, NOON, body) if secret else None)


def test_a_webhook_without_a_secret_gets_nothing_unsigned(receiver):
    with pytest.raises(InvalidRequest, match="no secret"):
        send_to(Recipient(receiver.url))
    assert receiver.got == []
