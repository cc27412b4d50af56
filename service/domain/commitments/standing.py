"""The cost of usage after commitments in a window, and the value of each commitment. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.commitments.commitment import Commitment, fee_in
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
    """Usage that commitments may cover: its charge, and its eligible and covered parts.

    `charged` is nano-dollars without commitments, `eligible` is chip-seconds.
    """

    charged: int = 0
    eligible: int = 0
    covered: CoveredUsage = NOTHING

    @property
    def amortised_cost(self) -> int:
        """The cost after commitments: the covered part at their rates, the rest as charged."""
        return self.charged - self.covered.avoided + self.covered.cost

    def plus(self, other: CoverageFigures) -> CoverageFigures:
        """The sum of both."""
        return CoverageFigures(
            self.charged + other.charged,
            self.eligible + other.eligible,
            self.covered.plus(other.covered),
        )


@dataclass(frozen=True, slots=True)
class CommitmentStanding:
    """A commitment in a window. `fee` is paid for `committed` chip-seconds, used or not.

    `eligible` are the chip-seconds of usage that it may cover; `users` has the covered usage by
    (node id, team).
    """

    priced: PricedCommitment
    fee: int
    committed: int
    eligible: int
    users: Mapping[tuple[str, str], CoveredUsage]

    @property
    def total_covered(self) -> CoveredUsage:
        """All usage that it covers."""
        return total_of(self.users.values())

    @property
    def unused_fee(self) -> int:
        """The part of the fee that covers no usage.

        Rounding may leave a few nano-dollars although every chip-second is used.
        """
        return self.fee - self.total_covered.cost

    @property
    def unused_chip_seconds(self) -> int:
        """Chip-seconds that are committed and not used."""
        return self.committed - self.total_covered.chip_seconds

    @property
    def saving(self) -> int:
        """The avoided charges less the fee; negative if the commitment loses money."""
        return self.total_covered.avoided - self.fee


@dataclass(frozen=True, slots=True)
class CommitmentUsage:
    """Commitments and the usage that they cover in a window. `users` are by (node id, team).

    `unpriced` are commitments in their term without a known rate, which are in no figure.
    """

    window: Window
    standings: tuple[CommitmentStanding, ...]
    users: Mapping[tuple[str, str], CoverageFigures]
    unpriced: tuple[Commitment, ...] = ()

    @property
    def total_figures(self) -> CoverageFigures:
        """The figures of all usage that commitments may cover."""
        found = CoverageFigures()
        for figures in self.users.values():
            found = found.plus(figures)
        return found

    @property
    def fee(self) -> int:
        """The sum of all fees."""
        return sum(standing.fee for standing in self.standings)

    @property
    def unused_fee(self) -> int:
        """The part of all fees that covers no usage."""
        return sum(standing.unused_fee for standing in self.standings)

    @property
    def saving(self) -> int:
        """The avoided charges less all fees."""
        return sum(standing.saving for standing in self.standings)

    def by_node(self) -> Mapping[str, CoverageFigures]:
        """The figures by node id."""
        return self._sum_by(0)

    def by_team(self) -> Mapping[str, CoverageFigures]:
        """The figures by team; the key is empty for usage without a team."""
        return self._sum_by(1)

    def _sum_by(self, which: int) -> Mapping[str, CoverageFigures]:
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
    """The standing of commitments in a window: the cost of usage, and the value of each commitment.
    The lines are those of `cover_usage` for all usage in the window."""
    users: defaultdict[tuple[str, str], CoverageFigures] = defaultdict(CoverageFigures)
    covers: defaultdict[str, dict[tuple[str, str], CoveredUsage]] = defaultdict(dict)
    chips: defaultdict[str, int] = defaultdict(int)
    for line in lines:
        for priced in some:
            eligible = _count_eligible(line, priced.commitment, window)
            chips[priced.commitment.id] += eligible
        for start, end, whose in line.meter.attributed_parts(window.start, window.end):
            key = line.meter.usage.node_id, whose.team
            by_commitment = line.covered_in(start, end)
            for its_id, part in by_commitment.items():
                covers[its_id][key] = covers[its_id].get(key, NOTHING).plus(part)
            together = total_of(by_commitment.values())
            charged = line.meter.charge_in(start, end)
            users[key] = users[key].plus(
                CoverageFigures(charged, line.eligible_in(start, end), together)
            )
    standings = []
    for priced in some:
        its = priced.commitment
        seconds = max(0, min(window.end, its.end) - max(window.start, its.start))
        fee = fee_in(its, priced.rate, window.start, window.end)
        standings.append(
            CommitmentStanding(priced, fee, its.chips * seconds, chips[its.id], covers[its.id])
        )
    return CommitmentUsage(
        window,
        tuple(standing for standing in standings if standing.committed),
        {key: figures for key, figures in users.items() if figures.eligible},
        tuple(each for each in unpriced if each.start < window.end and window.start < each.end),
    )


def _count_eligible(line: CoverageLine, commitment: Commitment, window: Window) -> int:
    """Chip-seconds of a line in a window that the commitment may cover."""
    usage = line.meter.usage
    if (usage.sku.region, usage.sku.generation) != (commitment.region, commitment.generation):
        return 0
    if not commitment.may_cover(usage.project):
        return 0
    start, end = max(window.start, commitment.start), min(window.end, commitment.end)
    return line.meter.chip_seconds_in(start, end)
