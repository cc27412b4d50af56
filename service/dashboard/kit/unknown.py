"""Which callers get an HTML page for an address that does not exist. Others get a problem
document."""

from __future__ import annotations

HTML = "text/html"
_JSON = ("application/problem+json", "application/json")
_SHOWN = 100
"""The most characters of an address that the page repeats."""


def prefers_html(accept: str) -> bool:
    """Whether the `Accept` header names HTML, and JSON at most as its second choice.

    `*/*` alone is a program such as curl, which gets the problem document.
    """
    weights = {}
    for choice in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        named = dict(part.partition("=")[::2] for part in parameters)
        try:
            weights[media_type] = float(named.get("q", "1"))  # RFC 9110, 12.4.2
        except ValueError:
            weights[media_type] = 0.0
    html = weights.get(HTML, 0.0)
    return html > max(weights.get(media_type, 0.0) for media_type in _JSON)


def shorten_path(path: str) -> str:
    """The path as the page shows it: printable characters on one line, cut if it is long."""
    text = "".join(char if char.isprintable() else "\ufffd" for char in path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
