"""Replaces a private function of the service by a wrong one, for a planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch


def replace_function(
    owner: Any, function: Callable[..., Any], replacement: Callable[..., Any]
) -> Any:
    """A patch of a function of a module or of a method of a class, `owner`.

    The function itself is given and not its name as text: mypy and a rename see it.
    """
    return patch.object(owner, function.__name__, replacement)
