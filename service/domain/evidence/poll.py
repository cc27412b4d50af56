"""One poll of a node: its instants, and the cloud's operations on the node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from service.domain.nodes.operation import COMES_UP, GOES_DOWN, Operation


@dataclass(frozen=True, slots=True)
class Poll:
    """The circumstances in which a state was seen; all instants are whole UTC seconds.

    `now` is when the answer came, `asked_at` when the request was sent (None: not known), and
    `previous` when the request of the previous poll was sent. `operations` are those of this node.

    The state held at some instant between `asked_at` and `now`, which are far apart when the cloud
    is slow. So the state may have begun as late as `now`, and may have ended right after
    `asked_at`.
    """

    now: int
    previous: int
    operations: Sequence[Operation] = ()
    asked_at: int | None = None
    refused: bool = False
    """Whether an operation says that the node's queued resource was never accepted."""

    def with_previous(self, seen_at: int) -> Poll:
        """The same poll where a list has shown the previous state again at `seen_at`."""
        return replace(self, previous=max(self.previous, min(seen_at, self.now)))

    @property
    def last_up(self) -> int | None:
        """End time of the last successful create, start or reimage; None if there is none."""
        return self.last_end_of(*COMES_UP)

    @property
    def last_down(self) -> int | None:
        """Accepted time of the last successful delete, stop or reimage; None if there is none."""
        return max(self._accepted_times(failed=False), default=None)

    def last_end_of(self, *verbs: str) -> int | None:
        """End time of the last successful operation of these verbs; None if there is none."""
        return max(self._list_ends(*verbs), default=None)

    def first_up_before(self, last: int, since: int) -> int | None:
        """End time of the first successful create, start or reimage in [since, last).

        The node was READY from then on, went down unseen, and was READY again at `last`. None if no
        operation ended in that time.
        """
        ends = self._list_ends(*COMES_UP)
        return min((end for end in ends if since <= end < last), default=None)

    def has_stop_before(self, instant: int) -> bool:
        """Whether a successful delete, stop or reimage was accepted in [previous, instant)."""
        return any(self.previous <= at < instant for at in self._accepted_times(failed=False))

    def first_failed_stop_before(self, until: int) -> int | None:
        """Accepted time of the first failed delete, stop or reimage in [previous, until).

        The node may have been down for a while after it. None if there is no such operation.
        """
        failed = self._accepted_times(failed=True)
        return min((at for at in failed if self.previous <= at < until), default=None)

    def recovered_at(self, accepted_at: int | None) -> int | None:
        """End time of the failed delete, stop or reimage that was accepted at `accepted_at`.

        The node was READY again from then on. None if there is no such operation.
        """
        ends = (
            op.ended_at
            for op in self.operations
            if op.verb in GOES_DOWN and op.error is not None and op.created_at == accepted_at
        )
        return min((end for end in ends if end is not None), default=None)

    def _list_ends(self, *verbs: str) -> Iterator[int]:
        """Yield the end times of successful operations of these verbs. An operation may end long
        after its node came up: if the node was taken down before that, the end is left out, as
        it does not say when the node came up."""
        taken_down = self._accepted_times(failed=False)
        for op in self.operations:
            if op.verb not in verbs or not op.has_succeeded or op.ended_at is None:
                continue
            if not any(op.created_at < at < op.ended_at for at in taken_down):
                yield op.ended_at

    def _accepted_times(self, *, failed: bool) -> list[int]:
        return [
            op.created_at
            for op in self.operations
            if op.verb in GOES_DOWN and (op.error is not None) is failed
        ]
