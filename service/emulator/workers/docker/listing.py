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
from service.emulator.workers.docker.formats import (
    fill_template,
    format_nanos,
    format_rows,
    parse_moment,
)
from service.emulator.workers.docker.log import ContainerLogEntry, Reader
from service.emulator.workers.docker.shown import PS, build_document, format_row
from service.emulator.workers.options import (
    declare_options,
    is_set,
    last_value,
    parse_options,
    require_argument,
)

PS_OPTIONS = declare_options(
    "all quiet no-trunc latest size",
    "filter format last",
    "a=all q=quiet f=filter n=last l=latest s=size",
)
LOGS_OPTIONS = declare_options(
    "follow timestamps details", "tail since until", "f=follow t=timestamps n=tail"
)
INSPECT_OPTIONS = declare_options("size", "format type", "f=format s=size")

Matches = Callable[[Container, State, str], bool]


FILTERS: dict[str, Matches] = {
    "name": lambda container, _, value: value.strip("^$/") in container.name,
    "id": lambda container, _, value: container.id.startswith(value),
    "status": lambda _, state, value: state.status == value,
    "exited": lambda _, state, value: state.status == "exited" and str(state.exit_code) == value,
    "ancestor": lambda container, _, value: (
        value in {container.image, container.image.rpartition(":")[0]}
    ),
    "label": lambda container, _, wanted: any(
        wanted in {name, f"{name}={value}"} for name, value in container.labels.items()
    ),
}


def list_containers(store: Store, args: list[str]) -> int:
    options, _ = parse_options(args, PS_OPTIONS)
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
        for container, state in ((item, store.read_state(item)) for item in store.list_all())
        if (every or state.is_running)
        and all(FILTERS[key](container, state, value) for key, value in filters)
    ]
    count = 1 if is_set(options, "latest") else int(last_value(options, "last", "-1"))
    whole = is_set(options, "no-trunc")
    rows = [format_row(*pair, whole=whole) for pair in (found if count < 0 else found[:count])]
    if is_set(options, "quiet"):
        lines = [str(shown["ID"]) for shown in rows]
    else:
        lines = format_rows(last_value(options, "format"), PS, rows)
    _write_lines(lines)
    return 0


def show_logs(store: Store, args: list[str]) -> int:
    options, names = parse_options(args, LOGS_OPTIONS)
    container = store.get_container(require_argument(names, "logs"))
    tail = last_value(options, "tail", "all")
    view = View(
        since=parse_moment(last_value(options, "since", "0")),
        until=parse_moment(last_value(options, "until", "0")),
        tail=int(tail) if tail.isdecimal() else None,
        timestamps=is_set(options, "timestamps"),
    )
    follow_log(store, container, view, forever=is_set(options, "follow"))
    return 0


def inspect_containers(store: Store, args: list[str]) -> int:
    options, names = parse_options(args, INSPECT_OPTIONS)
    require_argument(names, "inspect")
    found: list[dict[str, Any]] = []
    missing = []
    for name in names:
        try:
            container = store.get_container(name)
        except ContainerRefused:
            missing.append(name)
        else:
            found.append(build_document(container, store.read_state(container)))
    template = last_value(options, "format")
    if template in {"", "json"}:
        sys.stdout.write(f"{json.dumps(found, indent=4 if not template else None)}\n")
    else:
        _write_lines([fill_template(template, shown) for shown in found])
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

    def covers_entry(self, entry: ContainerLogEntry) -> bool:
        return self.since <= entry.at and (not self.until or entry.at <= self.until)

    def format_entry(self, entry: ContainerLogEntry) -> bytes:
        """Return an entry as docker writes it: each piece of a long line has a timestamp."""
        stamp = f"{format_nanos(entry.at)} ".encode() if self.timestamps else b""
        return stamp + entry.text + (b"\n" if entry.whole else b"")


def follow_log(store: Store, container: Container, view: View, *, forever: bool) -> None:
    """Write a container's log to the standard streams, with `forever` until its end."""
    reader = Reader(store.directory_of(container) / "log")
    found: Iterable[ContainerLogEntry] = reader.read_entries()
    if view.tail is not None:
        found = deque(filter(view.covers_entry, found), view.tail)
    while True:
        # The last lines are written before the state becomes `exited`.
        over = not forever or store.read_state(container).is_over
        _write_entries(found, view)
        if over:
            _write_entries(reader.read_entries(), view)
            reader.close()
            return
        time.sleep(LOOK_SECONDS)
        found = reader.read_entries()


def _write_entries(entries: Iterable[ContainerLogEntry], view: View) -> None:
    wrote = False
    for entry in filter(view.covers_entry, entries):
        stream = sys.stderr if entry.stream == "stderr" else sys.stdout
        stream.buffer.write(view.format_entry(entry))
        wrote = True
    if wrote:
        sys.stdout.buffer.flush()
        sys.stderr.buffer.flush()


def _write_lines(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
