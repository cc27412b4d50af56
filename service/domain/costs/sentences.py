"""An amount in words: what is said of a line of the ledger, and of what is in none yet. Pure."""

from __future__ import annotations


class InWords:
    """In words: the `sum`, the `source` of its price, `notes` on what is not plain in it, how both
    ends of its interval are known (`evidence`), and who is `charged`."""

    __slots__ = ()

    sum: str
    source: str
    notes: tuple[str, ...]
    evidence: tuple[str, ...]
    charged: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it, the sum first."""
        return (self.sum, self.source, *self.notes, *self.evidence, self.charged)
