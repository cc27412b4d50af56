"""Which hardware fits a need, what it would cost, and whether it comes in time and within money."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from service.domain.catalog.accelerators import AcceleratorType, Generation
from service.domain.clock import HOUR
from service.domain.errors import Rejected
from service.domain.money import usd
from service.domain.pricing.estimate import PriceOffer

TERA = 10**12
PERCENT = 100

Cheapest = Callable[[AcceleratorType, int], Sequence[PriceOffer]]
"""For each provisioning model the cheapest offer of a type for so many seconds."""


@dataclass(frozen=True, slots=True)
class Need:
    """What is asked of the hardware; 0 and None say nothing.

    `chips`, `hbm_gib` (GiB of all chips) and `flops_per_second` (bfloat16 peak of all chips) are
    lower bounds. `flops` is the whole work, of which `utilisation` percent of the peak gets done;
    without work, `seconds` says how long it runs. It has to be over in `available` seconds and for
    `spend` nano-dollars. `global_batch` examples make one step, `per_chip_batch` fit on one chip.
    """

    chips: int = 0
    hbm_gib: int = 0
    flops_per_second: int = 0
    flops: int = 0
    utilisation: int = 40
    seconds: int | None = None
    available: int | None = None
    spend: int | None = None
    global_batch: int | None = None
    per_chip_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """How often each chip works before the weights change once, and whether that comes out even."""

    steps: int
    even: bool


@dataclass(frozen=True, slots=True)
class SizedType:
    """A type that is large enough. `seconds` is for how long it would run; None where nothing was
    said of it. `in_time` is None where there is no deadline."""

    accelerator: AcceleratorType
    hbm_gib: int
    flops_per_second: int
    seconds: int | None
    in_time: bool | None
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class Option:
    """A fit bought one way at its cheapest place. `cost` is nano-dollars for the whole duration;
    None where the price or the duration is not known. `lasts` is for how many seconds the money
    would do. `within` says whether it stays within the spend: None where there is no limit, or
    where nobody knows."""

    fit: SizedType
    offer: PriceOffer
    cost: int | None
    lasts: int | None
    within: bool | None

    @property
    def is_all_right(self) -> bool:
        """Whether it meets everything that was asked, as far as is known."""
        return self.fit.in_time is not False and self.within is not False


def check(need: Need) -> None:
    """Raise Rejected for a need that says nothing, or contradicts itself."""
    sized = need.chips or need.hbm_gib or need.flops_per_second
    if not sized and not (need.flops and need.available is not None):
        raise Rejected(
            "give what is needed: chips, hbm_gib or flops_per_second; or flops with a deadline",
            field="chips",
        )
    if need.flops and need.seconds is not None:
        raise Rejected(
            "give flops or duration_seconds, not both: the duration follows from flops",
            field="flops",
        )
    if need.available is not None and need.available <= 0:
        raise Rejected("the deadline has passed", field="deadline")
    if (need.global_batch is None) != (need.per_chip_batch is None):
        raise Rejected("global_batch and per_chip_batch go together", field="global_batch")


def plan(
    need: Need,
    types: Iterable[AcceleratorType],
    generations: Mapping[str, Generation],
    cheapest: Cheapest,
) -> list[Option]:
    """What fits, of each generation the smallest type and the next larger one, and the smallest
    that meets the deadline; bought each way at the cheapest place.

    What meets everything comes first, the cheapest before the others; what has no known price is
    last. Raises Rejected, with the type that comes closest, where nothing can meet it.
    """
    check(need)
    measured = [measure(need, one, generations[one.generation]) for one in types]
    fitting = [fit for fit in measured if is_large_enough(need, fit)]
    if not fitting:
        raise _too_much(need, measured)
    timely = [fit for fit in fitting if fit.in_time is not False]
    found = [
        option(need, fit, offer)
        for fit in (chosen(fitting) if timely else fastest(fitting))
        for offer in cheapest(fit.accelerator, fit.seconds or HOUR)
    ]
    if not any(one.is_all_right for one in found):
        raise _none_will_do(need, found)
    return sorted(found, key=_rank)


def measure(need: Need, one: AcceleratorType, generation: Generation) -> SizedType:
    """What a type has, and how long it would take."""
    peak = one.chips * generation.bf16_tflops * TERA
    seconds = need.seconds
    if need.flops:
        seconds = ceil(need.flops * PERCENT, peak * need.utilisation)
    elif seconds is None:
        seconds = need.available
    in_time = None if need.available is None else (seconds or 0) <= need.available
    memory = one.chips * generation.hbm_gib
    return SizedType(one, memory, peak, seconds, in_time, _batch(need, one.chips))


def is_large_enough(need: Need, fit: SizedType) -> bool:
    """Whether it has the chips, the memory and the speed."""
    return (
        fit.accelerator.chips >= need.chips
        and fit.hbm_gib >= need.hbm_gib
        and fit.flops_per_second >= need.flops_per_second
    )


def chosen(fitting: Iterable[SizedType]) -> Iterator[SizedType]:
    """Of each generation the smallest and the next larger, and the smallest that is in time."""
    for _, group in groupby(sorted(fitting, key=_size), lambda fit: fit.accelerator.generation):
        fits = list(group)
        yield from fits[:2]
        first = next((place for place, fit in enumerate(fits) if fit.in_time), 0)
        yield from fits[first : first + 1] if first > 1 else ()


def fastest(fitting: Iterable[SizedType]) -> list[SizedType]:
    """All that take the least time."""
    fits = sorted(fitting, key=_size)
    least = min(fit.seconds or 0 for fit in fits)
    return [fit for fit in fits if fit.seconds == least]


def option(need: Need, fit: SizedType, offer: PriceOffer) -> Option:
    """What a fit costs by that offer, and whether that is within what may be spent."""
    cost = None if fit.seconds is None else offer.cost
    lasts = None if need.spend is None else offer.lasts(need.spend)
    within = None if need.spend is None or cost is None else cost <= need.spend
    if need.spend is not None and fit.seconds is None and lasts is not None:
        within = lasts > 0
    return Option(fit, offer, cost, lasts, within)


def ceil(numerator: int, denominator: int) -> int:
    """`numerator / denominator`, to the next whole number up."""
    return -(-numerator // denominator)


def _batch(need: Need, chips: int) -> Batch | None:
    if need.global_batch is None or need.per_chip_batch is None:
        return None
    at_once = chips * need.per_chip_batch
    return Batch(ceil(need.global_batch, at_once), need.global_batch % at_once == 0)


def _size(fit: SizedType) -> tuple[str, int, str]:
    return fit.accelerator.generation, fit.accelerator.chips, fit.accelerator.name


def _rank(one: Option) -> tuple[bool, bool, int, int, str, str]:
    price = one.offer.hourly if one.cost is None else one.cost
    name = one.fit.accelerator.name
    chips = one.fit.accelerator.chips
    return price is None, not one.is_all_right, price or 0, chips, name, one.offer.model


def _too_much(need: Need, measured: Sequence[SizedType]) -> Rejected:
    """No type is large enough: the one that has the most of what it lacks comes closest."""
    if not measured:
        return Rejected("the Cloud TPU API has no such hardware there", field="generation")
    closest = max(measured, key=lambda fit: (_share(need, fit), -fit.accelerator.chips))
    return Rejected(
        f"no accelerator type has {_wanted(need)}; {closest.accelerator.name} is closest with"
        f" {_has(closest)}",
        closest=closest.accelerator.name,
        chips=closest.accelerator.chips,
        hbm_gib=closest.hbm_gib,
        flops_per_second=str(closest.flops_per_second),
    )


def _share(need: Need, fit: SizedType) -> int:
    """Parts of a million of what is needed, of that of which it has the least."""
    pairs = (
        (fit.accelerator.chips, need.chips),
        (fit.hbm_gib, need.hbm_gib),
        (fit.flops_per_second, need.flops_per_second),
    )
    return min((10**6 * has // wanted for has, wanted in pairs if wanted), default=0)


def _wanted(need: Need) -> str:
    parts = [
        f"{need.chips} chips" if need.chips else "",
        f"{need.hbm_gib} GiB of HBM" if need.hbm_gib else "",
        f"{need.flops_per_second} FLOP/s" if need.flops_per_second else "",
    ]
    return " and ".join(filter(None, parts))


def _has(fit: SizedType) -> str:
    parts = f"{fit.accelerator.chips} chips", f"{fit.hbm_gib} GiB", f"{fit.flops_per_second} FLOP/s"
    return ", ".join(parts)


def _none_will_do(need: Need, found: Sequence[Option]) -> Rejected:
    """Everything is too slow or too dear: the cheapest in time, or else the fastest, is closest."""
    if not found:
        return Rejected(
            "no hardware of this size is sold that way there; leave out regions, generation or"
            " provisioning_model, or request less",
            field="regions",
        )
    in_time = [one for one in found if one.fit.in_time is not False]
    closest = min(in_time or found, key=_rank)
    name, cost = closest.fit.accelerator.name, closest.cost
    limits = [
        "" if need.available is None else f"in {need.available} seconds",
        f"for {usd(need.spend)} dollars" if need.spend is not None and in_time else "",
    ]
    takes = "" if closest.fit.seconds is None else f", in {closest.fit.seconds} seconds"
    price = "" if cost is None else f", for {usd(cost)} dollars"
    return Rejected(
        f"no hardware does it {' '.join(filter(None, limits))}; {name} as {closest.offer.model}"
        f" is closest{takes}{price}",
        closest=name,
        provisioning_model=closest.offer.model,
        duration_seconds=closest.fit.seconds,
        cost=None if cost is None else usd(cost),
    )
