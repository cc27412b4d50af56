"""`python -m tests.interleaving 17` lives through one seed, `0-999` through many."""

from __future__ import annotations

import sys
import time

from tests.interleaving.run import run
from tests.simulation.__main__ import seeds_of


def main(wanted: list[str]) -> int:
    """Run the seeds; the first that fails says what happened and how to see it again."""
    start, steps = time.monotonic(), 0
    seeds = [seed for text in wanted for seed in seeds_of(text)]
    for seed in seeds:
        steps += len(run(seed).stage.history)
    print(f"{len(seeds)} seeds, {steps} steps, in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["0-19"]))
