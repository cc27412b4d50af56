"""Messages say what is idle, what will be done and what it costs, and nothing that was forged."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from service.domain.idle.cleanup import RailHold
from service.domain.idle.links import LinkPromise, Verb
from service.domain.idle.policy import Action, AppliedRule, Format, Recipient, Rule, Waste
from service.domain.idle.proof import IdleVerdict, Signals
from service.domain.idle.rails import Rail
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.domain.notifications.letters import slack_of, text_of, to_one_line
from service.domain.notifications.node_messages import (
    IdleLook,
    held_message,
    idle_message,
    keep_message,
    notifications_of,
    recipients_of,
    ttl_message,
    unknown_message,
)
from service.domain.notifications.notification import PROMISE as PROMISE_KEY
from service.domain.notifications.notification import About, Channel
from tests import factories
from tests.hands import NOON

SINCE, ACTS = NOON - 3_600, NOON + 900
LINKS = {
    Verb.KEEP: "https://steward.example.com/links/k",
    Verb.DELETE: "https://steward.example.com/links/d",
}
PROMISE = LinkPromise("n-1", 2, NOON, "https://steward.example.com/")
HOOK = Recipient("https://hooks.example.com/x", "s" * 16)
MAIL = Recipient(emails=("ada@example.com",))


def look(*, action=Action.DELETE, limits=(), node=None, **changes):
    """What one look at an idle node showed."""
    rule = Rule(3_600, 900, Action.DELETE)
    applied = AppliedRule(rule, "team:vision", 3, action, limits, (), "")
    verdict = IdleVerdict(Level.QUIET, "every device is quiet", since=SINCE, coverage=97)
    signals = Signals({(0, Kind.DUTY_CYCLE): SignalTrack(NOON - 240, 0.5, Level.QUIET)})
    node = node or factories.node(name="train", id="n-1", attempt=2)
    base = IdleLook(node, applied, verdict, signals, hourly=9_600_000_000)
    return replace(base, **changes)


def written(message, *recipients):
    """The messages in the outbox, with ids that count."""
    numbers = itertools.count(1)
    return notifications_of(message, recipients or (HOOK,), NOON, lambda: f"m-{next(numbers)}")


def body(message):
    """The body that is sent."""
    (one,) = written(message)
    return one.body if one.promise is None else one.with_links(LINKS).body


def test_an_idle_node_is_told_of_with_what_will_be_done_and_what_it_costs():
    text = text_of(body(idle_message(look(), NOON, SINCE, ACTS, PROMISE)))
    assert text.startswith(
        "Node train has been idle since 2026-11-05T11:00:00Z."
        " It will be deleted at 2026-11-05T12:15:00Z, unless the node is kept"
    )
    for expected in (
        "Node:      train (n-1)",
        "Project:   lab, zone us-west4-a",
        "Type:      v5litepod-8, on_demand",
        "Owner:     ada",
        "Team:      vision",
        "Cost:      $9.60 an hour",
        "Idle cost: $9.60",
        "Why:       every device is quiet; 97 % of that time is measured",
        "Signal:    duty cycle of worker 0: QUIET, 0.5 % at 2026-11-05T11:56:00Z",
        "Policy:    team:vision: delete after 3600 s idle and 900 s of notice",
        "Keep it for 4 hours:\n  https://steward.example.com/links/k",
        "Delete it now:\n  https://steward.example.com/links/d",
        "Message m-1, 2026-11-05T12:00:00Z",
    ):
        assert expected in text


def test_a_node_that_looks_busy_and_does_no_work_is_not_said_to_be_idle():
    found = look()
    found = replace(found, verdict=replace(found.verdict, waste=Waste.CRASH_LOOP))
    message = idle_message(found, NOON, SINCE, ACTS)
    begins = "Node train does no work (crash loop) since 2026-11-05T11:00:00Z. It will be deleted"
    assert text_of(body(message)).startswith(begins)
    assert json.loads(body(message))["waste"] == "crash_loop"


def test_the_idle_cost_is_that_of_the_time_at_rest():
    facts = json.loads(body(idle_message(look(), NOON, NOON - 1_800, ACTS)))
    assert facts["idle_cost"] == "4.800000000"


def test_without_a_public_address_the_commands_are_named():
    text = text_of(body(idle_message(look(), NOON, SINCE, ACTS)))
    assert "tpu-steward nodes keep train --for 4h --reason 'still needed'" in text
    assert "tpu-steward nodes delete train" in text
    assert "/links/" not in text


@pytest.mark.parametrize("action", [Action.OBSERVE, Action.NOTIFY])
def test_a_policy_that_only_notifies_promises_nothing(action):
    limits = ("STEWARD_IDLE_MODE is notify",)
    message = idle_message(look(action=action, limits=limits), NOON, SINCE, ACTS, PROMISE)
    text = text_of(body(message))
    assert "No action follows by itself." in text
    assert "It will be" not in text
    assert "Limit:     STEWARD_IDLE_MODE is notify" in text
    assert json.loads(body(message))["acts_at"] is None
    assert message.subject == "[TPU Steward] train is idle"


def test_a_node_that_will_be_stopped_is_not_said_to_be_deleted():
    message = idle_message(look(action=Action.STOP), NOON, SINCE, ACTS)
    assert "It will be stopped at 2026-11-05T12:15:00Z" in text_of(body(message))
    assert message.subject.endswith("train is idle, to be stopped at 2026-11-05T12:15:00Z")


def test_a_price_that_nobody_knows_is_never_nothing():
    message = idle_message(look(hourly=None), NOON, SINCE, ACTS)
    facts = json.loads(body(message))
    assert (facts["hourly_cost"], facts["idle_cost"]) == (None, None)
    for told in (text_of(body(message)), slack_of(body(message))):
        assert told.count("an unknown price") == 2
        assert "$0" not in told


def test_the_body_names_the_node_and_the_facts_for_programs():
    (one,) = written(idle_message(look(), NOON, SINCE, ACTS, PROMISE))
    facts = json.loads(one.with_links(LINKS).body)
    assert (facts["kind"], facts["id"], facts["at"]) == ("node.idle", "m-1", "2026-11-05T12:00:00Z")
    assert facts["node"]["incarnation"] == 2
    assert facts["hourly_cost"] == "9.600000000"
    assert facts["action"] == "delete"
    assert facts["links"] == {"keep": LINKS[Verb.KEEP], "delete": LINKS[Verb.DELETE]}
    assert PROMISE_KEY not in facts, "what we store is nothing to programs"
    assert (one.about_kind, one.about_id, one.recipient) == (About.NODE, "n-1", HOOK)


def test_a_blind_node_is_told_of_with_the_signal_that_is_lacking():
    verdict = IdleVerdict(Level.UNKNOWN, "cpu", lacking=("CPU of worker 3 has stopped",))
    text = text_of(body(unknown_message(look(verdict=verdict), NOON, SINCE)))
    assert "Since 2026-11-05T11:00:00Z, no signal proves that node train is idle or busy." in text
    assert "Lacking:  CPU of worker 3 has stopped" in text
    assert "Cost:     $9.60 an hour" in text


def test_a_node_whose_time_to_live_is_over_is_told_of_with_the_time_of_its_end():
    message = ttl_message(factories.node(name="train"), NOON, SINCE, ACTS, 9_600_000_000)
    text = text_of(body(message))
    assert "over at 2026-11-05T11:00:00Z" in text
    assert "deleted at 2026-11-05T12:15:00Z" in text
    assert "tpu-steward nodes keep train --for 4h" in text


def test_a_node_whose_keep_nobody_can_read_is_told_of_with_how_to_correct_it():
    node = factories.node(name="train")
    text = text_of(body(keep_message(node, NOON, "label keep-until=soon", 9_600_000_000)))
    assert "The date until which node train is kept cannot be read." in text
    assert "write it as keep-until=2026-12-01" in text
    assert "label keep-until=soon" in text
    assert "$9.60 an hour" in text


@pytest.mark.parametrize(("rail", "offers"), [(Rail.MASS, True), (Rail.BREAKER, False)])
def test_a_rail_that_holds_is_told_of_with_what_waits_and_what_to_type(rail, offers):
    held = RailHold(rail, "7 of 9 nodes are idle", SINCE, ACTS)
    message = held_message("lab", held, [9_600_000_000, 400_000_000, None], NOON)
    text = text_of(body(message))
    assert (
        "The cleanup of project lab has been on hold since 2026-11-05T11:00:00Z: 3 nodes wait."
        in text
    )
    assert f"Rail:     {rail}" in text
    assert "Why:      7 of 9 nodes are idle" in text
    assert "Until:    2026-11-05T12:15:00Z" in text
    assert "$10.00 an hour, and 1 of them at an unknown price" in text
    assert "tpu-steward cleanup plan" in text
    assert ("tpu-steward cleanup apply PLAN" in text) is offers
    assert (message.about_kind, message.about_id) == (About.PROJECT, "lab")


def test_a_rail_whose_nodes_have_no_price_and_no_end_says_so():
    text = text_of(body(held_message("lab", RailHold(Rail.PAUSE, "a freeze", SINCE), [None], NOON)))
    assert "1 node waits" in text
    assert "Until:    not known" in text
    assert "Cost:     an unknown price" in text


HOSTILE = "x`> <!channel> <https://evil.example.com|Keep> & https://evil.example.com\r\nBcc: a@b.c"


def hostile_messages():
    """Every kind of message, each field of which somebody else has chosen."""
    node = factories.node(
        name=HOSTILE, owner=HOSTILE, team=HOSTILE, zone=HOSTILE, project=HOSTILE, id=HOSTILE
    )
    found = look(
        node=node, limits=(HOSTILE,), verdict=IdleVerdict(Level.QUIET, HOSTILE, lacking=(HOSTILE,))
    )
    return [
        idle_message(found, NOON, SINCE, ACTS, PROMISE),
        idle_message(found, NOON, SINCE, ACTS),
        unknown_message(found, NOON, SINCE),
        ttl_message(node, NOON, SINCE, ACTS, None),
        keep_message(node, NOON, HOSTILE, None),
        held_message(HOSTILE, RailHold(Rail.MASS, HOSTILE, SINCE), [None], NOON),
    ]


@pytest.mark.parametrize("message", hostile_messages(), ids=map(str, range(6)))
def test_no_name_becomes_a_link_a_mention_or_markup_in_slack(message):
    payload = json.loads(slack_of(body(message)))
    assert set(payload) == {"text"}
    text = payload["text"]
    ours = tuple(f"{url}|" for url in LINKS.values())
    opened = [part for part in text.split("<")[1:] if not part.startswith(ours)]
    assert opened == []
    outside = "".join(text.split("`")[::2])
    assert "evil" not in outside, "outside of code Slack would make a link of it"
    assert text.count("`") % 2 == 0
    assert "& " not in text
    assert all(line.count("`") % 2 == 0 for line in text.splitlines())


@pytest.mark.parametrize("message", hostile_messages(), ids=map(str, range(6)))
def test_no_name_starts_a_line_of_a_mail_or_of_its_head(message):
    assert "\n" not in message.subject
    assert "\r" not in message.subject
    assert len(message.subject) <= 170
    assert not any(line.startswith("Bcc") for line in text_of(body(message)).splitlines())


def test_a_hostile_name_stays_one_word_of_a_command():
    node = factories.node(name="a; rm -rf ~")
    text = text_of(body(ttl_message(node, NOON, SINCE, ACTS, None)))
    assert "tpu-steward nodes delete 'a; rm -rf ~'" in text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\r\n\tb\x00\x1b[31m", "a b [31m"),
        ("\u202egnp.exe", "gnp.exe"),
        ("\ud800", ""),
        ("é ✓", "é ✓"),
    ],
)
def test_a_text_of_somebody_elses_is_one_printable_line(given, shown):
    assert to_one_line(given) == shown


def test_a_long_text_is_cut():
    assert len(to_one_line("a" * 10_000)) == 500


def applied(*recipients):
    return AppliedRule(Rule(), "default", 0, Action.NOTIFY, (), recipients, "default")


@pytest.mark.parametrize(
    ("recipients", "owner", "told"),
    [
        ((), "", []),
        ((), "ada", []),
        ((), "ada@", []),
        ((), "ada@example.com\nBcc: b@example.com", []),
        ((), "ada@example.com", [MAIL]),
        ((HOOK, MAIL), "ADA@example.com", [HOOK, MAIL]),
        ((HOOK, HOOK), "ada", [HOOK]),
        (
            (MAIL, Recipient(emails=("bob@example.com", "ada@example.com"))),
            "",
            [MAIL, Recipient(emails=("bob@example.com",))],
        ),
    ],
)
def test_recipients_are_those_of_the_policy_and_an_owner_with_an_address_each_once(
    recipients, owner, told
):
    assert recipients_of(applied(*recipients), owner) == told


def test_each_recipient_gets_a_message_of_its_own_by_its_own_channel():
    slack = Recipient("https://hooks.example.com/slack", format=Format.SLACK)
    found = written(idle_message(look(), NOON, SINCE, ACTS), HOOK, slack, MAIL)
    assert [(message.id, message.channel, message.recipient) for message in found] == [
        ("m-1", Channel.WEBHOOK, HOOK),
        ("m-2", Channel.WEBHOOK, slack),
        ("m-3", Channel.MAIL, MAIL),
    ]
    assert [json.loads(message.body)["id"] for message in found] == ["m-1", "m-2", "m-3"]
    assert {(message.created_at, message.next_try_at) for message in found} == {(NOON, NOON)}


def test_a_stored_message_promises_links_and_has_none():
    (one,) = written(idle_message(look(), NOON, SINCE, ACTS, PROMISE))
    assert one.promise == PROMISE
    assert "/links/" not in one.body
    assert "/links/" in one.with_links(LINKS).body
    assert one.with_links(LINKS).promise is None
    assert "tpu-steward nodes keep" in text_of(one.body)


def test_a_message_of_an_earlier_version_keeps_no_link_after_its_last_try():
    (one,) = written(idle_message(look(), NOON, SINCE, ACTS, PROMISE))
    old = one.with_links(LINKS)
    assert "/links/" not in old.without_links().body
    assert text_of(old.without_links().body)
    assert one.without_links() is one


@pytest.mark.parametrize(
    "odd", ["", "no JSON", "[]", '{"promised_links": 7}', '{"promised_links": {"node_id": "n"}}']
)
def test_a_body_that_is_no_message_about_a_node_promises_no_links(odd):
    (one,) = written(idle_message(look(), NOON, SINCE, ACTS))
    assert one.promise is None
    assert replace(one, body=odd).promise is None
    assert replace(one, body=odd).without_links().body == odd
