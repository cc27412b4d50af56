"""A hundred thousand nodes are held in less than a gigabyte, in a process of its own."""

from __future__ import annotations

import multiprocessing

import pytest

from tests.bench.emulator import MANY, hold


@pytest.mark.exhaustive
@pytest.mark.deep
def test_a_hundred_thousand_nodes_weigh_less_than_a_gigabyte():
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(there, MANY))
    process.start()
    gigabytes, ready = here.recv()
    process.join()
    assert ready == MANY
    assert gigabytes < 1
