"""Steps threads that share one PostgreSQL, one statement at a time, in an order drawn from a seed.

Each actor waits for its turn before every statement and before every commit. One acts at a time;
who waits for a lock of the database lets the others act until it has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from sqlalchemy import Connection, event

from tests.interleaving.ground import Ground
from tests.simulation.invariants import Violation

GLANCE_SECONDS = 0.003
STUCK_SECONDS = 2.0
"""An actor that is silent for so long outside of a statement waits for another actor in some other
way than for a lock of the database."""
LONGEST_SECONDS = 120
_WAITING = "SELECT pid FROM pg_locks WHERE NOT granted"
_BLOCKERS = "SELECT query FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids(%s))"


class Place(Enum):
    """Where an actor is."""

    BEGINS = "begins"
    READY = "waits for its turn"
    ACTS = "acts"
    BLOCKED = "waits for a lock"
    STUCK = "waits for another actor"
    DONE = "is done"


@dataclass(eq=False)
class Actor:
    """One thread with one piece of work."""

    name: str
    work: Callable[[], object]
    place: Place = Place.BEGINS
    pid: int = 0
    """Of the database's process that serves it."""
    in_statement: bool = False
    steps: int = 0
    blocked: int = 0
    """How often it had to wait for a lock."""
    waited_for: str = ""
    """The last statement of whoever it had to wait for last."""
    error: BaseException | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held while it is not its turn."""

    def __post_init__(self) -> None:
        self._turn.acquire()

    def give_turn(self) -> None:
        """Let it act."""
        self.place = Place.ACTS
        self.steps += 1
        self._turn.release()

    def wait(self) -> None:
        """Wait until it is its turn."""
        self._turn.acquire()


@dataclass
class Stage:
    """Lets actors act in turns. `deadlocks` are the errors that the database told of."""

    ground: Ground
    luck: Random
    deadlocks: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """What was seen within a turn, where an exception would only end that piece of work."""
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cast: list[Actor] = []
        self._actors: dict[int, Actor] = {}
        self._acting: Actor | None = None
        self._has_released = False
        """Whether a transaction has ended since those who wait for locks were looked at."""
        self._bell = threading.Condition()
        """Guards all of this, and rings when nobody acts."""

    def play(self, works: Mapping[str, Callable[[], object]]) -> list[Actor]:
        """Have all of them work at once until every one is done; answers them. Raises Violation
        where that never comes to be."""
        self._cast = [Actor(name, work) for name, work in works.items()]
        threads = [
            threading.Thread(target=self._run, args=[actor], daemon=True) for actor in self._cast
        ]
        with self._listening():
            for thread in threads:
                thread.start()
            self._direct()
        for thread in threads:
            thread.join()
        return self._cast

    def name_of_actor(self) -> str:
        """The name of the actor whose thread asks; empty for any other thread."""
        actor = self._actors.get(threading.get_ident())
        return actor.name if actor is not None else ""

    def _direct(self) -> None:
        """Give turns where no actor can pass its own on, and notice who waits for a lock."""
        until = time.monotonic() + LONGEST_SECONDS
        with self._bell:
            while any(actor.place is not Place.DONE for actor in self._cast):
                if time.monotonic() > until:
                    stuck = [f"{actor.name} {actor.place.value}" for actor in self._cast]
                    raise Violation(f"nobody gets on: {stuck}")
                if self._acting is not None:
                    self._watch(self._acting)
                elif not self._pass_on_settled():
                    self._bell.wait(GLANCE_SECONDS)

    def _pass_on_settled(self) -> bool:
        """Give the next turn once everybody is where it will stay; answers whether it was given."""
        since = time.monotonic()
        while restless := self._restless():
            self._bell.wait(GLANCE_SECONDS)
            if time.monotonic() - since > STUCK_SECONDS:
                for actor in restless:
                    actor.place = Place.STUCK
        self._has_released = False
        return self._pass_on()

    def _watch(self, one: Actor) -> None:
        """Wait until somebody else acts; note it where this one has to wait for a lock."""
        steps, since = one.steps, time.monotonic()
        while self._acting is one and one.steps == steps:
            self._bell.wait(GLANCE_SECONDS)
            if self._acting is not one or one.steps != steps:
                return
            if one.in_statement:
                is_locked_out = one.pid in self._waiting()
                if is_locked_out:
                    one.place, self._acting = Place.BLOCKED, None
                    one.blocked += 1
                    one.waited_for = "; ".join(q for (q,) in self.ground.ask(_BLOCKERS, one.pid))
            elif time.monotonic() - since > STUCK_SECONDS:
                one.place, self._acting = Place.STUCK, None

    def _restless(self) -> list[Actor]:
        """Those who get on without another turn: they have just begun, or got their lock."""
        blocked = [actor for actor in self._cast if actor.place is Place.BLOCKED]
        waiting = self._waiting() if blocked else set()
        got_on = [actor for actor in blocked if actor.pid not in waiting]
        return got_on + [actor for actor in self._cast if actor.place is Place.BEGINS]

    def _waiting(self) -> set[int]:
        return {pid for (pid,) in self.ground.ask(_WAITING)}

    def _pass_on(self) -> bool:
        """Give the next turn to one who waits for it; answers whether there is one."""
        free = [actor for actor in self._cast if actor.place is Place.READY]
        if not free:  # each waits for a lock, until the database finds a deadlock
            return False
        self._acting = self.luck.choice(free)
        self.history.append(self._acting.name)
        self._acting.give_turn()
        return True

    def _leave(self, actor: Actor, place: Place) -> None:
        """The actor acts no more. It gives the next turn itself, as that is quicker, unless
        others may have got the locks that they waited for."""
        with self._bell:
            actor.place, actor.in_statement = place, False
            if self._acting is actor:
                self._acting = None
                blocked = any(actor.place is Place.BLOCKED for actor in self._cast)
                if not (blocked and self._has_released) and self._pass_on():
                    return
            if self._acting is None:
                self._bell.notify()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        heard = {
            "before_cursor_execute": self._before_statement,
            "after_cursor_execute": self._after_statement,
            "commit": self._before_commit,
            "rollback": self._before_rollback,
            "rollback_savepoint": self._before_rollback,
            "handle_error": self._note_error,
        }
        for name, hear in heard.items():
            event.listen(self.ground.engine, name, hear)
        try:
            yield
        finally:
            for name, hear in heard.items():
                event.remove(self.ground.engine, name, hear)

    def _run(self, actor: Actor) -> None:
        self._actors[threading.get_ident()] = actor
        try:
            self._take_turn(actor)
            actor.work()
        except BaseException as error:  # noqa: BLE001 - the stage tells of it
            actor.error = error
        finally:
            del self._actors[threading.get_ident()]
            self._leave(actor, Place.DONE)

    def _take_turn(self, actor: Actor) -> None:
        self._leave(actor, Place.READY)
        actor.wait()

    def _before_statement(self, connection: Connection, *_: Any) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            driver: Any = connection.connection.dbapi_connection
            actor.pid = driver.info.backend_pid
            self._take_turn(actor)
            actor.in_statement = True

    def _after_statement(self, *_: Any) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            actor.in_statement = False

    def _before_commit(self, _: Connection) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            self._take_turn(actor)
            self._has_released = True

    def _before_rollback(self, *_: Any) -> None:
        if threading.get_ident() in self._actors:
            self._has_released = True

    def _note_error(self, context: Any) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            actor.in_statement = False
        if "deadlock detected" in str(context.original_exception):
            name = actor.name if actor is not None else "somebody"
            self.deadlocks.append(f"{name}: {context.statement}"[:300])
