"""Google's message classes of Monitoring, Logging and Billing, imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Package:
    """The plain messages of a package by name: `Monitoring.Point` is the class behind its wrapper.

    An import takes a quarter of a second, and a world alone needs none of the packages.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name).pb()


Monitoring = _Package("google.cloud.monitoring_v3.types")
Logging = _Package("google.cloud.logging_v2.types")
Billing = _Package("google.cloud.billing_v1.types")
