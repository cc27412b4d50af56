"""A child process that never outlives the process that started it, even one that was killed."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT = "STEWARD_PARENT"
"""The environment variable with the process id of the parent; unset for those who have none."""

LOOK_SECONDS = 0.5
GRACE_SECONDS = 5.0


def watch() -> None:
    """End this process soon after its parent, when it was told which one that is."""
    parent = os.environ.get(PARENT, "")
    if parent.isdigit():
        threading.Thread(target=_watch, args=[int(parent)], name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
