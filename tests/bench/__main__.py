"""`make bench`: measure everything, print it, and fail when a promise is not kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from tests.bench import (
    admission,
    cleanup,
    clients,
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
)


def main(wanted: Sequence[str]) -> int:
    """Run the parts that are named, or all; 1 when a figure misses what was promised."""
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
