"""Waits until a node is as it was asked to be, and shows how it gets there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.cli.queue import READY, queue_line, slices_ready
from service.cli.terminal.client import ApiAnswer, Client, Unreachable
from service.cli.terminal.failure import Failure
from service.cli.terminal.formatting import age
from service.cli.terminal.render import cleaned, complain, console
from service.domain.nodes.node import ENDED

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
"""For so long a service that does not answer is asked again: it may be starting anew."""

Show = Callable[[str], None]


class Goal(StrEnum):
    """The state that is waited for."""

    READY = "READY"
    STOPPED = "STOPPED"
    DELETED = "DELETED"


class WaitResult(StrEnum):
    """Whether it came to that."""

    REACHED = "reached"
    MISSED = "missed"
    OPEN = "open"


def verdict(goal: Goal, state: str) -> WaitResult:
    """What a state means for the goal. A node that failed is as gone as one that was deleted."""
    if state == goal or (goal is Goal.DELETED and state in ENDED):
        return WaitResult.REACHED
    return WaitResult.MISSED if state in ENDED else WaitResult.OPEN


@dataclass(frozen=True, slots=True)
class NodeWatch:
    """Looks at one node again and again; `timeout` is in seconds."""

    client: Client
    node_id: str
    timeout: int

    def until(self, goal: Goal) -> ApiAnswer:
        """The node, once the goal is reached. Raises Failure when it cannot be, or in time."""
        started = time.monotonic()
        with progress() as show:
            while True:
                answer = self._look(show)
                node = answer.value
                elapsed = int(time.monotonic() - started)
                show(f"{age(elapsed):>7}  {seen(node)}")
                match verdict(goal, node["state"]):
                    case WaitResult.REACHED:
                        return answer
                    case WaitResult.MISSED:
                        raise Failure(_missed(node))
                    case WaitResult.OPEN:
                        pass
                if elapsed >= self.timeout:
                    raise Failure(_late(node, elapsed))
                time.sleep(POLL_SECONDS)

    def _look(self, show: Show) -> ApiAnswer:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.client.get(f"/v1/nodes/{self.node_id}")
            except Unreachable as trouble:
                if time.monotonic() > deadline:
                    raise
                show(f"         {trouble}")
                time.sleep(POLL_SECONDS)


def seen(node: Mapping[str, Any]) -> str:
    """What there is to see of a node on its way: its state, where, how it stands in the queue, how
    many of its slices are READY, and what went wrong last."""
    there = node["state"] == READY or node["state"] in ENDED
    more = () if there else (_queue(node), slices_ready(node))
    said = (node["state"], node["zone"], *more, node["last_error"])
    return cleaned("  ".join(one for one in said if one))


def _queue(node: Mapping[str, Any]) -> str:
    line = queue_line(node)
    return f"queued resource {line}" if line else ""


@contextmanager
def progress() -> Iterator[Show]:
    """Shows one line that changes on a terminal; elsewhere a line whenever there is news."""
    screen = console(err=True)
    if screen.is_terminal:
        with screen.status("") as status:
            yield lambda line: status.update(line.strip())
        return
    last = ""

    def tell(line: str) -> None:
        nonlocal last
        news = line[9:]
        if news != last:
            complain(line)
        last = news

    yield tell


def _missed(node: Mapping[str, Any]) -> str:
    why = node.get("last_error") or node.get("delete_reason") or "no reason is known"
    return f"{node['name']} is {node['state']}: {why}"


def _late(node: Mapping[str, Any], elapsed: int) -> str:
    queue = _queue(node)
    return (
        f"{node['name']} is still {node['state']}{f' ({queue})' if queue else ''} after"
        f" {age(elapsed)}; the service continues; see: tpu-steward nodes show {node['name']}"
    )
