"""Waste in sums."""

from __future__ import annotations

from service.domain.attention.waste import (
    WasteKind,
    WasteSource,
    WasteSum,
    build_waste_report,
)

NOW = 1_800_000_000


NOTHING = WasteSum()


def report(*sources, unknown=NOTHING, **summed):
    sums = {WasteKind(kind): total for kind, total in summed.items()}
    return build_waste_report(NOW, sources, sums, unknown)


def test_sources_are_summed_by_kind_and_listed_by_cost():
    found = report(
        WasteSource(WasteKind.IDLE, "small", 100),
        WasteSource(WasteKind.CRASH_LOOP, "loop", 250),
        WasteSource(WasteKind.IDLE, "large", 900),
    )
    assert [source.name for source in found.sources] == ["large", "loop", "small"]
    assert found.by_kind[WasteKind.IDLE] == WasteSum(2, 1_000)
    assert found.total == WasteSum(3, 1_250)


def test_every_kind_is_there_also_without_waste():
    assert report().by_kind == dict.fromkeys(WasteKind, WasteSum())
    assert report().total == WasteSum()


def test_a_source_without_a_price_is_counted_and_listed_last():
    found = report(
        WasteSource(WasteKind.IDLE, "dear", None), WasteSource(WasteKind.IDLE, "known", 1)
    )
    assert found.by_kind[WasteKind.IDLE] == WasteSum(2, 1, unpriced=1)
    assert [source.name for source in found.sources] == ["known", "dear"]


def test_a_kind_that_is_known_as_a_sum_is_one_source():
    idle = WasteSource(WasteKind.IDLE, "a", 5)
    found = report(idle, orphan=WasteSum(7, 40, 2), unused_reservation=NOTHING)
    orphans = WasteSource(WasteKind.ORPHAN, "", 40)
    assert found.sources == (orphans, idle)
    assert found.total == WasteSum(8, 45, 2)


def test_orphans_without_any_price_have_no_cost():
    (source,) = report(orphan=WasteSum(2, 0, 2)).sources
    assert source.hourly is None


def test_what_is_unknown_is_in_no_other_sum():
    found = report(unknown=WasteSum(3, 1_000))
    assert found.total == WasteSum()
    assert found.unknown == WasteSum(3, 1_000)
