"""Reads a page as a person would: its words, and the cells of its tables."""

from __future__ import annotations

import re
from html import unescape

from httpx2 import Response

from service.domain.money import parse_usd

HOSTILE = "<img src=x onerror=alert(1)>"
"""What must stay text wherever it comes from."""


_CENTS = re.compile(r'<span class="cents".*?</span>')
_EXACT = re.compile(r'<span class="exact">.*?</span>')
"""What is below the cents is hidden until somebody asks for it."""


def text_of(page: Response) -> str:
    """What a reader sees, with single spaces."""
    words = " ".join(unescape(re.sub(r"<[^>]*>", " ", _EXACT.sub("", page.text))).split())
    return re.sub(r" ([,.;:])", r"\1", words)


def cells_of(html: str, *, to_the_cent: bool = False) -> list[list[str]]:
    """The cells of the first table within, row by row: amounts to the last nano-dollar, as they are
    behind the switch, or to the cent."""
    html = (_EXACT if to_the_cent else _CENTS).sub("", html)
    table = re.search(r"<table.*?</table>", html, re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr.*?</tr>", table[0], re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in cells]


def main_of(page: Response) -> str:
    """The HTML of what is the page's own, without what stands on every page."""
    found = re.search(r"<main.*?</main>", page.text, re.DOTALL)
    assert found is not None
    return found[0]


def links_of(html: str) -> dict[str, str]:
    """Where the links of a page lead, by what they say; of two that say the same, the first."""
    found: dict[str, str] = {}
    html = _EXACT.sub("", html)
    for address, words in re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL):
        said = unescape(re.sub(r"<[^>]*>", "", words)).strip()
        found.setdefault(said, unescape(address))
    return found


def nanos_of(shown: str) -> int:
    """An amount as it is shown, in nano-dollars."""
    digits = shown.replace("$", "").replace(",", "").replace("\N{MINUS SIGN}", "-")
    return parse_usd(digits)
