"""The pictures of the README and the manual are those that the target makes, and small."""

from __future__ import annotations

import pytest

from tests.screenshots.__main__ import FOLDER, PICTURES, main

MOST_BYTES = 200_000


def test_every_picture_is_made_by_the_target_and_is_small() -> None:
    found = {path.name: path.stat().st_size for path in FOLDER.glob("*.png")}
    assert set(found) == {picture.file for picture in PICTURES}
    assert max(found.values()) <= MOST_BYTES


@pytest.mark.parametrize("address", ["http://elsewhere.example", "elsewhere", ""])
def test_only_a_demo_on_this_machine_is_shown(address: str) -> None:
    assert main([address]) == 2
