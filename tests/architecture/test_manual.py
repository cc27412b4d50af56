"""The README and the manual lead somewhere, and nobody has to guess where a page is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.wording import Text, blocks_of, faults_of, prose_of, sentences_in

ROOT = Path(__file__).resolve().parents[2]
README, MANUAL = ROOT / "README.md", ROOT / "service" / "manual"
PAGES = sorted(MANUAL.glob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
SHORT = 8_000
"""Bytes: three screens."""


def links_of(page: Path) -> list[str]:
    return [link for link in LINK.findall(prose_of(page)) if "://" not in link]


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page: Path) -> None:
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors_of(target), f"{page.name}: {link}"


def test_the_readme_leads_to_every_page_of_the_manual() -> None:
    reached, waiting = set[Path](), [README]
    while waiting:
        page = waiting.pop()
        for link in links_of(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target in PAGES and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert reached == set(PAGES)


def test_the_readme_is_read_in_three_screens_and_shows_a_picture() -> None:
    assert len(README.read_bytes()) <= SHORT
    picture = re.search(r"!\[[^]]+\]\((\S+\.png)\)", README.read_text())
    assert picture is not None
    assert (ROOT / picture[1]).is_file()


def texts_of(page: Path) -> list[Text]:
    return [Text(page.name, block) for block in blocks_of(page)]


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_sentences_are_short_and_no_word_has_to_be_read_twice(page: Path) -> None:
    assert any(sentences_in(text.words) for text in texts_of(page)), "the page says something"
    assert faults_of(texts_of(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_its_only_title(page: Path) -> None:
    titles = re.findall(r"^# .*$", prose_of(page), re.MULTILINE)
    assert [page.read_text().partition("\n")[0]] == titles
