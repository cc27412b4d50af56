"""`make bench`: measure everything, print it, and fail when a promise is not kept."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Sequence

from tests.bench import (
    admission,
    cleanup,
    clients,
    commands,
    emulator,
    exports,
    inventory,
    jobs,
    listing,
    pages,
    projects,
    reconciliation,
    spend,
    takeover,
)
from tests.bench.figure import Figure

PARTS: Sequence[tuple[str, Callable[[], list[Figure]]]] = (
    ("inventory", inventory.measure),
    ("spend", spend.measure),
    ("admission", admission.measure),
    ("exports", exports.measure),
    ("reconciliation", reconciliation.measure),
    ("emulator", emulator.measure),
    ("listing", listing.measure),
    ("pages", pages.measure),
    ("jobs", jobs.measure),
    ("cleanup", cleanup.measure),
    ("projects", projects.measure),
    ("takeover", takeover.measure),
    ("clients", clients.measure),
    ("commands", commands.measure),
)


STEPS = 10_000_000


def this_machine() -> str:
    """What the seconds below are to be compared by. An interpreter that was compiled without
    profiles (as version managers do) takes up to twice as long as one of Debian or Docker."""
    start, kept = time.process_time(), {}
    for number in range(STEPS):
        kept[number & 1023] = number
    took = time.process_time() - start
    return f"Python {platform.python_version()}, where {STEPS:,} plain steps take {took:.2f} s"


def main(wanted: Sequence[str]) -> int:
    """Run the parts that are named, or all; 1 when a figure misses what was promised."""
    print(this_machine(), flush=True)
    kept = True
    for name, measure in PARTS:
        if wanted and name not in wanted:
            continue
        for figure in measure():
            print(figure, flush=True)
            kept = kept and figure.kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
