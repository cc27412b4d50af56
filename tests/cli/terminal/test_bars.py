"""Bars of text: their length, and a terminal without blocks."""

from __future__ import annotations

import io
import sys
from decimal import Decimal

import pytest

from service.cli.terminal.bars import can_show_blocks, draw_bars

AMOUNTS = [Decimal(text) for text in ("80", "40", "0.000000001", "0", "-80", "25")]


def test_a_bar_is_as_long_as_its_amount_and_any_cost_has_one():
    assert draw_bars(AMOUNTS, 10, has_blocks=True) == ["█" * 10, "█" * 5, "▏", "", "", "███▏"]
    assert draw_bars(AMOUNTS, 10, has_blocks=False) == ["#" * 10, "#####", "#", "", "", "###"]


def test_nothing_has_no_bars():
    assert draw_bars([], 10, has_blocks=True) == []
    assert draw_bars([Decimal(0)], 10, has_blocks=True) == [""]


@pytest.mark.parametrize(
    ("encoding", "terminal", "can"),
    [("utf-8", "xterm", True), ("ascii", "xterm", False), ("utf-8", "dumb", False)],
)
def test_a_terminal_that_cannot_show_blocks_gets_ascii(monkeypatch, encoding, terminal, can):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    monkeypatch.setenv("TERM", terminal)
    assert can_show_blocks() is can
