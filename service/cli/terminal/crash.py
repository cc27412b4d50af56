"""Unexpected errors of a command, reported in a line instead of a traceback."""

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

from service.cli.terminal.client import Unreachable, open_client
from service.cli.terminal.errors import FAILED, Failure
from service.cli.terminal.render import print_errors
from service.domain.errors import StewardError

_FORESEEN = (Failure, StewardError, typer.Exit, typer.Abort, TyperException)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
"""Error numbers of a failed output. Commands write nothing else on this machine."""

_OURS = Path(__file__).parents[2]


@contextmanager
def explain_crashes(command: str) -> Iterator[None]:
    """Turns every unexpected error of a command into Failure. Expected errors pass."""
    if sys.stdout is None:  # checked first: a change whose result cannot be printed is not made
        raise Failure("there is no standard output to write to")
    try:
        yield
    except _FORESEEN:
        raise
    except OSError as error:
        if error.errno in (errno.EPIPE, *NO_ROOM):
            raise
        raise Failure(f"{command} failed: {error}") from None
    except Exception as error:  # noqa: BLE001 - a user is not to read a traceback
        raise _explain_crash(command, error) from None


def _explain_crash(command: str, error: Exception) -> Failure:
    """Failure that blames the other program at the address of the service, else this program.

    It shows the last line of this program in the traceback: `cli/nodes/nodes.py, line 7`.
    """
    try:
        with open_client() as client:
            client.check_service()
    except Unreachable:
        pass
    except Failure as failure:
        return failure
    frames = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    ours = [(path, line) for path, line in frames if path.is_relative_to(_OURS)]
    path, line = (ours or frames)[-1]
    place = f"{path.relative_to(_OURS) if ours else path.name}, line {line}"
    return Failure(
        f"{command} failed: {type(error).__name__}: {str(error)[:200]} ({place})",
        "this is a bug, unless the service has another version: please report it",
    )


def give_up(error: OSError) -> NoReturn:
    """End the program after an error of its output."""
    with suppress(OSError):
        print_errors(f"the output cannot be written: {error.strerror or error}")
    with suppress(OSError):  # else the interpreter would flush them once more at its end
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
    sys.exit(FAILED)
