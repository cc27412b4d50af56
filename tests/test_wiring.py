"""How the processes are put together: what no part of them can show alone."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient

from service import wiring
from service.cli.processes import serve
from service.cli.processes.migrate import apply_migrations
from service.cli.terminal.address import Address
from service.domain import database_clock
from service.domain.clock import HOUR, parse_rfc3339, precise_clock
from service.domain.errors import StoreUnavailable
from service.settings import Settings
from service.store.engine import CONNECTIONS
from service.store.unit import Units


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with a migrated database, and an emulator that nobody asks."""
    no_file: Any = {"_env_file": None}
    made = Settings(
        database_url=f"sqlite:///{tmp_path}/steward.db",
        projects=("lab",),
        emulator="127.0.0.1:9",
        **no_file,
    )
    apply_migrations(made.database_url)
    return made


def test_the_leases_are_renewed_while_all_other_connections_are_in_use(settings: Settings) -> None:
    base = wiring.open_foundation(settings)
    daemon = wiring.build_daemon(base)
    with ExitStack() as busy:
        for _ in range(CONNECTIONS):
            busy.enter_context(base.engine.connect())
        daemon._leases.renew()
        assert [lease.project for lease in daemon._leases.list_held()] == ["lab"]
    base.engine.dispose()


def test_who_waits_for_a_connection_in_vain_is_told_so(settings: Settings) -> None:
    base = wiring.open_foundation(settings)
    pool: Any = base.engine.pool
    pool._timeout = 0.05  # usually 30 s
    with ExitStack() as busy:
        for _ in range(CONNECTIONS):
            busy.enter_context(base.engine.connect())
        with pytest.raises(StoreUnavailable, match="all connections to the database are in use"):
            busy.enter_context(Units(base.engine).reading())
    base.engine.dispose()


def test_the_api_goes_by_the_databases_clock_and_says_that_the_machines_is_wrong(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = partial(database_clock.AgreedClock, own=lambda: precise_clock() - HOUR)
    monkeypatch.setattr(database_clock, "AgreedClock", wrong)
    answers = []

    def ask(server: uvicorn.Server, **_: Any) -> None:
        app: Any = server.config.app
        client = TestClient(app, base_url="http://localhost")
        answers.append((client.get("/readyz").json(), client.get("/v1/fleet").json()))

    monkeypatch.setattr(uvicorn.Server, "run", ask)
    serve._serve_requests(settings, Address("127.0.0.1", 0, "STEWARD_PORT"), None)
    ((ready, fleet),) = answers
    assert ready["warnings"][0].startswith("the clock of this machine is 3600 s behind")
    assert abs(parse_rfc3339(fleet["as_of"]) - precise_clock()) < 60, "the database's time"
