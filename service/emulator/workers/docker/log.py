"""The log of a container: the lines of its process, bounded by `--log-opt`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from service.emulator.workers.docker.clock import now_ns

# Docker reads a line in pieces of this size; only the last piece ends with a line feed.
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
    """The size limit of one log file in bytes, and the number of kept files.

    Docker has no limit by default. The stand-in has a limit, because it uses this machine's disk.
    """

    size: int = 50 * 1024**2
    files: int = 2


def bounds_of(options: Mapping[str, str]) -> Bounds:
    """Return the bounds in `max-size` and `max-file`. Raises ValueError with docker's text."""
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
    """The unfinished line of one of the two outputs."""

    letter: str
    begun: bytes = b""
    began_at: int = 0
    """The time of the line's first piece; 0 before the first piece."""

    def split_records(self, data: bytes, stamp: Iterator[int]) -> Iterator[bytes]:
        """Yield the log records of new data; empty data is the end of the output."""
        *lines, self.begun = (self.begun + data).split(b"\n")
        for line in lines:
            yield from self._list_pieces(line, stamp)
            at = self.began_at or next(stamp)
            yield b"%d %s. %s\n" % (at, self.letter.encode(), self._last_piece(line))
            self.began_at = 0
        yield from self._list_pieces(self.begun, stamp)
        self.begun = self._last_piece(self.begun)
        if not data and (self.begun or self.began_at):
            yield b"%d %s. %s\n" % (
                self.began_at or next(stamp),
                self.letter.encode(),
                self.begun,
            )
            self.begun, self.began_at = b"", 0

    def _list_pieces(self, line: bytes, stamp: Iterator[int]) -> Iterator[bytes]:
        for start in range(0, len(line) - PIECE + 1, PIECE):
            self.began_at = self.began_at or next(stamp)
            piece = line[start : start + PIECE]
            yield b"%d %s+ %s\n" % (self.began_at, self.letter.encode(), piece)

    @staticmethod
    def _last_piece(line: bytes) -> bytes:
        return line[len(line) // PIECE * PIECE :]


@dataclass
class Writer:
    """Appends to a log, and deletes its oldest file when there are too many."""

    path: Path
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        self._file = self.path.open("ab", buffering=0)
        self._stamps = _make_stamps()
        self._streams = {letter: OutputStream(letter) for letter in STREAMS}

    def write_output(self, letter: str, data: bytes) -> None:
        """Write new data of an output; empty data is its end."""
        waiting: list[bytes] = []
        room = 0 if self._file.closed else self.bounds.size - self._file.tell()
        for record in self._streams[letter].split_records(data, self._stamps):
            waiting.append(record)
            room -= len(record)
            if room <= 0:  # docker checks the size after each entry
                self._write_records(waiting)
                self._rotate_files()
                waiting, room = [], self.bounds.size
        self._write_records(waiting)

    def _write_records(self, records: list[bytes]) -> None:
        if records and not self._file.closed:
            self._file.write(b"".join(records))

    def close(self) -> None:
        self._file.close()

    def _rotate_files(self) -> None:
        if self._file.closed:
            return
        self._file.close()
        for number in range(self.bounds.files - 1, 0, -1):
            older = self.path if number == 1 else _numbered_path(self.path, number - 1)
            with suppress(FileNotFoundError):
                older.replace(_numbered_path(self.path, number))
        # A container that was removed has no log any more.
        with suppress(FileNotFoundError):
            self.path.unlink(missing_ok=True)
            self._file = self.path.open("ab", buffering=0)


class Reader:
    """Reads a log from its oldest file on, and continues where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._finished = False
        self._begun = b""

    def read_entries(self) -> Iterator[ContainerLogEntry]:
        """Yield the entries that were written since the last call."""
        while (self._file is not None and not self._finished) or self._open_next():
            assert self._file is not None
            # The check for a successor comes before the read to the end of the file.
            self._finished = not _is_same_file(self._path, self._file)
            while data := self._file.read(1 << 20):
                *records, self._begun = (self._begun + data).split(b"\n")
                for record in records:
                    at, _, rest = record.partition(b" ")
                    kind, _, text = rest.partition(b" ")
                    yield ContainerLogEntry(int(at), STREAMS[chr(kind[0])], text, kind[1:2] == b".")
            if not self._finished:
                return

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open_next(self) -> bool:
        """Open the file after the finished file, or the oldest file if that is gone."""
        older = [
            path
            for path in self._path.parent.glob(f"{self._path.name}.*")
            if path.suffix[1:].isdecimal()
        ]
        files = [*sorted(older, key=lambda path: -int(path.suffix[1:])), self._path]
        read = [index for index, path in enumerate(files) if _is_same_file(path, self._file)]
        for path in files[read[-1] + 1 :] if read else files:
            with suppress(FileNotFoundError):
                following = path.open("rb")
                # Closed after the open, so that the new file cannot reuse the old inode.
                self.close()
                self._file, self._finished, self._begun = following, False, b""
                return True
        return False


def _make_stamps() -> Iterator[int]:
    """Yield the present moment, always later than the last, so that lines keep their order."""
    latest = 0
    while True:
        latest = max(now_ns(), latest + 1)
        yield latest


def _numbered_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _is_same_file(path: Path, file: BinaryIO | None) -> bool:
    if file is None:
        return False
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
