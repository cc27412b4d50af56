"""What takes messages to people outside."""

from __future__ import annotations

from typing import Protocol

from service.domain.idle.policy import Recipient
from service.domain.notifications.notification import Notification


class Messenger(Protocol):
    """Takes messages to people outside."""

    def send(self, one: Notification, to: Recipient, now: int) -> str | None:
        """Send a message to a recipient, and wait for no longer than some seconds.

        Answers whom it did not reach where it reached others; it is not tried again for them, who
        would get it twice. Raises InvalidRequest when it can never arrive, another CloudError when
        it may later.
        """
        ...
