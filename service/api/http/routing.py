"""Routes that answer from one thread, in one go."""

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
"""The name under which a route's function is given the headers that are set so far."""


class OneThreadRoute(APIRoute):
    """A route whose plain function and the bytes of its answer are made in one turn of a thread.

    FastAPI runs a plain function in a thread, and queues what it returned for the same threads once
    more, to have it validated. Under load each request then waits twice. Coroutines, streams and
    routes with a response class of their own are left as they are.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        is_json = isinstance(settings.get("response_class", Default(None)), DefaultPlaceholder)
        is_ours = is_json and _is_plain(endpoint)
        super().__init__(path, self._in_one_turn(endpoint) if is_ours else endpoint, **settings)
        self._adapter = None if self.response_model is None else TypeAdapter(self.response_model)

    def _in_one_turn(self, endpoint: Callable[..., Any]) -> Callable[..., Any]:
        """The same function as a coroutine that returns the whole answer. FastAPI reads its
        signature, and passes a response in which dependencies have set headers."""
        hints, signature = get_type_hints(endpoint), inspect.signature(endpoint)
        named = [name for name in signature.parameters if hints.get(name) is Response]
        name = named[0] if named else _HIDDEN

        def answered(values: dict[str, Any]) -> object:
            so_far: Response = values[name] if named else values.pop(name)
            found = endpoint(**values)
            is_ready = self._adapter is None or isinstance(found, Response)
            return found if is_ready else self._answer(found, so_far)

        @wraps(endpoint)
        async def answer(**values: Any) -> object:
            return await to_thread.run_sync(answered, values)

        if not named:
            added = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Response)
            kept = signature.parameters.values()
            signature = signature.replace(parameters=[*kept, added])
        answer.__signature__ = signature  # type: ignore[attr-defined]
        return answer

    def _answer(self, found: object, so_far: Response) -> Response:
        """The response for what the function returned. Raises ResponseValidationError where that
        is not what the route says."""
        assert self._adapter is not None
        try:
            value = self._adapter.validate_python(found, from_attributes=True)
        except ValidationError as error:
            raise ResponseValidationError(errors=error.errors(), body=found) from error
        content = self._adapter.dump_json(
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


Router = partial(APIRouter, route_class=OneThreadRoute)
"""What every file with routes makes its router with."""


def _is_plain(endpoint: Callable[..., Any]) -> bool:
    """Whether it is a function that returns one value and waits in a thread."""
    is_other = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    return inspect.isfunction(endpoint) and not any(check(endpoint) for check in is_other)
