"""The hardware that fits a need, its cost, and whether it meets the deadline and the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from service.domain.catalog.accelerators import AcceleratorType, Generation
from service.domain.clock import HOUR
from service.domain.errors import Rejected
from service.domain.money import format_usd
from service.domain.pricing.estimate import PriceOffer

TERA = 10**12
PERCENT = 100

Cheapest = Callable[[AcceleratorType, int], Sequence[PriceOffer]]
"""Returns the cheapest offer of a type for a number of seconds, by provisioning model."""


@dataclass(frozen=True, slots=True)
class Need:
    """The requirements; 0 and None set no requirement.

    `chips`, `hbm_gib` (GiB of all chips) and `flops_per_second` (bfloat16 peak of all chips) are
    lower bounds. `flops` is the whole work, done at `utilisation` percent of the peak; without
    work, `seconds` is the duration. The work has to end within `available` seconds and cost at most
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
    """The steps of each chip before the weights change once, and whether the batch divides
    evenly."""

    steps: int
    even: bool


@dataclass(frozen=True, slots=True)
class SizedType:
    """A type that is large enough. `seconds` is the duration of the run; None where the need has
    none. `in_time` is None without a deadline."""

    accelerator: AcceleratorType
    hbm_gib: int
    flops_per_second: int
    seconds: int | None
    in_time: bool | None
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class Option:
    """A fit under one provisioning model at its cheapest place. `cost` is nano-dollars for the
    whole duration; None where the price or the duration is unknown. `lasts` is the number of
    seconds that the spend pays for. `within` says whether the cost is within the spend; None
    without a limit, or where neither the cost nor `lasts` shows it."""

    fit: SizedType
    offer: PriceOffer
    cost: int | None
    lasts: int | None
    within: bool | None

    @property
    def is_all_right(self) -> bool:
        """Whether the option meets all requirements, as far as is known."""
        return self.fit.in_time is not False and self.within is not False


def check_need(need: Need) -> None:
    """Raise Rejected for a sizing without requirements, or with contradictory requirements."""
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


def list_options(
    need: Need,
    types: Iterable[AcceleratorType],
    generations: Mapping[str, Generation],
    cheapest: Cheapest,
) -> list[Option]:
    """Return the sizes that fit a need, under each provisioning model at the cheapest place. Of
    each generation these are the smallest type, the next larger type, and the smallest that meets
    the deadline.

    Options that meet all requirements come first, by cost; options without a known price are last.
    Raises Rejected, with the closest type, where no option meets the need.
    """
    check_need(need)
    measured = [measure_type(need, type_, generations[type_.generation]) for type_ in types]
    fitting = [fit for fit in measured if is_large_enough(need, fit)]
    if not fitting:
        raise _refuse_too_large(need, measured)
    timely = [fit for fit in fitting if fit.in_time is not False]
    found = [
        build_option(need, fit, offer)
        for fit in (choose_types(fitting) if timely else find_fastest(fitting))
        for offer in cheapest(fit.accelerator, fit.seconds or HOUR)
    ]
    if not any(option.is_all_right for option in found):
        raise _refuse_all_options(need, found)
    return sorted(found, key=_rank_key)


def measure_type(need: Need, accelerator: AcceleratorType, generation: Generation) -> SizedType:
    """Return the size of a type for a need: its memory, its speed and its duration."""
    peak = accelerator.chips * generation.bf16_tflops * TERA
    seconds = need.seconds
    if need.flops:
        seconds = divide_up(need.flops * PERCENT, peak * need.utilisation)
    elif seconds is None:
        seconds = need.available
    in_time = None if need.available is None else (seconds or 0) <= need.available
    memory = accelerator.chips * generation.hbm_gib
    batch = None
    if need.global_batch is not None and need.per_chip_batch is not None:
        at_once = accelerator.chips * need.per_chip_batch
        batch = Batch(divide_up(need.global_batch, at_once), need.global_batch % at_once == 0)
    return SizedType(accelerator, memory, peak, seconds, in_time, batch)


def is_large_enough(need: Need, fit: SizedType) -> bool:
    """Whether the size of a type is enough: its chips, its memory and its speed."""
    return (
        fit.accelerator.chips >= need.chips
        and fit.hbm_gib >= need.hbm_gib
        and fit.flops_per_second >= need.flops_per_second
    )


def choose_types(fitting: Iterable[SizedType]) -> Iterator[SizedType]:
    """Yield of each generation the smallest size, the next larger, and the smallest in time."""
    for _, group in groupby(sorted(fitting, key=_size_key), lambda fit: fit.accelerator.generation):
        fits = list(group)
        yield from fits[:2]
        first = next((place for place, fit in enumerate(fits) if fit.in_time), 0)
        yield from fits[first : first + 1] if first > 1 else ()


def find_fastest(fitting: Iterable[SizedType]) -> list[SizedType]:
    """Return all sizes with the shortest duration for the need."""
    fits = sorted(fitting, key=_size_key)
    least = min(fit.seconds or 0 for fit in fits)
    return [fit for fit in fits if fit.seconds == least]


def build_option(need: Need, fit: SizedType, offer: PriceOffer) -> Option:
    """Return the option of a size by an offer: its cost, and whether that is within the spend."""
    cost = None if fit.seconds is None else offer.cost
    lasts = None if need.spend is None else offer.seconds_for(need.spend)
    within = None if need.spend is None or cost is None else cost <= need.spend
    if need.spend is not None and fit.seconds is None and lasts is not None:
        within = lasts > 0
    return Option(fit, offer, cost, lasts, within)


def divide_up(numerator: int, denominator: int) -> int:
    """Return `numerator / denominator`, rounded up."""
    return -(-numerator // denominator)


def _size_key(fit: SizedType) -> tuple[str, int, str]:
    return fit.accelerator.generation, fit.accelerator.chips, fit.accelerator.name


def _rank_key(option: Option) -> tuple[bool, bool, int, int, str, str]:
    price = option.offer.hourly if option.cost is None else option.cost
    name = option.fit.accelerator.name
    chips = option.fit.accelerator.chips
    return price is None, not option.is_all_right, price or 0, chips, name, option.offer.model


def _refuse_too_large(need: Need, measured: Sequence[SizedType]) -> Rejected:
    """The error where no type is large enough, with the closest type: of all types, its worst
    shortage is the smallest."""
    if not measured:
        return Rejected("the Cloud TPU API has no such hardware there", field="generation")
    closest = max(measured, key=lambda fit: (_smallest_share(need, fit), -fit.accelerator.chips))
    chips, memory, speed = closest.accelerator.chips, closest.hbm_gib, closest.flops_per_second
    wanted = [
        f"{need.chips} chips" if need.chips else "",
        f"{need.hbm_gib} GiB of HBM" if need.hbm_gib else "",
        f"{need.flops_per_second} FLOP/s" if need.flops_per_second else "",
    ]
    return Rejected(
        f"no accelerator type has {' and '.join(filter(None, wanted))};"
        f" {closest.accelerator.name} is closest with"
        f" {chips} chips, {memory} GiB, {speed} FLOP/s",
        closest=closest.accelerator.name,
        chips=chips,
        hbm_gib=memory,
        flops_per_second=str(speed),
    )


def _smallest_share(need: Need, fit: SizedType) -> int:
    """The share of the needed chips, memory or speed that the type has, in millionths; the smallest
    of the three."""
    pairs = (
        (fit.accelerator.chips, need.chips),
        (fit.hbm_gib, need.hbm_gib),
        (fit.flops_per_second, need.flops_per_second),
    )
    return min((10**6 * has // wanted for has, wanted in pairs if wanted), default=0)


def _refuse_all_options(need: Need, found: Sequence[Option]) -> Rejected:
    """The error where all options are too slow or too expensive, with the closest option: the
    cheapest in time, or else the cheapest of the fastest."""
    if not found:
        return Rejected(
            "no hardware of this size is sold that way there; leave out regions, generation or"
            " provisioning_model, or request less",
            field="regions",
        )
    in_time = [option for option in found if option.fit.in_time is not False]
    closest = min(in_time or found, key=_rank_key)
    name, cost = closest.fit.accelerator.name, closest.cost
    limits = [
        "" if need.available is None else f"in {need.available} seconds",
        f"for {format_usd(need.spend)} dollars" if need.spend is not None and in_time else "",
    ]
    takes = "" if closest.fit.seconds is None else f", in {closest.fit.seconds} seconds"
    price = "" if cost is None else f", for {format_usd(cost)} dollars"
    return Rejected(
        f"no hardware does it {' '.join(filter(None, limits))}; {name} as {closest.offer.model}"
        f" is closest{takes}{price}",
        closest=name,
        provisioning_model=closest.offer.model,
        duration_seconds=closest.fit.seconds,
        cost=None if cost is None else format_usd(cost),
    )
