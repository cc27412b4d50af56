"""The log of a container: what its process wrote, line by line, bounded by `--log-opt`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from service.emulator.workers.docker.clock import now_ns

# Docker reads a line in pieces of this size; only the last one ends with a line feed.
PIECE = 16 * 1024
SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
STREAMS = {"o": "stdout", "e": "stderr"}


class ContainerLogEntry(NamedTuple):
    """One line, or one piece of a long line; all pieces of a line have the time of the first."""

    at: int
    stream: str
    text: bytes
    whole: bool


@dataclass(frozen=True)
class Bounds:
    """How large one file of a log may become, in bytes, and how many files are kept.

    Docker has no bound by default. The stand-in has one, because the disk is this machine's.
    """

    size: int = 50 * 1024**2
    files: int = 2


def bounds_of(options: Mapping[str, str]) -> Bounds:
    """Read `max-size` and `max-file`; raises ValueError in docker's words."""
    if "max-size" not in options:
        return Bounds()
    size = SIZE.fullmatch(options["max-size"])
    files = options.get("max-file", "1")
    if size is None:
        raise ValueError(f"invalid size: '{options['max-size']}'")
    if not files.isdecimal() or int(files) < 1:
        raise ValueError("max-file cannot be less than 1")
    return Bounds(max(int(size[1]) * UNITS[size[2].lower()], 1), int(files))


@dataclass
class OutputStream:
    """What one of the two outputs has begun to write."""

    letter: str
    begun: bytes = b""
    began_at: int = 0
    """The time of the line's first piece; 0 if no piece was written yet."""

    def take(self, data: bytes, stamp: Iterator[int]) -> Iterator[bytes]:
        """Turn what was read into records of the log; nothing read is the end of the output."""
        *lines, self.begun = (self.begun + data).split(b"\n")
        for line in lines:
            yield from self._pieces(line, stamp)
            at = self.began_at or next(stamp)
            yield b"%d %s. %s\n" % (at, self.letter.encode(), self._rest(line))
            self.began_at = 0
        yield from self._pieces(self.begun, stamp)
        self.begun = self._rest(self.begun)
        if not data and (self.begun or self.began_at):
            yield b"%d %s. %s\n" % (
                self.began_at or next(stamp),
                self.letter.encode(),
                self.begun,
            )
            self.begun, self.began_at = b"", 0

    def _pieces(self, line: bytes, stamp: Iterator[int]) -> Iterator[bytes]:
        for start in range(0, len(line) - PIECE + 1, PIECE):
            self.began_at = self.began_at or next(stamp)
            piece = line[start : start + PIECE]
            yield b"%d %s+ %s\n" % (self.began_at, self.letter.encode(), piece)

    @staticmethod
    def _rest(line: bytes) -> bytes:
        return line[len(line) // PIECE * PIECE :]


@dataclass
class Writer:
    """Appends to a log; the oldest file goes when there are more than allowed."""

    path: Path
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        self._file = self.path.open("ab", buffering=0)
        self._stamps = _stamps()
        self._streams = {letter: OutputStream(letter) for letter in STREAMS}

    def take(self, letter: str, data: bytes) -> None:
        """Write what was read from an output; nothing read is its end."""
        waiting: list[bytes] = []
        room = 0 if self._file.closed else self.bounds.size - self._file.tell()
        for record in self._streams[letter].take(data, self._stamps):
            waiting.append(record)
            room -= len(record)
            if room <= 0:  # after each entry, as docker does, however much was read at once
                self._write(waiting)
                self._rotate()
                waiting, room = [], self.bounds.size
        self._write(waiting)

    def _write(self, records: list[bytes]) -> None:
        if records and not self._file.closed:
            self._file.write(b"".join(records))

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        if self._file.closed:
            return
        self._file.close()
        for number in range(self.bounds.files - 1, 0, -1):
            older = self.path if number == 1 else _numbered(self.path, number - 1)
            with suppress(FileNotFoundError):
                older.replace(_numbered(self.path, number))
        # A container that was removed has no log any more.
        with suppress(FileNotFoundError):
            self.path.unlink(missing_ok=True)
            self._file = self.path.open("ab", buffering=0)


class Reader:
    """Reads a log from its oldest file on, and goes on where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._finished = False
        self._begun = b""

    def entries(self) -> Iterator[ContainerLogEntry]:
        """Give what was written since the last look."""
        while (self._file is not None and not self._finished) or self._open_next():
            # Whether the file has a successor is asked before its end is read.
            self._finished = self._is_replaced()
            yield from self._read()
            if not self._finished:
                return

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _read(self) -> Iterator[ContainerLogEntry]:
        assert self._file is not None
        while data := self._file.read(1 << 20):
            *records, self._begun = (self._begun + data).split(b"\n")
            yield from map(_entry, records)

    def _is_replaced(self) -> bool:
        return self._file is not None and not _is_same(self._path, self._file)

    def _open_next(self) -> bool:
        """Open the file after the one that was read, the oldest if that one is gone."""
        files = _files(self._path)
        read = [index for index, each in enumerate(files) if _is_same(each, self._file)]
        for path in files[read[-1] + 1 :] if read else files:
            with suppress(FileNotFoundError):
                following = path.open("rb")
                # Not before: a new file must not get the number of the one that was read.
                self.close()
                self._file, self._finished, self._begun = following, False, b""
                return True
        return False


def _entry(record: bytes) -> ContainerLogEntry:
    head, _, text = record.partition(b" ")
    kind, _, text = text.partition(b" ")
    return ContainerLogEntry(int(head), STREAMS[chr(kind[0])], text, kind[1:2] == b".")


def _stamps() -> Iterator[int]:
    """Give the present moment, later each time, so that lines keep their order."""
    latest = 0
    while True:
        latest = max(now_ns(), latest + 1)
        yield latest


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _files(path: Path) -> list[Path]:
    """List the files of a log, the oldest first."""
    older = [each for each in path.parent.glob(f"{path.name}.*") if each.suffix[1:].isdecimal()]
    return [*sorted(older, key=lambda each: -int(each.suffix[1:])), path]


def _is_same(path: Path, file: BinaryIO | None) -> bool:
    if file is None:
        return False
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
