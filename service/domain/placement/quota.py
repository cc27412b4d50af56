"""What Google said that a project may have, and what is known to count against it. Pure.

There is no way to ask for the quota of Cloud TPU. What is known is what Google said when it
refused, so a limit is learned, grows old, and is contradicted by what is granted after all.

The sources do not agree on what is counted: "cores per project per zone"
(reference/cloud-tpu-api.md section 3.4), or cores of v5p and chips of v5e and v6e
(reference/pricing.md section 4). On v5e and v6e the two are the same number. So an amount is kept
in both, and what would be refused for good must be too much in either.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.domain.catalog import catalog
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY
from service.domain.errors import CloudError, QuotaExceeded
from service.domain.nodes.node import NodeSpec
from service.domain.nodes.placement import scope_of

FRESH_SECONDS = DAY
"""How long a limit is believed: raising a quota takes Google from minutes to days."""

MEMORY_SECONDS = 7 * DAY
"""How long an old limit is worth a warning."""

_SPLIT = frozenset({"v2", "v3", "v5e"})
"""Generations that have another limit for single hosts than for pods: `TPUV2sPreemptiblePod…` of
v2 and v3, `TPUV5sLitepodServing…` of v5e (reference/cloud-tpu-api.md section 3.4)."""


class Tier(StrEnum):
    """Provisioning models that share a limit."""

    ON_DEMAND = "on_demand"
    PREEMPTIBLE = "preemptible"
    RESERVED = "reserved"


class Size(StrEnum):
    """Which types of its generation a limit is about."""

    ANY = "any"
    SINGLE = "single"
    POD = "pod"


class LimitStanding(StrEnum):
    """What a learned limit is worth now."""

    FRESH = "fresh"
    """It is believed."""

    OLD = "old"
    """It may have been changed since."""

    CONTRADICTED = "contradicted"
    """More than it allows was granted later."""


class QuotaFit(StrEnum):
    """Whether something fits under a limit."""

    YES = "yes"
    NOT_NOW = "not_now"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class HardwareAmount:
    """Hardware in both units that a limit may be counted in."""

    chips: int = 0
    cores: int = 0

    def __add__(self, other: HardwareAmount) -> HardwareAmount:
        return HardwareAmount(self.chips + other.chips, self.cores + other.cores)

    @property
    def least(self) -> int:
        """It counts for so much at least."""
        return min(self.chips, self.cores)

    @property
    def most(self) -> int:
        """It counts for no more than that."""
        return max(self.chips, self.cores)

    def __str__(self) -> str:
        chips = f"{self.chips:,} chip{'' if self.chips == 1 else 's'}"
        return chips if self.cores == self.chips else f"{chips} ({self.cores:,} cores)"


@dataclass(frozen=True, slots=True)
class QuotaClaim:
    """Hardware in one zone that is wanted, or that is held."""

    zone: str
    generation: str
    tier: Tier
    size: Size
    amount: HardwareAmount


@dataclass(frozen=True, slots=True)
class Limit:
    """What a refusal taught: in `place`, a zone or a region, so much of it is `allowed`.

    `observed_at` is when it was said, in whole UTC seconds, and `said` are Google's own words.
    """

    project: str
    name: str
    place: str
    generation: str
    tier: Tier
    size: Size
    allowed: int
    observed_at: int
    said: str = ""

    @property
    def id(self) -> str:
        """The same for the same limit, whatever it allows; safe in an address."""
        parts = (self.project, self.name, self.place, self.generation, self.tier, self.size)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    @property
    def believed_until(self) -> int:
        """When it is old."""
        return self.observed_at + FRESH_SECONDS

    def covers(self, claim: QuotaClaim) -> bool:
        """Whether that counts against it."""
        return (
            self.place in (claim.zone, region_of(claim.zone))
            and self.generation == claim.generation
            and self.tier is claim.tier
            and self.size in (Size.ANY, claim.size)
        )


@dataclass(frozen=True, slots=True)
class QuotaHolding:
    """What a project has, or had: `used` where it works now, and `granted_at` when the last attempt
    for it began that came up, None where none did. `dead` says that it will never work again, and
    holds its quota until it is deleted."""

    claim: QuotaClaim
    used: bool
    granted_at: int | None = None
    dead: bool = False


@dataclass(frozen=True, slots=True)
class QuotaTally:
    """A limit with what counts against it, as far as is known: what works, and what only holds.
    `dead` is the part of `held` that will never work again."""

    limit: Limit
    standing: LimitStanding
    used: HardwareAmount
    held: HardwareAmount
    dead: HardwareAmount = HardwareAmount()


@dataclass(frozen=True, slots=True)
class QuotaStock:
    """What a project is known to have of a generation in a region whose limit nobody has named:
    what works, and what only holds. `dead` is the part of `held` that will never work again."""

    project: str
    place: str
    generation: str
    tier: Tier
    used: HardwareAmount
    held: HardwareAmount
    dead: HardwareAmount = HardwareAmount()


def tier_of(model: str) -> Tier:
    """The limit that a provisioning model counts against: "flex-start and spot use preemptible
    quota" (reference/pricing.md section 4).

    The same page has on-demand and reserved share theirs. That is not relied upon: what was said of
    one keeps nobody from the other.
    """
    match model:
        case ProvisioningModel.RESERVED:
            return Tier.RESERVED
        case ProvisioningModel.SPOT | ProvisioningModel.PREEMPTIBLE | ProvisioningModel.FLEX_START:
            return Tier.PREEMPTIBLE
        case _:
            return Tier.ON_DEMAND


def claim_of(zone: str, accelerator: AcceleratorType, model: str, chips: int) -> QuotaClaim:
    """So many chips of that type, of one node or of several."""
    cores = chips * accelerator.cores // accelerator.chips
    size = Size.SINGLE if accelerator.single_host else Size.POD
    amount = HardwareAmount(chips, cores)
    return QuotaClaim(zone, accelerator.generation, tier_of(model), size, amount)


def learned(spec: NodeSpec, zone: str, error: CloudError, now: int) -> Limit | None:
    """What a refusal teaches; None where it names no number, or only a place that was not asked.

    Where no place is named it is taken for the zone's own, which is the least it can mean.
    """
    allowed = error.facts.get("allowed")
    accelerator = catalog.load().accelerators.get(spec.accelerator_type)
    if not isinstance(error, QuotaExceeded) or not isinstance(allowed, int) or accelerator is None:
        return None
    place = scope_of(error, zone)
    if not place and error.facts.keys() & {"region", "zone"}:
        return None
    claim = claim_of(zone, accelerator, spec.provisioning_model, spec.chips)
    return Limit(
        project=spec.project,
        name=str(error.facts.get("limit", "")),
        place=place or zone,
        generation=claim.generation,
        tier=claim.tier,
        size=claim.size if claim.generation in _SPLIT else Size.ANY,
        allowed=allowed,
        observed_at=now,
        said=str(error),
    )


def fits(need: HardwareAmount, allowed: int, taken: HardwareAmount) -> QuotaFit:
    """Whether `need` fits beside what is taken. NEVER is certain in every unit, YES too."""
    if need.least > allowed:
        return QuotaFit.NEVER
    return QuotaFit.NOT_NOW if (need + taken).most > allowed else QuotaFit.YES


def tally(
    limit: Limit, holdings: Sequence[QuotaHolding], granted: Iterable[QuotaHolding], now: int
) -> QuotaTally:
    """The limit with what counts against it. `holdings` are what the project has, `granted` what
    came up since the limit was said, also where it is gone by now."""
    counted = [one for one in holdings if limit.covers(one.claim)]
    used, held, dead = _amounts(counted)
    later = [one for one in granted if limit.covers(one.claim) and _is_later(one, limit)]
    if _contradicted(limit, used, counted, later):
        return QuotaTally(limit, LimitStanding.CONTRADICTED, used, held, dead)
    standing = LimitStanding.FRESH if now < limit.believed_until else LimitStanding.OLD
    return QuotaTally(limit, standing, used, held, dead)


def stocks(
    project: str, holdings: Iterable[QuotaHolding], limits: Sequence[Limit]
) -> Sequence[QuotaStock]:
    """What the project has by region, generation and tier, wherever no limit of the whole region is
    known for all of it. A limit of one of its zones says nothing of the others."""
    found: defaultdict[tuple[str, str, Tier], list[QuotaHolding]] = defaultdict(list)
    for one in holdings:
        claim = one.claim
        found[region_of(claim.zone), claim.generation, claim.tier].append(one)
    return [
        QuotaStock(
            *(project, region, generation, tier),
            *_amounts(some),
        )
        for (region, generation, tier), some in sorted(found.items(), key=lambda pair: pair[0])
        if not all(_is_limited(one.claim, region, limits) for one in some)
    ]


def _amounts(
    holdings: Sequence[QuotaHolding],
) -> tuple[HardwareAmount, HardwareAmount, HardwareAmount]:
    """What is used, what is held, and the part of that which is dead."""
    used = sum((one.claim.amount for one in holdings if one.used), HardwareAmount())
    held = sum((one.claim.amount for one in holdings if not one.used), HardwareAmount())
    dead = sum(
        (one.claim.amount for one in holdings if one.dead and not one.used), HardwareAmount()
    )
    return used, held, dead


def _is_limited(claim: QuotaClaim, region: str, limits: Iterable[Limit]) -> bool:
    return any(limit.place == region and limit.covers(claim) for limit in limits)


def _contradicted(
    limit: Limit,
    used: HardwareAmount,
    counted: Iterable[QuotaHolding],
    later: Iterable[QuotaHolding],
) -> bool:
    """Whether more than it allows was granted after it was said: at once, or by and by.

    What works now was all granted by the time of the last grant, and counted with it. What worked
    before the limit was said is no contradiction: a quota can be lowered below that.
    """
    if any(one.claim.amount.least > limit.allowed for one in later):
        return True
    return used.least > limit.allowed and any(_is_later(one, limit) for one in counted if one.used)


def _is_later(one: QuotaHolding, limit: Limit) -> bool:
    return one.granted_at is not None and one.granted_at > limit.observed_at
