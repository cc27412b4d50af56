"""`daemon`: runs the controllers until a signal."""

from __future__ import annotations

from service import logs
from service.cli.processes.subprocesses import end_with_parent, stopped_by_signals
from service.cli.terminal import configuration
from service.cli.terminal.address import Address
from service.cli.terminal.errors import MISUSED, Failure
from service.settings import Settings

CONNECT_SECONDS = 3.0


def daemon() -> None:
    """Reconcile nodes with the cloud and meter their cost."""
    settings = configuration.load_settings()
    if not settings.projects:
        raise Failure(
            "STEWARD_PROJECTS: no project is set; set it to the ids of the projects, separated"
            " by commas",
            code=MISUSED,
        )
    check_emulator(settings)
    logs.set_up()
    end_with_parent()

    from service import wiring  # noqa: PLC0415 - costs what the other commands need not pay

    made = wiring.build_daemon(wiring.open_foundation(settings))
    with stopped_by_signals(is_patient=False) as stop:
        made.run(stop)


def check_emulator(settings: Settings) -> None:
    """Raise Failure when an emulator is set and nothing answers at its address."""
    if settings.emulator:
        address = Address.from_text(settings.emulator, "STEWARD_EMULATOR")
        if not address.can_connect(CONNECT_SECONDS):
            raise Failure(
                f"nothing answers at {address} (STEWARD_EMULATOR);"
                " start it with: tpu-steward emulator"
            )
