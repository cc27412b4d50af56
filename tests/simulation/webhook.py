"""The webhook that is told of budgets: it fails, answers late, and loses answers, by its luck.

All of the messenger is the real one but for the socket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import SplitResult

from service.domain.idle.policy import Recipient
from service.domain.notifications.notification import Notification
from service.notify.webhook import WebhookMessenger
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints
from tests.simulation.invariants import Invariants

SLOWEST = 9.0
LONGEST = 300.0
"""Seconds for which it is down at a stretch."""


@dataclass
class Webhook:
    """What it got, by the id that each message bears."""

    agenda: Agenda
    truth: Invariants
    luck: Random
    failing: float
    """The share of the calls that fail, and of those that come through and are not answered."""
    calm: bool = False
    got: dict[str, str] = field(default_factory=dict)
    times: int = 0
    _down_until: float = 0.0

    def post(self, headers: dict[str, str], body: bytes) -> int:
        """Take a message; answers the status, or raises TimeoutError where none comes."""
        if self.calm:
            return self._take(headers, body)
        if self.agenda.now < self._down_until:
            return self.luck.choice([500, 503])
        fate = self.luck.random()
        if fate < self.failing / 4:
            self._down_until = self.agenda.now + self.luck.uniform(0, LONGEST)
        if fate < self.failing:
            if self.luck.random() < 0.5:
                raise ConnectionRefusedError
            return self.luck.choice([302, 404, 429, 500])
        self.agenda.pass_(self.luck.random() * (SLOWEST if self._by(self.failing) else 0.2))
        status = self._take(headers, body)
        if self._by(self.failing):
            raise TimeoutError
        return status

    def _take(self, headers: dict[str, str], body: bytes) -> int:
        told, text = headers["X-Steward-Delivery"], body.decode()
        if json.loads(text)["id"] != told:
            raise self.truth.wrong(f"a message is called {told}, and says {text}")
        if self.got.setdefault(told, text) != text:
            raise self.truth.wrong(f"the message {told} said something else before: {text}")
        self.times += 1
        return 204

    def _by(self, chance: float) -> bool:
        return self.luck.random() < chance


class Postman(WebhookMessenger):
    """The real messenger of one daemon, which may be killed on its way and on its way back."""

    def __init__(self, hook: Webhook, seams: CrashPoints, outside: Callable[[str], None]) -> None:
        super().__init__()
        self._hook = hook
        self._seams = seams
        self._outside = outside

    def send(self, one: Notification, to: Recipient, now: int) -> None:
        """Raises what the real one does, and Killed."""
        self._outside("send")
        self._seams.call("send", lambda: WebhookMessenger.send(self, one, to, now))

    def _post_body(self, parts: SplitResult, body: bytes, headers: dict[str, str]) -> Any:
        assert parts.scheme == "https"
        return self._hook.post(headers, body)
