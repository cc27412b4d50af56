"""Writes messages for people: plain text for e-mail, and a payload for Slack. Pure.

Both are made from the JSON body of a webhook. Names, reasons and addresses come from callers and
from the cloud: each is put on one line, and cannot become markup, a link or a mention.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.domain.idle.signals.signal import describe_value, name_signal
from service.domain.money import format_cents, format_dollars, parse_usd
from service.domain.notifications.notification import body_of

UNKNOWN_PRICE = "an unknown price"
MAX_FIELD = 500
"""Maximum number of characters shown of one name or reason."""

Quote = Callable[[str], str]
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Letter:
    """A headline of whole sentences, labelled rows, and the actions of the reader.

    An action is a label with the URL (`links`) or the command (`commands`) that does it.
    """

    headline: str
    rows: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    closing: str = ""


def to_one_line(text: object) -> str:
    """Foreign text for a letter, on one line of 500 characters at most, without invisible
    characters."""
    printable = "".join(char if char.isprintable() else " " for char in str(text))
    line = " ".join(printable.split())
    return line if len(line) <= MAX_FIELD else f"{line[: MAX_FIELD - 1]}…"


def text_of(body: str) -> str:
    """The letter of a message as plain text, for e-mail."""
    facts = json.loads(body)
    letter = _letter_of(facts, to_one_line)
    width = max(9, *(len(label) + 1 for label, _ in letter.rows))
    lines = [letter.headline, ""]
    lines += [f"{f'{label}:':{width}} {value}" for label, value in letter.rows]
    if letter.closing:
        lines += ["", letter.closing]
    for label, target in (*letter.links, *letter.commands):
        lines += ["", f"{label}:", f"  {target}"]
    return "\n".join([*lines, "", f"Message {facts['id']}, {facts['at']}", ""])


def slack_of(body: str) -> str:
    """The letter of a message as JSON for an incoming webhook of Slack."""
    facts = json.loads(body)
    letter = _letter_of(facts, _quote_code)
    lines = [f"*{letter.headline}*", *(f"{label}: {value}" for label, value in letter.rows)]
    if letter.closing:
        lines.append(letter.closing)
    addresses = [
        (label, _escape_markup(to_one_line(url)).replace("|", "%7C")) for label, url in letter.links
    ]
    lines += [f"<{address}|{label}>" for label, address in addresses]
    lines += [f"{label}: {_quote_code(target)}" for label, target in letter.commands]
    return body_of({"text": "\n".join([*lines, f"Message {facts['id']}, {facts['at']}"])})


def _escape_markup(text: str) -> str:
    """The text with Slack's three control characters escaped, as its documentation says."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quote_code(text: object) -> str:
    """A foreign text as code, in which Slack makes no links."""
    return f"`{_escape_markup(to_one_line(text)).replace('`', chr(39)) or ' '}`"


def _letter_of(facts: Facts, quote: Quote) -> Letter:
    made: Mapping[str, Callable[[Facts, Quote], Letter]] = {
        "node.idle": _write_idle,
        "node.unknown": _write_unknown,
        "node.ttl": _write_ttl,
        "node.keep_unreadable": _write_unreadable_keep,
        "cleanup.held": _write_held_cleanup,
    }
    return made.get(facts.get("kind", ""), _write_budget)(facts, quote)


def _write_budget(facts: Facts, quote: Quote) -> Letter:
    budget = facts["budget"]
    deletes_at = facts["deletes_at"]
    held = facts["held"]
    return Letter(
        f"{quote(facts['message'])}.",
        (
            ("Budget", f"{quote(budget['name'])} ({quote(budget['scope'])})"),
            ("Period", f"{budget['period']}, {budget['starts_at']} to {budget['ends_at']}"),
            ("Amount", _format_dollars(budget["amount"])),
            ("Spent", format_cents(parse_usd(facts["spent"]))),
            ("Held", "not known" if held is None else format_cents(parse_usd(held))),
        ),
        closing=(
            f"Nodes of this budget are deleted at {deletes_at}, also those that are kept."
            if deletes_at
            else ""
        ),
    )


def _write_idle(facts: Facts, quote: Quote) -> Letter:
    name = quote(facts["node"]["name"])
    at, action = facts["acts_at"], facts["action"]
    then = "No action follows by itself."
    if at is not None:
        done = "deleted" if action == "delete" else "stopped"
        then = f"It will be {done} at {at}, unless the node is kept or becomes active."
    waste = facts.get("waste", "")  # messages of earlier versions have none
    what = f"does no work ({waste.replace('_', ' ')})" if waste else "has been idle"
    idle_cost = facts["idle_cost"]
    signals = [
        f"{name_signal(signal['kind'])} of worker {signal['worker']}: {signal['level']},"
        f" {describe_value(signal['kind'], signal['value'])} at {signal['at']}"
        for signal in facts["signals"]
    ]
    return _about_node(
        f"Node {name} {what} since {facts['idle_since']}. {then}",
        facts,
        quote,
        ("Idle cost", UNKNOWN_PRICE if idle_cost is None else format_cents(parse_usd(idle_cost))),
        ("Why", f"{quote(facts['reason'])}; {facts['coverage']} % of that time is measured"),
        *(("Signal", quote(text)) for text in signals),
    )


def _write_unknown(facts: Facts, quote: Quote) -> Letter:
    name = quote(facts["node"]["name"])
    return _about_node(
        f"Since {facts['unknown_since']}, no signal proves that node {name} is idle or busy."
        " The node still costs money, and is not deleted for idleness until its signals are back.",
        facts,
        quote,
        *(("Lacking", quote(text)) for text in facts["lacking"]),
    )


def _write_ttl(facts: Facts, quote: Quote) -> Letter:
    name = quote(facts["node"]["name"])
    return _about_node(
        f"The time to live of node {name} was over at {facts['over_at']}, and nobody keeps it any"
        f" longer. The node will be deleted at {facts['acts_at']}.",
        facts,
        quote,
    )


def _write_unreadable_keep(facts: Facts, quote: Quote) -> Letter:
    name = quote(facts["node"]["name"])
    return _about_node(
        f"The date until which node {name} is kept cannot be read. The node stays, and costs money,"
        f" until the label is corrected: write it as {facts['correct_as']}.",
        facts,
        quote,
        ("Kept by", quote(facts["reason"])),
    )


def _about_node(headline: str, facts: Facts, quote: Quote, *more: tuple[str, str]) -> Letter:
    """The message about a node, with `more` rows between its cost and its policy."""
    links, commands = facts["links"], facts["commands"]
    labels = {"keep": "Keep it for 4 hours", "delete": "Delete it now"}
    node, hourly, policy = facts["node"], facts["hourly_cost"], facts.get("policy")
    rows = [
        ("Node", f"{quote(node['name'])} ({quote(node['id'])})"),
        ("Project", f"{quote(node['project'])}, zone {quote(node['zone'])}"),
        ("Type", f"{quote(node['accelerator_type'])}, {node['provisioning_model']}"),
        ("Owner", quote(node["owner"]) if node["owner"] else "nobody"),
        ("Team", quote(node["team"]) if node["team"] else "none"),
        ("Cost", UNKNOWN_PRICE if hourly is None else f"{_format_dollars(hourly)} an hour"),
        *more,
    ]
    if policy is not None:
        waits = f"{policy['idle_after_seconds']} s idle and {policy['grace_seconds']} s of notice"
        source = "the node's own" if policy["source"] == "node" else quote(policy["source"])
        rows.append(("Policy", f"{source}: {policy['action']} after {waits}"))
        rows += [("Limit", quote(limit)) for limit in facts["limits"]]
    return Letter(
        headline,
        tuple(rows),
        tuple((labels[verb], links[verb]) for verb in labels if verb in links),
        tuple((labels[verb], commands[verb]) for verb in labels if verb not in links),
    )


def _write_held_cleanup(facts: Facts, quote: Quote) -> Letter:
    count, unpriced, hourly = facts["nodes"], facts["unpriced_nodes"], facts["hourly_cost"]
    until = facts["until"]
    cost = UNKNOWN_PRICE if hourly is None else f"{_format_dollars(hourly)} an hour"
    if unpriced and hourly is not None:
        cost += f", and {unpriced} of them at {UNKNOWN_PRICE}"
    labels = {"plan": "Show the plan", "apply": "Apply the plan, all of it"}
    return Letter(
        f"The cleanup of project {quote(facts['project'])} has been on hold since {facts['since']}:"
        f" {count} {'node waits' if count == 1 else 'nodes wait'}.",
        (
            ("Rail", facts["rail"]),
            ("Why", quote(facts["reason"])),
            ("Until", "not known" if until is None else until),
            ("Cost", cost),
        ),
        commands=tuple(
            (labels[name], command) for name, command in facts["commands"].items() if name in labels
        ),
    )


def _format_dollars(usd: str) -> str:
    return format_dollars(parse_usd(usd))
