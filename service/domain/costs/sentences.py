"""The explanation of an amount in words, for lines of the ledger and for unposted usage. Pure."""

from __future__ import annotations


class InWords:
    """The sentences of an explanation.

    These are the `sum`, the `source` of its price, `notes`, the `evidence` for both ends of the
    interval, and who is `charged`.
    """

    __slots__ = ()

    sum: str
    source: str
    notes: tuple[str, ...]
    evidence: tuple[str, ...]
    charged: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, the sum first."""
        return (self.sum, self.source, *self.notes, *self.evidence, self.charged)
