"""The catalogue: which accelerator types the Cloud TPU API serves, and in which zones."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from service.domain.catalog.accelerators import AcceleratorType, Generation, spelled
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import ZoneOffer
from service.domain.errors import NotOffered, Rejected, UnknownAcceleratorType
from service.domain.reference_tables import rows

SERVED_BY = ("GKE", "Compute Engine")
"""Where to find the hardware that the Cloud TPU API does not have."""

_SHOWN = 80
"""Characters of a caller's text that are repeated in a message."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What Google has, as a value; `load` answers the one that ships with the service.

    It also knows types that the Cloud TPU API does not serve, so that they can be explained.
    """

    generations: Mapping[str, Generation]
    accelerators: Mapping[str, AcceleratorType]
    offers: tuple[ZoneOffer, ...]

    def accelerator(self, name: str) -> AcceleratorType:
        """The type of that name.

        Raises UnknownAcceleratorType with the `closest` names when the API has no such type.
        """
        found = self.accelerators.get(name)
        if found is None or not found.served:
            raise self._unknown(name)
        return found

    def generation(self, name: str) -> Generation:
        """The generation of that name, served or not; Rejected with the `generations` there are."""
        found = self.generations.get(name)
        if found is None:
            known = list(self.generations)
            raise Rejected(
                f"there is no generation {name[:_SHOWN]!r}; there are {', '.join(known)}",
                field="generation",
                generations=known,
            )
        return found

    def served(self, generation: str | None = None) -> tuple[AcceleratorType, ...]:
        """The types that the API serves, of one generation or of all, small before large."""
        return tuple(
            one
            for one in self.accelerators.values()
            if one.served and generation in {None, one.generation}
        )

    def choose(
        self, generation: str, *, chips: int | None = None, topology: str | None = None
    ) -> AcceleratorType:
        """The type of `generation` with that many chips, or with that topology; say one of both.

        Raises UnknownAcceleratorType with the `chips` or `topologies` that exist. A topology other
        than the type's own `topology` has to be passed on to the cloud.
        """
        spec = self.generation(generation)
        if not spec.served:
            raise _not_served(spec)
        if chips is not None and topology is None:
            return _with_chips(self.served(generation), chips)
        if topology is not None and chips is None:
            return _with_topology(self.served(generation), topology.strip().lower())
        raise Rejected("give exactly one of chips and topology with the generation", field="chips")

    def zones_for(
        self, accelerator: AcceleratorType, model: ProvisioningModel | None = None
    ) -> tuple[str, ...]:
        """The zones in which the API has the type, those in Google's documentation first.

        With `model` flex_start only the zones that sell it so.
        """
        flex_start = model is ProvisioningModel.FLEX_START
        found = (
            offer
            for offer in self.offers
            if offer.generation == accelerator.generation
            and accelerator.served
            and offer.api
            and (offer.flex_start or not flex_start)
        )
        return tuple(o.zone for o in sorted(found, key=lambda o: (not o.documented, o.zone)))

    def zones_in(self, regions: Iterable[str]) -> tuple[str, ...]:
        """Every zone of these regions in which the API has any TPU, region by region."""
        served = sorted({(offer.region, offer.zone) for offer in self.offers if offer.api})
        return tuple(zone for region in regions for own, zone in served if own == region)

    def candidates(
        self,
        accelerator: AcceleratorType,
        *,
        zone: str | None = None,
        zones: Sequence[str] = (),
        regions: Sequence[str] = (),
        model: ProvisioningModel | None = None,
    ) -> tuple[str, ...]:
        """The zones to try, in this order; anywhere it is offered when none is named.

        Raises Rejected when more than one of `zone`, `zones` and `regions` is given, NotOffered
        with `offered_in` when a place has no such type. A region may lack it if another has it.
        """
        if sum(map(bool, (zone, zones, regions))) > 1:
            raise Rejected("give at most one of zone, zones and regions", field="zone")
        offered = self.zones_for(accelerator, model)
        named = (zone,) if zone else tuple(dict.fromkeys(zones))
        if missing := [one for one in named if one not in offered]:
            raise self._not_offered(accelerator, missing, offered, model)
        if regions:
            named = self._in_regions(accelerator, regions, offered, model)
        if not named and not offered:
            raise self._not_offered(accelerator, [], offered, model)
        return named or offered

    def _in_regions(
        self,
        accelerator: AcceleratorType,
        regions: Sequence[str],
        offered: tuple[str, ...],
        model: ProvisioningModel | None,
    ) -> tuple[str, ...]:
        unknown = [region for region in regions if not self.zones_in([region])]
        within = self.zones_in(dict.fromkeys(regions))
        found = tuple(zone for zone in within if zone in offered)
        if unknown or not found:
            raise self._not_offered(accelerator, unknown or list(regions), offered, model)
        return found

    def _not_offered(
        self,
        accelerator: AcceleratorType,
        places: Sequence[str],
        offered: tuple[str, ...],
        model: ProvisioningModel | None,
    ) -> NotOffered:
        how = " by flex_start" if model is ProvisioningModel.FLEX_START else ""
        where = ", ".join(place[:_SHOWN] for place in places) or "any zone"
        known = {place for offer in self.offers for place in (offer.zone, offer.region)}
        strange = [place[:_SHOWN] for place in places if place not in known]
        hint = f"; no TPU is known in {', '.join(strange)}" if strange else ""
        return NotOffered(
            f"{accelerator.name} is not offered{how} in {where}{hint}", offered_in=list(offered)
        )

    def _unknown(self, name: str) -> UnknownAcceleratorType:
        shown = name[:_SHOWN]
        meant = spelled(shown)
        unserved = [one for one in self.accelerators.values() if not one.served]
        kin = next((one for one in unserved if meant.startswith(f"{one.family}-")), None)
        if kin is not None and not self.generations[kin.generation].served:
            return _not_served(self.generations[kin.generation])
        closest = self._closest(meant)
        text = f"there is no accelerator type {shown!r}"
        if any(one.name == meant for one in unserved):
            text = f"{shown!r} is larger than what the Cloud TPU API serves"
        ask = f"; did you mean {' or '.join(closest)}?" if closest else ""
        return UnknownAcceleratorType(text + ask, closest=closest)

    def _closest(self, meant: str) -> list[str]:
        """The type itself if only the spelling was off, else its neighbours in size, or in look."""
        names = [one.name for one in self.served()]
        if meant in names:
            return [meant]
        family, _, size = meant.rpartition("-")
        kin = [one for one in self.served() if one.family == family]
        if kin and size.isdigit():
            return [one.name for one in _nearest(kin, int(size))]
        return difflib.get_close_matches(meant, names, n=3)


@cache
def load() -> Catalog:
    """The catalogue that ships with the service, read once."""
    return Catalog(
        generations={row["generation"]: Generation.of(row) for row in rows("generations")},
        accelerators={
            row["accelerator_type"]: AcceleratorType.of(row) for row in rows("accelerators")
        },
        offers=tuple(ZoneOffer.of(row) for row in rows("zones")),
    )


def _nearest(types: Iterable[AcceleratorType], size: int) -> list[AcceleratorType]:
    """The two whose size comes closest, the closer one first."""
    return sorted(types, key=lambda one: abs(one.size - size))[:2]


def _not_served(generation: Generation) -> UnknownAcceleratorType:
    return UnknownAcceleratorType(
        f"{generation.google_name} is not served by the Cloud TPU API;"
        f" use it through {' or '.join(SERVED_BY)}",
        closest=[],
        served_by=list(SERVED_BY),
    )


def _with_chips(types: Sequence[AcceleratorType], chips: int) -> AcceleratorType:
    for one in types:
        if one.chips == chips:
            return one
    near = sorted(types, key=lambda one: abs(one.chips - chips))[:2]
    hint = " or ".join(f"{one.chips} ({one.name})" for one in near)
    raise UnknownAcceleratorType(
        f"no type of {types[0].generation} has {chips} chips; the nearest have {hint}",
        closest=[one.name for one in near],
        chips=[one.chips for one in types],
    )


def _with_topology(types: Sequence[AcceleratorType], topology: str) -> AcceleratorType:
    """The type with that topology; else the facts name the topologies of that many chips, or the
    usual one of each type when no type has that many.
    """
    for one in types:
        if topology in one.topologies:
            return one
    same = [one for one in types if one.chips == _volume(topology)]
    exist = [t for one in same for t in one.topologies] or [one.topology for one in types]
    raise UnknownAcceleratorType(
        f"no type of {types[0].generation} has the topology {topology[:_SHOWN]!r};"
        f" there is {', '.join(exist[:8])}{' and more' if exist[8:] else ''}",
        closest=[one.name for one in same],
        topologies=exist,
    )


def _volume(topology: str) -> int:
    """How many chips `4x4x8` has; 0 when it is no topology."""
    sides = topology[:_SHOWN].split("x")
    return math.prod(map(int, sides)) if all(s.isascii() and s.isdigit() for s in sides) else 0
