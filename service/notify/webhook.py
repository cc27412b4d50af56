"""Sends messages to webhooks: signed, to public addresses only, and without following redirects."""

from __future__ import annotations

import http.client
from urllib.parse import SplitResult, urlsplit

from service.domain.errors import CloudUnavailable, InvalidRequest
from service.domain.idle.policy import Format, Recipient
from service.domain.notifications.letters import slack_of
from service.domain.notifications.notification import Notification, sign_body
from service.outbound import NotPublic, dial, request_target

TIMEOUT_SECONDS = 10.0
GONE = 410
"""The status with which a receiver refuses this message for good."""


class WebhookMessenger:
    """Sends to addresses given by users, so each connection is pinned: see `service.outbound`."""

    def __init__(self, *, allow_private: bool = False, timeout: float = TIMEOUT_SECONDS) -> None:
        self._allow_private = allow_private
        self._timeout = timeout

    def send(self, notification: Notification, to: Recipient, now: int) -> None:
        """POST the message. Only a 2xx status counts as received; a redirect does not.

        A message is signed if the recipient has a secret. Slack does not check signatures, because
        its address is the secret, so a webhook in that format needs no secret.
        """
        parts = urlsplit(to.webhook)
        needs_secret = to.format is not Format.SLACK
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest("the recipient has no webhook that can be sent to")
        if needs_secret and not to.secret:
            raise InvalidRequest("the webhook has no secret that signs what is sent to it")
        body = (
            slack_of(notification.body) if to.format is Format.SLACK else notification.body
        ).encode()
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "User-Agent": "tpu-steward",
            "X-Steward-Delivery": notification.id,
            "X-Steward-Timestamp": str(now),
        }
        if to.secret:
            headers["X-Steward-Signature"] = sign_body(to.secret, now, body)
        try:
            status = self._post_body(parts, body, headers)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise CloudUnavailable(
                f"the webhook at {parts.hostname} cannot be reached: {type(error).__name__}"
            ) from None
        if status == GONE:
            raise InvalidRequest(f"the webhook at {parts.hostname} answers 410: it is gone")
        if not 200 <= status < 300:
            raise CloudUnavailable(f"the webhook at {parts.hostname} answers {status}")

    def _post_body(self, parts: SplitResult, body: bytes, headers: dict[str, str]) -> int:
        try:
            with dial(parts, self._timeout, allow_private=self._allow_private) as caller:
                caller.request("POST", request_target(parts), body, headers)
                with caller.getresponse() as answer:
                    return answer.status
        except NotPublic:
            raise InvalidRequest(
                f"the webhook at {parts.hostname} leads to an address that is not public; set"
                " STEWARD_WEBHOOK_ALLOW_PRIVATE to allow that"
            ) from None
