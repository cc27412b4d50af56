"""Text from outside as it is shown."""

from __future__ import annotations

import pytest

from service.dashboard.kit.visible_text import to_sentence


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("", ""),
        ("it is idle", "It is idle."),
        ("Is it?", "Is it?"),
        ("idle since 2026-11-28T12:49:56Z", "Idle since 2026-11-28 12:49:56 UTC."),
        ("2026-11-28T12:49:56Z: gone", "2026-11-28 12:49:56 UTC: gone."),
        ("n-2026-11-28T12:49:56Zone", "N-2026-11-28T12:49:56Zone."),
    ],
)
def test_a_message_is_shown_as_a_sentence_with_its_instants_as_on_the_page(message, shown):
    assert to_sentence(message) == shown
