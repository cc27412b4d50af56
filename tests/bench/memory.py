"""How much more memory this process had at most than before: what the system itself says."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """While it is open, how far the resident memory rose; `more` are the bytes of that.

    What counts every allocation makes a program several times as slow, so that nobody would measure
    a long run by it. Where a system does not let its peak be forgotten, an earlier, higher one may
    hide this one.
    """

    def __enter__(self) -> Self:
        self.more = 0
        if _RESET.exists():
            _RESET.write_text("5")
        self._before = _now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.more = max(0, _highest() - self._before)


def _now() -> int:
    return _told("VmRSS") if _STATUS.exists() else _highest()


def _highest() -> int:
    if _STATUS.exists():
        return _told("VmHWM")
    kilobytes = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobytes


def _told(name: str) -> int:
    """A figure of the process, in bytes."""
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1_024
