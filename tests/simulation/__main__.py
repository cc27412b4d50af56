"""`python -m tests.simulation 17` lives through one seed, `0-999` through many."""

from __future__ import annotations

import sys
import time

from tests.simulation.run import run


def seeds_of(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(wanted: list[str]) -> int:
    """Run the seeds; the first that fails says what happened and how to see it again."""
    start, hours, deaths, attempts, undecided = time.monotonic(), 0.0, 0, 0, 0
    seeds = [seed for text in wanted for seed in seeds_of(text)]
    for seed in seeds:
        lived = run(seed)
        hours += lived.fortune.hours * lived.fortune.nodes
        deaths += lived.deaths
        if lived.job_oracle is not None:
            attempts += lived.job_oracle.attempts
            undecided += lived.job_oracle.undecided
    seconds = time.monotonic() - start
    print(
        f"{len(seeds)} seeds: {hours:,.0f} node-hours, {deaths} daemons killed,"
        f" {attempts} attempts of jobs ({undecided} undecided),"
        f" nothing went wrong, in {seconds:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["0-99"]))
