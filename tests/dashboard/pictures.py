"""Small grey pictures of pages, and where a page differs from its picture."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from playwright.sync_api import Page

MOST_PIXELS = 2_000
"""Of the height of a page: what is below is not compared."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_STEP = 8
"""Between two greys of a picture: fewer greys make smaller files."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A small picture of a page. `dots` are its greys, row by row, each the mean of a square of the
    page, and `page_height` is the height of the whole page in pixels."""

    width: int
    dots: bytes
    page_height: int

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.dots) // self.width

    def rows(self) -> Iterator[bytes]:
        """The rows, from the top."""
        for at in range(0, len(self.dots), self.width):
            yield self.dots[at : at + self.width]


SHRINK = """async ([png, block]) => {
    const answer = await fetch(`data:image/png;base64,${png}`);
    const image = await createImageBitmap(await answer.blob());
    const [columns, rows] = [Math.floor(image.width / block), Math.floor(image.height / block)];
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const means = [];
    for (let row = 0; row < rows; row += 1) {
        for (let column = 0; column < columns; column += 1) {
            let sum = 0;
            for (let y = row * block; y < (row + 1) * block; y += 1) {
                for (let x = column * block; x < (column + 1) * block; x += 1) {
                    const at = 4 * (y * image.width + x);
                    sum += (299 * data[at] + 587 * data[at + 1] + 114 * data[at + 2]) / 1000;
                }
            }
            means.push(Math.round(sum / block / block));
        }
    }
    return [columns, means];
}"""
"""Makes the dots of a picture, in a page without a policy that forbids it."""


def take_picture(page: Page, desk: Page, block: int) -> tuple[Picture, bytes]:
    """The small picture of a page, and its screenshot as a PNG file. `desk` is an empty page in
    which the picture is made, and `block` is the side of a dot's square in pixels."""
    size = page.evaluate(
        "[document.documentElement.clientWidth, document.documentElement.scrollHeight]"
    )
    width, height = size
    shot = page.screenshot(
        full_page=True,
        clip={"x": 0, "y": 0, "width": width, "height": min(height, MOST_PIXELS)},
        animations="disabled",
    )
    columns, means = desk.evaluate(SHRINK, [base64.b64encode(shot).decode(), block])
    dots = bytes(min(255, _STEP * round(mean / _STEP)) for mean in means)
    return Picture(columns, dots, height), shot


def take_steady_picture(page: Page, desk: Page, block: int) -> tuple[Picture, bytes]:
    """The same, once two pictures in a row are equal: Chromium leaves out what it has not drawn
    yet, which happens on very high pages on a busy machine. Raises AssertionError if no two are."""
    before, _ = take_picture(page, desk, block)
    for _ in range(MOST_TRIES):
        picture, shot = take_picture(page, desk, block)
        if picture == before:
            return picture, shot
        before = picture
    raise AssertionError("the page looks different each time")


def write_picture(picture: Picture, path: Path) -> None:
    """Write a picture as a grey PNG file, with the height of the page as a text in it."""
    rows = b"".join(b"\x00" + row for row in picture.rows())
    head = struct.pack(">IIBBBBB", picture.width, picture.height, 8, 0, 0, 0, 0)
    text = b"page-height\x00" + str(picture.page_height).encode()
    parts = ((b"IHDR", head), (b"tEXt", text), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    path.write_bytes(_SIGNATURE + b"".join(_chunk(*part) for part in parts))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read_picture(path: Path) -> Picture:
    """The picture in a file that `write_picture` wrote."""
    chunks = dict(_chunks(path.read_bytes()))
    width, _ = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = zlib.decompress(chunks[b"IDAT"])
    lines = [rows[at + 1 : at + 1 + width] for at in range(0, len(rows), width + 1)]
    return Picture(width, b"".join(lines), int(chunks[b"tEXt"].partition(b"\x00")[2]))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += length + 12


MOST_TRIES = 5

MOST_TALLER = 0.02
"""How much the height of a page may change, as a share of it."""

MOST_GREY = 8.0
"""The largest difference of the mean grey of a window, of 255. Letters that are drawn in another
way make up to 5, a column that is shifted makes 14."""

_SIDE = 6
"""Of a window, in dots: letters differ from one version of Chromium to the next, lines do not."""


def list_differences(before: Picture, after: Picture) -> list[str]:
    """What differs between two pictures of a page, each in a sentence. Empty if they look alike."""
    found = []
    taller = after.page_height / before.page_height - 1
    if abs(taller) > MOST_TALLER:
        found.append(f"the page is {taller:+.0%} taller")
    if before.width != after.width:
        return [*found, f"the page is {after.width} dots wide, not {before.width}"]
    grey, column, row = find_difference(before, after)
    if abs(grey) > MOST_GREY:
        found.append(f"at column {column} and row {row} of dots it is {grey:+.0f} of 255 lighter")
    return found


def find_difference(before: Picture, after: Picture) -> tuple[float, int, int]:
    """The largest difference of the mean grey of a window of two pictures of the same width, as far
    down as both go, with the column and the row where the window begins."""
    sums = [[0] * (before.width + 1)]
    for old, new in zip(before.rows(), after.rows(), strict=False):
        line = accumulate((b - a for a, b in zip(old, new, strict=True)), initial=0)
        sums.append([above + here for above, here in zip(sums[-1], line, strict=True)])
    greys = (
        (_mean_of_window(sums, column, row), column, row)
        for row in range(0, max(1, len(sums) - _SIDE), 2)
        for column in range(0, max(1, before.width + 1 - _SIDE), 2)
    )
    return max(greys, key=lambda one: abs(one[0]))


def _mean_of_window(sums: list[list[int]], column: int, row: int) -> float:
    right, below = min(column + _SIDE, len(sums[0]) - 1), min(row + _SIDE, len(sums) - 1)
    whole = sums[below][right] - sums[row][right] - sums[below][column] + sums[row][column]
    return whole / _SIDE / _SIDE
