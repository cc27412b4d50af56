"""`make mutations`: make one mistake at a time in a copy, and see whether the nearest tests fail.

`python -m tests.mutations` runs all of them, `python -m tests.mutations NAME ...` those that are
named.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutations.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("service", "tests", "migrations", "pyproject.toml")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not deep")
TIMEOUT_SECONDS = 120
LEAST_PERCENT = 90
"""The share of mutations that must be found."""

PASSED, FAILED, BROKEN = 0, 1, 2
"""The exit codes of pytest: all passed, a test failed, a file of tests cannot be loaded."""


def main(wanted: Sequence[str]) -> int:
    """Run the mutations that are named, or all; 1 when too few are found, 2 when none was run."""
    unknown = sorted(set(wanted) - {mutation.name for mutation in MUTATIONS})
    if unknown:
        print(f"no mutation is named {', '.join(map(repr, unknown))}", file=sys.stderr)
        return 2
    chosen = [mutation for mutation in MUTATIONS if not wanted or mutation.name in wanted]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        _copy_project(copy)
        tests = dict.fromkeys(path for mutation in chosen for path in mutation.tests)
        if not _pass_unchanged(copy, tests):
            print("the tests fail without a mutation, so they show nothing", file=sys.stderr)
            return 2
        found = sum(_try_mutation(copy, mutation) for mutation in chosen)
    print(f"{found} of {len(chosen)} are found")
    return 0 if 100 * found >= LEAST_PERCENT * len(chosen) else 1


def _copy_project(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy2(source, copy / name)


def _pass_unchanged(copy: Path, tests: Iterable[str]) -> bool:
    finished = subprocess.run(
        _build_command(tests), cwd=copy, env=_build_environment(copy), check=False
    )
    return finished.returncode == PASSED


def _try_mutation(copy: Path, mutation: Mutation) -> bool:
    """Make the mistake in the copy, run its tests, and take it back; returns whether a test
    failed."""
    path = copy / "service" / mutation.file
    source, began = path.read_text(encoding="utf-8"), time.monotonic()
    _write_module(path, mutation.apply_to(source))
    try:
        is_found = _fails(copy, mutation)
    finally:
        _write_module(path, source)
    seconds = time.monotonic() - began
    print(f"{'found' if is_found else 'LIVES'}  {mutation.name}  {seconds:.1f} s", flush=True)
    return is_found


def _fails(copy: Path, mutation: Mutation) -> bool:
    """Whether a test fails. Tests that hang have failed."""
    try:
        finished = subprocess.run(
            _build_command(mutation.tests),
            cwd=copy,
            env=_build_environment(copy),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    if finished.returncode not in (PASSED, FAILED, BROKEN):
        raise RuntimeError(f"{mutation.name}: pytest did not run\n{finished.stdout}")
    return finished.returncode != PASSED


def _build_command(tests: Iterable[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *OPTIONS, *(f"tests/{path}" for path in tests)]


def _build_environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(copy)}


def _write_module(path: Path, source: str) -> None:
    """Write a module. Its compiled file is removed: within a second, a change of the same length
    would not be seen."""
    path.write_text(source, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
