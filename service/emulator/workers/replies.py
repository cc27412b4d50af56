"""Replies of a metadata server to requests for a path of its tree, as Google documents them."""

from __future__ import annotations

import hashlib
import html
from dataclasses import dataclass
from urllib.parse import urlencode

from service.emulator.workers.tree import (
    Directory,
    Entry,
    Leaf,
    Lines,
    Query,
    TreeRefusal,
    as_json,
    as_lines,
    dump_json,
)

TEXT = "application/text"
JSON = "application/json"
HTML = "text/html; charset=UTF-8"
ROOT = "/computeMetadata/v1/"
# Paths above the tree need no header: clients use them to detect a metadata server.
ABOVE = {"/": "computeMetadata/\n", "/computeMetadata/": "v1/\n"}


@dataclass(frozen=True)
class Reply:
    status: int
    body: str
    content_type: str = TEXT
    etag: str = ""
    location: str = ""


def reply_above(path: str) -> Reply | None:
    """Return the reply for the two directories above the tree; None for every other path."""
    if path in ABOVE:
        return Reply(200, ABOVE[path])
    return _reply_redirect(path, {}) if path in {"/computeMetadata", ROOT.rstrip("/")} else None


def build_reply(tree: Directory, path: str, query: Query) -> Reply:
    """Return the reply to a GET for a path below `ROOT`."""
    entry = find_entry(tree, path)
    if entry is None:
        return not_found(path)
    if isinstance(entry, Leaf):
        return _reply_value(entry, query)
    return _reply_directory(entry, query) if path.endswith("/") else _reply_redirect(path, query)


def find_entry(tree: Directory, path: str) -> Entry | None:
    """Return the entry at a path, or the refused value above the path; None if there is none."""
    entry: Entry = tree
    names = [name for name in path.removeprefix(ROOT).split("/") if name]
    while names and isinstance(entry, Directory):
        found = entry.entries.get(names.pop(0))
        if found is None:
            return None
        entry = found
    if isinstance(entry, Directory) or not (names or path.endswith("/")):
        return entry
    is_refused = entry.recursive and isinstance(entry.value({}), TreeRefusal)
    return entry if is_refused else None


def _reply_value(leaf: Leaf, query: Query) -> Reply:
    value = leaf.value(query)
    if isinstance(value, TreeRefusal):
        return Reply(value.status, value.text, value.content_type)
    content = dump_json(as_json(leaf, query))
    if isinstance(value, dict) or _wants_json(query, default=query.get("recursive") == "true"):
        return Reply(200, content, JSON, _make_etag(content))
    if isinstance(value, Lines):
        return Reply(200, "".join(f"{item}\n" for item in value.items), TEXT, _make_etag(content))
    return Reply(200, content if isinstance(value, list) else str(value), TEXT, _make_etag(content))


def not_found(path: str) -> Reply:
    url = html.escape(path)
    return error_page(404, "Not Found", f"The requested URL <code>{url}</code> was not found.")


def error_page(status: int, title: str, text: str) -> Reply:
    """Return an error as an HTML page, as Google's servers do."""
    body = (
        f"<!DOCTYPE html>\n<html lang=en>\n<title>Error {status} ({title})!!1</title>\n"
        f"<p><b>{status}.</b> That's an error.\n<p>{text}\n"
    )
    return Reply(status, body, HTML)


def _reply_directory(directory: Directory, query: Query) -> Reply:
    everything = dump_json(as_json(directory, query))
    etag = _make_etag(everything)
    if query.get("recursive") == "true":
        if _wants_json(query, default=True):
            return Reply(200, everything, JSON, etag)
        return Reply(200, "".join(as_lines(directory, query)), TEXT, etag)
    names = directory.list_names()
    if _wants_json(query, default=False):
        return Reply(200, dump_json(names), JSON, etag)
    return Reply(200, "".join(f"{name}\n" for name in names), TEXT, etag)


def _wants_json(query: Query, *, default: bool) -> bool:
    return {"json": True, "text": False}.get(query.get("alt", ""), default)


def _reply_redirect(path: str, query: Query) -> Reply:
    """Redirect a client to the path with the slash of a directory, with its query."""
    suffix = f"?{urlencode(query)}" if query else ""
    return Reply(301, f"{path}/\n", HTML, location=f"{path}/{suffix}")


def _make_etag(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
