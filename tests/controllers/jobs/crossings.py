"""The moments at which a daemon can die: around each call of the cloud and of the registry, and
around each commit.

The crash points are those of the simulation (`tests.simulation.crash_points`), counted here: a job
lives once undisturbed, and then again for each crash point, with something happening just then.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_type_hints

import service
from service.cloud.ports import Operation, Order, TpuCloud
from tests.fakes import Killed

SERVICE = Path(service.__file__).parent
COMMIT = "commit"
When = Literal["before", "after", "late"]
"""`late` is a call that was sent and takes effect when its daemon is dead."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the service: the file below `service`, the function, and the line."""

    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


@dataclass(frozen=True, slots=True)
class Crossing:
    """One call or commit of a life: the verb, who crosses it, and what was written down by then."""

    verb: str
    site: Site
    situation: Any

    def __str__(self) -> str:
        return f"{self.verb} at {self.site}"


Moment = tuple[Crossing, When]


@dataclass
class Disturbance:
    """`act` happens at each of the moments `at`, once, and at most once in `pause` crossings: what
    follows one is nearly undisturbed. `done` are those that came."""

    at: set[Moment]
    act: Callable[[], None]
    pause: int = 12
    done: list[Moment] = field(default_factory=list)
    _next: int = field(default=0, init=False)

    def concerns(self, number: int, verb: str, site: Site) -> bool:
        """Whether anything may happen where that line crosses that seam."""
        is_due = number >= self._next
        return is_due and any((one.verb, one.site) == (verb, site) for one, _ in self.at)

    def happen(self, number: int, moment: Moment) -> None:
        """Let it happen."""
        self.at.remove(moment)
        self.done.append(moment)
        self._next = number + self.pause
        self.act()


@dataclass
class Crossings:
    """The crossings of a life, in order; a disturbance happens in between.

    It stands in for `tests.simulation.crash_points.CrashPoints`. `situation` says what is recorded
    now, and `later` has what was sent take effect after a while; both are set by who lives.
    """

    disturbance: Disturbance | None = None
    recording: bool = False
    calm: bool = True
    passed: list[Crossing] = field(default_factory=list)
    number: int = field(default=-1, init=False)
    situation: Callable[[], Any] = field(init=False)
    later: Callable[[Callable[[], Any]], None] = field(init=False)
    _here: Crossing | None = field(default=None, init=False)

    def call(self, verb: str, work: Callable[[], Any], order: Order | None = None) -> Any:
        """Cross a call of the cloud or of the registry."""
        if self.calm:
            return work()
        here = self._cross(verb)
        self._meet(here, "before")
        if self._is_at(here, "late"):
            self.later(work)
            self._meet(here, "late")
        answer = work()
        self._meet(here, "after")
        return answer

    def reach(self) -> None:
        """The moment before a transaction: the same as that after the crossing before."""

    def commit(self) -> None:
        """Cross the moment before a commit, which never comes if the daemon dies."""
        self._here = None if self.calm else self._cross(COMMIT)
        self._meet(self._here, "before")

    def committed(self) -> None:
        """Cross the moment after a commit."""
        self._meet(self._here, "after")

    def _cross(self, verb: str) -> Crossing | None:
        """The crossing, if anybody wants to know of it: to look at the situation takes a while."""
        self.number += 1
        site = _site()
        is_concerned = self.disturbance is not None and self.disturbance.concerns(
            self.number, verb, site
        )
        if not self.recording and not is_concerned:
            return None
        here = Crossing(verb, site, self.situation())
        if self.recording:
            self.passed.append(here)
        return here

    def _is_at(self, here: Crossing | None, when: When) -> bool:
        return (
            here is not None
            and self.disturbance is not None
            and (here, when) in self.disturbance.at
        )

    def _meet(self, here: Crossing | None, when: When) -> None:
        if self._is_at(here, when):
            assert here is not None
            assert self.disturbance is not None
            self.disturbance.happen(self.number, (here, when))


def die() -> None:
    """What happens to a daemon at a kill point."""
    raise Killed


@cache
def mutations() -> frozenset[str]:
    """The calls of the cloud that change something: they begin an operation."""
    verbs = methods_of(TpuCloud) - {"operation"}
    return frozenset(
        verb for verb in verbs if get_type_hints(getattr(TpuCloud, verb))["return"] is Operation
    )


def methods_of(port: type) -> set[str]:
    """The methods of a port, as its Protocol names them."""
    return {name for name, value in vars(port).items() if callable(value) and name[0] != "_"}


def commit_sites(folder: str) -> set[Site]:
    """Every place below a folder of the service that opens a unit of work which may write."""
    found: set[Site] = set()
    for path in sorted((SERVICE / folder).rglob("*.py")):
        name = str(path.relative_to(SERVICE))
        for function, owner in _functions(ast.parse(path.read_text())):
            for node in ast.walk(function):
                if isinstance(node, ast.With) and any(_may_write(item) for item in node.items):
                    found.add(Site(name, owner, node.lineno))
    return found


def _may_write(item: ast.withitem) -> bool:
    """Whether it is `self._units(lease)` or the like; `self._units.reading()` writes nothing."""
    call = item.context_expr
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "_units"
    )


def _functions(tree: ast.AST, owner: str = "") -> list[tuple[ast.FunctionDef, str]]:
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found += _functions(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            found.append((node, f"{owner}{node.name}"))
    return found


def _site() -> Site:
    """The line of the service that crosses a seam now."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SERVICE) and "store" not in path.parts:
            name = str(path.relative_to(SERVICE))
            return Site(name, frame.f_code.co_qualname, frame.f_lineno)
        frame = frame.f_back
    raise AssertionError("a seam is crossed by nobody of the service")
