"""`nodes idle`: whether a node is idle, its signals, and what delays its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import (
    NOTHING,
    format_age,
    format_count,
    format_since,
    format_time,
)
from service.cli.terminal.render import (
    print_facts,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.cli.terminal.resolve import find_node
from service.domain.clock import parse_rfc3339, to_rfc3339, wall_clock
from service.domain.idle.signals.signal import describe_value, name_signal
from service.domain.nodes.node import ENDED, NodeState

PAUSE = 5.0
"""Seconds between two updates of --watch."""

MOST_WORKERS = 8
"""Largest number of workers that a line names."""

_IDLE = frozenset({"CANDIDATE", "NOTIFIED"})
"""States of a node that has been idle for long enough."""

_STOPPED = frozenset({NodeState.STOPPING, NodeState.STOPPED})
"""States of a node whose stop was requested."""

_COUNTED = (("sessions", "SSH session"), ("containers", "container"), ("restarts", "restart"))
"""The counts of a worker's own report, with their nouns."""


def idle(
    node: options.NodeName,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update every 5s until the node is deleted.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show whether a node is idle, and why. Shows every signal, and when the node ends."""
    with open_client() as client:
        found = find_node(client, node, to_read=True)
        answer = client.send_request("GET", f"/v1/nodes/{found}/idle")
        if json:
            print_json(answer)
            return
        _print_idleness(answer.value, wall_clock())
        while watch:
            shown = answer.value
            is_ended = shown["state"] == "DELETING" or shown["node_state"] in ENDED
            if is_ended or _find_end(shown) is not None:
                return
            time.sleep(PAUSE)
            answer = client.send_request("GET", f"/v1/nodes/{found}/idle")
            print_lines(_format_line(answer.value, wall_clock()))


def _find_end(shown: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The deletion or stop for idleness that the node is in, or has reached. None for a node that
    was stopped for idleness and used again since."""
    if not shown["ended"]:
        return None
    newest: Mapping[str, Any] = shown["ended"][0]
    is_stopped = shown["node_state"] in _STOPPED and (shown["judged_at"] or "") <= newest["at"]
    return newest if newest["action"] == "delete" or is_stopped else None


def _format_line(shown: Mapping[str, Any], now: int) -> str:
    """One line of --watch: `12:00:00 NOTIFIED: deleted in 4m10s`. It names the next step of the
    cleanup and its time. If no step is due: the verdict of the signals."""
    at = format_time(to_rfc3339(now)).partition(" ")[2]
    is_ending = shown["state"] == "DELETING" and shown["node_state"] != "DELETED"
    is_checked = shown["state"] and shown["node_state"] == "READY"
    state = shown["state"] if is_checked or is_ending else shown["node_state"]
    if (end := _find_end(shown)) is not None:
        step = f"{end['action']} requested by {end['actor']}"
    elif shown["node_state"] != "READY":
        step = "idleness counts only while a node is READY"
    elif shown["state"] == "WARMING":
        step = "READY a short while ago, idleness does not count yet"
    elif shown["state"] in _IDLE and shown["held_by"]:
        step = f"held back by {', '.join(shown['held_by'])}"
    else:
        action = _describe_end(shown, now) if shown["state"] in _IDLE else ""
        step = action or _describe_verdict(shown, now)
    return f"{at} {state}: {step}"


def _describe_end(shown: Mapping[str, Any], now: int) -> str:
    """Time at which an idle node ends, or the reason that it stays. Empty while the time is
    unknown."""
    verb = {"delete": "deleted", "stop": "stopped"}.get(shown["action"] or "", "")
    if not verb:
        return f"idle, no action follows (policy action {shown['action']})"
    if shown["due_at"] is None:
        return ""
    left = parse_rfc3339(shown["due_at"]) - now
    if left > 0:
        return f"{verb} in {format_age(left)}"
    if shown["waiting"]:
        until = shown["waiting"]["until"]
        when = f", until {format_time(until)}" if until else ""
        return f"waits for the rail {shown['waiting']['rail']}{when}"
    return f"{verb} as soon as the newest signals are read"


def _describe_wait(waiting: Mapping[str, Any] | None) -> str:
    """`2026-11-05 11:30:00, until 2026-11-05 12:30:00 at the earliest`. Empty for a node that waits
    for no rail."""
    if not waiting or not waiting["since"]:
        return ""
    since, until = format_time(waiting["since"]), waiting["until"]
    return f"{since}, until {format_time(until)} at the earliest" if until else since


def _describe_verdict(shown: Mapping[str, Any], now: int) -> str:
    """Verdict of the signals: how long a QUIET node has been quiet and when it becomes idle, else
    the reason of the verdict."""
    verdict = shown["verdict"]
    if verdict is None:
        return "not checked yet"
    if shown["state"] != "QUIET" or not verdict["since"]:
        return str(verdict["reason"])
    said = f"quiet for {format_age(now - parse_rfc3339(verdict['since']))}"
    # A busy host does not block the end of a crash loop: then there is a time.
    if verdict["blockers"] and shown["idle_at"] is None:
        return f"{said}, blocked by {', '.join(verdict['blockers'])}"
    left = 0 if shown["idle_at"] is None else parse_rfc3339(shown["idle_at"]) - now
    return f"{said}, idle {f'in {format_age(left)}' if left > 0 else 'at one of the next checks'}"


def _list_reasons(signals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Reasons of the signals that are UNKNOWN, and of those of a job or a heartbeat. Workers with
    the same reason share a line."""
    workers: dict[tuple[str, str], list[str]] = {}
    for signal_of_worker in signals:
        worker = signal_of_worker["worker"]
        if signal_of_worker["level"] == "UNKNOWN" or worker is None:
            key = signal_of_worker["signal"], signal_of_worker["reason"]
            named = workers.setdefault(key, [])
            named += [] if worker is None else [str(worker)]
    for (signal, reason), some in workers.items():
        more = f" and {len(some) - MOST_WORKERS} more" if len(some) > MOST_WORKERS else ""
        word = "worker" if len(some) == 1 else "workers"
        of = f" of {word} {', '.join(some[:MOST_WORKERS])}{more}" if some else ""
        yield f"{name_signal(signal)}{of}: {reason}"


def _print_idleness(shown: Mapping[str, Any], now: int) -> None:
    verdict = shown["verdict"] or {"reason": "", "since": None, "lacking": [], "blockers": []}
    is_warming = shown["state"] == "WARMING"
    held_by = [holder for holder in shown["held_by"] if holder != "unknown"]  # the state says it
    blockers = [*verdict["blockers"], *held_by]
    # A single lacking signal is in the reason already.
    lacking = [] if is_warming or len(verdict["lacking"]) < 2 else verdict["lacking"]
    titles = ["lacking", *[""] * (len(lacking) - 1)] if lacking else []
    # The evidence of an end stays as it was then.
    ending = _find_end(shown)
    as_of = now if ending is None else parse_rfc3339(ending["at"])
    judged_at = shown["judged_at"]
    age = "" if ending is not None else f", {format_since(judged_at, now)} ago"
    policy = ""
    if shown["policy"]:  # of a node that is READY
        after, grace = format_age(shown["idle_after_seconds"]), format_age(shown["grace_seconds"])
        policy = f"{shown['policy']}: {shown['action']} after {after}, grace {grace}"
    print_facts(
        [
            ("state", _format_line(shown, now).partition(" ")[2]),
            ("quiet since", format_time(verdict["since"]) if verdict["since"] else ""),
            ("notified at", format_time(shown["notified_at"]) if shown["notified_at"] else ""),
            ("policy", policy),
            ("limited by", "; ".join(shown["limits"])),
            ("kept until", format_time(shown["kept_until"]) if shown["kept_until"] else ""),
            ("blocked by", "" if is_warming else ", ".join(blockers)),
            ("waits since", _describe_wait(shown["waiting"])),
            *zip(titles, lacking, strict=True),
            ("signals of", f"{format_time(judged_at)}{age}" if shown["signals"] else ""),
        ]
    )
    if shown["signals"]:
        print_lines("")
        print_table(
            [">WORKER", "SIGNAL", "LEVEL", ">VALUE", ">AGE", ">COVER", ">ACTIVE AGO"],
            [_signal_row(signal, as_of) for signal in shown["signals"]],
            spare=("ACTIVE AGO", "COVER", "AGE", "VALUE"),
        )
        print_paragraphs(*_list_reasons(shown["signals"]))
    for report in shown["reports"]:
        said = [format_count(report[key], name) for key, name in _COUNTED if report[key]]
        held_since = report.get("held_since")
        since = [f"since at least {format_time(held_since)}"] if held_since else []
        words = ", ".join([*said, report["holder"] or "the TPU is free", *since])
        when = f"{format_since(report['at'], as_of)} {'ago' if ending is None else 'before'}"
        print_paragraphs(f"worker {report['worker']}, {when}: {words}")
    for end in shown["ended"]:
        print_lines("")
        print_paragraphs(
            f"{format_time(end['at'])} {end['action']} by {end['actor']}: {end['reason']}"
        )


def _signal_row(signal: Mapping[str, Any], now: int) -> tuple[str, ...]:
    value = signal["value"]
    return (
        NOTHING if signal["worker"] is None else str(signal["worker"]),
        signal["signal"],
        signal["level"],
        NOTHING if value is None else describe_value(signal["signal"], value),
        format_since(signal["at"], now),
        f"{signal['coverage_percent']} %",
        format_since(signal["last_active_at"], now),
    )
