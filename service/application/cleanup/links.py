"""Links in messages: what a link would do, and doing it once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from service.application.budgets import admission
from service.application.cleanup.ending import record_end
from service.application.cleanup.flood_gate import FloodGate
from service.application.cleanup.keeps import write_keep
from service.application.nodes.cost import NodeCost, cost_of
from service.application.nodes.nodes import NodeService
from service.application.retries import run_with_retries
from service.domain.clock import Clock, to_rfc3339
from service.domain.event import Event
from service.domain.idle.assess import SHIPPED_TIMES, IdleTimes
from service.domain.idle.links import KEEP_SECONDS, Link, LinkRefusal, Verb, find_refusal, hash_of
from service.domain.nodes.keep import cloud_ends_at, describe_keep_end, keep_of
from service.domain.nodes.node import Asked, Node
from service.store.node_ends import read_causes
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

ACTOR = "a link in a message"
MOST_OF_A_LINK = 120
"""Requests for one link that one process answers in a minute. A person needs two. Mail programs and
mail servers open links too, and a mail has up to 20 recipients with the same link."""

MOST_OF_AN_ADDRESS = 600
"""Requests for links from one client address that one process answers in a minute. A mail server
may open the links of many mails at once, and a proxy may stand for all callers."""

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
    """An unknown token."""


class LinkService:
    """The holder of a link may use it once; the token is the only credential."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        nodes: NodeService,
        times: IdleTimes = SHIPPED_TIMES,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._nodes = nodes
        self._times = times
        self._of_address = FloodGate(
            MOST_OF_AN_ADDRESS, "requests for links came from this address within a minute"
        )
        self._of_link = FloodGate(MOST_OF_A_LINK, "requests for this link came within a minute")
        self._misses = FloodGate(MAX_MISSES, "requests for unknown links came within a minute")

    def read_offer(self, token: str, address: str = "") -> LinkOffer | UnknownLink:
        """What a link would do; `address` is the address of the client. Changes nothing. Raises
        RateLimited with the seconds to wait if too many requests came."""
        self._count_request(token, address)
        with self._units.reading() as unit:
            link = self._find_link(unit, token)
            if link is not None:
                return self._build_offer(unit, link)
        return self._count_miss()

    def use_link(self, token: str, address: str = "") -> LinkOffer | UnknownLink:
        """Do what a link offers, in one unit of work. Raises Rejected if the node cannot be kept,
        BudgetExceeded if a budget has no room for that, Conflict if other writers keep changing the
        node, and RateLimited as `read_offer` does."""
        self._count_request(token, address)

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

    def _count_request(self, token: str, address: str) -> None:
        now = self._clock()
        self._of_address.count_call(address, now)
        self._of_link.count_call(hash_of(token), now)

    def _count_miss(self) -> UnknownLink:
        self._misses.count_call("", self._clock())
        return UnknownLink()

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
            keep_end = describe_keep_end(node, now, is_deletion=True)
            done = f"deletion requested; {keep_end}" if keep_end else "deletion requested"
            causes = read_causes(unit, node, now)  # before the course of the node ends
            record_end(unit, node, ACTOR, reason, self._prices, now, times=self._times)
            after = self._nodes.request_end_in(unit, node, ACTOR, f"with {reason}", causes)
        return replace(offer, node=after, done=done)
