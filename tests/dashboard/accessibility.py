"""Finds in a page, and in the colours of all pages, what keeps people from using them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import combinations, pairwise

VOID = {"br", "hr", "img", "input", "link", "meta", "col", "source", "wbr"}
FIELDS = {"input", "select", "textarea"}
LANDMARKS = {"region", "navigation", "search", "form"}


@dataclass
class Element:
    """An element of a page with all that is in it."""

    name: str
    attributes: dict[str, str]
    above: Element | None
    inside: list[Element | str] = field(default_factory=list)

    def walk(self) -> list[Element]:
        """The element and all below it, in the order of the page."""
        below = [
            child for part in self.inside if isinstance(part, Element) for child in part.walk()
        ]
        return [self, *below]

    def text(self) -> str:
        """What is read aloud of it: the words, and the names of pictures."""
        if self.attributes.get("aria-hidden") == "true":
            return ""
        parts = [part if isinstance(part, str) else part.text() for part in self.inside]
        named = self.attributes.get("aria-label") or self.attributes.get("alt", "")
        return " ".join(" ".join([named, *parts]).split())

    def is_within(self, name: str) -> bool:
        """Whether an element of this name is around it."""
        return self.above is not None and (self.above.name == name or self.above.is_within(name))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self._here = Element("", {}, None)
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        twice = [name for name, count in Counter(name for name, _ in attrs).items() if count > 1]
        self.faults += [f"<{tag}> has {name} twice" for name in twice]
        made = Element(tag, {name: value or "" for name, value in attrs}, self._here)
        self._here.inside.append(made)
        if tag not in VOID:
            self._here = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._here.inside.append(Element(tag, {k: v or "" for k, v in attrs}, self._here))

    def handle_endtag(self, tag: str) -> None:
        here: Element | None = self._here
        while here is not None and here.name != tag:
            here = here.above
        if here is None or here.above is None:
            self.faults.append(f"</{tag}> ends nothing")
            return
        if here is not self._here:
            self.faults.append(f"<{self._here.name}> is not ended before </{tag}>")
        self._here = here.above

    def handle_data(self, data: str) -> None:
        self._here.inside.append(data)


def faults_of(html: str) -> list[str]:
    """What is wrong with a page: each fault in a sentence, none if all is well."""
    reader = _Reader()
    reader.feed(html)
    elements = reader.root.walk()
    return [
        *reader.faults,
        *_faults_of_ids(elements),
        *_faults_of_names(elements),
        *_faults_of_headings(elements),
        *_faults_of_landmarks(elements),
        *_faults_of_tables(elements),
    ]


def _faults_of_ids(elements: list[Element]) -> list[str]:
    ids = Counter(element.attributes["id"] for element in elements if "id" in element.attributes)
    found = [f"id {name!r} is there {count} times" for name, count in ids.items() if count > 1]
    for element in elements:
        for attribute in ("aria-labelledby", "aria-describedby", "for"):
            named = element.attributes.get(attribute, "").split()
            found += [
                f"{attribute} names {name!r}, which is not there"
                for name in named
                if name not in ids
            ]
    return found


def _name_of(one: Element, elements: list[Element]) -> str:
    """The accessible name of an element. Empty if it has none."""
    if named := one.attributes.get("aria-labelledby", "").split():
        texts = {other.attributes.get("id"): other.text() for other in elements}
        return " ".join(texts.get(name, "") for name in named).strip()
    if label := one.attributes.get("aria-label", "").strip():
        return label
    if one.name in FIELDS:
        around = one.above
        while around is not None and around.name != "label":
            around = around.above
        labels = [other for other in elements if other.name == "label"]
        mine = [
            other.text()
            for other in labels
            if other.attributes.get("for") == one.attributes.get("id", "-")
        ]
        return " ".join(mine) or (around.text() if around else "")
    if one.name == "svg":
        return " ".join(
            part.text() for part in one.inside if isinstance(part, Element) and part.name == "title"
        )
    return one.text() or one.attributes.get("alt", "") or one.attributes.get("title", "")


def _faults_of_names(elements: list[Element]) -> list[str]:
    found = []
    for element in elements:
        is_hidden = (
            element.attributes.get("aria-hidden") == "true"
            or element.attributes.get("type") == "hidden"
        )
        is_control = element.name in FIELDS | {"button", "summary", "dialog"} or (
            element.name == "a" and "href" in element.attributes
        )
        # a group has parts that can be read one by one
        is_picture = element.name == "img" or element.attributes.get("role") in {"img", "group"}
        if (is_control or is_picture) and not is_hidden and not _name_of(element, elements):
            found.append(f"<{element.name}> has no name: {element.attributes}")
        if element.name == "svg" and not is_hidden and not is_picture:
            found.append(f"<svg> is neither a picture nor hidden: {element.attributes}")
        if element.name == "html" and not element.attributes.get("lang"):
            found.append("<html> has no language")
    return found


def _faults_of_headings(elements: list[Element]) -> list[str]:
    heads = [
        element
        for element in elements
        if re.fullmatch("h[1-6]", element.name) and not element.is_within("dialog")
    ]
    levels = [int(head.name[1]) for head in heads]
    found = [f"{head.name} is empty" for head in heads if not head.text()]
    if levels.count(1) != 1 or levels[0] != 1:
        found.append(f"the headings do not begin with the only h1: {levels}")
    found += [
        f"h{level} {heads[place + 1].text()!r} follows h{before}"
        for place, (before, level) in enumerate(pairwise(levels))
        if level > before + 1
    ]
    return found


def _faults_of_landmarks(elements: list[Element]) -> list[str]:
    implied = {"nav": "navigation", "section": "region"}
    found, names = [], Counter[tuple[str, str]]()
    for element in elements:
        role = element.attributes.get("role") or implied.get(element.name, "")
        name = (
            _name_of(element, elements)
            if {"aria-label", "aria-labelledby"} & element.attributes.keys()
            else ""
        )
        if role in LANDMARKS and name:
            names[role, name] += 1
        if role == "region" and not name:
            found.append(f"<{element.name}> is a region without a name: {element.attributes}")
        if element.attributes.get("tabindex") == "0" and not (role or element.name == "pre"):
            found.append(f"<{element.name}> can be focused and has no role")
    found += [
        f"{count} landmarks {role} are named {name!r}"
        for (role, name), count in names.items()
        if count > 1
    ]
    if sum(element.name == "main" for element in elements) != 1:
        found.append("there is not exactly one <main>")
    return found


def _faults_of_tables(elements: list[Element]) -> list[str]:
    found = []
    for table in (element for element in elements if element.name == "table"):
        cells = table.walk()
        if not any(cell.name == "th" for cell in cells):
            found.append(f"a table has no header cell: {table.attributes}")
        if "nodes" in table.attributes.get("class", "").split():
            bare = Counter(
                cell.name
                for cell in cells
                if cell.name in {"table", "thead", "tbody", "tr", "th", "td"}
                and not cell.attributes.get("role")
            )
            found += [
                f"{count} <{name}> of a table.nodes have no role" for name, count in bare.items()
            ]
    return found


# Colours


def colours_of(css: str, scheme: int) -> dict[str, tuple[int, int, int]]:
    """The colours that custom properties name, in light (0) or in dark (1)."""
    found = {}
    for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css):
        code = pair[scheme]
        found[name] = (int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16))
    return found


def hatch_of(css: str, scheme: int) -> tuple[tuple[int, int, int], float]:
    """The colour of the hatches, and how much of it covers what is below."""
    [pair] = re.findall(r"--hatch: light-dark\((.*?)\);", css)
    parts = re.findall(r"rgb\((\d+) (\d+) (\d+) / (\d+)%\)", pair)[scheme]
    return (int(parts[0]), int(parts[1]), int(parts[2])), int(parts[3]) / 100


def contrast_of(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """The contrast of two colours by WCAG 2.2: from 1, the same, to 21."""
    low, high = sorted((_luminance_of(one), _luminance_of(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance_of(colour: tuple[int, int, int]) -> float:
    parts = [part / 255 for part in colour]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def mix_of(
    below: tuple[int, int, int], above: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    """The colour that results where `share` of `above` covers `below`."""
    red, green, blue = (
        round(one * (1 - share) + other * share) for one, other in zip(below, above, strict=True)
    )
    return red, green, blue


TEXTS = ("ink", "soft", "link", "bad", "accent")
PAPERS = ("paper", "wash")
NOTICES = (("warn-ink", "warn-paper"), ("ink", "bad-paper"), ("bad", "bad-paper"))
EDGES = ("strong-rule", "focus", "up", "warn-rule", *(f"c{place}" for place in range(8)))
TEXT_CONTRAST, EDGE_CONTRAST = 4.5, 3.0
"""What WCAG 2.2 AA requires of text, and of what is not text and has a meaning."""

FAINT_CONTRAST = 1.35
"""The least between a hatch and its bar, or between two bars of one hatch, to differ in grey."""


def faults_of_colours(css: str, scheme: int) -> list[str]:
    """The pairs of colours that cannot be told apart well enough."""
    colours = colours_of(css, scheme)
    pairs = [(text, paper, TEXT_CONTRAST) for text in TEXTS for paper in PAPERS]
    pairs += [(text, paper, TEXT_CONTRAST) for text, paper in NOTICES]
    pairs += [(edge, "paper", EDGE_CONTRAST) for edge in EDGES]
    return [
        f"--{one} on --{other} has a contrast of {found:.2f}, less than {least}"
        for one, other, least in pairs
        if (found := contrast_of(colours[one], colours[other])) < least
    ]


def faults_of_hatches(css: str, hatches: dict[int, str], scheme: int) -> list[str]:
    """The places of a chart that look the same in grey. `hatches` has the drawing of each place,
    empty for a plain one."""
    colours, (over, share) = colours_of(css, scheme), hatch_of(css, scheme)
    found = []
    for place, hatch in hatches.items():
        base = colours[f"c{place}"]
        if hatch and contrast_of(base, mix_of(base, over, share)) < FAINT_CONTRAST:
            found.append(f"the hatch of place {place} can hardly be seen")
    for one, other in combinations(hatches, 2):
        near = contrast_of(colours[f"c{one}"], colours[f"c{other}"]) < FAINT_CONTRAST
        if hatches[one] == hatches[other] and near:
            found.append(f"places {one} and {other} look the same in grey")
    return found
