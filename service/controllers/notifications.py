"""Sends the messages of the outbox until they arrive or are a day old."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace

import structlog

from service.domain.clock import Clock
from service.domain.errors import CloudError, InvalidRequest, NotFound
from service.domain.idle.links import BYTES, make_links
from service.domain.idle.policy import Recipient
from service.domain.lease import Lease
from service.domain.notifications.notification import Channel, Notification, next_retry_at
from service.notify.ports import Messenger
from service.store.unit import Unit, Units

log = structlog.get_logger()

BATCH = 50
CLAIM_SECONDS = 300
"""Seconds for which a claimed message is sent by one daemon only. No sending takes longer: a mail
to 20 addresses needs some 25 commands, and a relay has ten seconds for each."""

_LONGEST_ERROR = 500


class NotificationController:
    """Delivers at least once, with the same id each time: a message is sent again after a crash
    between sending and saving. Each try has links of its own, so that none is stored."""

    name = "delivery"

    def __init__(self, units: Units, messengers: Mapping[Channel, Messenger], clock: Clock) -> None:
        self._units = units
        self._messengers = messengers
        self._clock = clock

    def tick(self, lease: Lease) -> None:
        """Try each due message once. No transaction is open while a message is sent."""
        with self._units.reading() as unit:
            due = unit.notifications.list_due(self._clock(), BATCH)
        for message in due:
            now = self._clock()
            with self._units(lease) as unit:
                claimed = unit.notifications.claim(message, now + CLAIM_SECONDS)
                if claimed is None:
                    continue
                complete = mint_links(unit, claimed, now)
            after = self._try_message(claimed, complete)
            if after.next_try_at is None:
                after = after.without_links()
            with self._units(lease) as unit:
                unit.notifications.save(after)

    def _try_message(self, message: Notification, complete: Notification) -> Notification:
        """Send the message, `complete` with the links of this try; returns the message to store,
        with the outcome and without links."""
        now, tried = self._clock(), replace(message, tries=message.tries + 1)
        try:
            partly = self._send_message(complete)
        except InvalidRequest as error:
            return self._with_failure(tried, str(error), None)
        except CloudError as error:
            return self._with_failure(tried, str(error), next_retry_at(message, now))
        except Exception as error:  # one poisoned message must not starve the others
            log.exception("notification.broke", notification=message.id)
            return self._with_failure(tried, type(error).__name__, next_retry_at(message, now))
        log.info("notification.sent", notification=message.id, channel=message.channel)
        if partly:
            log.warning("notification.not_sent_to_all", notification=message.id, reason=partly)
        missed = (partly or "")[:_LONGEST_ERROR]
        return replace(tried, next_try_at=None, sent_at=now, last_error=missed)

    def _with_failure(self, tried: Notification, reason: str, again: int | None) -> Notification:
        log.warning("notification.not_sent", notification=tried.id, reason=reason, again=again)
        return replace(tried, next_try_at=again, last_error=reason[:_LONGEST_ERROR])

    def _send_message(self, message: Notification) -> str | None:
        messenger = self._messengers.get(message.channel)
        if messenger is None:
            raise CloudError(f"no {message.channel} can be sent: STEWARD_SMTP_URL is not set")
        recipient = message.recipient
        if recipient is None:  # the current recipients of the budget
            try:
                with self._units.reading() as unit:
                    budget = unit.budgets.get(message.about_id)
            except NotFound as error:
                raise InvalidRequest(str(error)) from None
            recipient = Recipient(budget.webhook, budget.secret, emails=budget.emails)
        return messenger.send(message, recipient, self._clock())


def mint_links(unit: Unit, message: Notification, now: int) -> Notification:
    """Return the message for one try, with new links in it, and write their hashes. The links are
    in the returned message only, which must not be stored. Links of an earlier try, which may have
    arrived, stay valid. A message without links is returned as it is."""
    promise = message.promise
    if promise is None:
        return message
    # A link of an earlier try may be used at the same time, and these links with it.
    unit.nodes.lock(promise.node_id)
    addresses, links = make_links(promise, now, lambda: secrets.token_urlsafe(BYTES))
    for link in links:
        unit.links.add(link, now)
    return message.with_links(addresses)
