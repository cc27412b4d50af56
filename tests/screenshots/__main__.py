"""Makes the pictures of the README and of the manual from the demo, in a real Chromium.

`python -m tests.screenshots` starts a demo of its own, and ends it. With an address, such as
`python -m tests.screenshots http://127.0.0.1:8080`, the pictures are of the demo that runs there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "service" / "manual"
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu")
FREE_PORTS = {
    "STEWARD_PORT": "0",
    "STEWARD_EMULATOR": "127.0.0.1:0",
    "STEWARD_EMULATOR_REST": "127.0.0.1:0",
}
DOUBT_SECONDS = 90
"""How long a new demo may say that its page is out of date."""

_DASHBOARD = re.compile(r"^Dashboard: (http://\S+?)/?$")


@dataclass(frozen=True, slots=True)
class Picture:
    """A page as it is shown in a file of the manual. Sizes are in pixels."""

    file: str
    path: str
    width: int = 1_280
    height: int = 890
    scheme: str = "light"


PICTURES = (
    Picture("overview.png", "/"),
    Picture("costs.png", "/costs?window=mtd&aggregate=team", height=1_180),
)
"""All pictures. A large one makes every clone of the repository larger."""


def main(arguments: list[str]) -> int:
    """Make all pictures. Returns the exit code of the process."""
    if arguments and urlsplit(arguments[0]).hostname not in {"127.0.0.1", "localhost"}:
        print("Give the address of a demo on this machine.", file=sys.stderr)
        return 2
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("No chromium is installed here: the pictures stay as they are.", file=sys.stderr)
        return 1
    demo = nullcontext(arguments[0].rstrip("/")) if arguments else started_demo()
    with demo as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        for picture in PICTURES:
            size = take_picture(browser, address, picture, FOLDER)
            print(f"{picture.file}: {size // 1_000} kB")
        browser.close()
    return 0


def take_picture(browser: Browser, address: str, picture: Picture, folder: Path) -> int:
    """Write a picture into a folder. Returns its size in bytes."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    answer = page.goto(f"{address}{picture.path}")
    if answer is None or not answer.ok:
        raise SystemExit(f"{address}{picture.path} cannot be shown")
    page.get_by_role("status").filter(has_text="live").wait_for()
    doubt = page.get_by_text("may be out of date")  # until the daemon has polled the cloud
    doubt.wait_for(state="detached", timeout=DOUBT_SECONDS * 1_000)
    page.screenshot(path=folder / picture.file)
    context.close()
    return (folder / picture.file).stat().st_size


@contextmanager
def started_demo() -> Iterator[str]:
    """The address of a new demo with its state in a temporary folder. The demo ends at the end."""
    print("Living through the demo, which takes a minute or two.", flush=True)
    environment = {**os.environ, **FREE_PORTS, "PYTHONPATH": str(ROOT)}
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-m", "service.cli", "demo"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as demo,
    ):
        try:
            assert demo.stdout is not None
            found = (_DASHBOARD.match(line.strip()) for line in demo.stdout)
            yield next(picture[1] for picture in found if picture)
        except StopIteration:
            raise SystemExit("the demo ended before it was ready") from None
        finally:
            demo.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
