"""Layers of the stack and their places in the palette."""

from __future__ import annotations

from service.dashboard.kit.series import BY_RANK, GROUPINGS, OTHERS, build_series


def test_a_generation_has_the_same_place_whatever_it_cost() -> None:
    alone = build_series(GROUPINGS["generation"], {"v5p": 1})
    among = build_series(GROUPINGS["generation"], {"v6e": 9, "v5p": 1, "v2": 5})
    assert [layer.name for layer in among] == ["v2", "v5p", "v6e"]
    assert alone[0].place == among[1].place


def test_a_generation_nobody_has_told_us_of_has_the_place_of_the_others() -> None:
    layers = build_series(GROUPINGS["generation"], {"v9": 1, "v4": 1})
    assert [(layer.name, layer.place) for layer in layers] == [("v4", 3), ("v9", OTHERS)]


def test_teams_beyond_the_palette_are_one_layer() -> None:
    totals = {f"team-{n}": 100 - n for n in range(len(BY_RANK) + 3)} | {"": 1_000}
    layers = build_series(GROUPINGS["team"], totals)
    assert layers[0].name == "no team"
    assert layers[-1].name == "4 others"
    assert len({layer.place for layer in layers}) == len(layers) == len(BY_RANK) + 1
    assert frozenset().union(*(layer.values for layer in layers)) == totals.keys()
