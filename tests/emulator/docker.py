"""The stand-in for docker, called from a test as a program on a worker would call it."""

from __future__ import annotations

import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from service.emulator.workers.docker.cli import carry_out
from service.emulator.workers.docker.containers import Store
from service.emulator.workers.path_shims import python_command


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Docker:
    """The stand-in on a worker without an emulator, where time goes as it goes."""

    root: Path
    extra: tuple[tuple[str, str], ...] = ()
    boot: str = "1"

    def __call__(self, *args: str, **env: str) -> Said:
        """Run it as a worker would; where that makes no difference, without another process."""
        attended = args[:1] == ("run",) and not {"-d", "--detach"} & set(args)
        if not (attended or env or self.extra):
            with redirect_stdout(_stream()) as out, redirect_stderr(_stream()) as err:
                code = carry_out(list(args), Store(self.root, self.boot))
            return Said(code, _written(out), _written(err))
        with self.started(*args, **env) as process:
            out, err = process.communicate()
        return Said(process.returncode, out, err)

    def started(self, *args: str, **env: str) -> Any:
        told = {"EMULATOR_DOCKER": str(self.root), "EMULATOR_BOOT": self.boot, **dict(self.extra)}
        return subprocess.Popen(
            [*python_command("docker.cli"), *args],
            env={**told, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
        )

    def end(self) -> None:
        """Remove every container."""
        ids = self("ps", "-aq").out.split()
        if ids:
            self("rm", "-f", *ids)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and was not asked for yet does not."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def _stream() -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), encoding="utf-8", errors="surrogateescape")


def _written(stream: Any) -> str:
    stream.flush()
    return str(stream.buffer.getvalue().decode(errors="surrogateescape"))
