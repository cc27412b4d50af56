"""Sends forms of the dashboard as a browser does."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from fastapi.testclient import TestClient
from httpx2 import Response

BROWSER = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
"""The headers with which a browser sends a form of our own page."""


def hidden_fields(page: str) -> dict[str, str]:
    """The hidden fields of the form on a page."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page)
    return {unescape(name): unescape(value) for name, value in found}


def send_form(
    client: TestClient,
    path: str,
    *,
    opened: str = "",
    headers: Any = None,
    **typed: str,
) -> Response:
    """Open the page of a form, or `opened` in its place, fill it in and send it. The answer is not
    the page that a redirect leads to."""
    fields = hidden_fields(client.get(opened or path).text) | typed
    sent = BROWSER | (headers or {})
    return client.post(path, data=fields, headers=sent, follow_redirects=False)
