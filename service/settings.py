"""Settings, read once: `STEWARD_*` in the environment or in `.env`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.domain.network import DEFAULT_HOST, DEFAULT_PORT, LAST_PORT

Seconds = Annotated[int, Field(ge=1, le=86_400)]


class Settings(BaseSettings):
    """Every setting with its default. `projects` are the Google Cloud projects to manage."""

    model_config = SettingsConfigDict(
        env_prefix="STEWARD_", env_file=".env", extra="ignore", frozen=True
    )

    database_url: str = "sqlite:///var/steward.db"
    projects: Annotated[tuple[str, ...], NoDecode] = ()
    emulator: str = ""
    """`host:port` of an emulator's gRPC; empty means Google, with default credentials."""
    emulator_rest: str = ""
    emulator_speed: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    host: str = DEFAULT_HOST
    port: Annotated[int, Field(ge=0, le=LAST_PORT)] = DEFAULT_PORT
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """The number of processes of `serve`."""
    inventory_seconds: Seconds = 15
    lifecycle_seconds: Seconds = 5
    metering_seconds: Seconds = 60
    idle_seconds: Seconds = 60
    prices_seconds: Annotated[int, Field(ge=0, le=2_678_400)] = 86_400
    """Seconds between two reads of the price list; 0 is never."""
    install: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,63}$")] = "steward"
    """The name of this installation, in the labels of every resource that it creates."""
    billing_account: Annotated[str, Field(pattern=r"^([0-9A-Z]{6}-[0-9A-Z]{6}-[0-9A-Z]{6})?$")] = ""
    """The Cloud Billing account that exports name as the payer: `012345-6789AB-CDEF01`."""
    billing_account_name: Annotated[str, Field(pattern=r"^([^\s\x00-\x1f\x7f](.{0,198}\S)?)?$")] = (
        ""
    )
    """The display name of the account in exports; empty for none."""
    bill_megabytes: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    """The largest billing export, in megabytes, that is compared with the ledger."""
    idle_mode: Literal["observe", "notify", "stop", "delete"] = "observe"
    """The strongest action on idle nodes; a policy may choose a weaker one."""
    idle_warmup_seconds: Annotated[int, Field(ge=0, le=86_400)] = 1_800
    """Seconds from READY in which a node that has not worked yet is not idle."""
    idle_telemetry_seconds: Annotated[int, Field(ge=0, le=3_600)] = 240
    """The newest seconds of signals, which are ignored because points of them may still arrive."""
    idle_start_seconds: Annotated[int, Field(ge=0, le=86_400)] = 900
    """Seconds from a daemon's first look at a project in which it ends no idle nodes."""
    public_url: Annotated[str, Field(pattern=r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$")] = ""
    """The address at which people reach the API: the start of links in messages."""
    smtp_url: SecretStr | None = None
    """The mail server for notifications of budgets: `smtp+starttls://user:password@host:587`."""
    smtp_from: Annotated[str, Field(pattern=r"^[^\s@<>,;]+@[^\s@<>,;]+$")] = "steward@localhost"
    webhook_allow_private: bool = False
    """Whether webhooks may lead to this machine or its network."""
    admin_token: SecretStr | None = None
    """The token that every request needs, if set. Required to listen beyond this machine."""

    form_key: SecretStr | None = None
    """Signs the forms of the dashboard. By default it is made from the admin token, and at random
    without one."""

    @field_validator("projects", mode="before")
    @classmethod
    def _split_projects(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value
