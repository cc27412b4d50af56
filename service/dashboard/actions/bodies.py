"""What the forms need of the API: bodies parsed by the same rules, with the same messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fastapi import Request

from service.application.orphans import Adopter
from service.application.pricing.estimates import Caller
from service.domain.budgets.budget import Budget
from service.domain.idempotency import RequestKey
from service.domain.nodes.request import RequestedNode


class Bodies(Protocol):
    """Parses a body as the API does. Each method raises Rejected with `errors` by field."""

    def parse_node(self, said: Mapping[str, object], key: str) -> tuple[RequestedNode, RequestKey]:
        """A request for a node, and its idempotency key."""
        ...

    def parse_caller(self, said: Mapping[str, object]) -> Caller:
        """The caller whose budgets an estimate is checked against."""
        ...

    def parse_budget(self, said: Mapping[str, object], key: str) -> tuple[Budget, RequestKey]:
        """A new budget, and its idempotency key."""
        ...

    def parse_budget_change(self, said: Mapping[str, object], before: Budget) -> Mapping[str, Any]:
        """The fields of a budget that change."""
        ...

    def parse_adopter(self, said: Mapping[str, object]) -> Adopter:
        """Who is charged for an adopted node."""
        ...


def bodies_of(request: Request) -> Bodies:
    """The parser of this app."""
    found: Bodies = request.app.state.bodies
    return found
