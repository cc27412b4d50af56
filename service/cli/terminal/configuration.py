"""Reads the settings, with one line for each invalid setting."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_settings import SettingsError

from service.cli.terminal.errors import MISUSED, Failure
from service.cli.terminal.trust import explain_read_errors
from service.settings import Settings


def load_settings() -> Settings:
    """Read the settings. Raises Failure with the environment name of each invalid setting."""
    try:
        with explain_read_errors():
            return Settings()
    except ValidationError as error:
        lines = []
        for found in error.errors(include_url=False):
            name = "_".join(str(part) for part in found["loc"][:1]).upper()
            reason = found["msg"][:1].lower() + found["msg"][1:]
            lines.append(f"STEWARD_{name}: {reason}; it is {str(found['input'])[:80]!r}")
        raise Failure(*lines, code=MISUSED) from None
    except SettingsError as error:
        raise Failure(f"the settings cannot be read: {error}", code=MISUSED) from None
