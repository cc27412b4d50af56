"""A link in a message does what it says, once, and only to the node that the message was about."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from service.application.cleanup.links import (
    MAX_MISSES,
    MOST_OF_A_LINK,
    MOST_OF_AN_ADDRESS,
    LinkOffer,
    LinkService,
    UnknownLink,
)
from service.application.nodes.nodes import NodeService
from service.dashboard.pages.message_link import build_link_page
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.errors import RateLimited, Rejected
from service.domain.idle.course import State
from service.domain.idle.links import LIFE_SECONDS, LinkRefusal, Verb, hash_of
from service.domain.idle.policy import Action
from service.domain.idle.proof import IdleVerdict
from service.domain.idle.signals.signal import Level
from service.domain.ids import new_id
from service.domain.jobs.job import Attempt, Job, JobSpec, attempt_id
from service.domain.nodes.node import Asked, NodeState
from service.domain.notifications.notification import MAX_EMAILS
from service.store.engine import make_engine
from service.store.links import Links
from service.store.unit import Units
from tests import factories
from tests.hands import NOON
from tests.linking import TOLD, notified, tokens_of, told_of
from tests.store.given import GivenPrices

BECAUSE = "the link in the message of 2026-11-05T11:50:00Z"


@pytest.fixture
def links(units, clock):
    """The service, whose clock stands at noon."""
    shared = units, GivenPrices(), clock
    return LinkService(*shared, NodeService(*shared, [factories.PROJECT]))


def node_of(units, node):
    with units.reading() as unit:
        return unit.nodes.get(node.id)


def story_of(units, node):
    with units.reading() as unit:
        return [(one.actor, one.message) for _, one in unit.events.list_by_node(node.id, 0, 50)]


@pytest.mark.parametrize("verb", list(Verb))
def test_to_look_at_a_link_changes_nothing(units, links, verb):
    node = told_of(units)
    token = tokens_of(units, node)[verb]
    before = node_of(units, node)
    for _ in range(3):
        offer = links.read_offer(token)
        assert (offer.verb, offer.refusal, offer.done) == (verb, None, "")
        assert (offer.hourly, offer.cost.cost) == (9_600_000_000, 9_600_000_000)
    assert node_of(units, node) == before
    assert story_of(units, node) == []


def test_a_keep_link_keeps_for_four_hours_and_works_once(units, links, clock):
    node = told_of(units)
    token = tokens_of(units, node)[Verb.KEEP]
    offer = links.use_link(token)
    after = node_of(units, node)
    assert offer.node == after
    assert offer.done == "kept until 2026-11-05T16:00:00Z"
    assert (after.kept_until, after.kept_because) == (NOON + 4 * HOUR, BECAUSE)
    assert after.asked is Asked.PRESENT
    assert story_of(units, node) == [
        ("a link in a message", f"kept until 2026-11-05T16:00:00Z: {BECAUSE}")
    ]
    clock.pass_(60)
    for asked in (links.use_link, links.read_offer):
        again = asked(token)
        assert (again.refusal, again.done) == (LinkRefusal.USED, "")
    assert node_of(units, node) == after


def test_a_keep_link_never_shortens_a_keep(units, links):
    node = told_of(units, kept_until=NOON + DAY, kept_because="a long run")
    offer = links.use_link(tokens_of(units, node)[Verb.KEEP])
    after = node_of(units, node)
    assert offer.done == "kept until 2026-11-06T12:00:00Z already"
    assert (after.kept_until, after.kept_because) == (NOON + DAY, "a long run")


def test_a_keep_link_extends_a_keep_that_is_shorter(units, links):
    node = told_of(units, kept_until=NOON + HOUR, kept_because="lunch")
    links.use_link(tokens_of(units, node)[Verb.KEEP])
    assert node_of(units, node).kept_until == NOON + 4 * HOUR


def test_a_delete_link_asks_for_the_end_and_says_why(units, links):
    node = told_of(units)
    tokens = tokens_of(units, node)
    offer = links.use_link(tokens[Verb.DELETE])
    after = node_of(units, node)
    assert offer.done == "deletion requested"
    assert after.asked is Asked.ABSENT
    assert (after.delete_requested_at, after.delete_reason) == (NOON, f"requested with {BECAUSE}")
    assert after.next_try_at == NOON
    assert story_of(units, node) == [("a link in a message", f"deletion requested with {BECAUSE}")]
    assert links.use_link(tokens[Verb.DELETE]).refusal is LinkRefusal.USED
    assert links.use_link(tokens[Verb.KEEP]).refusal is LinkRefusal.ENDING
    assert node_of(units, node) == after


def test_a_delete_link_leaves_its_evidence_in_the_history(units, links):
    node = told_of(units)
    with units() as unit:
        watched = unit.idle_courses.find_by_node(node.id)
        verdict = IdleVerdict(Level.QUIET, "every device is quiet", since=NOON - HOUR)
        unit.idle_courses.save([replace(watched, verdict=verdict, judged_at=NOON - 60)])
    links.use_link(tokens_of(units, node)[Verb.DELETE])
    with units.reading() as unit:
        (ended,) = unit.cleanups.list_by_node(node.id)
        course = unit.idle_courses.find_by_node(node.id).course
    assert (ended.actor, ended.reason) == ("a link in a message", BECAUSE)
    assert (ended.action, ended.at, ended.hourly) == (Action.DELETE, NOON, 9_600_000_000)
    assert ended.evidence["verdict"]["reason"] == "every device is quiet"
    assert ended.evidence["policy"]["source"] == "default"
    assert course.state is State.DELETING


def test_a_delete_link_for_a_stopped_node_is_in_the_history_without_evidence(units, links):
    node = told_of(units, state=NodeState.STOPPED, asked=Asked.STOPPED)
    links.use_link(tokens_of(units, node)[Verb.DELETE])
    with units.reading() as unit:
        (ended,) = unit.cleanups.list_by_node(node.id)
    assert (ended.reason, ended.evidence, ended.hourly) == (BECAUSE, {}, None)


def test_a_keep_link_leaves_nothing_in_the_history(units, links):
    node = told_of(units)
    links.use_link(tokens_of(units, node)[Verb.KEEP])
    with units.reading() as unit:
        assert unit.cleanups.list_by_node(node.id) == []


@pytest.mark.parametrize(
    ("until", "said"), [("2026-12-24", "2026-12-24T00:00:00Z"), ("soon", "an invalid date")]
)
def test_a_delete_link_says_that_a_keep_by_label_ends_with_the_node(units, links, until, said):
    node = told_of(units, labels={"keep-until": until})
    offer = links.use_link(tokens_of(units, node)[Verb.DELETE])
    assert offer.done == (
        f"deletion requested; the keep until {said} ends with that (label keep-until={until})"
    )


def test_a_delete_link_ends_a_keep_and_says_so(units, links):
    node = told_of(units, kept_until=NOON + DAY, kept_because="a long run")
    offer = links.use_link(tokens_of(units, node)[Verb.DELETE])
    after = node_of(units, node)
    assert offer.done == (
        "deletion requested; the keep until 2026-11-06T12:00:00Z ends with that (a long run)"
    )
    assert (after.kept_until, after.asked) == (None, Asked.ABSENT)
    ((_, said),) = story_of(units, node)
    ended = "the keep until 2026-11-06T12:00:00Z ends with that (a long run)"
    assert said == f"deletion requested with {BECAUSE}; {ended}"


@pytest.mark.parametrize("verb", list(Verb))
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"attempt": 3}, LinkRefusal.ANOTHER),
        ({"asked": Asked.ABSENT}, LinkRefusal.ENDING),
        ({"state": NodeState.DELETED, "ended_at": NOON}, LinkRefusal.ENDED),
        ({"state": NodeState.FAILED, "ended_at": NOON}, LinkRefusal.ENDED),
    ],
)
def test_a_link_does_nothing_to_a_node_that_is_another_by_now(units, links, verb, changed, why):
    node = told_of(units)
    token = tokens_of(units, node)[verb]
    with units() as unit:
        before = unit.nodes.save(replace(unit.nodes.get(node.id), **changed))
    assert links.read_offer(token).refusal is why
    assert links.use_link(token).refusal is why
    assert node_of(units, node) == before
    assert story_of(units, node) == []


@pytest.mark.parametrize("at", [None, TOLD + 60])
def test_a_link_does_nothing_once_the_node_was_at_work(units, links, at):
    node = told_of(units)
    token = tokens_of(units, node)[Verb.DELETE]
    notified(units, node, at)
    assert links.use_link(token).refusal is LinkRefusal.SINCE_BUSY
    assert node_of(units, node).asked is Asked.PRESENT


@pytest.mark.parametrize(("claimed_at", "refused"), [(TOLD - 60, False), (TOLD + 60, True)])
def test_a_job_that_came_after_the_message_is_not_ended_by_its_link(
    units, links, claimed_at, refused
):
    """A job that was there before is what the message was about: it makes no progress."""
    node = told_of(units)
    token = tokens_of(units, node)[Verb.DELETE]
    job = Job(new_id(), "lab", JobSpec("a/b:c"), NOON, next_try_at=NOON)
    with units() as unit:
        unit.jobs.add(job, None)
        unit.jobs.add_attempt(Attempt(attempt_id(job.id, 1), job.id, 1, "lab", node.id, claimed_at))
    assert links.read_offer(token).job_id == job.id
    assert links.use_link(token).refusal is (LinkRefusal.SINCE_BUSY if refused else None)
    assert (node_of(units, node).asked is Asked.ABSENT) is not refused


def test_a_link_expires_and_says_so_afterwards(units, links, clock):
    node = told_of(units)
    tokens = tokens_of(units, node)
    clock.now = TOLD + LIFE_SECONDS - 1
    assert links.read_offer(tokens[Verb.KEEP]).refusal is None
    clock.pass_(1)
    tokens_of(units, node, at=clock.now, now=clock.now)
    assert links.use_link(tokens[Verb.KEEP]).refusal is LinkRefusal.EXPIRED
    assert node_of(units, node).kept_until is None


def test_a_node_that_google_ends_is_not_kept_beyond_that_and_the_link_is_not_used_up(units, links):
    flex = {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 2 * HOUR}
    node = told_of(units, **flex)
    token = tokens_of(units, node)[Verb.KEEP]
    with pytest.raises(Rejected, match="Google ends this node at 2026-11-05T13:00:00Z"):
        links.use_link(token)
    assert node_of(units, node).kept_until is None
    assert links.read_offer(token).refusal is None


def test_a_price_that_nobody_knows_is_none(units, links):
    node = told_of(units, zone="asia-nowhere1-a")
    assert links.read_offer(tokens_of(units, node)[Verb.KEEP]).hourly is None


@pytest.mark.concurrent
@pytest.mark.parametrize("verb", list(Verb))
def test_of_many_who_use_a_link_at_once_one_does(units, links, verb):
    node = told_of(units)
    token = tokens_of(units, node)[verb]
    together = threading.Barrier(6)

    def use(_):
        together.wait()
        return links.use_link(token)

    with ThreadPoolExecutor(6) as pool:
        offers = list(pool.map(use, range(6)))
    assert sum(bool(offer.done) for offer in offers) == 1
    refused = {offer.refusal for offer in offers if not offer.done}
    assert refused <= {LinkRefusal.USED, LinkRefusal.ENDING}, (
        "the node may be read after it was written"
    )
    assert len(story_of(units, node)) == 1
    assert node_of(units, node).version == 1


@pytest.fixture
def other_links(engine, clock):
    """The service of a second API process, with connections of its own."""
    second = make_engine(engine.url.render_as_string(hide_password=False))
    shared = Units(second), GivenPrices(), clock
    yield LinkService(*shared, NodeService(*shared, [factories.PROJECT]))
    second.dispose()


@pytest.mark.concurrent
@pytest.mark.parametrize("is_resent", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize("verb", list(Verb))
def test_of_two_processes_that_use_a_link_at_once_one_does_and_the_other_says_it_is_gone(
    units, links, other_links, monkeypatch, verb, is_resent
):
    """The second begins before the first commits, with the same link or with that of a message that
    was sent again."""
    node = told_of(units)
    token = tokens_of(units, node)[verb]
    second_token = tokens_of(units, node, now=TOLD + 10)[verb] if is_resent else token
    mark = Links.mark_used
    others: list[Future[LinkOffer | UnknownLink]] = []

    def meanwhile(rows, link, now):
        marked = mark(rows, link, now)
        if not others:
            others.append(pool.submit(other_links.use_link, second_token))
            assert not wait(others, timeout=1).done, "it waits for the first to commit"
        return marked

    monkeypatch.setattr(Links, "mark_used", meanwhile)
    with ThreadPoolExecutor(1) as pool:
        first = links.use_link(token)
        second = others[0].result()
    assert [build_link_page(offer).status for offer in (first, second)] == [200, 410]
    assert len(story_of(units, node)) == 1
    after = node_of(units, node)
    assert after.version == 1
    with units.reading() as unit:
        ended = unit.cleanups.list_by_node(node.id)
    if verb is Verb.DELETE:
        assert (after.asked, [ended_node.reason for ended_node in ended]) == (
            Asked.ABSENT,
            [BECAUSE],
        )
    else:
        assert (after.kept_until, ended) == (NOON + 4 * HOUR, [])


def test_what_somebody_else_wrote_meanwhile_is_not_written_over(units, links, monkeypatch):
    """The node changes between the look and the write: the unit is done over, the link still
    works, and nothing of the other change is lost."""
    node = told_of(units)
    token = tokens_of(units, node)[Verb.KEEP]
    act, others = links._apply_offer, [1]

    def overtaken(unit, link, offer):
        if others:
            others.pop()
            offer = replace(offer, node=replace(offer.node, version=offer.node.version + 7))
        return act(unit, link, offer)

    monkeypatch.setattr(links, "_apply_offer", overtaken)
    assert links.use_link(token).done == "kept until 2026-11-05T16:00:00Z"
    assert node_of(units, node).kept_until == NOON + 4 * HOUR


@pytest.mark.parametrize("token", ["", "x" * 43, "x" * 10_000, "\ud800", "%00"])
def test_a_token_that_nobody_was_given_is_unknown(links, token):
    assert links.read_offer(token) == UnknownLink()
    assert links.use_link(token) == UnknownLink()


def test_the_hash_of_a_token_is_no_token(units, links):
    token = tokens_of(units, told_of(units))[Verb.KEEP]
    assert links.read_offer(hash_of(token)) == UnknownLink()


def test_whoever_guesses_is_slowed_down_and_nobody_else(units, links, clock):
    node = told_of(units)
    token = tokens_of(units, node)[Verb.KEEP]
    for number in range(MAX_MISSES):
        asked = links.read_offer if number % 2 else links.use_link
        assert asked(f"guess-{number}") == UnknownLink()
        clock.pass_(1)
    for asked in (links.read_offer, links.use_link):
        assert seconds_to_wait(asked, "guess") == 30
    assert links.use_link(token).done
    clock.pass_(30)
    assert links.read_offer("guess") == UnknownLink()
    assert seconds_to_wait(links.read_offer, "guess") == 1


def seconds_to_wait(asked, *of):
    with pytest.raises(RateLimited, match="came") as refused:
        asked(*of)
    return refused.value.facts["retry_after"]


def test_mail_programs_that_open_the_links_of_a_mail_slow_nobody_down(units, links):
    """A mail has at most 20 recipients. The mail server opens both links, and the mail program of
    each does so twice."""
    tokens = tokens_of(units, told_of(units))
    for number in range(MAX_EMAILS):
        for address in ("the mail server", f"program {number}", f"program {number}"):
            for token in tokens.values():
                assert links.read_offer(token, address).refusal is None
    assert links.use_link(tokens[Verb.KEEP], "program 7").done


def test_known_and_unknown_links_are_limited_each_by_itself(units, links, clock):
    tokens = tokens_of(units, told_of(units))
    for number in range(MOST_OF_A_LINK):
        links.read_offer(tokens[Verb.DELETE])
        clock.pass_(1 if number % 4 == 0 else 0)
    for asked in (links.read_offer, links.use_link):
        assert seconds_to_wait(asked, tokens[Verb.DELETE], "another address") == 30
    assert links.use_link(tokens[Verb.KEEP]).done
    clock.pass_(30)
    assert links.use_link(tokens[Verb.DELETE]).done


def test_an_address_is_limited_over_all_links(units, links, clock):
    node = told_of(units)
    count = MOST_OF_AN_ADDRESS // MOST_OF_A_LINK
    tokens = [tokens_of(units, node, at=TOLD + number)[Verb.KEEP] for number in range(count)]
    for token in tokens:
        for _ in range(MOST_OF_A_LINK):
            links.read_offer(token, "192.0.2.1")
    clock.pass_(20)
    assert seconds_to_wait(links.use_link, tokens[0], "192.0.2.1") == 40
    assert seconds_to_wait(links.read_offer, "guess", "192.0.2.1") == 40


def test_a_clock_that_was_set_back_shuts_nobody_out(units, links, clock):
    token = tokens_of(units, told_of(units))[Verb.KEEP]
    for _ in range(MOST_OF_A_LINK):
        links.read_offer(token)
    assert seconds_to_wait(links.read_offer, token) == 60
    clock.now -= HOUR
    assert links.read_offer(token).refusal is None
