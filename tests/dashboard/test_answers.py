"""How pages are sent: compressed, once, and static files for a year."""

from __future__ import annotations

import gzip
import json
import random
import re

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import Headers

from service.dashboard.answers import (
    AS_OF_HEADER,
    SMALLEST_BYTES,
    RecentPages,
    digest_page,
    list_changes,
    may_compress,
)
from service.domain.clock import DAY, to_rfc3339
from tests.dashboard.lab import Lab
from tests.hands import NOON


def ask(browser: TestClient, path: str = "/", **headers: str) -> Headers:
    """The headers of an answer, and its status as `status`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = browser.get(path, headers=named)
    return Headers({**answer.headers, "status": str(answer.status_code)})


def test_a_page_is_compressed_to_a_fraction(lab: Lab, browser: TestClient) -> None:
    lab.lives_a_month()
    with browser.stream("GET", "/", headers={"Accept-Encoding": "br, gzip"}) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(sent)
    page = browser.get("/", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in page.headers
    assert gzip.decompress(sent) == page.content
    assert len(sent) * 4 < len(page.content)


@pytest.mark.parametrize(
    ("accepted", "site", "compressed"),
    [
        ("gzip, deflate, br", None, True),
        ("gzip, deflate, br", "same-origin", True),
        ("gzip, deflate, br", "none", True),
        ("gzip, deflate, br", "cross-site", False),
        ("gzip, deflate, br", "same-site", False),
        ("deflate, gzip;q=0.5", None, True),
        ("gzip;q=0, br", None, False),
        ("gzip; q=0.0", None, False),
        ("br", None, False),
        ("", None, False),
    ],
)
def test_only_a_caller_that_can_read_it_and_is_no_other_site_gets_it_compressed(
    accepted: str, site: str | None, compressed: bool
) -> None:
    """Another site could learn from the length what is in the page (BREACH)."""
    asked = {"accept-encoding": accepted} | ({"sec-fetch-site": site} if site else {})
    assert may_compress(Headers(asked)) is compressed


def test_a_page_that_did_not_change_is_not_sent_again(lab: Lab, browser: TestClient) -> None:
    lab.ran(NOON - 7_200, NOON - 3_600)
    lab.clock.pass_(1)
    first = ask(browser)
    assert first[AS_OF_HEADER] == to_rfc3339(NOON + 1)
    lab.clock.pass_(5)
    again = ask(browser, If_None_Match=first["etag"])
    assert (again["status"], again["etag"]) == ("304", first["etag"])
    assert again[AS_OF_HEADER] == to_rfc3339(NOON + 6)
    assert again["cache-control"] == "no-store"
    lab.ran(lab.clock.now - 1)
    changed = ask(browser, If_None_Match=first["etag"])
    assert changed["status"] == "200"
    assert changed["etag"] != first["etag"]


def test_a_page_of_a_node_that_costs_money_changes_by_the_second(
    lab: Lab, browser: TestClient
) -> None:
    path = f"/nodes/{lab.ran(NOON - 7_200, accelerator_type='v5litepod-64', chips=64).id}"
    first = ask(browser, path)
    lab.clock.pass_(1)
    assert ask(browser, path, If_None_Match=first["etag"])["status"] == "200"


def test_the_form_of_the_page_of_nodes_is_no_change(lab: Lab, browser: TestClient) -> None:
    lab.asked_for()
    lab.clock.pass_(2 * DAY)
    lab.looked_at()
    first = ask(browser, "/nodes")
    assert "form_token" in browser.get("/nodes").text
    lab.clock.pass_(1)
    assert ask(browser, "/nodes", If_None_Match=first["etag"])["status"] == "304"


def test_the_choice_of_a_theme_is_a_change(lab: Lab, browser: TestClient) -> None:
    first = ask(browser)
    assert ask(browser, If_None_Match=first["etag"])["status"] == "304"
    assert "Cookie" in first["vary"]
    dark = ask(browser, If_None_Match=first["etag"], Cookie="steward_theme=dark")
    assert dark["status"] == "200"


@pytest.mark.parametrize("path", ["/nodes/none", "/costs?window=5y", "/nowhere"])
def test_a_page_that_says_why_there_is_none_keeps_its_status(
    browser: TestClient, path: str
) -> None:
    answer = browser.get(path, headers={"If-None-Match": "*", "Accept": "text/html"})
    assert answer.status_code in {404, 422}
    assert "etag" not in answer.headers


AS_OF = '<span id="as-of" data-live>as of <time datetime="A" title="A">A</time></span>'


@pytest.mark.parametrize(
    ("body", "same"),
    [
        (AS_OF + 'month, as of <time datetime="A" title="a">a</time>', True),
        (AS_OF + 'born <time datetime="A" title="a">a</time>', False),
        (AS_OF + 'bill as of <time datetime="B" title="b">b</time>', False),
    ],
)
def test_only_the_time_of_the_page_itself_is_no_change(body: str, same: bool) -> None:
    later = body.replace("A", "L").replace(">a<", ">l<").replace("B", "C")
    assert (digest_page(body.encode()) == digest_page(later.encode())) is same


def test_static_files_are_kept_for_a_year_under_the_address_of_their_content(
    browser: TestClient,
) -> None:
    for address in set(re.findall(r'"(/static/[^"]*)', browser.get("/").text)):
        kept = ask(browser, address)
        assert kept["cache-control"] == "public, max-age=31536000, immutable"
        if int(kept["content-length"]) >= SMALLEST_BYTES:
            assert kept["content-encoding"] == "gzip"
        for other in (address[:-1], address.partition("?")[0], f"{address}&v=1"):
            assert ask(browser, other)["cache-control"] == "no-cache"
    assert ask(browser, "/static/none?v=1")["status"] == "404"


def apply(changes: list[str | tuple[int, int]], before: str) -> str:
    """The newer page, as the script makes it."""
    old = before.split("\n")
    parts = [
        [change] if isinstance(change, str) else old[change[0] : sum(change)] for change in changes
    ]
    return "\n".join(line for part in parts for line in part)


@pytest.mark.parametrize("seed", range(20))
def test_changes_make_the_newer_page_out_of_the_older_one(seed: int) -> None:
    luck = random.Random(seed)
    before = [luck.choice("abcdefghij\u00e9\u2028") * luck.randrange(3) for _ in range(60)]
    after = before[luck.randrange(20) :] + ["new"] * luck.randrange(3)
    for _ in range(luck.randrange(20)):
        after[luck.randrange(len(after))] = luck.choice(["x", "", before[0]])
    old, new = "\n".join(before), "\n".join(after)
    assert apply(list_changes(old.encode(), new.encode()), old) == new


def test_a_time_of_the_page_is_never_taken_from_an_older_page() -> None:
    """The caller may have the page of another second under the same tag."""
    body = f"first\n{AS_OF}\nlast".encode()
    assert list_changes(body, body) == [(0, 1), AS_OF, (2, 1)]


def test_a_caller_that_has_a_page_gets_its_changes(lab: Lab, browser: TestClient) -> None:
    lab.lives_a_month()
    asked = {"A-IM": "lines", "Accept-Encoding": "identity"}
    first = browser.get("/", headers=asked)
    assert first.status_code == 200
    lab.clock.pass_(5)
    page = browser.get("/")
    answer = browser.get("/", headers={**asked, "If-None-Match": first.headers["etag"]})
    assert (answer.status_code, answer.headers["im"]) == (226, "lines")
    assert answer.headers["etag"] == page.headers["etag"]
    assert answer.headers["cache-control"] == "no-store"
    changes = [
        item if isinstance(item, str) else (item[0], item[1]) for item in json.loads(answer.text)
    ]
    assert apply(changes, first.text) == page.text
    assert len(answer.content) * 4 < len(page.content)
    unknown = browser.get("/", headers={**asked, "If-None-Match": 'W/"none"'})
    assert (unknown.status_code, unknown.text) == (200, page.text)


def test_pages_are_kept_while_there_is_room() -> None:
    recent = RecentPages(100)
    for tag in "abc":
        recent.keep(tag, tag.encode() * 40)
        recent.keep(tag, tag.encode() * 40)
    assert [recent.find([tag]) is not None for tag in "abc"] == [False, True, True]
    assert recent.find(["none", "c"]) == b"c" * 40
    recent.keep("large", b"x" * 101)
    assert recent.find(["large", "b", "c"]) is None
