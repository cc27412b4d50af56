"""`nodes idle`: how far a node has come on its course, by which signals, and what blocks it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli import options
from service.cli.client import connected
from service.cli.naming import find_node
from service.cli.render import as_json, echo, facts, table
from service.cli.wording import age, counted, moment, since
from service.domain.clock import parse_rfc3339, wall_clock

PAUSE = 5.0
"""Seconds between two looks of --watch."""

LAST = frozenset({"DELETING"})


def idle(
    node: options.NodeName,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every 5s until it is deleted.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show whether a node is idle: its course, every signal, and when it goes."""
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
    return f"{at} {shown['state'] or 'not looked at yet'}: {_next(shown, now)}"


def _next(shown: Mapping[str, Any], now: int) -> str:
    """What happens next, and when."""
    verb = {"delete": "deleted", "stop": "stopped"}.get(shown["action"] or "", "")
    if shown["ended"]:
        return f"{shown['ended'][0]['action']} asked for by {shown['ended'][0]['actor']}"
    if shown["held_by"] and shown["state"] in ("CANDIDATE", "NOTIFIED"):
        return f"held back by {', '.join(shown['held_by'])}"
    if shown["due_at"] is not None and verb:
        left = parse_rfc3339(shown["due_at"]) - now
        if left > 0:
            return f"{verb} in {age(left)}"
        soon = f"{verb} as soon as the newest signals are read"
        return f"waits for the rail {shown['waiting']['rail']}" if shown["waiting"] else soon
    reason = "" if shown["verdict"] is None else str(shown["verdict"]["reason"])
    return reason or "nothing is known yet"


def _report(report: Mapping[str, Any], now: int) -> str:
    """One line of a worker's own report: `worker 0, 12s ago: 1 SSH session, the TPU is free`."""
    counts = (("sessions", "SSH session"), ("containers", "container"), ("restarts", "restart"))
    said = [counted(report[key], name) for key, name in counts if report[key]]
    words = ", ".join([*said, report["holder"] or "the TPU is free"])
    return f"worker {report['worker']}, {since(report['at'], now)} ago: {words}"


UNITS = {
    "duty_cycle": "%",
    "tensorcore_utilization": "%",
    "cpu": "%",
    "reported_cpu": "%",
    "tensorcore_idle_duration": "s",
    "active_chips": "chips",
    "utilized_chips": "chips",
}


def _value(signal: str, value: float) -> str:
    """A reading with its unit: `2.5 %`, `0.74 kB/s`, `63 s`, and `held` or `free` of a device."""
    if signal == "device":
        return "held" if value else "free"
    if signal in UNITS:
        return f"{value:.3g} {UNITS[signal]}" if value < 1_000 else f"{value:,.0f} {UNITS[signal]}"
    return f"{value / 1_000:,.3g} kB/s" if value < 1_000_000 else f"{value / 1e6:,.3g} MB/s"


def _show(shown: Mapping[str, Any], now: int) -> None:
    verdict = shown["verdict"] or {"reason": "", "since": None, "lacking": [], "blockers": []}
    facts(
        [
            ("state", _line(shown, now).partition(" ")[2] or "not looked at yet"),
            ("at rest since", moment(verdict["since"]) if verdict["since"] else ""),
            ("told at", moment(shown["notified_at"]) if shown["notified_at"] else ""),
            ("policy", f"{shown['policy']}: {shown['action']}" if shown["policy"] else ""),
            ("limited by", "; ".join(shown["limits"])),
            ("blocked by", ", ".join([*verdict["blockers"], *shown["held_by"]])),
            ("lacking", "; ".join(verdict["lacking"])),
        ]
    )
    if shown["signals"]:
        echo("")
        table(
            [">WORKER", "SIGNAL", "LEVEL", ">VALUE", ">AGE", "LAST ACTIVE (UTC)"],
            [
                (
                    str(one["worker"]),
                    one["signal"],
                    one["level"],
                    _value(one["signal"], one["value"]),
                    since(one["at"], now),
                    moment(one["last_active_at"]),
                )
                for one in shown["signals"]
            ],
        )
    for one in shown["reports"]:
        echo(_report(one, now))
    for one in shown["ended"]:
        echo("", f"{moment(one['at'])} {one['action']} by {one['actor']}: {one['reason']}")
