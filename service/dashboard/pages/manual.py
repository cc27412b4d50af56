"""The manual: Markdown pages that come with the service, as HTML, and a search in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from service.domain.errors import NotFound

_MANUAL = Path(__file__).parents[2] / "manual"
_INDEX = "index"
_PROBLEMS = "problems"
_ELSEWHERE = {"../emulator/README.md": "emulator-reference"}
"""The names of pages outside of the manual's directory, by the links that lead to them."""

LONGEST_QUERY = 100
"""The most characters of a search that are read."""

_EXCERPT = 160


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a page with the text below it, up to the next heading."""

    anchor: str
    title: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """One page as HTML. `name` is the last part of its address."""

    name: str
    title: str
    html: Markup
    sections: tuple[Section, ...]

    @property
    def address(self) -> str:
        """The address of the page."""
        return _address_of(self.name)

    @property
    def contents(self) -> Sequence[Section]:
        """The headings below the title, for the list beside the text."""
        return [section for section in self.sections if section.level == 2]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A section in which every word of a search occurs."""

    page: str
    title: str
    address: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class ManualPage:
    """Everything on the page: a page of the manual, the names of the others, and the search
    results."""

    page: RenderedPage
    others: tuple[RenderedPage, ...]
    query: str = ""
    hits: tuple[SearchHit, ...] = ()


def get_manual_page(name: str = _INDEX) -> ManualPage:
    """A page of the manual. Raises NotFound for an unknown name."""
    pages = _load_pages()
    if name not in pages:
        raise NotFound(f"the manual has no page {name[:80]!r}")
    return ManualPage(pages[name], tuple(pages.values()))


def find_picture(name: str) -> Path | None:
    """The file of a picture of the manual, such as `overview.png`; None if there is none."""
    return next((path for path in _MANUAL.glob("*.png") if path.name == name), None)


def get_problem_address(slug: str) -> str:
    """The address of the manual's section about a problem. Raises NotFound for an unknown
    problem."""
    page = _load_pages()[_PROBLEMS]
    if not any(section.level == 3 and section.anchor == slug for section in page.sections):
        raise NotFound(f"the manual has no problem {slug[:80]!r}")
    return f"{page.address}#{slug}"


def search_manual(query: str) -> ManualPage:
    """The sections in which every word of the query occurs; those with a match in their heading
    come first."""
    asked, pages = query[:LONGEST_QUERY].strip(), _load_pages()
    found = find_hits(pages.values(), asked)
    return ManualPage(pages[_INDEX], tuple(pages.values()), asked, found)


class Searched(Protocol):
    """A page with sections, of the manual or of the API reference."""

    @property
    def title(self) -> str:
        """The heading of the page."""

    @property
    def address(self) -> str:
        """The address of the page."""

    @property
    def sections(self) -> Sequence[Section]:
        """The parts of the page, each with an anchor."""


def find_hits(pages: Iterable[Searched], query: str) -> tuple[SearchHit, ...]:
    """The sections in which every word of the query occurs; those with a match in their heading
    come first. None of them for an empty query."""
    words = query.casefold().split()
    if not words:
        return ()
    found = []
    sections = [(page, section) for page in pages for section in page.sections]
    for page, section in sections:
        if not all(word in f"{section.title} {section.text}".casefold() for word in words):
            continue
        # The text around the first word of the search that occurs in it.
        text = section.text
        places = (text.casefold().find(word) for word in words)
        at = min((place for place in places if place >= 0), default=0)
        start = text.rfind(" ", 0, max(0, at - _EXCERPT // 3)) + 1
        cut = text[start : start + _EXCERPT]
        if is_cut := start + _EXCERPT < len(text):
            cut = cut.rpartition(" ")[0] or cut
        excerpt = f"{'… ' if start else ''}{cut}{' …' if is_cut else ''}"
        address = f"{page.address}#{quote(section.anchor)}"
        found.append(SearchHit(page.title, section.title, address, excerpt))
    found.sort(key=lambda hit: not all(word in hit.title.casefold() for word in words))
    return tuple(found)


@cache
def _load_pages() -> dict[str, RenderedPage]:
    """All pages, in the order in which the index names them."""
    index = (_MANUAL / f"{_INDEX}.md").read_text()
    files = {_INDEX: _MANUAL / f"{_INDEX}.md"}
    for link in re.findall(r"\]\(([^)#]+\.md)\)", index):
        files[_name_of(link)] = (_MANUAL / link).resolve()
    return {name: render_page(name, path.read_text()) for name, path in files.items()}


def _address_of(name: str) -> str:
    return "/manual" if name == _INDEX else f"/manual/{name}"


def _name_of(link: str) -> str:
    return _ELSEWHERE.get(link, PurePosixPath(link).stem)


def render_page(name: str, text: str) -> RenderedPage:
    """The page of a Markdown file. Raw HTML is shown as text, so that no page needs a looser policy
    than the others. HTML comments, which only tests read, are left out. Links to other Markdown
    files lead to the pages of the manual, and pictures are those of the manual."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    sections = tuple(_split_sections(tokens))
    headings = [token for token in tokens if token.type == "heading_open"]
    for heading, section in zip(headings, sections, strict=True):
        heading.attrSet("id", section.anchor)
    for child in (child for token in tokens for child in token.children or ()):
        if child.type == "link_open":
            path, hash_, anchor = str(child.attrGet("href")).partition("#")
            if path.endswith(".md"):
                child.attrSet("href", f"{_address_of(_name_of(path))}{hash_}{anchor}")
        elif child.type == "image" and find_picture(picture := str(child.attrGet("src"))):
            child.attrSet("src", f"/manual/{picture}")
            child.attrSet("loading", "lazy")
    tokens = list(_wrap_tables(tokens, sections))
    html = markdown.renderer.render(tokens, markdown.options, {})
    html = html.replace("<pre>", '<pre tabindex="0">')  # so that the keyboard scrolls it as well
    return RenderedPage(name, sections[0].title, Markup(html), sections)  # noqa: S704 - our own text, without raw HTML


def _wrap_tables(tokens: Sequence[Token], sections: Sequence[Section]) -> Iterator[Token]:
    """The tokens, with each table in a region that the keyboard scrolls sideways. A region is named
    after its section, with a number from the second table of the same title on."""
    titles, count, title = (section.title for section in sections), Counter[str](), ""
    for token in tokens:
        if token.type == "heading_open":
            title = next(titles)
        elif token.type == "table_open":
            count[title] += 1
            name = f"Table: {title}" if count[title] == 1 else f"Table {count[title]}: {title}"
            attrs: dict[str, str | int | float] = {
                "class": "scroll",
                "role": "region",
                "aria-label": name,
                "tabindex": 0,
            }
            yield Token("region_open", "div", 1, attrs=attrs, block=True)
        yield token
        if token.type == "table_close":
            yield Token("region_close", "div", -1, block=True)


def _split_sections(tokens: Sequence[Token]) -> Iterator[Section]:
    """The sections in order, one for each heading. Their text is without Markdown marks."""
    begun: tuple[str, str, int] | None = None
    texts: list[str] = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            if begun is not None:
                yield Section(*begun, " ".join(texts))
            inline = tokens[number + 1]
            title = inline.content.replace("`", "")
            begun, texts = (anchor_of(title), title, int(token.tag[1:])), []
        elif token.type in {"inline", "fence", "code_block"}:
            is_title = number > 0 and tokens[number - 1].type == "heading_open"
            if not is_title:
                text = token.content
                if token.children is not None:
                    text = "".join(child.content or " " for child in token.children)
                texts.append(" ".join(text.split()))
    if begun is not None:
        yield Section(*begun, " ".join(texts))


def anchor_of(title: str) -> str:
    """The anchor of a heading, as GitHub makes it, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
