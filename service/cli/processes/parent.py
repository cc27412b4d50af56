"""Ends a child process after its parent, even after a parent that was killed."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT = "STEWARD_PARENT"
"""The environment variable with the process id of the parent. Unset without a parent."""

LOOK_SECONDS = 0.5
GRACE_SECONDS = 5.0


def end_with_parent() -> None:
    """Watch the parent of this process, if one is set, and end this process soon after it."""
    parent = os.environ.get(PARENT, "")
    if parent.isdigit():
        threading.Thread(target=_end_after, args=[int(parent)], name="parent", daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
