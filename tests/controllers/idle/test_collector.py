"""Python's collector of cycles is kept away from a look, and what it left is collected later."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from service.controllers.idle.memory import COLLECTION_SECONDS, Collector


class Ring:
    """An object that only the collector can free: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True, scope="module")
def _as_it_was() -> Iterator[None]:
    """The tests' own objects are frozen; here nothing is."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_nothing_is_collected_during_a_look_and_all_is_as_before_after_it():
    collector = Collector(lambda: 0.0)
    with collector.pause_gc():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="a bug"), collector.pause_gc():
        raise ValueError("a bug")
    assert gc.isenabled()


def test_new_objects_join_the_oldest_generation_unvisited():
    kept = []
    with Collector(lambda: 0.0).pause_gc():
        kept += [[number] for number in range(50_000)]
    young = {id(held) for generation in (0, 1) for held in gc.get_objects(generation)}
    assert not young.intersection(map(id, kept))
    assert gc.get_freeze_count() == 0


@pytest.mark.deep
def test_cycles_of_a_look_are_freed_within_half_an_hour():
    now = [0.0]
    collector = Collector(lambda: now[0])
    with collector.pause_gc():
        left = weakref.ref(Ring())
    assert left() is not None
    now[0] += COLLECTION_SECONDS
    with collector.pause_gc():
        pass
    assert left() is None


@pytest.mark.deep
def test_what_someone_froze_stays_frozen():
    gc.freeze()
    with Collector(lambda: 0.0).pause_gc():
        pass
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
