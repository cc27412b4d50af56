"""How long a command takes, in times of the interpreter that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence

from tests.bench.figure import Figure, median_of
from tests.cli.given import Api, node, page, served

RUNS = 15
COMMANDS: Sequence[tuple[tuple[str, ...], float]] = ((("--help",), 10), (("nodes", "list"), 45))
"""What is typed, and how many times as long as nothing it may take."""


def measure() -> list[Figure]:
    """The ratio for each command; the median of some runs against an API that answers at once."""
    with served(Api()) as api:
        api.when("GET", "/v1/nodes", page(*(node() for _ in range(20))))
        environment = {**os.environ, "STEWARD_URL": api.url}
        nothing = _median(["-c", "pass"], environment)
        return [_figure(words, bound, nothing, environment) for words, bound in COMMANDS]


def _figure(
    words: Sequence[str], bound: float, nothing: float, environment: dict[str, str]
) -> Figure:
    took = _median(["-m", "service.cli", *words], environment)
    return Figure(
        f"`{' '.join(words)}`: times of an interpreter that does nothing",
        took / nothing,
        bound,
        detail=f"{took * 1000:.0f} ms; nothing takes {nothing * 1000:.0f} ms",
    )


def _median(arguments: Sequence[str], environment: dict[str, str]) -> float:
    """Seconds of CPU, which differ less than wall time where others use the machine too."""

    def work() -> None:
        command = [sys.executable, *arguments]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

    return median_of(RUNS, work, _cpu)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
