"""Sends messages as e-mail by SMTP."""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import unquote, urlsplit

from service.domain.clock import to_rfc3339
from service.domain.errors import CloudUnavailable, InvalidRequest, Rejected
from service.domain.idle.policy import Recipient
from service.domain.notifications.letters import text_of
from service.domain.notifications.notification import Notification

TIMEOUT_SECONDS = 10.0
_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class Relay:
    """The mail server, and our account there."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""


def parse_relay(url: str) -> Relay:
    """Parse `smtp://host`, `smtp+starttls://user:password@host:587` or `smtps://...`. Raises
    Rejected, without repeating the URL: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        parts, port = urlsplit(""), 0
    if not port or not parts.hostname:
        raise Rejected(
            "STEWARD_SMTP_URL is not the address of a mail server; write smtp://host:25,"
            " smtp+starttls://user:password@host:587 or smtps://user:password@host:465"
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Relay(parts.scheme, parts.hostname, port, user, password)


class MailMessenger:
    """Sends one message to all addresses of a recipient; its id makes a repetition recognisable."""

    def __init__(self, relay: Relay, sender: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._relay = relay
        self._sender = sender
        self._timeout = timeout

    def send(self, notification: Notification, to: Recipient, now: int) -> str | None:
        """Hand the message to the relay. Returns the refused addresses with their reasons; the
        other addresses get the message."""
        if not to.emails:
            raise InvalidRequest("the recipient has no address that can be written to")

        message = EmailMessage()
        try:
            message["From"] = self._sender
            message["To"] = ", ".join(to.emails)
            message["Subject"] = notification.subject
            # The creation time, so that a repetition is the same message (RFC 5322, 3.6.1).
            message["Date"] = format_datetime(datetime.fromtimestamp(notification.created_at, UTC))
            message["Message-ID"] = f"<{notification.id}@tpu-steward>"
            message["X-Steward-Delivery"] = notification.id
            message["X-Steward-Timestamp"] = to_rfc3339(now)
            message["Auto-Submitted"] = "auto-generated"
        except ValueError as error:
            raise InvalidRequest(f"the message has a header that cannot be: {error}") from None
        message.set_content(text_of(notification.body))

        try:
            with self._connect_relay() as server:
                if self._relay.user:
                    server.login(self._relay.user, self._relay.password)
                refused = server.send_message(message, self._sender, to.emails)
        except (OSError, smtplib.SMTPException) as error:
            raise CloudUnavailable(
                f"the mail server {self._relay.host} did not accept the message:"
                f" {type(error).__name__}"
            ) from None
        if not refused:
            return None
        reasons = [
            f"{address} ({code} {' '.join(reason.decode(errors='replace').split())})"
            for address, (code, reason) in refused.items()
        ]
        return f"the mail server {self._relay.host} refuses {', '.join(reasons)}"

    def _connect_relay(self) -> smtplib.SMTP:
        relay = self._relay
        if relay.scheme == "smtps":
            return smtplib.SMTP_SSL(
                relay.host, relay.port, timeout=self._timeout, context=ssl.create_default_context()
            )
        server = smtplib.SMTP(relay.host, relay.port, timeout=self._timeout)
        if relay.scheme == "smtp+starttls":
            try:
                server.starttls(context=ssl.create_default_context())
            except BaseException:
                server.close()
                raise
        return server
