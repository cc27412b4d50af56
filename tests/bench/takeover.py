"""A daemon that holds the lease is killed, again and again, while nodes come and go.

On PostgreSQL it also hangs now and then: it is suspended, and goes on once another daemon has taken
over. SQLite has no answer to that: a writer that hangs keeps all others from writing.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
import threading
import time
import urllib.error
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from service.daemon.leaseholder import LEASE_SECONDS
from service.store.engine import make_engine
from tests.bench.figure import Figure
from tests.databases import fresh_database
from tests.journeys.house import House

KILLS = 20
HANGS = 6
SPEED = 20
NODE = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a"}
AT_ONCE = 6
PATIENCE = 120
GONE = {"DELETED", "FAILED"}


def measure() -> list[Figure]:
    """How long nobody looks after the project, and what the ledger says afterwards."""
    found = []
    for kind in ("sqlite", "postgresql"):
        folder = Path(tempfile.mkdtemp())
        with fresh_database(kind, folder) as address:
            found += _of_database(kind, address, folder)
    return found


def _of_database(kind: str, address: str, folder: Path) -> list[Figure]:
    house = House(folder, SPEED, address)
    engine = make_engine(address)
    asked: list[Any] = []
    over = threading.Event()
    load = threading.Thread(target=_ask, args=[house, asked, over], daemon=True)
    try:
        load.start()
        kills, hangs = _end_again_and_again(house, engine, HANGS if kind == "postgresql" else 0)
        over.set()
        load.join(PATIENCE)
        unequal = _compare(house, asked)
    finally:
        over.set()
        house.stop()
        engine.dispose()
    where = f"{KILLS} kills of the holder of 1 project with up to {AT_ONCE + 1} nodes, {kind}"
    if hangs:
        where = f"{KILLS} kills and {HANGS} hangs{where.removeprefix(f'{KILLS} kills')}"
    return [
        *(
            Figure(
                f"{where}: the longest takeover after {what}, s",
                max(found),
                LEASE_SECONDS + 1.5,
                detail=f"the median of {len(found)} is {sorted(found)[len(found) // 2]:.1f} s",
            )
            for what, found in (("a kill", kills), ("a hang", hangs))
            if found
        ),
        Figure(
            f"{where}: nodes not charged as billed",
            unequal,
            0,
            detail=f"{len(asked)} nodes, compared with the emulator's bill by chip-seconds",
        ),
    ]


def _end_again_and_again(
    house: House, engine: Engine, hangs: int
) -> tuple[list[float], list[float]]:
    """Seconds from each kill, and from each hang, until another daemon has the lease. The one that
    was started last waits for it; the one before holds it."""
    names, luck = (f"d{number}" for number in itertools.count()), random.Random(1)
    gaps: dict[bool, list[float]] = {False: [], True: []}
    holder, waiting = "daemon", next(names)
    house.until(lambda: _epoch(engine) > 0, "the first daemon to hold the lease")
    house.start("daemon", name=waiting)
    ends = [False] * KILLS + [True] * hangs
    luck.shuffle(ends)
    for is_hang in ends:
        time.sleep(luck.uniform(4, 8))
        before = _epoch(engine)
        if is_hang:
            house.suspend(holder)
        else:
            house.kill(holder)
        began = time.monotonic()
        while _epoch(engine) == before:
            assert time.monotonic() - began < PATIENCE, "nobody takes over"
            time.sleep(0.02)
        gaps[is_hang].append(time.monotonic() - began)
        if is_hang:  # what it had begun is not written and not sent
            house.resume(holder)
            time.sleep(2)
            house.kill(holder)
        holder, waiting = waiting, next(names)
        house.start("daemon", name=waiting)
    return gaps[False], gaps[True]


def _epoch(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("select max(epoch) from leases")).scalar() or 0)


def _ask(house: House, asked: list[Any], over: threading.Event) -> None:
    """Keep some nodes there, the oldest of which goes as a new one comes."""
    while not over.is_set():
        try:
            asked.append(house.post("/v1/nodes", NODE))
            if len(asked) > AT_ONCE:
                house.delete(f"/v1/nodes/{asked[-AT_ONCE - 1]['id']}")
        except (urllib.error.URLError, TimeoutError, json.JSONDecodeError):
            pass
        over.wait(2)


def _compare(house: House, asked: list[Any]) -> int:
    """How many nodes are charged otherwise than billed, once all are gone."""
    for node in asked:
        house.delete(f"/v1/nodes/{node['id']}")
    deadline = time.monotonic() + PATIENCE
    while left := [one for node in asked if (one := house.node(node))["state"] not in GONE]:
        assert time.monotonic() < deadline, f"they do not go: {left}"
        time.sleep(1)
    time.sleep(5)  # until all is posted
    unequal = 0
    for node in asked:
        lines = house.get(f"/v1/nodes/{node['id']}/ledger?page_size=1000")["entries"]
        charged = sum(line["chip_seconds"] for line in lines)
        billed = sum(
            line["seconds"] * line["chips"] for line in house.bill(house.node(node)["cloud_id"])
        )
        unequal += charged != billed
    return unequal
