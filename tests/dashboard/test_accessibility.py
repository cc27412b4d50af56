"""Pages that everybody can use, and a checker that finds each fault that is planted in one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.dashboard.accessibility import faults_of, faults_of_colours, faults_of_hatches
from tests.dashboard.lab import Lab
from tests.databases import fresh_database
from tests.garbage import orphan
from tests.hands import HandClock

CSS = Path(__file__).resolve().parents[2] / "service/dashboard/static/steward.css"
SCHEMES = pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
PATHS = (
    *("/", "/?window=90d&group=team", "/nodes/{node}", "/nodes/{node}/ledger", "/nodes/none"),
    *("/jobs", "/costs", "/costs?aggregate=team,owner&step=day", "/budgets", "/capacity"),
    *("/agenda", "/orphans", "/reservations", "/reservations/{bought}", "/commitments"),
    "/statements",
    *("/statements/2026-11", "/prices", "/commitments/recommended", "/reconcile", "/manual"),
    *("/manual/jobs", "/manual?q=zone", "/docs", "/docs/nodes", "/docs?q=zone"),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Each page of a lab with something on every page."""
    with fresh_database("sqlite", tmp_path_factory.mktemp("lab")) as address:
        engine = make_engine(address)
        lab = Lab(Units(engine), HandClock(), (factories.PROJECT,))
        lab.looked_at()
        lab.lives_a_month()
        lab.found(orphan())
        lab.services.budgets.create(factories.budget(name="all"))
        bought = lab.bought().id
        node = lab.ran(lab.clock.now - 7_200, name="train", labels={"stage": "eval"}).id
        with TestClient(lab.whole(), base_url="http://localhost") as browser:
            addresses = {path: path.format(node=node, bought=bought) for path in PATHS}
            yield {path: browser.get(address).text for path, address in addresses.items()}
        engine.dispose()


@pytest.mark.parametrize("path", PATHS)
def test_a_page_has_names_labels_headings_and_ids_in_order(
    pages: dict[str, str], path: str
) -> None:
    assert faults_of(pages[path]) == []


PLANTED = {
    "a control without a name": (
        'id="pause" hidden>Pause<',
        'id="pause" hidden><',
        "<button> has no name",
    ),
    "a link without a name": (">Manual</a>", "></a>", "<a> has no name"),
    "a field without a label": ("</main>", "<input name=q></main>", "<input> has no name"),
    "a picture without a name": (
        ' role="group" aria-label="The last',
        ' role="group" data-x="',
        "<svg> has no name",
    ),
    "a picture that is not hidden": (
        'aria-hidden="true" focusable="false"><path',
        "><path",
        "neither a picture",
    ),
    "an id that is there twice": ('id="zone"', 'id="main"', "id 'main' is there 2 times"),
    "a label that is not there": (
        'id="keys-title"',
        'id="k"',
        "names 'keys-title', which is not there",
    ),
    "a level that is left out": (
        '<h2 id="chart-heading">Cost by day</h2>',
        '<h3 id="chart-heading">Cost by day</h3>',
        "h3 'Cost by day' follows h1",
    ),
    "a second h1": ('<h2 id="chart-heading">', '<h1 id="chart-heading">', "only h1"),
    "landmarks of one name": (
        'aria-label="What the chart shows"',
        'aria-label="Pages"',
        "2 landmarks navigation are named 'Pages'",
    ),
    "a region without a name": (
        ' role="region" aria-label="Who spends, by team"',
        ' role="region"',
        "a region without a name",
    ),
    "a row without its role": ('<tr role="row">', "<tr>", "1 <tr> of a table.nodes have no role"),
    "a table without headers": (
        "</main>",
        "<table><tr><td>1</td></tr></table></main>",
        "no header cell",
    ),
    "no language": ('lang="en"', 'lang=""', "no language"),
    "an attribute twice": ('<main id="main"', '<main id="main" id="m"', "<main> has id twice"),
    "an element that is not ended": (
        "</main>",
        "<div></main>",
        "<div> is not ended before </main>",
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(pages: dict[str, str], name: str) -> None:
    good, bad, said = PLANTED[name]
    page = pages["/"]
    if "level" in name:
        page = re.sub(
            r'<h2 id="(attention|next)-heading">(.*?)</h2>', r'<p id="\1-heading">\2</p>', page
        )
    assert good in page
    found = faults_of(page.replace(good, bad, 1))
    assert any(said in fault for fault in found), found


@SCHEMES
def test_colours_can_be_told_apart(scheme: int) -> None:
    assert faults_of_colours(CSS.read_text(), scheme) == []


@SCHEMES
@pytest.mark.parametrize("name", ["ink", "soft", "strong-rule", "c4"])
def test_a_planted_faint_colour_is_found(scheme: int, name: str) -> None:
    css = re.sub(
        rf"--{name}: light-dark\(.*?\);",
        f"--{name}: light-dark(#e4e8ea, #2a3238);",
        CSS.read_text(),
    )
    assert any(fault.startswith(f"--{name} on") for fault in faults_of_colours(css, scheme))


def test_the_theme_switch_reaches_every_colour() -> None:
    """A colour that follows the system alone would stay as it is when a reader picks a theme."""
    assert "prefers-color-scheme" not in CSS.read_text()


def hatches_of(page: str) -> dict[int, str]:
    """What is drawn over each place of a chart."""
    found = re.findall(r'<pattern id="texture-(\d)".*?/>\s*(.*?)\s*</pattern>', page, re.DOTALL)
    return {int(place): drawn for place, drawn in found}


@SCHEMES
def test_the_places_of_a_chart_differ_without_colours(pages: dict[str, str], scheme: int) -> None:
    hatches, css = hatches_of(pages["/"]), CSS.read_text()
    assert len(hatches) == 8
    assert faults_of_hatches(css, hatches, scheme) == []
    twins = {**hatches, 1: hatches[3]}
    same = re.sub(r"--c1: .*?;", re.search(r"--c3(: .*?;)", css)[1].join(["--c1", ""]), css)  # type: ignore[index]
    assert "places 1 and 3 look the same in grey" in faults_of_hatches(same, twins, scheme)
    faint = re.sub(
        r"--hatch: .*?;", "--hatch: light-dark(rgb(255 255 255 / 5%), rgb(15 20 23 / 5%));", css
    )
    assert "the hatch of place 0 can hardly be seen" in faults_of_hatches(faint, hatches, scheme)
