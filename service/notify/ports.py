"""The Protocol of a messenger."""

from __future__ import annotations

from typing import Protocol

from service.domain.idle.policy import Recipient
from service.domain.notifications.notification import Notification


class Messenger(Protocol):
    """Delivers messages to recipients outside the service."""

    def send(self, notification: Notification, to: Recipient, now: int) -> str | None:
        """Send a message to a recipient, within some seconds.

        Returns the addresses that were refused while others got the message; the message is not
        sent again, because the others would get it twice. Raises InvalidRequest if it can never
        arrive, another CloudError if a retry may succeed.
        """
        ...
