"""Routes that run their function and build its answer in one turn of a thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, get_type_hints

from anyio import to_thread
from fastapi import APIRouter
from fastapi.datastructures import Default, DefaultPlaceholder
from fastapi.exceptions import ResponseValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

_NO_BODY = frozenset({204, 205, 304})
_HIDDEN = "answer_so_far"
"""Name of the parameter for the response whose headers dependencies have set."""


class OneThreadRoute(APIRoute):
    """A route that runs a plain function and serializes its result in one turn of a thread.

    FastAPI runs a plain function in a thread, and queues its result for the same threads once more
    to validate it. Under load each request then waits twice. Coroutines, streams and routes with a
    response class of their own are not changed.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        is_json = isinstance(settings.get("response_class", Default(None)), DefaultPlaceholder)
        others = (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
        is_plain = inspect.isfunction(endpoint) and not any(is_a(endpoint) for is_a in others)
        is_ours = is_json and is_plain
        super().__init__(path, self._in_one_turn(endpoint) if is_ours else endpoint, **settings)
        self._adapter = None if self.response_model is None else TypeAdapter(self.response_model)

    def _in_one_turn(self, endpoint: Callable[..., Any]) -> Callable[..., Any]:
        """The function as a coroutine that returns the whole answer. FastAPI reads its signature,
        and passes a response whose headers dependencies have set."""
        hints, signature = get_type_hints(endpoint), inspect.signature(endpoint)
        named = [name for name in signature.parameters if hints.get(name) is Response]
        name = named[0] if named else _HIDDEN

        def run_endpoint(values: dict[str, Any]) -> object:
            so_far: Response = values[name] if named else values.pop(name)
            found = endpoint(**values)
            adapter = self._adapter
            if adapter is None or isinstance(found, Response):
                return found
            try:
                value = adapter.validate_python(found, from_attributes=True)
            except ValidationError as error:
                # The result does not match the response model.
                raise ResponseValidationError(errors=error.errors(), body=found) from error
            content = adapter.dump_json(
                value,
                include=self.response_model_include,
                exclude=self.response_model_exclude,
                by_alias=self.response_model_by_alias,
                exclude_unset=self.response_model_exclude_unset,
                exclude_defaults=self.response_model_exclude_defaults,
                exclude_none=self.response_model_exclude_none,
            )
            status = so_far.status_code or self.status_code or 200
            body = b"" if status in _NO_BODY else content
            made = Response(body, status, media_type="application/json")
            made.raw_headers.extend(so_far.raw_headers)
            return made

        @wraps(endpoint)
        async def run_in_thread(**values: Any) -> object:
            return await to_thread.run_sync(run_endpoint, values)

        if not named:
            added = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Response)
            kept = signature.parameters.values()
            signature = signature.replace(parameters=[*kept, added])
        run_in_thread.__signature__ = signature  # type: ignore[attr-defined]
        return run_in_thread


Router = partial(APIRouter, route_class=OneThreadRoute)
"""The router class of every module with routes."""
