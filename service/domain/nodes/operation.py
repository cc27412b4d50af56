"""A long-running operation of the cloud, as last looked at."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.errors import CloudError

COMES_UP = ("create", "start", "reimage")
"""Verbs of what a node is READY after, from when it is over."""

GOES_DOWN = ("delete", "stop", "reimage")
"""Verbs of what a node is no longer READY after, from when it is accepted."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What the cloud says of work that it was asked to do.

    Times are whole UTC seconds by the cloud's clock; `target` is the full name of the node. `error`
    is set when it is done and failed, already told apart by what to do next.
    """

    name: str
    verb: str
    target: str
    created_at: int
    ended_at: int | None = None
    done: bool = False
    error: CloudError | None = None

    @property
    def succeeded(self) -> bool:
        """Whether it is over and did what it was asked."""
        return self.done and self.error is None
