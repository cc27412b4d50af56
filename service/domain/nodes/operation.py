"""A long-running operation of the cloud, as last read."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.errors import CloudError

COMES_UP = ("create", "start", "reimage")
"""Verbs of operations after whose end a node is READY."""

GOES_DOWN = ("delete", "stop", "reimage")
"""Verbs of operations from whose acceptance on a node is no longer READY."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The cloud's record of requested work.

    Times are whole UTC seconds by the cloud's clock; `target` is the full name of the node. `error`
    is set if the operation failed; its class says what to do next.
    """

    name: str
    verb: str
    target: str
    created_at: int
    ended_at: int | None = None
    done: bool = False
    error: CloudError | None = None

    @property
    def has_succeeded(self) -> bool:
        """Whether the operation is done without an error."""
        return self.done and self.error is None
