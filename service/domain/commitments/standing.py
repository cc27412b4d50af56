"""What usage costs after commitments in a window, and what each commitment was worth. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.commitments.commitment import Commitment, fee
from service.domain.commitments.coverage import (
    NOTHING,
    CoverageLine,
    CoveredUsage,
    PricedCommitment,
    total_of,
)
from service.domain.time_window import Window


@dataclass(frozen=True, slots=True)
class CoverageFigures:
    """Usage that commitments may cover: what it was charged, how much of it was eligible and
    covered, what was avoided, and the part of the fees that covers it."""

    charged: int = 0
    eligible: int = 0
    covered: CoveredUsage = NOTHING

    @property
    def amortised(self) -> int:
        """What it costs after commitments: the covered part at their rates, the rest as charged."""
        return self.charged - self.covered.avoided + self.covered.cost

    def plus(self, other: CoverageFigures) -> CoverageFigures:
        """Both together."""
        return CoverageFigures(
            self.charged + other.charged,
            self.eligible + other.eligible,
            self.covered.plus(other.covered),
        )


@dataclass(frozen=True, slots=True)
class CommitmentStanding:
    """A commitment in a window. `fee` is paid for `committed` chip-seconds, used or not; `eligible`
    are those of usage that it may cover; `users` is what it covers by (node id, team)."""

    priced: PricedCommitment
    fee: int
    committed: int
    eligible: int
    users: Mapping[tuple[str, str], CoveredUsage]

    @property
    def covered(self) -> CoveredUsage:
        """All that it covers."""
        return total_of(self.users.values())

    @property
    def unused(self) -> int:
        """The part of the fee that covers nothing. Rounding may leave a few nano-dollars here where
        every chip-second is used."""
        return self.fee - self.covered.cost

    @property
    def unused_chip_seconds(self) -> int:
        """Committed, and not used."""
        return self.committed - self.covered.chip_seconds

    @property
    def saving(self) -> int:
        """What was avoided less the fee; less than nothing where the commitment loses money."""
        return self.covered.avoided - self.fee


@dataclass(frozen=True, slots=True)
class CommitmentUsage:
    """Commitments and what they cover in a window. `users` are by (node id, team); `unpriced` are
    commitments in their term without a known rate, which are in no figure."""

    window: Window
    standings: tuple[CommitmentStanding, ...]
    users: Mapping[tuple[str, str], CoverageFigures]
    unpriced: tuple[Commitment, ...] = ()

    @property
    def total(self) -> CoverageFigures:
        """All usage that commitments may cover."""
        found = CoverageFigures()
        for one in self.users.values():
            found = found.plus(one)
        return found

    @property
    def fee(self) -> int:
        """All fees."""
        return sum(one.fee for one in self.standings)

    @property
    def unused(self) -> int:
        """The part of all fees that covers nothing."""
        return sum(one.unused for one in self.standings)

    @property
    def saving(self) -> int:
        """What was avoided less all fees."""
        return sum(one.saving for one in self.standings)

    def by_node(self) -> Mapping[str, CoverageFigures]:
        """The same by node id."""
        return self._by(0)

    def by_team(self) -> Mapping[str, CoverageFigures]:
        """The same by team; empty for usage of no team."""
        return self._by(1)

    def _by(self, which: int) -> Mapping[str, CoverageFigures]:
        found: defaultdict[str, CoverageFigures] = defaultdict(CoverageFigures)
        for key, figures in self.users.items():
            found[key[which]] = found[key[which]].plus(figures)
        return found


def usage_in(
    window: Window,
    lines: Iterable[CoverageLine],
    some: Sequence[PricedCommitment],
    unpriced: Iterable[Commitment] = (),
) -> CommitmentUsage:
    """The figures of a window: the lines are those that `cover` answers for all usage in it."""
    users: defaultdict[tuple[str, str], CoverageFigures] = defaultdict(CoverageFigures)
    covers: defaultdict[str, dict[tuple[str, str], CoveredUsage]] = defaultdict(dict)
    chips: defaultdict[str, int] = defaultdict(int)
    for line in lines:
        for one in some:
            chips[one.commitment.id] += _eligible(line, one.commitment, window)
        for start, end, whose in line.meter.pieces(window.start, window.end):
            key = line.meter.usage.node_id, whose.team
            by_commitment = line.covered(start, end)
            for its_id, part in by_commitment.items():
                covers[its_id][key] = covers[its_id].get(key, NOTHING).plus(part)
            together = total_of(by_commitment.values())
            charged = line.meter.charge(start, end)
            users[key] = users[key].plus(
                CoverageFigures(charged, line.eligible(start, end), together)
            )
    standings = tuple(
        _standing(one, window, chips[one.commitment.id], covers[one.commitment.id]) for one in some
    )
    return CommitmentUsage(
        window,
        tuple(one for one in standings if one.committed),
        {key: one for key, one in users.items() if one.eligible},
        tuple(one for one in unpriced if one.start < window.end and window.start < one.end),
    )


def _standing(
    one: PricedCommitment,
    window: Window,
    eligible: int,
    users: Mapping[tuple[str, str], CoveredUsage],
) -> CommitmentStanding:
    its = one.commitment
    seconds = max(0, min(window.end, its.end) - max(window.start, its.start))
    whole = fee(its, one.rate, window.start, window.end)
    return CommitmentStanding(one, whole, its.chips * seconds, eligible, users)


def _eligible(line: CoverageLine, one: Commitment, window: Window) -> int:
    usage = line.meter.usage
    if (usage.sku.region, usage.sku.generation) != (one.region, one.generation):
        return 0
    if not one.serves(usage.project):
        return 0
    return line.meter.chip_seconds(max(window.start, one.start), min(window.end, one.end))
