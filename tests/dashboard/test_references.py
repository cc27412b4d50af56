"""Pages look as they were recorded: at three widths, in light and in dark.

The pictures in `references/` are small and grey, and the comparison has a tolerance, so letters
that another version of Chromium draws in another way pass. After a change of the pages,
`make references` writes the files again. Look at the pages before they are committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page

from tests.dashboard import pictures
from tests.dashboard.browsing import CHROMIUM, opened, served
from tests.dashboard.full import FullLab, fill_in, full_lab, paths_of
from tests.dashboard.pictures import (
    Picture,
    list_differences,
    read_picture,
    take_picture,
    take_steady_picture,
    write_picture,
)

REFERENCES = Path(__file__).parent / "references"
RECORDS = bool(os.environ.get("RECORD_PICTURES"))
MOST_BYTES = 300_000
"""Of all references together."""

SAME = ("/view", "/problems/{slug}")
"""Routes that lead to pages of other routes."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How a page is shown. `block` is the side of the square that is one dot of its picture."""

    scheme: str
    width: int
    block: int


SIGHTS = {
    "1280-light": Sight("light", 1_280, 16),
    "1280-dark": Sight("dark", 1_280, 16),
    "820-light": Sight("light", 820, 12),
    "400-light": Sight("light", 400, 8),
}

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: no page was compared"),
]


@dataclass(frozen=True)
class ShownLab:
    """A lab whose pages are served."""

    full: FullLab
    app: FastAPI
    address: str

    def pages(self) -> dict[str, str]:
        """The address of each page by the name of its reference: one page for each route."""
        paths = [path for path in paths_of(self.app, "GET") if path not in SAME]
        return {_name_of(path): fill_in(path, self.full.values) for path in paths}


def _name_of(path: str) -> str:
    return re.sub(r"\W+", "-", path).strip("-") or "overview"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownLab]:
    """A lab with something on every page."""
    with full_lab(tmp_path_factory.mktemp("lab")) as made:
        app = made.lab.whole()
        with served(made.lab, app) as address:
            yield ShownLab(made, app, address)


@pytest.fixture
def desk(chromium: Browser) -> Iterator[Page]:
    """An empty page, in which pictures are made."""
    page = chromium.new_page()
    yield page
    page.close()


def take_sights(page: Page, desk: Page) -> Iterator[tuple[str, Picture, bytes]]:
    """The small picture and the screenshot of an open page by the name of each sight."""
    for sight, how in SIGHTS.items():
        page.emulate_media(color_scheme="dark" if how.scheme == "dark" else "light")
        page.set_viewport_size({"width": how.width, "height": 900})
        yield sight, *take_picture(page, desk, how.block)


def test_every_page_looks_as_it_was_recorded(
    shown: ShownLab, chromium: Browser, desk: Page, tmp_path: Path
) -> None:
    pages, faults = shown.pages(), {}
    if RECORDS:
        _clear()
    with opened(chromium) as page:
        for name, address in pages.items():
            page.goto(f"{shown.address}{address}")
            for sight, first, its_shot in take_sights(page, desk):
                file, picture, shot = REFERENCES / sight / f"{name}.png", first, its_shot
                if RECORDS or list_differences(read_picture(file), first):
                    picture, shot = take_steady_picture(page, desk, SIGHTS[sight].block)
                if RECORDS:
                    write_picture(picture, file)
                if found := list_differences(read_picture(file), picture):
                    place = tmp_path / f"{name}-{sight}"
                    faults[name, sight] = [*found, *_keep(place, file, picture, shot)]
    assert faults == {}
    for sight in SIGHTS:
        assert {file.stem for file in (REFERENCES / sight).iterdir()} == pages.keys()


def test_a_picture_counts_once_two_in_a_row_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    page: Any = None
    greys = [Picture(1, bytes([grey]), 1) for grey in (1, 2, 2, 3, 4, 5, 6, 7, 8)]
    takes = iter(greys)
    monkeypatch.setattr(pictures, "take_picture", lambda *_: (next(takes), b""))
    assert take_steady_picture(page, page, 1)[0] == greys[1]
    with pytest.raises(AssertionError, match="different each time"):
        take_steady_picture(page, page, 1)


def _clear() -> None:
    for sight in SIGHTS:
        (REFERENCES / sight).mkdir(parents=True, exist_ok=True)
    for file in REFERENCES.rglob("*.png"):
        file.unlink()


def _keep(place: Path, file: Path, picture: Picture, shot: bytes) -> list[str]:
    """The paths of the new page, and of a picture of how far it differs from its reference."""
    page, gap = place.with_suffix(".page.png"), place.with_suffix(".difference.png")
    page.write_bytes(shot)
    write_picture(_difference(read_picture(file), picture), gap)
    return [f"the page is in {page}", f"the difference is in {gap}"]


def _difference(before: Picture, after: Picture) -> Picture:
    """How far each dot of two pictures differs, as far as both go."""
    dots = bytes(abs(a - b) for a, b in zip(before.dots, after.dots, strict=False))
    return Picture(before.width, dots, after.page_height)


def test_the_references_are_small() -> None:
    files = list(REFERENCES.rglob("*.png"))
    assert {file.parent.name for file in files} == SIGHTS.keys()
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES


STYLE = """css => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    document.adoptedStyleSheets = [sheet];
}"""
"""Adds rules to a page, which its policy allows to a script."""

REMOVE = "selector => document.querySelector(selector).remove()"
PLANTED = {
    "a panel is missing": ("overview", "1280-light", REMOVE, "main section"),
    "a table is missing": ("nodes", "400-light", REMOVE, "main table"),
    "a column is shifted": (
        "nodes",
        "1280-light",
        STYLE,
        "td:nth-child(3), th:nth-child(3) { position: relative; left: -160px; }",
    ),
    "dark is not dark": ("budgets", "1280-dark", STYLE, ":root { color-scheme: light; }"),
}
HARMLESS = {
    "letters of another size by a little": "body { text-rendering: geometricPrecision; }",
    "bolder letters": "body { -webkit-text-stroke: 0.15px; }",
    "a page one pixel lower": "main { padding-top: 1px; }",
    "a shade lighter": ":root { --soft: light-dark(#606c73, #a1aeb5); }",
}


def differences_after(
    shown: ShownLab, chromium: Browser, desk: Page, name: str, sight: str, *change: str
) -> list[str]:
    """What differs between a page after a change and its reference."""
    how = SIGHTS[sight]
    with opened(chromium, how.scheme, how.width) as page:
        page.goto(f"{shown.address}{shown.pages()[name]}")
        page.evaluate(*change)
        picture, _ = take_picture(page, desk, how.block)
    return list_differences(read_picture(REFERENCES / sight / f"{name}.png"), picture)


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_fault_is_found(
    shown: ShownLab, chromium: Browser, desk: Page, plant: str
) -> None:
    name, sight, *change = PLANTED[plant]
    assert differences_after(shown, chromium, desk, name, sight, *change) != []


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_is_none(
    shown: ShownLab, chromium: Browser, desk: Page, change: str
) -> None:
    for name, sight in (
        ("overview", "1280-light"),
        ("nodes", "400-light"),
        ("budgets", "820-light"),
    ):
        args = name, sight, STYLE, HARMLESS[change]
        assert differences_after(shown, chromium, desk, *args) == [], name
