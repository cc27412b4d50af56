"""The last net: what nobody foresaw, in a line that says whose fault it is."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from service.cli.terminal.client import Unreachable, connected
from service.cli.terminal.failure import FAILED, Failure
from service.cli.terminal.render import complain
from service.domain.errors import StewardError

_FORESEEN = (Failure, StewardError, typer.Exit, typer.Abort, TyperException)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
"""What only the output fails with: no command writes anything else on this machine."""

_OURS = Path(__file__).parents[2]


@contextmanager
def foreseen(command: str) -> Iterator[None]:
    """Has a command that asks a service fail with Failure whatever happens, or as it should."""
    if sys.stdout is None:  # before anything is done of which nothing could be told
        raise Failure("there is no standard output to write to")
    try:
        yield
    except _FORESEEN:
        raise
    except OSError as error:
        if error.errno in (errno.EPIPE, *NO_ROOM):
            raise
        raise Failure(f"{command} failed: {error}") from None
    except Exception as error:  # noqa: BLE001 - nobody is to read a traceback; the line says where
        raise _told(command, error) from None


def _told(command: str, error: Exception) -> Failure:
    """Whose fault it is: that of another program at that address, or ours."""
    try:
        with connected() as client:
            client.check()
    except Unreachable:
        pass
    except Failure as failure:
        return failure
    return Failure(
        f"{command} failed: {type(error).__name__}: {str(error)[:200]} ({_place(error)})",
        "this is a bug, unless the service has another version: please report it",
    )


def _place(error: Exception) -> str:
    """Where in this program it happened: `cli/nodes.py, line 7`."""
    frames = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    ours = [(path, line) for path, line in frames if path.is_relative_to(_OURS)]
    path, line = (ours or frames)[-1]
    shown = path.relative_to(_OURS) if ours else path.name
    return f"{shown}, line {line}"


def give_up(error: OSError) -> NoReturn:
    """End the program: what it has to say cannot be written."""
    with suppress(OSError):
        complain(f"the output cannot be written: {error.strerror or error}")
    with suppress(OSError):  # or else it would be tried once more at the end
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
    sys.exit(FAILED)
