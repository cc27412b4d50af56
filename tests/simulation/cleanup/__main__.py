"""`python -m tests.simulation.cleanup 17` lives through one seed, `0-999` through many."""

from __future__ import annotations

import sys
import time

from tests.simulation.__main__ import seeds_of
from tests.simulation.cleanup.run import run


def main(wanted: list[str]) -> int:
    """Run the seeds; the first that fails says what happened and how to see it again."""
    start, ends, others = time.monotonic(), 0, 0
    seeds = [seed for text in wanted for seed in seeds_of(text)]
    for seed in seeds:
        oracle = run(seed).oracle
        ends, others = ends + len(oracle.ends), others + len(oracle.others)
    seconds = time.monotonic() - start
    told = f"{ends} idle nodes ended, {others} by a time to live or a budget, none wrongly"
    print(f"{len(seeds)} seeds: {told}, in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["0-19"]))
