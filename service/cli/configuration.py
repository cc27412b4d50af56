"""The settings, or one clear line for each that makes no sense."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from service.cli.failure import MISUSED, Failure
from service.cli.render import is_text
from service.settings import Settings

S = TypeVar("S", bound=BaseSettings)


def load() -> Settings:
    """Read the settings once. Raises Failure that names each bad one as it is set."""
    return read(Settings)


def read(kind: type[S]) -> S:
    """Read settings of that kind. Raises as `load` does."""
    for name, value in os.environ.items():
        if name.startswith("STEWARD_") and not is_text(value):
            raise Failure(f"{name} is not UTF-8 text", code=MISUSED)
    try:
        return kind()
    except ValidationError as error:
        raise Failure(*_lines(error), code=MISUSED) from None
    except SettingsError as error:
        raise Failure(f"the settings cannot be read: {error}", code=MISUSED) from None
    except UnicodeDecodeError:
        raise Failure("the file .env is not UTF-8 text", code=MISUSED) from None
    except OSError as error:
        raise Failure(f"the file .env cannot be read: {error.strerror}", code=MISUSED) from None


def _lines(error: ValidationError) -> Iterator[str]:
    for found in error.errors(include_url=False):
        name = "_".join(str(part) for part in found["loc"][:1]).upper()
        said = found["msg"][:1].lower() + found["msg"][1:]
        yield f"STEWARD_{name}: {said}; it is {str(found['input'])[:80]!r}"
