"""What a look remembers of the samples of the looks before."""

from __future__ import annotations

from service.cloud.ports import Sample
from service.controllers.idle.memory import IdleMemory
from service.domain.idle.signals.signal import Kind

CPU, DUTY_CYCLE = Kind.CPU, Kind.DUTY_CYCLE


def samples(*minutes, value=1.0):
    return [Sample("node", 0, "", 60 * minute, 60 * minute + 60, value) for minute in minutes]


def test_a_sample_is_new_once_though_reads_overlap():
    memory = IdleMemory(epoch=1)
    assert memory.take_new(CPU, samples(1, 2, 3)) == frozenset(samples(1, 2, 3))
    assert memory.take_new(CPU, samples(2, 3, 4)) == frozenset(samples(4))
    assert memory.take_new(CPU, samples(3, 4, 5)) == frozenset(samples(5))
    assert memory.take_new(DUTY_CYCLE, samples(3)) == frozenset(samples(3))


def test_a_sample_with_another_value_is_new():
    memory = IdleMemory(epoch=1)
    memory.take_new(CPU, samples(1))
    assert memory.take_new(CPU, samples(1, value=2.0)) == frozenset(samples(1, value=2.0))


def test_what_is_offered_again_is_new_again():
    memory = IdleMemory(epoch=1)
    memory.take_new(CPU, samples(1, 2))
    memory.offer_again(CPU, samples(2))
    assert memory.take_new(CPU, samples(1, 2)) == frozenset(samples(2))


def test_old_samples_are_forgotten():
    memory = IdleMemory(epoch=1)
    for minute in range(1_000):
        new = memory.take_new(CPU, samples(*range(minute, minute + 6)))
        assert new == frozenset(samples(minute + 5) if minute else samples(*range(6)))
        assert len(memory.samples[CPU]) <= 13
    memory.take_new(CPU, [])
    assert not memory.samples[CPU]
