"""`serve`: the API and the dashboard over HTTP."""

from __future__ import annotations

import gc
import secrets
import socket
import threading
from typing import Annotated

import typer

from service import logs
from service.cli.processes.subprocesses import end_with_parent
from service.cli.processes.workers import find_inherited_socket, run_workers
from service.cli.terminal import configuration
from service.cli.terminal.address import Address, address_of
from service.cli.terminal.errors import MISUSED, Failure
from service.settings import Settings

GRACE_SECONDS = 3
"""How long requests may run after a signal. An event stream would run forever."""


def serve(
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes that answer. Default: STEWARD_WORKERS, or 1."),
    ] = None,
) -> None:
    """Serve the API and the dashboard."""
    settings = configuration.load_settings()
    number = settings.workers if workers is None else workers
    address = address_of(settings)
    check_guarded(settings, address)
    logs.set_up()
    end_with_parent()
    given = find_inherited_socket()
    if given is None and number > 1:
        check_database(settings)
        with address.open_listener() as listener:
            # Without a key, or a token to make it from, the workers share a random one: a form of
            # one worker is valid in the others.
            has_key = settings.form_key is not None or settings.admin_token is not None
            more = {} if has_key else {"STEWARD_FORM_KEY": secrets.token_hex(32)}
            run_workers(listener, number, more)
        return
    _serve_requests(settings, address, given)


def check_database(settings: Settings) -> None:
    """Raise StoreUnavailable when the database cannot be used: no worker would start."""
    from service import wiring  # noqa: PLC0415 - costs what the other commands need not pay

    wiring.open_foundation(settings).engine.dispose()


def _serve_requests(settings: Settings, address: Address, given: socket.socket | None) -> None:
    """Serve in this process until SIGTERM or SIGINT, on the given socket or at the address."""
    import uvicorn  # noqa: PLC0415 - costs what the other commands need not pay

    from service import wiring  # noqa: PLC0415 - likewise
    from service.api.http.connections import (  # noqa: PLC0415
        KEEP_ALIVE_SECONDS,
        Limits,
        most_connections,
        protocol_with,
    )
    from service.application.timekeeping import Timekeeper  # noqa: PLC0415
    from service.domain.database_clock import AgreedClock  # noqa: PLC0415

    clock = AgreedClock()
    base = wiring.open_foundation(settings, clock)
    timekeeper = Timekeeper(base.units, clock)
    stop = threading.Event()
    timekeeper.start(stop)
    with given or address.open_listener() as listener:
        config = uvicorn.Config(
            wiring.build_app(base, timekeeper),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            http=protocol_with(Limits(most_connections())),
            ws="none",  # unused; and the limits do not hold after an upgrade
        )
        gc.freeze()  # imported modules stay: no collection scans them again
        uvicorn.Server(config).run(sockets=[listener])
    stop.set()


def check_guarded(settings: Settings, address: Address) -> None:
    """Raise Failure if the service would listen on a network without a token: anyone there could
    spend money."""
    token = settings.admin_token
    if not address.is_local and (token is None or not token.get_secret_value()):
        raise Failure(
            f"STEWARD_HOST is {settings.host}, which others can reach: set STEWARD_ADMIN_TOKEN too,"
            " or listen on 127.0.0.1",
            code=MISUSED,
        )
