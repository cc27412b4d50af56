"""Notifications: their signature, their recipients, and when to retry."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from urllib.parse import urlsplit

from service.domain.clock import DAY, HOUR
from service.domain.errors import Rejected
from service.domain.idle.links import LinkPromise, Verb
from service.domain.idle.policy import Format, Recipient
from service.domain.network import is_public, parse_address

GIVE_UP_SECONDS = DAY
"""Seconds after which a notification is given up."""

FIRST_RETRY_SECONDS = 10
MAX_URL = 2_000
MAX_EMAILS = 20

PROMISE = "promised_links"
"""The key of a stored body that says what its links are for. The body of a sent message has
`links` instead."""

_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


class Channel(StrEnum):
    """How a message is sent."""

    WEBHOOK = "webhook"
    MAIL = "mail"


class About(StrEnum):
    """The subject of a notification."""

    BUDGET = "budget"
    NODE = "node"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Notification:
    """One message by one channel. It is due at `next_try_at`; None when it was sent or given up.

    Retries have the same id, so that a receiver can detect duplicates. `about_id` is the id of a
    budget or node, or the name of a project. `recipient` is None for a budget: the budget's
    recipients at the time of sending are used.
    """

    id: str
    about_id: str
    channel: Channel
    subject: str
    body: str
    created_at: int
    next_try_at: int | None
    tries: int = 0
    sent_at: int | None = None
    last_error: str = ""
    about_kind: About = About.BUDGET
    recipient: Recipient | None = None

    def without_links(self) -> Notification:
        """The notification after its last try, without links: messages that earlier versions wrote
        have theirs in the stored body."""
        facts = _facts_of(self.body)
        return replace(self, body=body_of({**facts, "links": {}})) if facts.get("links") else self

    @property
    def promise(self) -> LinkPromise | None:
        """What the links of the message are for; None for a message without links. None also for a
        promise of another version: the message is then sent without links."""
        told = _facts_of(self.body).get(PROMISE)
        if not isinstance(told, dict):
            return None
        try:
            return LinkPromise(**told)
        except TypeError:  # other fields
            return None

    def with_links(self, addresses: Mapping[Verb, str]) -> Notification:
        """The notification of one try, with the links that were promised. It must not be stored:
        a reader of the database must not be able to use the links."""
        facts = {key: value for key, value in _facts_of(self.body).items() if key != PROMISE}
        return replace(self, body=body_of({**facts, "links": addresses}))


def _facts_of(body: str) -> Mapping[str, object]:
    """The facts of a body; empty for a body that is no JSON object."""
    try:
        facts = json.loads(body)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def body_of(facts: Mapping[str, object]) -> str:
    """The JSON body of a notification by webhook."""
    return json.dumps(facts, separators=(",", ":"), sort_keys=True)


def sign_body(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of a notification: `sha256=` and the HMAC of `timestamp.body`. The receiver
    computes the same."""
    message = f"{timestamp}.".encode() + body
    return f"sha256={hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()}"


def next_retry_at(notification: Notification, now: int) -> int | None:
    """When a failed notification is retried, with backoff; None when it is given up."""
    delay = min(HOUR, FIRST_RETRY_SECONDS * 2 ** min(notification.tries, 10))
    return now + delay if now + delay < notification.created_at + GIVE_UP_SECONDS else None


def check_webhook(url: str, secret: str, *, allow_private: bool = False) -> None:
    """Raise Rejected for a notification webhook with an invalid URL, or without a secret to sign
    with.

    A host name is resolved and checked when the notification is sent.
    """
    if not url:
        if secret:
            raise Rejected("a webhook_secret needs a webhook", field="webhook_secret")
        return
    _check_address(url, allow_private=allow_private)
    if not secret:
        raise Rejected(
            "a webhook needs a webhook_secret of at least 16 characters, which signs what it gets",
            field="webhook_secret",
        )


def check_recipient(recipient: Recipient, *, allow_private: bool = False) -> None:
    """Raise Rejected for an invalid recipient of notifications, or for one without exactly one
    channel.

    The URL of a Slack webhook is secret itself, so it needs no secret.
    """
    if bool(recipient.webhook) == bool(recipient.emails):
        raise Rejected(
            "a recipient has either a webhook or emails; name each in an entry of its own",
            field="recipients",
        )
    check_emails(recipient.emails)
    if not recipient.webhook:
        if recipient.secret:
            raise Rejected("a secret needs a webhook", field="secret")
        return
    _check_address(recipient.webhook, allow_private=allow_private)
    if not recipient.secret and recipient.format is not Format.SLACK:
        raise Rejected(
            "a webhook needs a secret of at least 16 characters, which signs what it gets",
            field="secret",
        )


def _check_address(url: str, *, allow_private: bool) -> None:
    host = _parse_host(url)
    if host is None:
        raise Rejected(
            "the webhook must be a URL such as https://hooks.example.com/budgets: http or https,"
            " without user or password",
            field="webhook",
        )
    address = None if allow_private else parse_address(host)
    if address is not None and not is_public(address):
        raise Rejected(
            f"the webhook resolves to {address}, which is not public; set"
            " STEWARD_WEBHOOK_ALLOW_PRIVATE to allow that",
            field="webhook",
        )


def _parse_host(url: str) -> str | None:
    """The host of a valid webhook URL; None if the URL is invalid."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.port != 0
        named = parts.username is None and parts.password is None
    except ValueError:
        return None
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URL
    return parts.hostname if fine and named and plain else None


def check_emails(emails: tuple[str, ...]) -> None:
    """Raise Rejected for an invalid e-mail address for notifications, or for too many addresses."""
    if len(emails) > MAX_EMAILS:
        raise Rejected(f"at most {MAX_EMAILS} addresses", field="emails")
    for email in emails:
        if len(email) > 254 or not _EMAIL.fullmatch(email):
            raise Rejected(
                f"{email[:80]!r} is not an e-mail address; write it as ada@example.com",
                field="emails",
            )


@lru_cache(maxsize=10_000)
def is_email(owner: str) -> bool:
    """Whether an owner is a valid e-mail address for notifications."""
    try:
        check_emails((owner,))
    except Rejected:
        return False
    return True


def origin_of(url: str) -> str:
    """Scheme and host of the URL that notifications go to. Its path may be secret, so it is not
    shown."""
    if not url:
        return ""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{'/...' if parts.path.strip('/') else ''}"
