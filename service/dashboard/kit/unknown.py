"""Who gets a page, and not a problem document, for an address that does not exist."""

from __future__ import annotations

HTML = "text/html"
_JSON = ("application/problem+json", "application/json")
_SHOWN = 100
"""Characters of an address that the page repeats."""


def prefers_html(accept: str) -> bool:
    """Whether the `Accept` header names HTML, and JSON at most as its second choice.

    `*/*` alone is a program such as curl, which gets the problem document.
    """
    weights = dict(map(_weight, accept.lower().split(",")))
    html = weights.get(HTML, 0.0)
    return html > max(weights.get(one, 0.0) for one in _JSON)


def _weight(choice: str) -> tuple[str, float]:
    """A media type of `Accept` with its weight (RFC 9110, 12.4.2). Weight 0 if it is no number."""
    media_type, *parameters = (part.strip() for part in choice.split(";"))
    named = dict(part.partition("=")[::2] for part in parameters)
    try:
        return media_type, float(named.get("q", "1"))
    except ValueError:
        return media_type, 0.0


def shown(path: str) -> str:
    """The address as the page shows it: one line, cut if it is long."""
    text = "".join(one if one.isprintable() else "\ufffd" for one in path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
