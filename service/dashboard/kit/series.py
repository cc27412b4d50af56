"""The layers of a stacked chart: their order, and the place in the palette that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.domain.catalog.provisioning import ProvisioningModel

OTHERS = 0
"""The place in the palette of the layer of all other values."""

BY_RANK = (5, 6, 4, 3, 7, 2, 1)
"""Places with a colour and a texture of their own, the least striking first."""

_GENERATIONS = {"v2": 1, "v3": 2, "v4": 3, "v5e": 4, "v5p": 5, "v6e": 6, "v7": 7}
_MODELS = dict(zip(map(str, ProvisioningModel), BY_RANK, strict=False))


@dataclass(frozen=True, slots=True)
class Grouping:
    """One way to stack. `dimension` is what values are taken from, `title` its name for people,
    `unnamed` the name of the empty value. `fixed` has the places of values that always take the
    same, in their order; if it is empty, values take places in the order of their cost."""

    dimension: str
    title: str
    unnamed: str
    fixed: Mapping[str, int] = field(default_factory=dict)


GROUPINGS = {
    grouping.dimension: grouping
    for grouping in (
        Grouping("generation", "generation", "unknown", _GENERATIONS),
        Grouping("team", "team", "no team"),
        Grouping(
            "provisioning_model",
            "provisioning model",
            "unknown",
            _MODELS,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Series:
    """One layer of the stack: its name, its place in the palette, and the values it is made of."""

    name: str
    place: int
    values: frozenset[str]


def build_series(grouping: Grouping, totals: Mapping[str, int]) -> tuple[Series, ...]:
    """The layers from the lowest to the highest, for values with their total costs.

    The palette is never extended: all values without a place share one layer.
    """
    if grouping.fixed:
        named = [(value, place) for value, place in grouping.fixed.items() if value in totals]
        rest = sorted(totals.keys() - grouping.fixed.keys())
    else:
        ranked = sorted(totals, key=lambda value: (-totals[value], value))
        named = list(zip(ranked, BY_RANK, strict=False))
        rest = ranked[len(BY_RANK) :]
    layers = [
        Series(value or grouping.unnamed, place, frozenset({value})) for value, place in named
    ]
    if rest:
        name = rest[0] or grouping.unnamed if len(rest) == 1 else f"{len(rest)} others"
        layers.append(Series(name, OTHERS, frozenset(rest)))
    return tuple(layers)
