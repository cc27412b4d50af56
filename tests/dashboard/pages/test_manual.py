"""The product shows its own manual: every page, every link, and a search."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import service
from service.dashboard.pages.manual import get_manual_page, render_page
from tests.dashboard.reading import HOSTILE, text_of

MANUAL = Path(service.__file__).parent / "manual"
NAMES = [page.name for page in get_manual_page().others]


def article_of(browser: TestClient, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200
    article = re.search(r"<article>.*?</article>", answer.text, re.DOTALL)
    assert article is not None
    return article[0]


def ids_of(html: str) -> list[str]:
    return re.findall(r'<h[1-6] id="([^"]*)"', html)


def test_every_file_of_the_manual_is_a_page() -> None:
    assert {file.stem for file in MANUAL.glob("*.md")} == set(NAMES) - {"emulator-reference"}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_shown_with_its_title_and_its_headings(browser: TestClient, name: str) -> None:
    page = get_manual_page(name).page
    article = article_of(browser, page.address)
    assert unescape(re.sub(r"<[^>]*>", "", article)).strip().startswith(page.title)
    ids = ids_of(article)
    assert ids == [section.anchor for section in page.sections]
    assert len(ids) == len(set(ids)), "each heading has an anchor of its own"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_obeys_the_policy_of_all_pages(browser: TestClient, name: str) -> None:
    article = article_of(browser, get_manual_page(name).page.address)
    assert not re.search(r"\sstyle=|\son\w+=|javascript:|<script|&lt;!--", article)
    assert all(
        re.fullmatch(r"/manual/[a-z]+\.png", src) for src in re.findall(r'src="(.*?)"', article)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(
    browser: TestClient, name: str
) -> None:
    here = get_manual_page(name).page.address
    for link in map(unescape, re.findall(r'href="([^"]*)"', article_of(browser, here))):
        path, _, anchor = link.partition("#")
        assert "://" not in link, "the manual needs no other host"
        assert path.startswith("/manual") or not path, link
        assert not anchor or anchor in ids_of(article_of(browser, path or here)), link


def test_a_search_finds_the_sections_with_all_words_those_with_them_in_the_heading_first(
    browser: TestClient,
) -> None:
    article = article_of(browser, "/manual?q=zone+Capacity")
    found = re.findall(r'<li><a href="([^"]*)">', article)
    assert "/manual/nodes#where-there-is-capacity" in found
    assert found[0] == "/manual/what-happens-when#a-zone-has-run-out-of-capacity"
    for link in found:
        path, _, anchor = link.partition("#")
        name = path.rpartition("/")[2]
        (section,) = [
            section for section in get_manual_page(name).page.sections if section.anchor == anchor
        ]
        said = f"{section.title} {section.text}".casefold()
        assert "zone" in said
        assert "capacity" in said


def test_a_search_without_a_match_says_what_to_do(browser: TestClient) -> None:
    assert "No section has all of these words" in article_of(browser, "/manual?q=xyzzy")


def test_an_empty_search_shows_the_contents(browser: TestClient) -> None:
    assert article_of(browser, "/manual?q=+") == article_of(browser, "/manual")


@pytest.mark.parametrize("query", [HOSTILE, "a" * 5_000, "\x00", "(", "ß"])
def test_a_search_for_anything_is_answered_and_stays_text(browser: TestClient, query: str) -> None:
    answer = browser.get("/manual", params={"q": query})
    assert answer.status_code == 200
    assert HOSTILE not in answer.text
    assert len(answer.text) < 60_000


def test_a_page_that_is_not_there_is_told_with_a_way_back(browser: TestClient) -> None:
    answer = browser.get("/manual/none")
    assert answer.status_code == 404
    assert "There is no such page" in text_of(answer)
    assert 'href="/manual"' in answer.text


@pytest.mark.parametrize("name", ["..%2f..%2fsettings", "index.md", "INDEX", "%00"])
def test_no_name_leads_out_of_the_manual(browser: TestClient, name: str) -> None:
    assert browser.get(f"/manual/{name}").status_code == 404


def test_html_in_a_page_is_shown_as_text_and_comments_are_left_out() -> None:
    page = render_page("one", "# One\n\n<!-- tour: hidden -->\n<b onclick=x>bold</b> & `<i>`\n")
    assert "<b" not in page.html
    assert "hidden" not in page.html
    assert "&lt;b onclick=x&gt;" in page.html


def test_each_table_is_in_a_region_with_a_name_of_its_own_that_the_keyboard_scrolls() -> None:
    table = "| a | b |\n| - | - |\n| 1 | 2 |\n"
    page = render_page("x", f"# `X` & more\n\n{table}\ntext\n\n{table}\n## Rest\n\n{table}\n")
    regions = re.findall(
        r'<div class="scroll" role="region" aria-label="([^"]+)" tabindex="0">\n<table>', page.html
    )
    assert regions == ["Table: X &amp; more", "Table 2: X &amp; more", "Table: Rest"]
    assert page.html.count("</table>\n</div>") == page.html.count("<table>") == 3


def test_a_picture_of_the_manual_is_served_and_shown_with_words_for_it(
    browser: TestClient,
) -> None:
    page = browser.get("/manual/dashboard").text
    shown = re.findall(r'<img src="(/manual/[a-z]+\.png)" alt="([^"]+)"', page)
    assert [address for address, _ in shown] == ["/manual/overview.png", "/manual/costs.png"]
    for address, words in shown:
        answer = browser.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        assert len(words.split()) > 5
    assert browser.get("/manual/none.png").status_code == 404
    assert "/manual/elsewhere.png" not in str(render_page("x", "# X\n\n![a](elsewhere.png)").html)
