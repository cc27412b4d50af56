"""Sends what is in the outbox, until it arrives or its day is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import structlog

from service.domain.clock import Clock
from service.domain.errors import CloudError, InvalidRequest, NotFound
from service.domain.idle.policy import Recipient
from service.domain.lease import Lease
from service.domain.notifications.notification import Channel, Notification, retry_at
from service.notify.ports import Messenger
from service.store.unit import Units

log = structlog.get_logger()

BATCH = 50
CLAIM_SECONDS = 300
"""For so many seconds only one daemon sends a message that it has taken. No sending takes longer: a
mail to 20 addresses needs some 25 commands, and a relay has ten seconds for each."""

_LONGEST_ERROR = 500


class DeliveryController:
    """At least once, each time by the same id: a crash between sending and writing sends again."""

    name = "delivery"

    def __init__(self, units: Units, messengers: Mapping[Channel, Messenger], clock: Clock) -> None:
        self._units = units
        self._messengers = messengers
        self._clock = clock

    def tick(self, lease: Lease) -> None:
        """Try each that is due once. No transaction is open while one is sent."""
        with self._units.reading() as unit:
            due = unit.notifications.due(self._clock(), BATCH)
        for one in due:
            with self._units(lease) as unit:
                taken = unit.notifications.claim(one, self._clock() + CLAIM_SECONDS)
            if taken is not None:
                after = self._sent(taken)
                if after.next_try_at is None:
                    after = after.settled()
                with self._units(lease) as unit:
                    unit.notifications.save(after)

    def _sent(self, one: Notification) -> Notification:
        """The message after it was tried."""
        now, tried = self._clock(), replace(one, tries=one.tries + 1)
        try:
            partly = self._send(one)
        except InvalidRequest as error:
            return self._failed(tried, str(error), None)
        except CloudError as error:
            return self._failed(tried, str(error), retry_at(one, now))
        except Exception as error:  # one that is poisoned must not keep the others from their turn
            log.exception("notification.broke", notification=one.id)
            return self._failed(tried, type(error).__name__, retry_at(one, now))
        log.info("notification.sent", notification=one.id, channel=one.channel)
        if partly:
            log.warning("notification.not_sent_to_all", notification=one.id, reason=partly)
        missed = (partly or "")[:_LONGEST_ERROR]
        return replace(tried, next_try_at=None, sent_at=now, last_error=missed)

    def _failed(self, tried: Notification, reason: str, again: int | None) -> Notification:
        log.warning("notification.not_sent", notification=tried.id, reason=reason, again=again)
        return replace(tried, next_try_at=again, last_error=reason[:_LONGEST_ERROR])

    def _send(self, one: Notification) -> str | None:
        messenger = self._messengers.get(one.channel)
        if messenger is None:
            raise CloudError(f"no {one.channel} can be sent: STEWARD_SMTP_URL is not set")
        return messenger.send(one, self._recipient(one), self._clock())

    def _recipient(self, one: Notification) -> Recipient:
        """Who is told: a budget names its recipients itself, as of now."""
        if one.recipient is not None:
            return one.recipient
        try:
            with self._units.reading() as unit:
                budget = unit.budgets.get(one.about_id)
        except NotFound as error:
            raise InvalidRequest(str(error)) from None
        return Recipient(budget.webhook, budget.secret, emails=budget.emails)
