"""The README and the manual lead somewhere, and nobody has to guess where a page is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README, MANUAL = ROOT / "README.md", ROOT / "service" / "manual"
PAGES = sorted(MANUAL.glob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
SHORT = 8_000
"""Bytes: three screens."""

MOST_WORDS, MEAN_WORDS = 30, 18
"""Of a sentence."""

ODD = [
    "wish",
    "wishes",
    "anew",
    "in vain",
    "for ever",
    "taken back",
    "took back",
    "said again",
    "left alone",
    "in our books",
    "to be had",
    "whoever",
    "befell",
    "by the calendar",
    "held against",
    "besides",
]
"""Words for which the field has better ones: request, recreated, indefinitely, preempted,
repeatable, cooldown, records, available, reconciled."""


def text_of(page: Path) -> str:
    """The prose of a page: links in code lead nowhere."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def links_of(page: Path) -> list[str]:
    return [link for link in LINK.findall(text_of(page)) if "://" not in link]


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
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


def blocks_of(page: Path) -> list[str]:
    """Paragraphs, items and cells without the marks of Markdown; headings are left out."""
    text = re.sub(r"<!--.*?-->", "", text_of(page), flags=re.DOTALL)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    found = []
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith("|"):
            found += [cell for line in block.splitlines() for cell in line.split("|")]
        elif not block.lstrip().startswith("#"):
            found += re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block)
    return [re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(block.split())) for block in found]


def sentences_of(page: Path) -> list[list[str]]:
    """The words of each sentence."""
    ended = r"(?<=[.!?:;])\s+(?=[A-Z`0-9]|$)"
    found = [text.split() for block in blocks_of(page) for text in re.split(ended, block)]
    return [words for words in found if any(word.isalpha() for word in words)]


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    sentences = sentences_of(page)
    assert sentences, "the page says something"
    for words in sentences:
        assert len(words) <= MOST_WORDS, " ".join(words)
    assert sum(map(len, sentences)) <= MEAN_WORDS * len(sentences)


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_words_that_have_to_be_read_twice_do_not_come_back(page: Path) -> None:
    text = " ".join(blocks_of(page)).lower()
    assert [word for word in ODD if re.search(rf"\b{re.escape(word)}\b", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_its_only_title(page: Path) -> None:
    titles = re.findall(r"^# .*$", text_of(page), re.MULTILINE)
    assert [page.read_text().partition("\n")[0]] == titles
