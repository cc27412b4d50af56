"""The commands that show containers: ps, logs, inspect."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from service.emulator.workers.docker.containers import (
    LOOK_SECONDS,
    Container,
    ContainerRefused,
    State,
    Store,
)
from service.emulator.workers.docker.formats import filled, fixed_moment, moment_ns, rows_shown
from service.emulator.workers.docker.log import ContainerLogEntry, Reader
from service.emulator.workers.docker.shown import PS, document, row
from service.emulator.workers.options import is_set, known, last, parse, required

PS_OPTIONS = known(
    "all quiet no-trunc latest size",
    "filter format last",
    "a=all q=quiet f=filter n=last l=latest s=size",
)
LOGS_OPTIONS = known(
    "follow timestamps details", "tail since until", "f=follow t=timestamps n=tail"
)
INSPECT_OPTIONS = known("size", "format type", "f=format s=size")

Matches = Callable[[Container, State, str], bool]


def _has_label(container: Container, wanted: str) -> bool:
    name, given, value = wanted.partition("=")
    return name in container.labels and (not given or container.labels[name] == value)


FILTERS: dict[str, Matches] = {
    "name": lambda container, _, value: value.strip("^$/") in container.name,
    "id": lambda container, _, value: container.id.startswith(value),
    "status": lambda _, state, value: state.status == value,
    "exited": lambda _, state, value: state.status == "exited" and str(state.exit_code) == value,
    "ancestor": lambda container, _, value: (
        value in {container.image, container.image.rpartition(":")[0]}
    ),
    "label": lambda container, _, value: _has_label(container, value),
}


def ps(store: Store, args: list[str]) -> int:
    options, _ = parse(args, PS_OPTIONS)
    filters = []
    for text in options.get("filter", []):
        key, _, value = text.partition("=")
        if key not in FILTERS:
            raise ContainerRefused(f"invalid filter '{key}'")
        filters.append((key, value))
    asks_state = any(key in {"status", "exited"} for key, _ in filters)
    every = is_set(options, "all") or is_set(options, "latest") or "last" in options or asks_state
    found = [
        (container, state)
        for container, state in ((item, store.state(item)) for item in store.all())
        if (every or state.running)
        and all(FILTERS[key](container, state, value) for key, value in filters)
    ]
    count = 1 if is_set(options, "latest") else int(last(options, "last", "-1"))
    whole = is_set(options, "no-trunc")
    rows = [row(*pair, whole=whole) for pair in (found if count < 0 else found[:count])]
    if is_set(options, "quiet"):
        lines = [str(shown["ID"]) for shown in rows]
    else:
        lines = rows_shown(last(options, "format"), PS, rows)
    _write_lines(lines)
    return 0


def logs(store: Store, args: list[str]) -> int:
    options, names = parse(args, LOGS_OPTIONS)
    container = store.find(required(names, "logs"))
    tail = last(options, "tail", "all")
    view = View(
        since=moment_ns(last(options, "since", "0")),
        until=moment_ns(last(options, "until", "0")),
        tail=int(tail) if tail.isdecimal() else None,
        timestamps=is_set(options, "timestamps"),
    )
    follow(store, container, view, forever=is_set(options, "follow"))
    return 0


def inspect(store: Store, args: list[str]) -> int:
    options, names = parse(args, INSPECT_OPTIONS)
    required(names, "inspect")
    found: list[dict[str, Any]] = []
    missing = []
    for name in names:
        try:
            container = store.find(name)
        except ContainerRefused:
            missing.append(name)
        else:
            found.append(document(container, store.state(container)))
    template = last(options, "format")
    if template in {"", "json"}:
        sys.stdout.write(f"{json.dumps(found, indent=4 if not template else None)}\n")
    else:
        _write_lines([filled(template, shown) for shown in found])
    for name in missing:
        sys.stderr.write(f"Error: No such object: {name}\n")
    return 1 if missing else 0


@dataclass(frozen=True)
class View:
    """The shown part of a log: bounds in nanoseconds (0: none), and the newest `tail` lines."""

    since: int = 0
    until: int = 0
    tail: int | None = None
    timestamps: bool = False

    def shows(self, entry: ContainerLogEntry) -> bool:
        return self.since <= entry.at and (not self.until or entry.at <= self.until)

    def text(self, entry: ContainerLogEntry) -> bytes:
        """Return an entry as docker writes it: each piece of a long line has a timestamp."""
        stamp = f"{fixed_moment(entry.at)} ".encode() if self.timestamps else b""
        return stamp + entry.text + (b"\n" if entry.whole else b"")


def follow(store: Store, container: Container, view: View, *, forever: bool) -> None:
    """Write a container's log to the standard streams, with `forever` until its end."""
    reader = Reader(store.directory(container) / "log")
    found: Iterable[ContainerLogEntry] = reader.entries()
    if view.tail is not None:
        found = deque(filter(view.shows, found), view.tail)
    while True:
        # The last lines are written before the state becomes `exited`.
        over = not forever or store.state(container).over
        _write_entries(found, view)
        if over:
            _write_entries(reader.entries(), view)
            reader.close()
            return
        time.sleep(LOOK_SECONDS)
        found = reader.entries()


def _write_entries(entries: Iterable[ContainerLogEntry], view: View) -> None:
    wrote = False
    for entry in filter(view.shows, entries):
        stream = sys.stderr if entry.stream == "stderr" else sys.stdout
        stream.buffer.write(view.text(entry))
        wrote = True
    if wrote:
        sys.stdout.buffer.flush()
        sys.stderr.buffer.flush()


def _write_lines(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
