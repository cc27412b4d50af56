"""The settings, or one clear line for each that makes no sense."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_settings import SettingsError

from service.cli.terminal.failure import MISUSED, Failure
from service.cli.terminal.trust import reading
from service.settings import Settings


def load() -> Settings:
    """Read the settings once. Raises Failure that names each bad one as it is set."""
    try:
        with reading():
            return Settings()
    except ValidationError as error:
        raise Failure(*_lines(error), code=MISUSED) from None
    except SettingsError as error:
        raise Failure(f"the settings cannot be read: {error}", code=MISUSED) from None


def _lines(error: ValidationError) -> Iterator[str]:
    for found in error.errors(include_url=False):
        name = "_".join(str(part) for part in found["loc"][:1]).upper()
        said = found["msg"][:1].lower() + found["msg"][1:]
        yield f"STEWARD_{name}: {said}; it is {str(found['input'])[:80]!r}"
