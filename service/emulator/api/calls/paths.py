"""The REST paths of the Tpu service, and the description of a call by its name."""

from __future__ import annotations

from typing import Any

from service.emulator.api.calls.dispatch import Method

PLACE = "projects/*/locations/*"
PARENT = f"/{{parent={PLACE}}}"
NODE = f"/{{name={PLACE}/nodes/*}}"
QUEUED_RESOURCE = f"/{{name={PLACE}/queuedResources/*}}"
OPERATION = f"/{{name={PLACE}/operations/*}}"
ACCELERATOR_TYPE = f"/{{name={PLACE}/acceleratorTypes/*}}"
RUNTIME_VERSION = f"/{{name={PLACE}/runtimeVersions/*}}"
TENSORFLOW_VERSION = f"/{{name={PLACE}/tensorflowVersions/*}}"


def describe_method(
    messages: Any, name: str, answer: Any, http: str, body: str = "", response: Any = None
) -> Method:
    """Return a call of the Tpu service; the names of its messages begin with its name."""
    verb, path = http.split(" ", 1)
    return Method(
        name,
        getattr(messages, f"{name}Request"),
        response or getattr(messages, f"{name}Response"),
        answer,
        verb,
        path,
        body,
    )
