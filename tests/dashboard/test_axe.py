"""axe-core finds nothing on any page, and each fault that is planted in one.

axe-core is under the Mozilla Public License 2.0. Its script comes with axe-playwright-python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page

from tests.dashboard.browsing import CHROMIUM, opened, served
from tests.dashboard.full import (
    REFUSED,
    FullLab,
    addresses_of,
    empty_lab,
    fill_in,
    full_lab,
    make_hostile,
    paths_of,
)
from tests.dashboard.lab import Lab

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
"""The tags of the rules."""

LOOKS = ((("light", 1_280), ("dark", 400)), (("dark", 1_280), ("light", 400)))
"""How a page is looked at: in both schemes and at both widths. The next page is looked at the other
way round, and pages share their templates and their styles, so each is seen in all four."""

RUN = """tags => axe.run(document, {
    runOnly: tags,
    resultTypes: ['violations'],
    preload: { assets: ['media'] }, // styles are read only by rules that are experimental
}).then(found => found.violations)"""
BOOKS = ("/manual", "/docs")
"""Their pages say the same over every lab."""

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: axe saw no page"),
]


@dataclass(frozen=True)
class ShownLab:
    """A lab whose pages are served."""

    full: FullLab
    app: FastAPI
    address: str
    is_empty: bool
    first_look: int
    """Which of the looks is that of the first page."""


@pytest.fixture(scope="module", params=["full", "hostile", "empty"])
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShownLab]:
    """A lab with something on every page, the same with hostile names, and one with nothing."""
    folder = tmp_path_factory.mktemp("lab")
    with ExitStack() as stack:
        match request.param:
            case "full":
                made = stack.enter_context(full_lab(folder))
            case "hostile":
                made = stack.enter_context(full_lab(folder, make_hostile()))
            case _:
                made = stack.enter_context(empty_lab(folder))
        app = made.lab.whole()
        address = stack.enter_context(served(made.lab, app))
        yield ShownLab(
            made, app, address, request.param == "empty", int(request.param == "hostile")
        )


def run_axe(page: Page) -> list[dict[str, Any]]:
    """The rules that a page breaks, each with the elements that break it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{Axe().axe_script}; 0")
    found: list[dict[str, Any]] = page.evaluate(RUN, RULES)
    return found


def faults_of(page: Page, number: int) -> list[str]:
    """What axe finds on a page with all its details open, at the looks of the page of this number:
    the id of a rule, and an element that breaks it."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    found = []
    for scheme, width in LOOKS[number % 2]:
        show(page, scheme, width)
        found += [
            f"{scheme} {width}: {rule['id']}: {node['target'][0]}: {node['failureSummary']}"
            for rule in run_axe(page)
            for node in rule["nodes"]
        ]
    return found


def show(page: Page, scheme: str, width: int) -> None:
    """Show a page in a scheme at a width, and without motion: a colour that still changes has
    another contrast."""
    page.emulate_media(
        color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
    )
    page.set_viewport_size({"width": width, "height": 900})


def test_axe_finds_nothing_on_any_page(shown: ShownLab, chromium: Browser) -> None:
    paths = [
        address for address in addresses_of(shown.app, shown.full) if not address.startswith(BOOKS)
    ]
    faults, refused = {}, set()
    with opened(chromium, may_refuse=True) as page:
        for number, path in enumerate(paths, shown.first_look):
            answer = page.goto(f"{shown.address}{path}")
            assert answer is not None
            if not answer.ok:
                refused.add(path)
            if found := faults_of(page, number):
                faults[path] = found
    assert faults == {}
    assert shown.is_empty or refused >= set(REFUSED)


def test_axe_finds_nothing_on_any_page_of_the_manual_and_of_the_api_reference(
    lab: Lab, chromium: Browser
) -> None:
    app, faults = lab.whole(), {}
    with TestClient(app, base_url="http://localhost") as client:
        texts = [client.get(book).text for book in BOOKS]
    links = {
        link for text in texts for link in re.findall(r'href="(/(?:manual|docs)/[\w-]+)', text)
    }
    assert len(links) > 30
    with served(lab, app) as address, opened(chromium) as page:
        paths = (*BOOKS, "/manual?q=zone", "/docs?q=zone", *sorted(links))
        for number, path in enumerate(paths):
            page.goto(f"{address}{path}")
            if found := faults_of(page, number):
                faults[path] = found
    assert faults == {}


SEND = """([path, fields]) => {
    const form = document.createElement('form');
    form.method = 'post';
    form.action = path;
    for (const [name, value] of fields) {
        const input = document.createElement('input');
        [input.name, input.value] = [name, value];
        form.append(input);
    }
    document.body.append(form);
    form.submit();
}"""


def test_axe_finds_nothing_on_the_answer_to_any_form(shown: ShownLab, chromium: Browser) -> None:
    """The forms have a token that is out of date, so nothing is done, and each page says so. A
    link in a message needs none."""
    values, faults = shown.full.values, {}
    fields = [("form_token", "old"), ("node", values["nodes.node_id"])]
    statuses = set()
    with opened(chromium, may_refuse=True) as page:
        page.goto(shown.address)
        for number, path in enumerate(paths_of(shown.app, "POST"), shown.first_look):
            with page.expect_navigation() as sent:
                page.evaluate(SEND, [fill_in(path, values), fields])
            statuses.add(sent.value.status)
            if found := faults_of(page, number):
                faults[path] = found
    assert faults == {}
    assert statuses >= ({404} if shown.is_empty else {200, 403})


def test_axe_finds_nothing_on_the_list_of_shortcuts_and_on_a_page_that_failed(
    lab: Lab, chromium: Browser
) -> None:
    broken = lab.whole()
    broken.state.services = None
    with (
        served(lab) as address,
        served(lab, broken) as other,
        opened(chromium, may_refuse=True) as page,
    ):
        page.goto(f"{address}/nodes")
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keyboard shortcuts").is_visible()
        assert [faults_of(page, number) for number in (0, 1)] == [[], []]
        failed = page.goto(f"{other}/nodes")
        assert failed is not None
        assert failed.status == 500
        assert [faults_of(page, number) for number in (0, 1)] == [[], []]


PLANTED: dict[str, tuple[str, dict[str, str]]] = {
    "image-alt": ("<img src='/static/icon.svg'>", {}),
    "button-name": ("<button type='button'></button>", {}),
    "link-name": ("<a href='/nodes'></a>", {}),
    "label": ("<input>", {}),
    "color-contrast": ("<p>Hardly to be read</p>", {"color": "#aaa", "background": "#fff"}),
    "landmark-unique": ("<nav aria-label='Pages'>Twice</nav>", {}),
    "target-size": (
        "<ul><li><a href='/a'>a</a></li><li><a href='/b'>b</a></li></ul>",
        {"font-size": "8px", "line-height": "9px"},
    ),
    "aria-roles": ("<p role='knob'>Turn</p>", {}),
    "heading-order": ("<h6>Too deep</h6>", {}),
    "scrollable-region-focusable": (
        "<div><p>Only a mouse can scroll to the end of this.</p></div>",
        {"height": "10px", "overflow": "scroll"},
    ),
}
"""Faults by the id of the rule that finds them: an element, and its style."""

PLANT = """([rule, html, style]) => {
    const box = document.createElement('div');
    box.id = `planted-${rule}`;
    box.innerHTML = html;
    document.querySelector('main').append(box);
    for (const [name, value] of Object.entries(style)) {
        box.firstElementChild.style.setProperty(name, value);
    }
}"""
"""Adds a fault to a page. A style that a script sets is allowed by the policy of the pages."""


def test_axe_finds_each_planted_fault_by_its_rule(lab: Lab, chromium: Browser) -> None:
    found = {}
    with served(lab) as address, opened(chromium) as page:
        page.goto(f"{address}/orphans")
        assert [faults_of(page, number) for number in (0, 1)] == [[], []]
        for rule, (html, style) in PLANTED.items():
            page.evaluate(PLANT, [rule, html, style])
            found[rule] = faults_of(page, 0)
            page.evaluate("rule => document.getElementById(`planted-${rule}`).remove()", rule)
    assert {
        (rule, width)
        for rule, faults in found.items()
        for width in (1_280, 400)
        if not any(f" {width}: {rule}: " in fault for fault in faults)
    } == set(), found
