"""Pages of a lab, served on loopback and opened in a real Chromium."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page

from tests.dashboard.lab import Lab

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_PATIENCE = 120_000
"""Milliseconds for a page to load, on a machine that is busy with others."""

_REFUSED = "Failed to load resource: the server responded with a status of "


@contextmanager
def served(lab: Lab | None, app: FastAPI | None = None) -> Iterator[str]:
    """The address of the dashboard of a lab, or of an app in its place, while it is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    shown = app if lab is None else app or lab.app()
    assert shown is not None
    server = uvicorn.Server(uvicorn.Config(shown, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@dataclass
class Watch:
    """What a page did that it should not have."""

    complaints: list[str] = field(default_factory=list)
    may_refuse: bool = False
    """Whether a page may have an error status, of which Chromium complains as well."""

    def over(self, page: Page) -> None:
        """Watch a page."""
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))

    def _heard(self, kind: str, text: str) -> None:
        if self.may_refuse and text.startswith(_REFUSED):
            return
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith("http://127.0.0.1:"):
            self.complaints.append(f"asked for {url}")


@contextmanager
def opened(
    chromium: Browser,
    scheme: str = "light",
    width: int = 1_280,
    *,
    may_refuse: bool = False,
    **options: Any,
) -> Iterator[Page]:
    """A page of its own context, which must not complain or ask another host for anything. With
    `may_refuse`, pages with an error status are no complaint. `options` are more options of the
    context, such as `java_script_enabled`."""
    context = chromium.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 900},
        **options,
    )
    watch = Watch(may_refuse=may_refuse)
    page = context.new_page()
    page.set_default_navigation_timeout(_PATIENCE)
    watch.over(page)
    yield page
    context.close()
    assert not watch.complaints, watch.complaints
