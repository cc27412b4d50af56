"""Of a node of several slices, all are deleted in the same look: none waits for the next, and costs
money meanwhile."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from service.domain.nodes.node import CloudNode, Node, Place
from service.domain.nodes.slices import place_of, slice_numbers
from tests.simulation.invariants import LABEL, Invariants


@dataclass
class SliceDeletions:
    """Watches what each daemon sees and deletes, and compares both when it commits. Google may
    delete the other slices by itself when one goes, but nothing says that it always does."""

    truth: Invariants
    _seen: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """By daemon and full name of a cloud node: the id of ours that it is of. Only those that were
    there, and not being deleted, when the daemon looked last."""
    _sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By daemon: the full names of those whose deletion was sent since its last commit."""
    _taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The same, where the cloud has answered."""
    _tries: dict[str, int] = field(default_factory=dict)
    """By the id of ours: how many tries its record counted last."""

    def asked(self, daemon: str, verb: str, subject: object) -> None:
        """A daemon is about to look."""
        if verb == "get" and isinstance(subject, Place):
            self._seen[daemon].pop(subject.path, None)

    def commanded(self, daemon: str, verb: str, place: Place) -> None:
        """A daemon is about to send a command."""
        if verb == "delete":
            self._sent[daemon].add(place.path)

    def answered(self, daemon: str, verb: str, subject: object, answer: object) -> None:
        """The cloud has answered, or taken the command."""
        if not isinstance(subject, Place):
            return
        if verb == "delete":
            self._taken[daemon].add(subject.path)
        if verb == "get" and isinstance(answer, CloudNode) and answer.state != "DELETING":
            self._seen[daemon][subject.path] = answer.labels.get(LABEL, "")

    def saved(self, daemon: str, nodes: list[Node]) -> None:
        """A daemon has committed. Where it counts one more try, what it has sent for the node was
        all of this look; else it may have lost its lease in the middle of it."""
        sent, taken = self._sent[daemon], self._taken[daemon]
        for node in nodes:
            paths = {place_of(node, number).path for number in slice_numbers(node)}
            mine, seen = paths & sent, self._seen[daemon]
            left = {path for path in paths - mine if seen.get(path) == node.id}
            is_whole = node.tries > self._tries.get(node.id, 0) and mine <= taken
            self._tries[node.id] = node.tries
            if node.spec.slices > 1 and left and mine and is_whole:
                self.truth.wrong(f"{sorted(mine)} were deleted, and {sorted(left)} have to wait")
            sent.difference_update(paths)
            taken.difference_update(paths)
