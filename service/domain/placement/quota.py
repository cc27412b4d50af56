"""Quota limits that Google's refusals name, and the hardware that counts against them. Pure.

The quota of Cloud TPU cannot be read. Only a refusal names a limit, so a limit is learned, grows
old, and is contradicted by a later grant.

The sources disagree on the unit: "cores per project per zone" (reference/cloud-tpu-api.md section
3.4), or cores of v5p and chips of v5e and v6e (reference/pricing.md section 4). On v5e and v6e both
are the same number. So an amount has both units, and a request is refused for good only if it
exceeds the limit in both.
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

FRESH_SECONDS = DAY
"""Seconds for which a limit is believed: Google takes minutes to days to raise a quota."""

MEMORY_SECONDS = 7 * DAY
"""Seconds for which an old limit causes a warning."""

_SPLIT = frozenset({"v2", "v3", "v5e"})
"""Generations with different limits for single hosts and for pods: `TPUV2sPreemptiblePod…` of v2
and v3, `TPUV5sLitepodServing…` of v5e (reference/cloud-tpu-api.md section 3.4)."""


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
    """The limit is believed."""

    OLD = "old"
    """The limit may have been changed since."""

    CONTRADICTED = "contradicted"
    """More than the limit allows was granted later."""


class QuotaFit(StrEnum):
    """Whether a request fits under a limit."""

    YES = "yes"
    NOT_NOW = "not_now"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class HardwareAmount:
    """Hardware in both units that a limit may use."""

    chips: int = 0
    cores: int = 0

    def __add__(self, other: HardwareAmount) -> HardwareAmount:
        return HardwareAmount(self.chips + other.chips, self.cores + other.cores)

    @property
    def smaller_count(self) -> int:
        """The smaller count of both units."""
        return min(self.chips, self.cores)

    @property
    def larger_count(self) -> int:
        """The larger count of both units."""
        return max(self.chips, self.cores)

    def __str__(self) -> str:
        chips = f"{self.chips:,} chip{'' if self.chips == 1 else 's'}"
        return chips if self.cores == self.chips else f"{chips} ({self.cores:,} cores)"


@dataclass(frozen=True, slots=True)
class QuotaClaim:
    """Hardware in one zone that is requested or held."""

    zone: str
    generation: str
    tier: Tier
    size: Size
    amount: HardwareAmount


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit from a refusal: the amount `allowed` in `place`, which is a zone or a region.

    `observed_at` is when Google refused, in whole UTC seconds, and `said` is Google's message.
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
        """A stable id of the limit, independent of the allowed amount; safe in a URL."""
        parts = (self.project, self.name, self.place, self.generation, self.tier, self.size)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    @property
    def believed_until(self) -> int:
        """When the limit becomes old."""
        return self.observed_at + FRESH_SECONDS

    def applies_to(self, claim: QuotaClaim) -> bool:
        """Whether a claim counts against the limit."""
        return (
            self.place in (claim.zone, region_of(claim.zone))
            and self.generation == claim.generation
            and self.tier is claim.tier
            and self.size in (Size.ANY, claim.size)
        )


@dataclass(frozen=True, slots=True)
class QuotaHolding:
    """Hardware that a project has, or had.

    `used` says that it runs now. `granted_at` is the start of the last attempt that came up; None
    if no attempt did. `dead` says that it will never run again, and holds quota until its deletion.
    """

    claim: QuotaClaim
    used: bool
    granted_at: int | None = None
    dead: bool = False


@dataclass(frozen=True, slots=True)
class QuotaTally:
    """A limit with the known hardware that counts against it: `used` runs, `held` does not.

    `dead` is the part of `held` that will never run again.
    """

    limit: Limit
    standing: LimitStanding
    used: HardwareAmount
    held: HardwareAmount
    dead: HardwareAmount = HardwareAmount()


@dataclass(frozen=True, slots=True)
class QuotaStock:
    """The known hardware of a project, of a generation in a region without a known limit.

    `used` runs, `held` does not; `dead` is the part of `held` that will never run again.
    """

    project: str
    place: str
    generation: str
    tier: Tier
    used: HardwareAmount
    held: HardwareAmount
    dead: HardwareAmount = HardwareAmount()


def tier_of(model: str) -> Tier:
    """The quota tier of a provisioning model: "flex-start and spot use preemptible quota".

    Source: reference/pricing.md section 4. On the same page, on-demand and reserved share a quota.
    The service does not rely on that: a refusal of one does not block the other.
    """
    match model:
        case ProvisioningModel.RESERVED:
            return Tier.RESERVED
        case ProvisioningModel.SPOT | ProvisioningModel.PREEMPTIBLE | ProvisioningModel.FLEX_START:
            return Tier.PREEMPTIBLE
        case _:
            return Tier.ON_DEMAND


def scope_of(error: CloudError, zone: str) -> str:
    """The region or zone whose quota is exceeded, if the error names the zone or its region.

    Another name is ignored: it would block an unrelated place.
    """
    if not isinstance(error, QuotaExceeded):
        return ""
    named = (error.facts.get("region"), error.facts.get("zone"))
    return next((str(name) for name in named if name in (region_of(zone), zone)), "")


def claim_of(zone: str, accelerator: AcceleratorType, model: str, chips: int) -> QuotaClaim:
    """The claim on quota of so many chips of a type, in one node or in several."""
    cores = chips * accelerator.cores // accelerator.chips
    size = Size.SINGLE if accelerator.single_host else Size.POD
    amount = HardwareAmount(chips, cores)
    return QuotaClaim(zone, accelerator.generation, tier_of(model), size, amount)


def learn_limit(spec: NodeSpec, zone: str, error: CloudError, now: int) -> Limit | None:
    """The quota limit that a refusal names; None without a number, or with an unrelated place only.

    If no place is named, the limit is taken for the zone's, which is the narrowest meaning.
    """
    allowed = error.facts.get("allowed")
    accelerator = catalog.load_catalog().accelerators.get(spec.accelerator_type)
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


def judge_fit(need: HardwareAmount, allowed: int, taken: HardwareAmount) -> QuotaFit:
    """Whether `need` fits a quota limit in addition to `taken`. NEVER and YES are certain in both
    units."""
    if need.smaller_count > allowed:
        return QuotaFit.NEVER
    return QuotaFit.NOT_NOW if (need + taken).larger_count > allowed else QuotaFit.YES


def tally_limit(
    limit: Limit, holdings: Sequence[QuotaHolding], granted: Iterable[QuotaHolding], now: int
) -> QuotaTally:
    """The quota limit with the hardware that counts against it.

    `holdings` are the project's hardware, `granted` is all that came up after the refusal, even if
    it is gone by now.
    """
    counted = [holding for holding in holdings if limit.applies_to(holding.claim)]
    used, held, dead = _sum_amounts(counted)
    # A limit is contradicted by a later grant of more than it allows, at once or in sum. All that
    # runs now was granted by the time of the last grant. Hardware from before the refusal is no
    # contradiction: a quota can be lowered below it.
    is_sum_later = used.smaller_count > limit.allowed and any(
        _is_later(holding, limit) for holding in counted if holding.used
    )
    is_one_later = any(
        holding.claim.amount.smaller_count > limit.allowed
        for holding in granted
        if limit.applies_to(holding.claim) and _is_later(holding, limit)
    )
    if is_one_later or is_sum_later:
        return QuotaTally(limit, LimitStanding.CONTRADICTED, used, held, dead)
    standing = LimitStanding.FRESH if now < limit.believed_until else LimitStanding.OLD
    return QuotaTally(limit, standing, used, held, dead)


def list_stocks(
    project: str, holdings: Iterable[QuotaHolding], limits: Sequence[Limit]
) -> Sequence[QuotaStock]:
    """The project's hardware that uses quota, by region, generation and tier. Hardware under a
    known limit is left out.

    Only a limit of the whole region counts: a limit of one zone does not apply to the others.
    """
    found: defaultdict[tuple[str, str, Tier], list[QuotaHolding]] = defaultdict(list)
    for holding in holdings:
        claim = holding.claim
        found[region_of(claim.zone), claim.generation, claim.tier].append(holding)
    return [
        QuotaStock(
            *(project, region, generation, tier),
            *_sum_amounts(some),
        )
        for (region, generation, tier), some in sorted(found.items(), key=lambda pair: pair[0])
        if not all(
            any(limit.place == region and limit.applies_to(holding.claim) for limit in limits)
            for holding in some
        )
    ]


def _sum_amounts(
    holdings: Sequence[QuotaHolding],
) -> tuple[HardwareAmount, HardwareAmount, HardwareAmount]:
    """The used amount, the held amount, and the dead part of the held amount."""
    nothing = HardwareAmount()
    used = sum((each.claim.amount for each in holdings if each.used), nothing)
    held = sum((each.claim.amount for each in holdings if not each.used), nothing)
    dead = sum((each.claim.amount for each in holdings if each.dead and not each.used), nothing)
    return used, held, dead


def _is_later(holding: QuotaHolding, limit: Limit) -> bool:
    return holding.granted_at is not None and holding.granted_at > limit.observed_at
