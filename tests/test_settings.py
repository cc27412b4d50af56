"""What is set where nobody sets anything: the defaults that are promised."""

from __future__ import annotations

import os
from typing import Any

import pytest

from service.settings import Settings

NO_FILE: dict[str, Any] = {"_env_file": None}


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has set anything."""
    for name in os.environ:
        if name.upper().startswith("STEWARD_"):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inventory_seconds", 15),
        ("lifecycle_seconds", 5),
        ("metering_seconds", 60),
        ("idle_seconds", 60),
        ("prices_seconds", 86_400),
        ("database_url", "sqlite:///var/steward.db"),
        ("host", "127.0.0.1"),
        ("port", 8080),
        ("idle_mode", "observe"),
        ("idle_warmup_seconds", 1_800),
        ("idle_telemetry_seconds", 240),
        ("idle_start_seconds", 900),
        ("emulator", ""),
        ("admin_token", None),
        ("billing_account_name", ""),
    ],
)
def test_what_nobody_set_is_as_promised(name: str, value: object) -> None:
    assert getattr(Settings(**NO_FILE), name) == value


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("name", ["INVENTORY_SECONDS", "LIFECYCLE_SECONDS", "METERING_SECONDS"])
def test_how_often_it_looks_can_be_set_but_not_to_never(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"STEWARD_{name}", "7")
    assert getattr(Settings(**NO_FILE), name.lower()) == 7
    monkeypatch.setenv(f"STEWARD_{name}", "0")
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Settings(**NO_FILE)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("mode", ["observe", "notify", "stop", "delete"])
def test_the_cleanup_has_four_modes_and_no_other(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("STEWARD_IDLE_MODE", mode)
    assert Settings(**NO_FILE).idle_mode == mode
    monkeypatch.setenv("STEWARD_IDLE_MODE", f"{mode} all")
    with pytest.raises(ValueError, match="idle_mode"):
        Settings(**NO_FILE)


@pytest.mark.usefixtures("untouched")
def test_the_billing_account_has_a_name_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEWARD_BILLING_ACCOUNT_NAME", "Lab of Ödön, GPUs & TPUs")
    assert Settings(**NO_FILE).billing_account_name == "Lab of Ödön, GPUs & TPUs"
    for wrong in (" ", "two\nlines", "x" * 201):
        monkeypatch.setenv("STEWARD_BILLING_ACCOUNT_NAME", wrong)
        with pytest.raises(ValueError, match="billing_account_name"):
            Settings(**NO_FILE)
