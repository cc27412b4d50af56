"""How the cloud was looked at, and what its own record says of that time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation


@dataclass(frozen=True, slots=True)
class Looking:
    """The circumstances of a look: when it was answered, when the one before was asked, both in
    whole UTC seconds, and what the cloud's own record says of operations on this node.

    What was seen held at some instant between `asked` and `now`, which are far apart when the cloud
    is slow: it may have begun as late as `now`, and may have been over right after `asked`.
    """

    now: int
    before: int
    operations: Sequence[Operation] = ()
    asked: int | None = None
    refused: bool = False
    """Whether the cloud's record says that its queued resource was never taken in."""

    def since(self, shown: int) -> Looking:
        """The same look, where a list has shown, at `shown`, what was known by then."""
        return replace(self, before=max(self.before, min(shown, self.now)))

    @property
    def came_up(self) -> int | None:
        """When the last create, start or reimage was over, by the cloud's record."""
        return self.ended(*COMES_UP)

    def ended(self, *verbs: str) -> int | None:
        """When the last operation of these verbs was over, of those that succeeded."""
        ends = (op.ended_at for op in self.operations if op.verb in verbs and op.succeeded)
        return max((end for end in ends if end is not None), default=None)

    def up_before(self, last: int, since: int) -> int | None:
        """When, from `since` on, it first came up but for the `last` time; None where that was the
        only one. It was READY then, went down unseen, and came up once more."""
        ends = (
            op.ended_at
            for op in self.operations
            if op.verb in COMES_UP and op.succeeded and op.ended_at is not None
        )
        return min((end for end in ends if since <= end < last), default=None)

    def went_down_before(self, instant: int) -> bool:
        """Whether a delete, stop or reimage was accepted since the look before and until then."""
        accepted = self._accepted(failed=False)
        return any(self.before <= at < instant for at in accepted)

    @property
    def went_down(self) -> int | None:
        """When the last delete, stop or reimage was accepted, by the cloud's record."""
        return max(self._accepted(failed=False), default=None)

    def shaken(self, until: int) -> int | None:
        """When the first of those that came to nothing was accepted since the look before and until
        then: from there on it may have been down for a while, and READY once more."""
        tried = self._accepted(failed=True)
        return min((at for at in tried if self.before <= at < until), default=None)

    def back_from(self, accepted: int | None) -> int | None:
        """When that was over which was accepted at that instant and came to nothing: what was to go
        down for it was up again. None where there is no such operation."""
        ends = (
            op.ended_at
            for op in self.operations
            if op.verb in GOES_DOWN and op.error is not None and op.created_at == accepted
        )
        return min((end for end in ends if end is not None), default=None)

    def _accepted(self, *, failed: bool) -> list[int]:
        return [
            op.created_at
            for op in self.operations
            if op.verb in GOES_DOWN and (op.error is not None) is failed
        ]
