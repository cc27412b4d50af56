"""Links in messages: what a link would do, and doing it once."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from functools import partial

from service.application.budgets import admission
from service.application.cleanup.ending import record_end
from service.application.cleanup.keeps import write_keep
from service.application.nodes.cost import NodeCost, cost_of
from service.application.nodes.nodes import NodeService
from service.application.retries import run_with_retries
from service.domain.clock import MINUTE, Clock, to_rfc3339
from service.domain.event import Event
from service.domain.idle.assess import SHIPPED_TIMES, IdleTimes
from service.domain.idle.links import KEEP_SECONDS, Link, LinkRefusal, Verb, find_refusal, hash_of
from service.domain.nodes.keep import asked_keep, cloud_ends_at, keep_of
from service.domain.nodes.node import Asked, Node
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

ACTOR = "a link in a message"
MAX_MISSES = 30
"""Unknown tokens in a minute, of all callers of one process."""

_LONGEST_TOKEN = 100


@dataclass(frozen=True, slots=True)
class LinkOffer:
    """What a link would do to a node as it is now, or why it does nothing. `job_id` is the job that
    runs on the node; empty for none. `done` says what was done; empty for a link that was only
    shown. `kept_until` is until when the node would be kept, or is."""

    verb: Verb
    node: Node
    notified_at: int
    expires_at: int
    cost: NodeCost
    kept_until: int
    job_id: str = ""
    refusal: LinkRefusal | None = None
    done: str = ""

    @property
    def hourly(self) -> int | None:
        """The node's cost in nano-dollars an hour; None if a price is unknown."""
        return self.cost.burn


@dataclass(frozen=True, slots=True)
class UnknownLink:
    """An unknown token. `retry_after` is the number of seconds to wait; 0 unless too many unknown
    tokens came."""

    retry_after: int = 0


class UnknownLinkCounter:
    """Counts unknown tokens, so that guessing is rate-limited."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: deque[int] = deque()

    def count_miss(self, now: int) -> int:
        """Count one more unknown token; returns the seconds until there is room again, 0 if there
        is."""
        with self._lock:
            recent = [at for at in self._at if now - MINUTE < at <= now]
            self._at = deque(recent)
            if len(recent) >= MAX_MISSES:
                return recent[0] + MINUTE - now
            self._at.append(now)
            return 0


class LinkService:
    """The holder of a link may use it once; the token is the only credential."""

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
        clock: Clock,
        nodes: NodeService,
        times: IdleTimes = SHIPPED_TIMES,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._nodes = nodes
        self._times = times
        self._misses = UnknownLinkCounter()

    def read_offer(self, token: str) -> LinkOffer | UnknownLink:
        """What a link would do. Changes nothing."""
        with self._units.reading() as unit:
            link = self._find_link(unit, token)
            if link is not None:
                return self._build_offer(unit, link)
        return self._count_miss()

    def use_link(self, token: str) -> LinkOffer | UnknownLink:
        """Do what a link offers, in one unit of work. Raises Rejected if the node cannot be kept,
        BudgetExceeded if a budget has no room for that, Conflict if other writers keep changing the
        node."""

        def use_once(unit: Unit) -> LinkOffer | UnknownLink:
            link = self._find_link(unit, token)
            if link is None:
                return self._count_miss()
            # Every writer locks the node first, then the history, so none deadlocks.
            unit.nodes.lock(link.node_id)
            offer = self._build_offer(unit, link)
            return offer if offer.refusal is not None else self._apply_offer(unit, link, offer)

        return run_with_retries(
            partial(admission.open_unit, self._units, self._clock), use_once, "the node"
        )

    def _find_link(self, unit: Unit, token: str) -> Link | None:
        return None if len(token) > _LONGEST_TOKEN else unit.links.find_by_hash(hash_of(token))

    def _count_miss(self) -> UnknownLink:
        return UnknownLink(self._misses.count_miss(self._clock()))

    def _build_offer(self, unit: Unit, link: Link) -> LinkOffer:
        now, node = self._clock(), unit.nodes.get(link.node_id)
        watched, claim = unit.idle_courses.find_by_node(node.id), unit.jobs.find_claim(node.id)
        why = find_refusal(
            link,
            incarnation=node.attempt,
            notified_at=None if watched is None else watched.course.notified_at,
            ended=node.has_ended,
            ending=node.asked is Asked.ABSENT,
            now=now,
        )
        if why is None and claim is not None and claim.claimed_at > link.notified_at:
            why = LinkRefusal.SINCE_BUSY  # the next look at its signals will say so too
        intervals, whose = unit.usage.list_by_node(node.id), unit.attributions.list_by_node(node.id)
        return LinkOffer(
            verb=link.verb,
            node=node,
            notified_at=link.notified_at,
            expires_at=link.expires_at,
            cost=cost_of(node, intervals, self._prices.get_book(unit), now, whose),
            kept_until=max(node.kept_until or 0, now + KEEP_SECONDS),
            job_id="" if claim is None else claim.job_id,
            refusal=why,
        )

    def _apply_offer(self, unit: Unit, link: Link, offer: LinkOffer) -> LinkOffer:
        now, node = self._clock(), offer.node
        unit.links.mark_used(link, now)
        reason = f"the link in the message of {to_rfc3339(link.notified_at)}"
        if link.verb is Verb.KEEP:  # for four more hours; a longer keep stays as it is
            keep = keep_of(now, reason, for_seconds=KEEP_SECONDS, ends_at=cloud_ends_at(node))
            assert keep.until is not None
            after = write_keep(unit, node, keep, self._prices, now)
            done = f"kept until {to_rfc3339(keep.until)}"
            if after is node:
                done = f"kept until {to_rfc3339(node.kept_until or now)} already"
            unit.events.add(Event(node.id, now, "asked", f"{done}: {reason}", ACTOR))
        else:  # as DELETE does, with the evidence in the history; a keep ends with the node
            done, ended = "deletion requested", asked_keep(node, now)
            if ended is not None:
                done += f"; the keep until {to_rfc3339(ended.until or now)} ends with it"
            record_end(unit, node, ACTOR, reason, self._prices, now, times=self._times)
            after = self._nodes.request_end_in(unit, node, ACTOR, reason)
        return replace(offer, node=after, done=done)
