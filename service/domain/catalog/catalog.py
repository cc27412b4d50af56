"""The catalogue: which accelerator types the Cloud TPU API serves, and in which zones."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from service.domain.catalog.accelerators import AcceleratorType, Generation, normalize_name
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import ZoneOffer
from service.domain.errors import NotOffered, Rejected, UnknownAcceleratorType
from service.domain.reference_tables import read_rows

SERVED_BY = ("GKE", "Compute Engine")
"""Products that offer the hardware which the Cloud TPU API does not have."""

_SHOWN = 80
"""Characters of a caller's text that are repeated in a message."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Google's offers; `load_catalog` returns the catalogue that ships with the service.

    It includes types that the Cloud TPU API does not serve, to explain their refusal.
    """

    generations: Mapping[str, Generation]
    accelerators: Mapping[str, AcceleratorType]
    offers: tuple[ZoneOffer, ...]

    def get_accelerator(self, name: str) -> AcceleratorType:
        """The type of that name.

        Raises UnknownAcceleratorType with the `closest` names when the API has no such type.
        """
        found = self.accelerators.get(name)
        if found is not None and found.served:
            return found
        shown = name[:_SHOWN]
        meant = normalize_name(shown)
        unserved = [each for each in self.accelerators.values() if not each.served]
        kin = next((each for each in unserved if meant.startswith(f"{each.family}-")), None)
        if kin is not None and not self.generations[kin.generation].served:
            raise _not_served(self.generations[kin.generation])
        # The type itself if only the spelling differs, else the nearest by size or by spelling.
        served = self.list_served()
        names = [each.name for each in served]
        family, _, digits = meant.rpartition("-")
        relatives = [each for each in served if each.family == family]
        if meant in names:
            closest = [meant]
        elif relatives and digits.isdigit():
            relatives.sort(key=lambda each: abs(each.size - int(digits)))
            closest = [each.name for each in relatives[:2]]
        else:
            closest = difflib.get_close_matches(meant, names, n=3)
        text = f"there is no accelerator type {shown!r}"
        if any(each.name == meant for each in unserved):
            text = f"{shown!r} is larger than what the Cloud TPU API serves"
        ask = f"; did you mean {' or '.join(closest)}?" if closest else ""
        raise UnknownAcceleratorType(text + ask, closest=closest)

    def get_generation(self, name: str) -> Generation:
        """The generation of that name, served or not. Raises Rejected with all `generations`."""
        found = self.generations.get(name)
        if found is None:
            known = list(self.generations)
            raise Rejected(
                f"there is no generation {name[:_SHOWN]!r}; there are {', '.join(known)}",
                field="generation",
                generations=known,
            )
        return found

    def list_served(self, generation: str | None = None) -> tuple[AcceleratorType, ...]:
        """The types that the API serves, of one generation or of all, small before large."""
        return tuple(
            accelerator
            for accelerator in self.accelerators.values()
            if accelerator.served and generation in {None, accelerator.generation}
        )

    def choose_accelerator(
        self, generation: str, *, chips: int | None = None, topology: str | None = None
    ) -> AcceleratorType:
        """The type of `generation` with so many chips, or with a topology; give exactly one.

        Raises UnknownAcceleratorType with the `chips` or `topologies` that exist. These are the
        topologies of the same number of chips, or the default topology of each type if no type has
        that number. A topology other than the type's own `topology` must be sent to the cloud.
        """
        spec = self.get_generation(generation)
        if not spec.served:
            raise _not_served(spec)
        if chips is not None and topology is None:
            types = self.list_served(generation)
            for accelerator in types:
                if accelerator.chips == chips:
                    return accelerator
            near = sorted(types, key=lambda each: abs(each.chips - chips))[:2]
            hint = " or ".join(f"{each.chips} ({each.name})" for each in near)
            raise UnknownAcceleratorType(
                f"no type of {types[0].generation} has {chips} chips; the nearest have {hint}",
                closest=[each.name for each in near],
                chips=[each.chips for each in types],
            )
        if topology is not None and chips is None:
            types, wanted = self.list_served(generation), topology.strip().lower()
            for accelerator in types:
                if wanted in accelerator.topologies:
                    return accelerator
            sides = wanted[:_SHOWN].split("x")
            is_topology = all(side.isascii() and side.isdigit() for side in sides)
            number = math.prod(map(int, sides)) if is_topology else 0
            same = [each for each in types if each.chips == number]
            exist = [shape for each in same for shape in each.topologies]
            exist = exist or [each.topology for each in types]
            raise UnknownAcceleratorType(
                f"no type of {types[0].generation} has the topology {wanted[:_SHOWN]!r};"
                f" there is {', '.join(exist[:8])}{' and more' if exist[8:] else ''}",
                closest=[each.name for each in same],
                topologies=exist,
            )
        raise Rejected("give exactly one of chips and topology with the generation", field="chips")

    def zones_for(
        self, accelerator: AcceleratorType, model: ProvisioningModel | None = None
    ) -> tuple[str, ...]:
        """The zones in which the API has the type, documented zones first.

        With `model` flex_start, only the zones that sell flex-start.
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
        by_source = sorted(found, key=lambda offer: (not offer.documented, offer.zone))
        return tuple(offer.zone for offer in by_source)

    def zones_in(self, regions: Iterable[str]) -> tuple[str, ...]:
        """Every zone of these regions in which the API has any TPU, region by region."""
        served = sorted({(offer.region, offer.zone) for offer in self.offers if offer.api})
        return tuple(zone for region in regions for own, zone in served if own == region)

    def candidate_zones(
        self,
        accelerator: AcceleratorType,
        *,
        zone: str | None = None,
        zones: Sequence[str] = (),
        regions: Sequence[str] = (),
        model: ProvisioningModel | None = None,
    ) -> tuple[str, ...]:
        """The zones to try, in this order; all zones that offer the type if no place is given.

        Raises Rejected when more than one of `zone`, `zones` and `regions` is given, NotOffered
        with `offered_in` when a place has no such type. A region may lack it if another has it.
        """
        if sum(map(bool, (zone, zones, regions))) > 1:
            raise Rejected("give at most one of zone, zones and regions", field="zone")
        offered = self.zones_for(accelerator, model)
        named = (zone,) if zone else tuple(dict.fromkeys(zones))
        if missing := [place for place in named if place not in offered]:
            raise self._not_offered(accelerator, missing, offered, model)
        if regions:
            unknown = [region for region in regions if not self.zones_in([region])]
            within = self.zones_in(dict.fromkeys(regions))
            named = tuple(place for place in within if place in offered)
            if unknown or not named:
                raise self._not_offered(accelerator, unknown or list(regions), offered, model)
        if not named and not offered:
            raise self._not_offered(accelerator, [], offered, model)
        return named or offered

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


@cache
def load_catalog() -> Catalog:
    """The catalogue that ships with the service, read once."""
    return Catalog(
        generations={
            row["generation"]: Generation.from_row(row) for row in read_rows("generations")
        },
        accelerators={
            row["accelerator_type"]: AcceleratorType.from_row(row)
            for row in read_rows("accelerators")
        },
        offers=tuple(ZoneOffer.from_row(row) for row in read_rows("zones")),
    )


def _not_served(generation: Generation) -> UnknownAcceleratorType:
    return UnknownAcceleratorType(
        f"{generation.google_name} is not served by the Cloud TPU API;"
        f" use it through {' or '.join(SERVED_BY)}",
        closest=[],
        served_by=list(SERVED_BY),
    )
