"""`nodes idle`: how far a node has come on its course, by which signals, and what blocks it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import connected
from service.cli.terminal.formatting import NOTHING, age, counted, moment, since
from service.cli.terminal.render import as_json, echo, facts, table
from service.cli.terminal.resolve import find_node
from service.domain.clock import parse_rfc3339, wall_clock
from service.domain.idle.values import describe_value

PAUSE = 5.0
"""Seconds between two looks of --watch."""

MOST_WORKERS = 8
"""So many workers are named in a line."""

LAST = frozenset({"DELETING"})

_IDLE = frozenset({"CANDIDATE", "NOTIFIED"})
"""States of a node that has been idle for long enough."""


def idle(
    node: options.NodeName,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update every 5s until the node is deleted.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show whether a node is idle, and why. Shows every signal, and when the node ends."""
    with connected() as client:
        found = find_node(client, node, to_read=True)
        answer = client.ask("GET", f"/v1/nodes/{found}/idle")
        if json:
            as_json(answer)
            return
        _show(answer.value, wall_clock())
        while watch and answer.value["state"] not in LAST and not answer.value["ended"]:
            time.sleep(PAUSE)
            answer = client.ask("GET", f"/v1/nodes/{found}/idle")
            echo(_line(answer.value, wall_clock()))


def _line(shown: Mapping[str, Any], now: int) -> str:
    """One line of --watch: `12:00:00 NOTIFIED: deleted in 4m10s`."""
    at = moment(shown["judged_at"]).partition(" ")[2]
    return f"{at} {shown['state'] or 'not checked yet'}: {_next(shown, now)}"


def _next(shown: Mapping[str, Any], now: int) -> str:
    """What happens next, and when; else what the signals prove."""
    if shown["ended"]:
        return f"{shown['ended'][0]['action']} requested by {shown['ended'][0]['actor']}"
    if shown["state"] == "WARMING":
        return "READY a short while ago, idleness does not count yet"
    if shown["state"] in _IDLE and shown["held_by"]:
        return f"held back by {', '.join(shown['held_by'])}"
    if shown["state"] in _IDLE:
        return _end(shown, now) or _why(shown, now)
    return _why(shown, now)


def _end(shown: Mapping[str, Any], now: int) -> str:
    """When an idle node ends, or why it does not; empty where that is not known."""
    verb = {"delete": "deleted", "stop": "stopped"}.get(shown["action"] or "", "")
    if not verb:
        return f"idle, no action follows (policy action {shown['action']})"
    if shown["due_at"] is None:
        return ""
    left = parse_rfc3339(shown["due_at"]) - now
    if left > 0:
        return f"{verb} in {age(left)}"
    if shown["waiting"]:
        return f"waits for the rail {shown['waiting']['rail']}"
    return f"{verb} as soon as the newest signals are read"


def _why(shown: Mapping[str, Any], now: int) -> str:
    """What the signals prove: how long the node has been at rest, or why it is not known to be."""
    verdict = shown["verdict"]
    if verdict is None:
        return "no signal was read yet"
    if shown["state"] == "QUIET" and verdict["since"] and shown["idle_after_seconds"]:
        return _rest(now - parse_rfc3339(verdict["since"]), shown)
    return str(verdict["reason"])


def _rest(seconds: int, shown: Mapping[str, Any]) -> str:
    """How long a node is at rest, and what it takes to be idle: the newest signals do not count."""
    said, after = f"at rest for {age(seconds)}", shown["idle_after_seconds"]
    if seconds < after:
        return f"{said}, idle after {age(after)}"
    if shown["verdict"]["blockers"]:
        return f"{said}, blocked by {', '.join(shown['verdict']['blockers'])}"
    return f"{said}, idle as soon as the newest signals count"


def _report(report: Mapping[str, Any], now: int) -> str:
    """One line of a worker's own report: `worker 0, 12s ago: 1 SSH session, the TPU is free`."""
    counts = (("sessions", "SSH session"), ("containers", "container"), ("restarts", "restart"))
    said = [counted(report[key], name) for key, name in counts if report[key]]
    words = ", ".join([*said, report["holder"] or "the TPU is free"])
    return f"worker {report['worker']}, {since(report['at'], now)} ago: {words}"


def _policy(shown: Mapping[str, Any]) -> str:
    """`team:vision: delete after 1h00m, grace 15m00s`; empty for a node that is not READY."""
    if not shown["policy"]:
        return ""
    after, grace = age(shown["idle_after_seconds"]), age(shown["grace_seconds"])
    return f"{shown['policy']}: {shown['action']} after {after}, grace {grace}"


def _lacking(lacking: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A row for each signal that is lacking; none where the reason has said it all."""
    if len(lacking) > 1:
        yield from zip(["lacking", *[""] * (len(lacking) - 1)], lacking, strict=True)


def _signal(one: Mapping[str, Any], now: int) -> tuple[str, ...]:
    return (
        NOTHING if one["worker"] is None else str(one["worker"]),
        one["signal"],
        one["level"],
        NOTHING if one["value"] is None else describe_value(one["signal"], one["value"]),
        since(one["at"], now),
        f"{one['coverage_percent']} %",
        since(one["last_active_at"], now),
    )


def _reasons(signals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why nothing is known by a signal, and what a job or a heartbeat shows; workers of which the
    same is said share a line."""
    workers: dict[tuple[str, str], list[str]] = {}
    for one in signals:
        if one["level"] == "UNKNOWN" or one["worker"] is None:
            named = workers.setdefault((one["signal"], one["reason"]), [])
            named += [] if one["worker"] is None else [str(one["worker"])]
    for (signal, reason), some in workers.items():
        more = f" and {len(some) - MOST_WORKERS} more" if len(some) > MOST_WORKERS else ""
        word = "worker" if len(some) == 1 else "workers"
        of = f" of {word} {', '.join(some[:MOST_WORKERS])}{more}" if some else ""
        yield f"{signal}{of}: {reason}"


def _show(shown: Mapping[str, Any], now: int) -> None:
    verdict = shown["verdict"] or {"reason": "", "since": None, "lacking": [], "blockers": []}
    is_warming = shown["state"] == "WARMING"
    blockers = [*verdict["blockers"], *shown["held_by"]]
    facts(
        [
            ("state", _line(shown, now).partition(" ")[2] or "not checked yet"),
            ("at rest since", moment(verdict["since"]) if verdict["since"] else ""),
            ("notified at", moment(shown["notified_at"]) if shown["notified_at"] else ""),
            ("policy", _policy(shown)),
            ("limited by", "; ".join(shown["limits"])),
            ("blocked by", "" if is_warming else ", ".join(blockers)),
            *([] if is_warming else _lacking(verdict["lacking"])),
        ]
    )
    if shown["signals"]:
        echo("")
        table(
            [">WORKER", "SIGNAL", "LEVEL", ">VALUE", ">AGE", ">COVER", ">BUSY AGO"],
            [_signal(one, now) for one in shown["signals"]],
        )
        echo(*_reasons(shown["signals"]))
    for one in shown["reports"]:
        echo(_report(one, now))
    for one in shown["ended"]:
        echo("", f"{moment(one['at'])} {one['action']} by {one['actor']}: {one['reason']}")
