"""Waits until a node is in the wanted state, and shows its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.cli.nodes.queue import READY, queue_line, slices_ready
from service.cli.terminal.client import ApiAnswer, Client, Unreachable
from service.cli.terminal.errors import Failure
from service.cli.terminal.formatting import format_age, format_usd
from service.cli.terminal.render import (
    clean_text,
    make_console,
    print_errors,
    print_json,
    print_lines,
    print_paragraphs,
)
from service.domain.nodes.node import ENDED

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
"""How long a service that does not answer is retried: it may be restarting."""

Show = Callable[[str], None]


class Goal(StrEnum):
    """The state that is waited for."""

    READY = "READY"
    STOPPED = "STOPPED"
    DELETED = "DELETED"


class WaitResult(StrEnum):
    """Whether a node has reached a goal. OPEN while it still can."""

    REACHED = "reached"
    MISSED = "missed"
    OPEN = "open"


def judge_state(goal: Goal, state: str) -> WaitResult:
    """Whether a node in `state` has reached the goal. For DELETED every ended state counts."""
    if state == goal or (goal is Goal.DELETED and state in ENDED):
        return WaitResult.REACHED
    return WaitResult.MISSED if state in ENDED else WaitResult.OPEN


@dataclass(frozen=True, slots=True)
class NodeWatch:
    """Polls one node. `timeout` is in seconds."""

    client: Client
    node_id: str
    timeout: int

    def wait_for(self, goal: Goal) -> ApiAnswer:
        """The node, once it has reached the goal. Raises Failure when it has ended otherwise, and
        after the timeout."""
        started = time.monotonic()
        with show_progress() as show:
            while True:
                answer = self._read_node(show)
                node = answer.value
                elapsed = int(time.monotonic() - started)
                show(f"{format_age(elapsed):>7}  {describe_progress(node)}")
                match judge_state(goal, node["state"]):
                    case WaitResult.REACHED:
                        return answer
                    case WaitResult.MISSED:
                        why = node.get("last_error") or node.get("delete_reason")
                        reason = why or "no reason is known"
                        raise Failure(f"{node['name']} is {node['state']}: {reason}")
                    case WaitResult.OPEN:
                        pass
                if elapsed >= self.timeout:
                    line = _describe_queue(node)
                    raise Failure(
                        f"{node['name']} is still {node['state']}{f' ({line})' if line else ''}"
                        f" after {format_age(elapsed)}; the service continues;"
                        f" see: tpu-steward nodes show {node['name']}"
                    )
                time.sleep(POLL_SECONDS)

    def _read_node(self, show: Show) -> ApiAnswer:
        """The node. Retried while the service does not answer; raises Unreachable after that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.client.get(f"/v1/nodes/{self.node_id}")
            except Unreachable as trouble:
                if time.monotonic() > deadline:
                    raise
                show(f"         {trouble}")
                time.sleep(POLL_SECONDS)


def describe_progress(node: Mapping[str, Any]) -> str:
    """State, zone, queued resource, READY slices and last error of a node, in one line."""
    there = node["state"] == READY or node["state"] in ENDED
    more = () if there else (_describe_queue(node), slices_ready(node))
    said = (node["state"], node["zone"], *more, node["last_error"])
    return clean_text("  ".join(filter(None, said)))


def _describe_queue(node: Mapping[str, Any]) -> str:
    line = queue_line(node)
    return f"queued resource {line}" if line else ""


@contextmanager
def show_progress() -> Iterator[Show]:
    """Shows one line that changes on a terminal; elsewhere a line when it differs from the last."""
    screen = make_console(err=True)
    if screen.is_terminal:
        with screen.status("") as status:
            yield lambda line: status.update(line.strip())
        return
    last = ""

    def show_news(line: str) -> None:
        nonlocal last
        news = line[9:]  # without the elapsed time
        if news != last:
            print_errors(line)
        last = news

    yield show_news


_WHAT_NOW = {
    Goal.READY: "is to be started",
    Goal.STOPPED: "is to be stopped",
    Goal.DELETED: "is to be deleted",
}


def follow_change(
    client: Client, answer: ApiAnswer, goal: Goal, timeout: int | None, *, json: bool
) -> None:
    """Print the node after a change. With a timeout, in seconds, wait for the goal first."""
    if not json:
        print_paragraphs(*(f"note: {warning}" for warning in answer.value.get("warnings") or ()))
    if timeout is not None:
        answer = NodeWatch(client, answer.value["id"], timeout).wait_for(goal)
    node = answer.value
    there = node["state"] == goal or node["state"] in ENDED
    if json:
        print_json(answer)
    elif there:
        so_far = "" if node["state"] in ENDED else " so far"
        print_lines(
            f"{node['name']} is {node['state']}; it cost {format_usd(node['cost'])}{so_far}"
        )
    else:
        print_lines(f"{node['name']} is {node['state']} and {_WHAT_NOW[goal]}")
