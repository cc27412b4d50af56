"""Theme, times and shortcuts: cookies keep them, and nothing else gets into a page."""

from __future__ import annotations

import re
from html import unescape

import pytest
from fastapi.testclient import TestClient

from service.dashboard.kit.preferences import Preferences, local_address, read_preferences
from service.dashboard.kit.refresh import refresh_seconds


@pytest.mark.parametrize(
    ("cookies", "found"),
    [
        ({}, Preferences("auto", "utc", "on")),
        ({"steward_theme": "dark"}, Preferences("dark", "utc", "on")),
        ({"steward_times": "local", "steward_keys": "off"}, Preferences("auto", "local", "off")),
        ({"steward_theme": '"><script>', "steward_times": ""}, Preferences("auto", "utc", "on")),
    ],
)
def test_cookies_choose_among_what_is_known(cookies: dict[str, str], found: Preferences) -> None:
    assert read_preferences(cookies) == found


@pytest.mark.parametrize(
    ("address", "led_to"),
    [
        ("/", "/"),
        ("/costs?window=7d&filter=team:a b", "/costs?window=7d&filter=team:a b"),
        ("//elsewhere.example/", "/"),
        ("/\\elsewhere.example/", "/"),
        ("/\t/elsewhere.example/", "/"),
        ("https://elsewhere.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_the_way_back_never_leads_to_another_site(address: str, led_to: str) -> None:
    assert local_address(address) == led_to


def test_a_choice_is_kept_and_leads_back_to_the_page(browser: TestClient) -> None:
    path = "/costs?window=7d&aggregate=team&aggregate=owner"
    page = browser.get(path)
    assert 'data-theme="auto"' in page.text
    [dark] = re.findall(r'href="(/view\?theme=dark[^"]*)"', page.text)
    answer = browser.get(unescape(dark), follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=31536000" in cookie
    again = browser.get(path).text
    assert 'data-theme="dark"' in again
    assert '<meta name="color-scheme" content="dark">' in again
    assert 'aria-current="true">Dark</a>' in again


def test_an_unknown_choice_changes_nothing(browser: TestClient) -> None:
    answer = browser.get("/view?theme=pink&back=//elsewhere.example", follow_redirects=False)
    assert answer.headers["location"] == "/"
    assert "set-cookie" not in answer.headers


def test_pages_are_asked_for_again_as_often_as_they_change() -> None:
    fast = {"/": 5, "/nodes/n": 5, "/jobs": 5, "/budgets": 30, "/prices": 0, "/manual/jobs": 0}
    assert {path: refresh_seconds(path) for path in fast} == fast
