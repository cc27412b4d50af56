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

from sqlalchemy import Connection, Engine, event, text

from tests.simulation.truth import Violation

GLANCE_SECONDS = 0.002
STUCK_SECONDS = 0.3
"""An actor that is silent for so long, and waits for no lock of the database, waits for another
actor in some other way."""
LONGEST_SECONDS = 60
_WAITING = text(
    """SELECT pid FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()"""
)


class Place(Enum):
    """Where an actor is."""

    READY = "waits for its turn"
    ACTS = "acts"
    BLOCKED = "waits for a lock"
    DONE = "is done"


@dataclass(eq=False)
class Actor:
    """One thread with one piece of work."""

    name: str
    work: Callable[[], object]
    place: Place = Place.BLOCKED
    pid: int = 0
    """Of the database's process that serves it."""
    steps: int = 0
    blocked: int = 0
    """How often it had to wait for a lock."""
    error: BaseException | None = None


@dataclass
class Stage:
    """Lets actors act in turns. `deadlocks` are the errors that the database told of."""

    engine: Engine
    luck: Random
    deadlocks: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """What was seen within a turn, where an exception would only end that piece of work."""
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._actors: dict[int, Actor] = {}
        self._bell = threading.Condition()
        event.listen(self.engine, "before_cursor_execute", self._before_statement)
        event.listen(self.engine, "commit", self._before_commit)
        event.listen(self.engine, "handle_error", self._note_error)

    def play(self, works: Mapping[str, Callable[[], object]]) -> list[Actor]:
        """Have all of them work at once until every one is done; answers them. Raises Violation
        where that never comes to be."""
        cast = [Actor(name, work) for name, work in works.items()]
        threads = [threading.Thread(target=self._run, args=[one], daemon=True) for one in cast]
        with self._watching() as watch:
            for thread in threads:
                thread.start()
            until = time.monotonic() + LONGEST_SECONDS
            while any(one.place is not Place.DONE for one in cast):
                if time.monotonic() > until:
                    stuck = [f"{one.name} {one.place.value}" for one in cast]
                    raise Violation(f"nobody gets on: {stuck}")
                self._one_turn(cast, watch)
        for thread in threads:
            thread.join()
        return cast

    def _one_turn(self, cast: list[Actor], watch: Connection) -> None:
        with self._bell:
            free = [one for one in cast if one.place is Place.READY]
            if not free:  # each waits for a lock, until the database finds a deadlock
                self._bell.wait(GLANCE_SECONDS)
                return
            one = self.luck.choice(free)
            one.place = Place.ACTS
            one.steps += 1
            self.history.append(one.name)
            self._bell.notify_all()
            since = time.monotonic()
            while one.place is Place.ACTS:
                if self._bell.wait(GLANCE_SECONDS):
                    continue
                is_locked_out = one.pid in set(watch.execute(_WAITING).scalars())
                if is_locked_out or time.monotonic() - since > STUCK_SECONDS:
                    one.place = Place.BLOCKED
                    one.blocked += is_locked_out

    @contextmanager
    def _watching(self) -> Iterator[Connection]:
        with self.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            yield connection

    def _run(self, actor: Actor) -> None:
        self._actors[threading.get_ident()] = actor
        try:
            self._take_turn(actor)
            actor.work()
        except BaseException as error:  # noqa: BLE001 - the stage tells of it
            actor.error = error
        finally:
            with self._bell:
                del self._actors[threading.get_ident()]
                actor.place = Place.DONE
                self._bell.notify_all()

    def _take_turn(self, actor: Actor) -> None:
        with self._bell:
            actor.place = Place.READY
            self._bell.notify_all()
            while actor.place is Place.READY:
                self._bell.wait()

    def _before_statement(self, connection: Connection, *_: Any) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            driver: Any = connection.connection.dbapi_connection
            actor.pid = driver.info.backend_pid
            self._take_turn(actor)

    def _before_commit(self, _: Connection) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            self._take_turn(actor)

    def _note_error(self, context: Any) -> None:
        actor = self._actors.get(threading.get_ident())
        if "deadlock detected" in str(context.original_exception):
            name = actor.name if actor is not None else "somebody"
            self.deadlocks.append(f"{name}: {context.statement}"[:300])
